# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""The lab's machines, each a container of the lab's engine: the depot and the simulated hosts."""

from __future__ import annotations

import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lab import faults, hardware, images, models
from lab.engine import docker
from lab.layout import (
    DEPOT,
    DEPOT_ADDRESS,
    HOST_IMAGE,
    KNOWN_HOSTS,
    NETWORK,
    SOURCE,
    SSH,
    SSH_KEY,
    STATE,
    Host,
    inside,
)
from lab.shell import LabError, digest, remove, run, step, succeeds

READY_SECONDS = 90
SPEC_LABEL = "lab.spec"  # what a container was made from
DEPOT_NAME = "depot"
PARALLEL = 8


def start_depot() -> None:
    spec = digest(images.made_from(images.DEBIAN_IMAGE), SOURCE / "depot")
    if _state(DEPOT_NAME) == (True, spec):
        return
    with step("depot"):
        (DEPOT / "registry").mkdir(parents=True, exist_ok=True)
        docker("rm", "--force", "--volumes", DEPOT_NAME)
        docker(
            "run", "--detach", "--init", "--name", DEPOT_NAME, "--hostname", DEPOT_NAME, "--restart", "unless-stopped",
            "--label", f"{SPEC_LABEL}={spec}", "--network", NETWORK, "--ip", DEPOT_ADDRESS,
            "--volume", f"{inside(DEPOT)}:/depot", "--volume", f"{inside(SOURCE / 'depot')}:/server:ro",
            images.DEBIAN_IMAGE, "/usr/bin/python3", "/server/server.py",
        )  # fmt: skip


def make_ssh_key() -> None:
    if not SSH_KEY.exists():
        SSH.mkdir(parents=True, exist_ok=True, mode=0o700)
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "lab", "-f", SSH_KEY)


def start(hosts: list[Host]) -> None:
    """Bring these hosts up, with the faults that are on."""
    for host in hosts:
        _prepare(host)
    _write_known_hosts()
    off = [host for host in hosts if not _state(host.name)[0]]
    with ThreadPoolExecutor(PARALLEL) as pool:
        list(pool.map(_boot, off))
        list(pool.map(_wait_until_ready, [host for host in hosts if not _out_of_reach(host)]))
        list(pool.map(faults.restore, [host for host in hosts if host in off or "hung" not in faults.active(host)]))


def outdated(hosts: list[Host]) -> list[Host]:
    """Those that were made from an older host image."""
    return [host for host in hosts if _state(host.name)[1] != _spec()]


def delete(hosts: list[Host]) -> None:
    """Remove hosts with all that they had; only the SSH host keys stay, so that known_hosts stays true."""
    for host in hosts:
        docker("rm", "--force", "--volumes", host.name)
        for path in host.folder.iterdir() if host.folder.exists() else ():
            if path.name != "ssh":
                remove(path)


def stop_all() -> None:
    """Power off hosts and depot; their disks stay."""
    names = [name for name, (is_up, _spec) in _states().items() if is_up]
    if names:
        docker("stop", "--time", "10", *names)


def existing() -> list[Host]:
    """Hosts that were made, running or not."""
    return [Host.parse(name) for name in sorted(_states()) if name.startswith("a3-")]


def running() -> list[Host]:
    return [Host.parse(name) for name, (is_up, _spec) in sorted(_states().items()) if is_up and name.startswith("a3-")]


def ssh_command(host: Host, *command: str) -> list[str]:
    options = {"IdentityFile": SSH_KEY, "UserKnownHostsFile": KNOWN_HOSTS, "ConnectTimeout": 5, "BatchMode": "yes"}
    arguments = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    return ["ssh", *arguments, f"root@{host.address}", *command]


def _spec() -> str:
    return digest(images.made_from(HOST_IMAGE))


def _state(name: str) -> tuple[bool, str]:
    """Whether a container runs, and what it was made from ('' if there is none)."""
    return _states().get(name, (False, ""))


def _states() -> dict[str, tuple[bool, str]]:
    shown = docker("ps", "--all", "--format", f'{{{{.Names}}}}\t{{{{.State}}}}\t{{{{.Label "{SPEC_LABEL}"}}}}')
    rows = (line.split("\t") for line in shown.splitlines())
    return {name: (state in ("running", "paused"), spec) for name, state, spec in rows if spec}


def _prepare(host: Host) -> None:
    models.make(host.folder / "data" / "models", host.folder / "models.stamp")
    faults.write_hardware(host)
    key = host.folder / "ssh" / "ssh_host_ed25519_key"
    if not key.exists():
        key.parent.mkdir(parents=True, exist_ok=True)
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", host.name, "-f", key)


def _write_known_hosts() -> None:
    rows = []
    for key in sorted((STATE / "hosts").glob("*/ssh/ssh_host_ed25519_key.pub")):
        host = Host.parse(key.parent.parent.name)
        kind, public, _comment = key.read_text().split()
        rows.append(f"{host.address},{host.name} {kind} {public}\n")
    KNOWN_HOSTS.write_text("".join(rows))


def _boot(host: Host) -> None:
    if _state(host.name)[1]:
        docker("start", host.name)
        return
    binds: dict[Path, str] = {
        **hardware.binds(host),
        host.folder / "data": "/data",
        host.folder / "ssh": "/etc/ssh/lab:ro",
    }
    docker(
        "run", "--detach", "--name", host.name, "--hostname", host.name, "--restart", "unless-stopped",
        "--label", f"{SPEC_LABEL}={_spec()}", "--network", NETWORK, "--ip", host.address,
        "--privileged", "--cgroupns", "private", "--tmpfs", "/run", "--tmpfs", "/run/lock", "--tmpfs", "/tmp:exec",
        "--shm-size", "768g", "--env", f"container_uuid={uuid.uuid5(uuid.NAMESPACE_DNS, host.name)}",
        "--dns", DEPOT_ADDRESS,
        *(word for path, target in binds.items() for word in ("--volume", f"{inside(path)}:{target}")),
        HOST_IMAGE,
    )  # fmt: skip
    public_key = SSH_KEY.with_suffix(".pub").read_text()
    docker("exec", "--interactive", host.name, "tee", "/root/.ssh/authorized_keys", stdin=public_key)


def _out_of_reach(host: Host) -> bool:
    """By a fault, so that there is nothing to wait for."""
    return bool({"hung", "unreachable", "ssh_down", "docker_stopped"} & faults.active(host).keys())


def _wait_until_ready(host: Host) -> None:
    """Until systemd has started everything and Docker answers, asked over SSH as a user would."""
    deadline = time.monotonic() + READY_SECONDS
    check = ssh_command(host, "timeout 60 systemctl is-system-running --wait >/dev/null; docker version >/dev/null")
    while not succeeds(*check):
        if time.monotonic() > deadline:
            raise LabError(f"{host.name} did not come up within {READY_SECONDS} s; look with: lab/lab ssh {host.name}")
        time.sleep(0.2)
