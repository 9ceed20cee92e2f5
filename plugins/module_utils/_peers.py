# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""The way to other hosts: the kernel's route, whether their ports answer, and how large a packet arrives."""

from __future__ import annotations

import errno
import os
import selectors
import socket
import time
from contextlib import ExitStack
from functools import partial
from typing import Any, Callable, Mapping, NamedTuple, Sequence

from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._netlink import Kernel
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._parallel import Outcome, run_all
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._run import Runner, find_tool

ANSWER_S = 3.0  # how long a port may be silent
_PORTS = ""  # the task that asks all ports, among those named by a peer's address
AT_ONCE = 512  # connections; a process usually may have 1024 files open
# getsockopt: the MTU that the kernel knows of the way to the connected peer (linux/in.h IP_MTU, linux/in6.h IPV6_MTU).
_MTU_OPTIONS = {socket.AF_INET: (socket.IPPROTO_IP, 14), socket.AF_INET6: (socket.IPPROTO_IPV6, 24)}
# Bytes that an echo request adds to its payload, and the sizes to try below the interface's MTU.
_HEADERS = {socket.AF_INET: 28, socket.AF_INET6: 48}
_SMALLER = {socket.AF_INET: (1500, 576), socket.AF_INET6: (1500, 1280)}


class Target(NamedTuple):
    """A port to connect to, at a numeric address."""

    address: str
    port: int


def ways(
    peers: Sequence[Mapping[str, Any]],
    names: Mapping[int | None, str],
    mtus: Mapping[str, int | None],
    kernel: Kernel,
    runner: Runner,
) -> dict[str, dict[str, Any]]:
    """By address as given, what is known of the way to each of `peers` ({address, ports, ping}).

    `names` are the interfaces by index, `mtus` their MTU in bytes by name.
    """
    found: dict[str, dict[str, Any]] = {}
    numeric: dict[str, str] = {}
    for peer, outcome in _resolved(peers, runner):
        way = found[peer["address"]] = _unknown()
        try:
            if outcome.value is None:
                raise OSError(outcome.reason)
            route = kernel.route(outcome.value)
        except OSError as error:
            way["reason"] = f"no route: {error.strerror or error}"
            way["tcp"] = {str(port): way["reason"] for port in peer.get("ports") or ()}
            continue
        numeric[peer["address"]] = outcome.value
        way.update(
            interface=names.get(route["index"]), source=route["source"], gateway=route["gateway"], local=route["local"]
        )
        way["path_mtu"] = _known_mtu(outcome.value)
    targets = {
        (peer["address"], port): Target(numeric[peer["address"]], port)
        for peer in peers
        if peer["address"] in numeric
        for port in peer.get("ports") or ()
    }
    measured = {
        peer["address"]: partial(_measure_mtu, found[peer["address"]], numeric[peer["address"]], mtus, runner)
        for peer in peers
        if peer.get("ping") and found[peer["address"]]["path_mtu"] and not found[peer["address"]]["local"]
    }
    tasks: dict[str, Callable[[], Any]] = {_PORTS: partial(answers, list(targets.values()), runner), **measured}
    outcomes = run_all(tasks, runner.deadline.earlier())
    told = outcomes[_PORTS].value or {}
    for (address, port), target in targets.items():
        found[address]["tcp"][str(port)] = told.get(target) or outcomes[_PORTS].reason
    for address in measured:
        found[address].update(outcomes[address].value or {"reason": outcomes[address].reason})
    return found


def _unknown() -> dict[str, Any]:
    return {
        "interface": None,
        "source": None,
        "gateway": None,
        "local": False,
        "tcp": {},
        "path_mtu": None,
        "path_mtu_measured": False,
        "path_mtu_below": None,
        "reason": None,
    }


def _resolved(peers: Sequence[Mapping[str, Any]], runner: Runner) -> list[tuple[Mapping[str, Any], Outcome]]:
    """Each peer with its numeric address. Only names are looked up, side by side: a dead name server takes seconds."""
    tasks = {peer["address"]: partial(_look_up, peer["address"]) for peer in peers if not is_numeric(peer["address"])}
    outcomes = run_all(tasks, runner.deadline.earlier())
    return [(peer, outcomes.get(peer["address"]) or Outcome(peer["address"], None, 0.0)) for peer in peers]


def is_numeric(address: str) -> bool:
    """Whether the kernel takes this as an IPv4 or IPv6 address."""
    try:
        return bool(socket.inet_pton(_family(address), address))
    except (OSError, ValueError):
        return False


def _look_up(name: str) -> str:
    return str(socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)[0][4][0])


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


# ---- ports ---------------------------------------------------------------------------------------------------------


def answers(targets: Sequence[Target], runner: Runner) -> dict[Target, str]:
    """`ok`, `refused` or another reason for each. A thread for each would cost a large cluster more than all else."""
    found: dict[Target, str] = {}
    for start in range(0, len(targets), AT_ONCE):
        found.update(_connect(targets[start : start + AT_ONCE], runner.deadline.earlier().earlier().within(ANSWER_S)))
    return found


def _connect(targets: Sequence[Target], timeout_s: float) -> dict[Target, str]:
    found = dict.fromkeys(targets, f"no answer within {round(timeout_s, 1):g} s")
    end = time.monotonic() + timeout_s
    with ExitStack() as opened, selectors.DefaultSelector() as waiting:
        for target in found:
            try:
                channel = opened.enter_context(socket.socket(_family(target.address), socket.SOCK_STREAM))
                channel.setblocking(False)
                code = channel.connect_ex(target)
            except (OSError, OverflowError) as error:  # no file left to open; no such port
                found[target] = str(error)
                continue
            if code == errno.EINPROGRESS:
                waiting.register(channel, selectors.EVENT_WRITE, (target, channel))
            else:
                found[target] = _verdict(code)
        while waiting.get_map() and time.monotonic() < end:
            for key, _events in waiting.select(max(0.0, end - time.monotonic())):
                target, channel = key.data
                found[target] = _verdict(channel.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
                waiting.unregister(channel)
    return found


def _verdict(code: int) -> str:
    if code == errno.ECONNREFUSED:
        return "refused"  # the host answers; nothing listens on the port, or a firewall rejects
    return os.strerror(code) if code else "ok"


# ---- MTU -----------------------------------------------------------------------------------------------------------


def _known_mtu(address: str) -> int | None:
    """What the kernel knows of the path's MTU in bytes: the interface's, or less where a router has said so."""
    family = _family(address)
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as channel:
            channel.connect((address, 9))  # of a datagram socket: looks up the route, sends nothing
            return channel.getsockopt(*_MTU_OPTIONS[family])
    except OSError:
        return None


def _measure_mtu(
    way: Mapping[str, Any], address: str, mtus: Mapping[str, int | None], runner: Runner
) -> dict[str, Any]:
    """Send echo requests that may not be fragmented, largest first: a switch that drops jumbo frames says nothing.

    A few sizes are enough to tell that; the smallest that was lost and the largest that arrived bound the path's MTU.
    """
    tool = find_tool("ping")
    if tool is None:
        return {"reason": "path MTU not measured: ping is not installed"}
    family = _family(address)
    largest = min(way["path_mtu"], mtus.get(way["interface"] or "") or way["path_mtu"])
    lost = None
    for size in sorted({min(largest, size) for size in (largest, *_SMALLER[family])}, reverse=True):
        payload = str(size - _HEADERS[family])
        argv = [tool, "-n", "-q", "-c", "1", "-W", "1", "-M", "do", "-s", payload, address]
        if runner.run(argv, timeout_s=3.0).rc == 0:
            return {"path_mtu": size, "path_mtu_measured": True, "path_mtu_below": lost}
        lost = size
    return {"reason": "path MTU not measured: no echo reply to any size"}
