# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""The command `lab/lab`."""

from __future__ import annotations

import argparse
import fcntl
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from lab import content, debian, engine, faults, images, layout, nodes
from lab.layout import Host
from lab.shell import LabError, remove, say, step


def main() -> int:
    arguments = _parser().parse_args(sys.argv[1:] or ["--help"])
    start = time.monotonic()
    try:
        if os.geteuid() != 0:
            raise LabError("the lab makes namespaces and containers: run it as root")
        status: int | None = arguments.run(arguments)
    except (LabError, ValueError) as problem:
        say(f"lab: {problem}")
        return 1
    if arguments.run in (up, down, clean, setup, reset):
        say(f"lab {arguments.verb}: {time.monotonic() - start:.1f} s")
    return status or 0


def setup(arguments: argparse.Namespace) -> None:
    """Everything but the hosts: packages, images, engine, depot and what it offers."""
    with _locked():
        _start_engine(content.make_sources)
        _fill_depot()


def up(arguments: argparse.Namespace) -> None:
    """At least this many hosts (2), or these, ready for SSH and Docker."""
    match arguments.hosts:
        case []:
            hosts = [Host(1), Host(2)]
        case [count] if count.isdigit():
            hosts = [Host(number + 1) for number in range(Host.parse(count).number)]
        case names:
            hosts = [Host.parse(name) for name in names]
    with _locked():
        _start_engine(content.make_sources)
        _fill_depot()
        _boot(hosts)


def reset(arguments: argparse.Namespace) -> None:
    """Make hosts anew, as they come from the factory."""
    with _locked():
        _start_engine()
        nodes.start_depot()
        hosts = arguments.host or nodes.existing()
        with step("removing " + " ".join(host.name for host in hosts)):
            nodes.delete(hosts)
        _boot(hosts)


def down(arguments: argparse.Namespace) -> None:
    """Power off; images, depot and the hosts' disks stay for the next `up`."""
    with _locked():
        _stop()


def clean(arguments: argparse.Namespace) -> None:
    """Remove every trace."""
    with _locked():
        _stop()
        for path in layout.STATE.iterdir():
            remove(path)
    layout.STATE.rmdir()


def status(arguments: argparse.Namespace) -> int:
    """What runs."""
    if not engine.running():
        print("down")
        return 3
    print(f"up: registry {layout.REGISTRY}, depot http://{layout.DEPOT_ADDRESS}:8080, key {layout.SSH_KEY}")
    alive = nodes.running()
    for host in nodes.existing():
        on = " ".join(name for name in faults.active(host))
        print(f"{host.name}  {host.address}  {'up' if host in alive else 'off'}{'  faults: ' + on if on else ''}")
    return 0


def ssh(arguments: argparse.Namespace) -> NoReturn:
    """A shell on a host, or one command."""
    command = nodes.ssh_command(arguments.host, *arguments.command)
    os.execvp(command[0], command)


def fault(arguments: argparse.Namespace) -> None:
    """Switch a fault of a host."""
    with _locked(arguments.host.folder / "lock"):
        if arguments.name == "clear":
            faults.clear(arguments.host)
            return
        if arguments.state is None:
            raise LabError("on or off?")
        name, given, value = arguments.name.partition("=")
        faults.switch(arguments.host, name, value if given else None, arguments.state == "on")


def list_faults(arguments: argparse.Namespace) -> None:
    """The table of faults."""
    for name, entry in faults.FAULTS.items():
        print(f"{name:<28} {entry.value[:12]:<13} {entry.seen}")


def _start_engine(*meanwhile: Callable[[], None]) -> None:
    """The engine with the lab's own images in it."""
    debian.install_missing()
    engine.check_machine()
    with ThreadPoolExecutor() as pool:  # the long ones of a first start; they do not need each other
        makers = [pool.submit(make) for make in (debian.host_rootfs, debian.base_rootfs, *meanwhile)]
        rootfs, base, *_done = (maker.result() for maker in makers)
    images.prepare_rootfs(rootfs)
    if engine.start(rootfs):
        debian.remove_outdated(rootfs, base)
    images.build(rootfs, base)


def _fill_depot() -> None:
    nodes.start_depot()
    content.build_images()


def _boot(hosts: list[Host]) -> None:
    nodes.make_ssh_key()
    with step("hosts " + " ".join(host.name for host in hosts)):
        nodes.start(hosts)
    for host in nodes.outdated(hosts):
        say(f"  {host.name} was made from an older host image: renew it with lab/lab reset {host.name}")


def _stop() -> None:
    with step("stopping"):
        if engine.running():
            nodes.stop_all()
        engine.stop()


@contextmanager
def _locked(file: Path = layout.LOCK) -> Iterator[None]:
    """One change at a time; a second command waits for the first."""
    file.parent.mkdir(exist_ok=True)
    with file.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("  waiting for another lab command ...")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="lab/lab", description="Simulated A3 hosts on this machine.")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")

    def verb(name: str, run: object) -> argparse.ArgumentParser:
        made = verbs.add_parser(name, help=run.__doc__, description=run.__doc__)
        made.set_defaults(run=run)
        return made

    verb("setup", setup)
    verb("up", up).add_argument("hosts", nargs="*", metavar="N|HOST")
    verb("down", down)
    verb("clean", clean)
    verb("reset", reset).add_argument("host", type=Host.parse, nargs="*", metavar="HOST")
    verb("status", status)
    at = verb("ssh", ssh)
    at.add_argument("host", type=Host.parse, metavar="HOST")
    at.add_argument("command", nargs=argparse.REMAINDER, metavar="CMD")
    switch = verb("fault", fault)
    switch.add_argument("host", type=Host.parse, metavar="HOST")
    switch.add_argument("name", metavar="NAME[=VALUE]|clear")
    switch.add_argument("state", nargs="?", choices=("on", "off"))
    verb("faults", list_faults)
    return parser


if __name__ == "__main__":
    sys.exit(main())
