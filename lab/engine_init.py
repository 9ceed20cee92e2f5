# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""First process in the lab engine's own namespaces: builds its file system view, then becomes init of the engine.

Started by engine.py through `unshare --mount --pid --net`. All mounts, containers and interfaces of the lab live in
these namespaces, so when this process ends, however hard, the kernel takes every one of them away: nothing is left.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

# Folders that the engine writes to; the rest of its root stays as installed.
WRITABLE = ("run", "tmp", "etc/docker", "var/lib/docker", "var/lib/containerd", "opt")


def main(rootfs: str, state: str, source: str, command: list[str]) -> None:
    root = Path(rootfs)
    _run("mount", "--make-rprivate", "/")
    _run("mount", "--bind", rootfs, rootfs)
    for folder in WRITABLE:
        (root / folder).mkdir(parents=True, exist_ok=True)
        _run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", str(root / folder))
    for path, name in ((state, "lab"), (source, "src")):
        (root / name).mkdir(exist_ok=True)
        _run("mount", "--bind", path, str(root / name))
    _run("mount", "-o", "remount,bind,ro", str(root / "src"))
    _run("mount", "-t", "proc", "proc", str(root / "proc"))
    _run("mount", "-t", "sysfs", "sysfs", str(root / "sys"))
    _run("mount", "--rbind", "/sys/fs/cgroup", str(root / "sys/fs/cgroup"))
    _run("mount", "--rbind", "/dev", str(root / "dev"))
    (root / "run/old").mkdir()
    os.chdir(root)
    _run("pivot_root", ".", "run/old")
    os.chdir("/")
    _run("umount", "-l", "/run/old")
    _run("ip", "link", "set", "lo", "up")
    # A router without any route: what is meant for elsewhere is answered "unreachable" instead of vanishing.
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    os.execv(command[0], command)


def _run(*argv: str) -> None:
    subprocess.run(argv, check=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:])
