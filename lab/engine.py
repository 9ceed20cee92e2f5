# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""The lab's own Docker Engine, in its own mount, process and network namespaces.

Its root is the hosts' Debian root file system, so the machine needs no Docker and keeps whichever it has. It ends when
its init process ends (`down`, or any kind of kill), and with it go all containers, mounts and interfaces.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from ipaddress import ip_address, ip_network
from pathlib import Path

from lab.layout import (
    BIN,
    BRIDGE_ADDRESS,
    CGROUP,
    CONTROL_ADDRESS,
    CONTROL_LEG,
    ENGINE,
    ENGINE_LOG,
    ENGINE_SOCKET,
    NETWORK,
    REGISTRY,
    SOURCE,
    SPARE_RANGE,
    STATE,
    SUBNET,
    inside,
)
from lab.shell import LabError, run, step, succeeds

START_SECONDS = 30
STOP_SECONDS = 60


def docker(*argv: str | Path, stdin: str | None = None) -> str:
    """The lab's docker client, talking to the lab's engine."""
    return run(BIN / "docker", *argv, env=client_environment(), stdin=stdin)


def client_environment() -> dict[str, str]:
    """For programs that call `docker` themselves."""
    path = f"{BIN}:{os.environ.get('PATH', '/usr/sbin:/usr/bin:/sbin:/bin')}"
    return {"DOCKER_HOST": f"unix://{ENGINE_SOCKET}", "PATH": path, "DOCKER_BUILDKIT": "0"}


def check_machine() -> None:
    """Two labs would have the same addresses. One whose checkout is gone is stopped: nobody else could."""
    other = _owner()
    if other and other != STATE:
        if other.exists():
            raise LabError(f"another lab is running on this machine: stop it with {other.parent}/lab/lab down")
        _kill(_leg_pid())
    addresses = json.loads(run("ip", "-json", "address", "show"))
    for link in addresses:
        for address in link["addr_info"]:
            if link["ifname"] != CONTROL_LEG and ip_address(address["local"]) in ip_network(SUBNET):
                raise LabError(f"{SUBNET}, which the lab needs, is in use on {link['ifname']}")


def start(rootfs: Path) -> bool:
    """Start the engine, and give the machine its leg in the lab's network; whether that was to be done."""
    if running():
        return False
    with step("lab engine"):
        stop()  # what an interrupted start, or an engine that no longer answers, has left
        ENGINE.mkdir(parents=True, exist_ok=True)
        pid = _spawn(rootfs)
        _wait_until_it_answers(pid)
        if NETWORK not in docker("network", "ls", "--format", "{{.Name}}").split():
            bridge = f"com.docker.network.bridge.name={NETWORK}"
            docker("network", "create", "--internal", "--subnet", SUBNET, "--ip-range", SPARE_RANGE,
                   "--gateway", BRIDGE_ADDRESS, "--opt", bridge, NETWORK)  # fmt: skip
        _connect(pid)
    return True


def running() -> bool:
    """Whether this checkout's engine runs and answers."""
    return _owner() == STATE and succeeds(BIN / "docker", "-H", f"unix://{ENGINE_SOCKET}", "version")


def stop() -> None:
    """End the engine and everything in it; a lab that is not there, or only half, is fine."""
    pid = _leg_pid() if _owner() == STATE else None
    for victim in filter(None, [pid, *_strays()]):
        _kill(victim)
    ENGINE_SOCKET.unlink(missing_ok=True)
    if _owner() is None:
        _remove_cgroups()


def _spawn(rootfs: Path) -> int:
    daemon = [
        "/usr/bin/tini", "--", "/usr/sbin/dockerd",
        "--host", f"unix://{inside(ENGINE_SOCKET)}", "--data-root", inside(ENGINE / "data"),
        "--exec-root", "/run/docker", "--pidfile", "/run/docker.pid", "--cgroup-parent", f"/{CGROUP}",
        # There is no way out of this network namespace, so there is nothing to filter and nothing to translate.
        "--bridge", "none", "--iptables=false", "--ip-forward=false", "--ip-masq=false",
        "--insecure-registry", REGISTRY, "--log-opt", "max-size=5m", "--shutdown-timeout", "20",
    ]  # fmt: skip
    init = [sys.executable, SOURCE / "engine_init.py", rootfs, STATE, SOURCE, *daemon]
    with ENGINE_LOG.open("w") as log:
        launcher = subprocess.Popen(
            ["unshare", "--mount", "--pid", "--net", "--fork", "--kill-child", "--", *map(str, init)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd="/",
        )
    for _ in range(100):
        if launcher.poll() is None and (pid := _child(launcher.pid)):
            return pid
        time.sleep(0.02)
    raise LabError(f"the lab's engine did not start:\n{_log_tail()}")


def _wait_until_it_answers(pid: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not succeeds(BIN / "docker", "-H", f"unix://{ENGINE_SOCKET}", "version"):
        if not _alive(pid) or time.monotonic() > deadline:
            raise LabError(f"the lab's engine did not start:\n{_log_tail()}")
        time.sleep(0.1)


def _connect(pid: int) -> None:
    """A veth pair: one end on the machine, one in the lab's bridge. Its alias says whose lab it is."""
    if succeeds("ip", "link", "show", CONTROL_LEG):
        run("ip", "link", "delete", CONTROL_LEG)
    run("ip", "link", "add", CONTROL_LEG, "type", "veth", "peer", "name", "control", "netns", str(pid))
    run("ip", "link", "set", CONTROL_LEG, "alias", f"{pid} {STATE}")
    run("ip", "address", "add", f"{CONTROL_ADDRESS}/24", "dev", CONTROL_LEG)
    run("ip", "link", "set", CONTROL_LEG, "up")
    run("nsenter", f"--net=/proc/{pid}/ns/net", "ip", "link", "set", "control", "master", NETWORK, "up")


def _alias() -> tuple[int, Path] | None:
    alias = Path(f"/sys/class/net/{CONTROL_LEG}/ifalias")
    if not alias.exists() or " " not in (text := alias.read_text().strip()):
        return None
    pid, _space, state = text.partition(" ")
    return int(pid), Path(state)


def _owner() -> Path | None:
    """The .lab folder of the lab that lives on this machine, if one does."""
    found = _alias()
    return found[1] if found and _alive(found[0]) else None


def _leg_pid() -> int | None:
    found = _alias()
    return found[0] if found else None


def _strays() -> list[int]:
    """Engines of this checkout that no control leg leads to, since their start was cut short."""
    mine = str(SOURCE / "engine_init.py").encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            argv = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue  # ended meanwhile
        if argv[0].endswith(b"unshare") and mine in argv:
            found.append(_child(int(entry.name)) or int(entry.name))
    return found


def _child(pid: int) -> int | None:
    """The one process that a launcher waits for."""
    pids = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(pids[0]) if pids else None


def _kill(pid: int | None) -> None:
    """TERM lets the engine stop its containers in order; the kernel does it anyway."""
    if pid is None or not _alive(pid):
        return
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    while _alive(pid):
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def _alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def _remove_cgroups() -> None:
    """Empty control groups are all that outlives the namespaces."""
    roots = [Path("/sys/fs/cgroup") / CGROUP, *Path("/sys/fs/cgroup").glob(f"*/{CGROUP}")]
    for root in filter(Path.is_dir, roots):
        for folder in sorted(root.rglob("*"), reverse=True):
            if folder.is_dir():
                folder.rmdir()
        root.rmdir()


def _log_tail() -> str:
    return "\n".join(ENGINE_LOG.read_text(errors="replace").splitlines()[-15:])
