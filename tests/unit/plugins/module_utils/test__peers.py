# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Ports of peers, all in one loop; routes and MTU are tested with the face (test__nics.py)."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence

import pytest
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils import _peers
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._netlink import Kernel
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._parallel import Deadline
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._peers import Target
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._run import Ran, Runner


@pytest.fixture
def silent() -> Iterator[int]:
    """A port that no longer answers: its queue is full, and the kernel drops what comes then, as a firewall does."""
    with socket.socket() as server, socket.socket() as waiting:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        waiting.connect(server.getsockname())
        yield server.getsockname()[1]


def test_open_closed_and_silent_ports_are_told_apart(silent: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_peers, "ANSWER_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        ports = {server.getsockname()[1]: "ok", unused.getsockname()[1]: "refused", silent: "no answer within 0.5 s"}
        told = _peers.answers([Target("127.0.0.1", port) for port in ports], Runner(Deadline(20)))
    assert told == {Target("127.0.0.1", port): answer for port, answer in ports.items()}


def test_more_ports_than_a_process_may_have_files_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_peers, "AT_ONCE", 2)
    opened = 0
    most = 0

    class Counted(socket.socket):
        def __init__(self, *arguments: int) -> None:
            nonlocal opened, most
            super().__init__(*arguments)
            opened += 1
            most = max(most, opened)

        def close(self) -> None:
            nonlocal opened
            super().close()
            opened -= 1

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setattr(_peers.socket, "socket", Counted)
        targets = [Target(f"127.0.0.{number}", port) for number in range(1, 8)]
        told = _peers.answers(targets, Runner(Deadline(20)))
    assert (most, opened) == (2, 0)
    assert told[targets[0]] == "ok"
    assert set(told) == set(targets)


@pytest.mark.parametrize(
    ("largest_that_arrives", "found"),
    [
        (9000, {"path_mtu": 9000, "path_mtu_measured": True, "path_mtu_below": None}),
        (8999, {"path_mtu": 1500, "path_mtu_measured": True, "path_mtu_below": 9000}),
        (1280, {"path_mtu": 576, "path_mtu_measured": True, "path_mtu_below": 1500}),
        (500, {"reason": "path MTU not measured: no echo reply to any size"}),
    ],
)
def test_what_is_lost_bounds_the_mtu(
    largest_that_arrives: int, found: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ping(Runner):
        def run(self, argv: Sequence[str], timeout_s: float = 20.0) -> Ran:
            fits = int(argv[argv.index("-s") + 1]) + 28 <= largest_that_arrives
            return Ran(0 if fits else 1, "", "", None)

    monkeypatch.setattr(_peers, "find_tool", lambda name: f"/bin/{name}")
    way = {"path_mtu": 9000, "interface": "eth0"}
    assert _peers._measure_mtu(way, "192.0.2.2", {"eth0": 9000}, Ping(Deadline(20))) == found


@pytest.mark.parametrize(("target", "answer"), [(Target("127.0.0.1", 70000), "port must be"), (Target("x", 1), "")])
def test_what_is_no_address_gives_a_reason(target: Target, answer: str) -> None:
    assert answer in _peers.answers([target], Runner(Deadline(20)))[target]


def test_a_name_is_looked_up_and_one_that_nobody_knows_has_no_route(monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(name: str, *_arguments: object, **_options: object) -> list[tuple[object, ...]]:
        if name != "localhost":
            raise socket.gaierror(-2, "Name or service not known")
        return [(None, None, None, "", ("127.0.0.1", 0))]

    monkeypatch.setattr(_peers.socket, "getaddrinfo", look_up)  # so that no name server is asked
    peers = [{"address": "localhost", "ports": [1]}, {"address": "no-such-host.invalid", "ports": [1]}]
    found = _peers.ways(peers, {1: "lo"}, {"lo": 65536}, Kernel(), Runner(Deadline(20)))
    assert (found["localhost"]["interface"], found["localhost"]["tcp"]) == ("lo", {"1": "refused"})
    assert "no route: gaierror" in found["no-such-host.invalid"]["tcp"]["1"]


@pytest.mark.parametrize(
    ("address", "numeric"),
    [("192.0.2.1", True), ("2001:db8::1", True), ("a3-01", False), ("192.0.2", False), ("", False)],
)
def test_addresses_and_names(address: str, numeric: bool) -> None:
    assert _peers.is_numeric(address) is numeric
