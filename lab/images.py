# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""The container images of the lab itself: Debian, the simulated host on top of it, and the base for lab/image."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from lab.engine import client_environment, docker
from lab.layout import BASE_IMAGE, BIN, HOST_IMAGE, SOURCE, SOURCE_INSIDE, STATE_INSIDE
from lab.shell import LabError, digest, step

DEBIAN_IMAGE = "pdlab/debian"
CONTENT_LABEL = "lab.content"
HOSTS = SOURCE / "hosts"


def prepare_rootfs(rootfs: Path) -> None:
    """Put the runtime shim in runc's place, and the docker client where the lab's commands find it."""
    runc, real = rootfs / "usr/sbin/runc", rootfs / "usr/sbin/runc.real"
    if not real.exists():
        runc.rename(real)
    runc.unlink(missing_ok=True)  # a new file: the old one may be running
    runc.write_text("#!/usr/bin/python3 -IS\n" + (HOSTS / "runtime_shim.py").read_text())
    runc.chmod(0o755)
    BIN.mkdir(parents=True, exist_ok=True)
    client = BIN / "docker"
    client.unlink(missing_ok=True)
    client.symlink_to(os.path.relpath(rootfs / "usr/bin/docker", BIN))


def build(rootfs: Path, base: Path | None) -> None:
    """Bring the images up to date; nothing is done where nothing changed."""
    shim = digest(HOSTS / "runtime_shim.py")
    debian = f"{rootfs.name}-{shim}"
    _import(DEBIAN_IMAGE, rootfs, debian)
    content = digest(debian, HOSTS)
    if made_from(HOST_IMAGE) != content:
        with step("image of a simulated host"):
            docker("build", "--quiet", "--tag", HOST_IMAGE, "--label", f"{CONTENT_LABEL}={content}", HOSTS)
    if base:
        _import(BASE_IMAGE, base, base.name)


def made_from(image: str) -> str:
    """What an image was made from, empty if there is none."""
    if not docker("image", "ls", "--quiet", f"--filter=reference={image}:latest"):
        return ""
    return docker("image", "inspect", "--format", f'{{{{index .Config.Labels "{CONTENT_LABEL}"}}}}', image).strip()


def _import(image: str, rootfs: Path, content: str) -> None:
    if made_from(image) == content:
        return
    with step(f"image {image}"):
        own = (f"--exclude=.{path}" for path in (STATE_INSIDE, SOURCE_INSIDE, "/dev/*"))  # the engine's mount points
        pack = ["tar", "--directory", str(rootfs), "--create", "--one-file-system", *own, "."]
        change = ["--change", f"LABEL {CONTENT_LABEL}={content}", "--change", 'CMD ["/bin/bash"]']
        with subprocess.Popen(pack, stdout=subprocess.PIPE) as tar:
            load = [str(BIN / "docker"), "import", *change, "-", image]
            env = {**os.environ, **client_environment()}
            done = subprocess.run(load, stdin=tar.stdout, env=env, capture_output=True, text=True, check=False)
        if done.returncode or tar.returncode:
            raise LabError(f"could not import {rootfs} as {image}:\n{done.stderr}")
