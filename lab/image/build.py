# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Build the lab's base images from the Debian image and what the depot serves, and push them to the depot's registry.

Called by the lab with its own docker client first on PATH and DOCKER_HOST set, while the depot is up:
python3 lab/image/build.py. Docker's build cache makes a second run quick.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))

from lab.layout import BASE_IMAGE, DEPOT, DEPOT_ADDRESS, NETWORK, REGISTRY  # noqa: E402

DEPOT_URL = f"http://{DEPOT_ADDRESS}:8080"


@dataclass(frozen=True)
class Release:
    """One published image: tag of vllm-ascend with what its Dockerfile pins."""

    ascend: str
    vllm: str
    cann: str
    triton_ascend: str

    @property
    def image(self) -> str:
        return f"{REGISTRY}/ascend/vllm-ascend:{self.ascend}-a3-openeuler"


RELEASES = (
    Release("v0.26.0rc1", "v0.26.0", "9.1.0", "3.2.2"),
    Release("v0.22.1rc1", "v0.22.1", "9.0.0", "3.2.1"),
)


def commit(repository: str, tag: str) -> str:
    """Commit of a tag in the depot: a build argument, so that new sources are not hidden by the build cache."""
    argv = ["git", f"--git-dir={DEPOT}/git/{repository}.git", "rev-parse", f"{tag}^{{commit}}"]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


def build(release: Release, context: Path) -> None:
    arguments = {
        "BASE": BASE_IMAGE,
        "CANN_VERSION": release.cann,
        "PIP_INDEX_URL": f"{DEPOT_URL}/simple/",
        "PIP_TRUSTED_HOST": DEPOT_ADDRESS,
        "INDEX_STATE": (DEPOT / "cache" / "pip.stamp").read_text(),
        "GIT_PREFIX": f"{DEPOT_URL}/git/https://github.com/",
        "VLLM_TAG": release.vllm,
        "VLLM_COMMIT": commit("vllm-project/vllm", release.vllm),
        "ASCEND_TAG": release.ascend,
        "ASCEND_COMMIT": commit("vllm-project/vllm-ascend", release.ascend),
        "TRITON_ASCEND": release.triton_ascend,
    }
    options = [f"--build-arg={name}={value}" for name, value in arguments.items()]
    docker("build", "--quiet", f"--network={NETWORK}", f"--tag={release.image}", *options, str(context))
    docker("push", "--quiet", release.image)
    print(f"pushed {release.image}")


def docker(*argv: str) -> None:
    done = subprocess.run(["docker", *argv], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"docker {argv[0]} failed:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        context = Path(folder)
        shutil.copytree(HERE / "rootfs", context / "rootfs")
        shutil.copy(HERE / "Dockerfile", context)
        for wheel in (DEPOT / "pip" / "simple" / "pip").glob("pip-*.whl"):
            shutil.copy(wheel, context)
        for release in RELEASES:
            build(release, context)
    docker("image", "prune", "--force")  # what the tags pointed to before


if __name__ == "__main__":
    main()
