# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Debian packages: the few the machine needs, and the root file systems that hosts and images start from."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path

from lab.layout import ROOTFS, SOURCE, SUITE
from lab.shell import LabError, digest, remove, run, step

# command -> the package that has it
MACHINE_NEEDS = {"mmdebstrap": "mmdebstrap", "ip": "iproute2", "ssh": "openssh-client", "git": "git", "tar": "tar"}

# Settings of the machine's apt that also hold for downloads into a rootfs: proxies, certificates, date checks.
APT_SETTINGS = ("Acquire::http", "Acquire::https", "Acquire::Check-", "Acquire::Retries", "Acquire::ForceIPv")

LEFT_OUT = ("/usr/share/doc", "/usr/share/man", "/usr/share/info", "/usr/share/locale")

HOST_PACKAGES = (
    "systemd systemd-sysv dbus openssh-server sudo docker.io tini iptables kmod iproute2 iputils-ping procps less"
    " ca-certificates curl python3 python3-apt python3-requests git docker-registry"
).split()


def install_missing() -> None:
    """Install what the machine itself lacks, through its own apt."""
    missing = sorted({package for command, package in MACHINE_NEEDS.items() if not shutil.which(command)})
    if not find_spec("ensurepip"):  # Debian's own Python; lab/sources makes a virtual environment
        missing.append("python3-venv")
    if not missing:
        return
    if not shutil.which("apt-get"):
        raise LabError(f"the lab needs a Debian machine, or these commands: {', '.join(MACHINE_NEEDS)}")
    with step(f"installing Debian packages: {' '.join(missing)}"):
        run("apt-get", "update")
        run("apt-get", "install", "-y", "--no-install-recommends", *missing, env={"DEBIAN_FRONTEND": "noninteractive"})


def host_rootfs() -> Path:
    """Root file system of hosts, depot and the lab's own engine."""
    return rootfs("host", HOST_PACKAGES)


def base_rootfs() -> Path | None:
    """Root file system of container images, with the packages that lab/image asks for."""
    wanted = SOURCE / "image" / "packages.txt"
    if not wanted.exists():
        return None
    return rootfs("base", [line for line in wanted.read_text().split("\n") if line and not line.startswith("#")])


def rootfs(name: str, packages: list[str]) -> Path:
    """A Debian root file system with these packages; made once per list."""
    target = ROOTFS / f"{name}-{digest(SUITE, *LEFT_OUT, *packages)}"
    if target.exists():
        return target
    partial = target.with_suffix(".partial")
    remove(partial)
    ROOTFS.mkdir(parents=True, exist_ok=True)
    with step(f"Debian {SUITE} root file system '{name}'"):
        run(
            "mmdebstrap",
            "--variant=minbase",
            "--dpkgopt=force-unsafe-io",
            *(f"--dpkgopt=path-exclude={path}/*" for path in LEFT_OUT),
            *(f"--aptopt={line}" for line in _apt_settings()),
            f"--include={','.join(packages)}",
            SUITE,
            partial,
            "-",
            stdin=_sources(),
        )
        partial.rename(target)
    return target


def remove_outdated(*in_use: Path | None) -> None:
    """Root file systems of earlier package lists; not while an engine may still stand on one."""
    for old in ROOTFS.iterdir():
        if old not in in_use:
            remove(old)


def _apt_settings() -> list[str]:
    dump = run("apt-config", "dump").splitlines()
    return [line for line in dump if line.startswith(APT_SETTINGS) and not line.endswith('"";')]


def _sources() -> str:
    """Where the machine's own apt gets Debian from, asked for our release."""
    wanted = {"Debian": SUITE, "Debian-Security": f"{SUITE}-security"}
    asked = ("apt-get", "indextargets", "--format", "$(LABEL)|$(REPO_URI)|$(COMPONENT)", "Identifier: Packages")
    targets = run(*asked) or (run("apt-get", "update") and run(*asked))
    lines = set()
    for target in targets.splitlines():
        label, uri, component = target.split("|")
        if label in wanted and component == "main":
            lines.add(f"deb {uri} {wanted[label]} main\n")
    if not lines:
        raise LabError("no Debian mirror among the apt sources of this machine")
    return "".join(sorted(lines))
