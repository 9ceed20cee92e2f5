# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Engines of several processes: data parallelism inside and outside, nodes of one replica, and who does not come."""

from __future__ import annotations

import json
from typing import Any

import pytest
from vllm.api_server import tokenize
from vllm.engine import digest

from tests.lab.harness import Lab, call, free_port
from tests.lab.test_sparse_pd import READY

COMMON: dict[str, Any] = {
    "tensor_parallel_size": 8,
    "enable_expert_parallel": True,
    "served_model_name": "m",
    "max_model_len": 8192,
}


def data_parallel(address: str, size: int, rpc: int, **more: Any) -> dict[str, Any]:
    shared = {"data_parallel_size": size, "data_parallel_address": address, "data_parallel_rpc_port": rpc}
    return {**COMMON, **shared, **more}


def complete(port: int, prompt: str) -> str:
    body = {"model": "m", "prompt": prompt, "max_tokens": 2}
    status, answer = call(f"http://127.0.0.1:{port}/v1/completions", body)
    assert status == 200, answer
    return str(json.loads(answer)["choices"][0]["text"].split()[0])


def test_internal_data_parallelism_over_two_hosts(lab: Lab) -> None:
    hosts, port = (lab.host(2), lab.host(3)), free_port()
    shared = data_parallel(hosts[0].address, 4, free_port(), data_parallel_size_local=2)
    head = lab.serve(hosts[0], lab.model(), **shared, port=port)
    tail = lab.serve(hosts[1], lab.model(), **shared, data_parallel_start_rank=2, headless=True)
    head.until(READY)
    tail.until("init engine")
    for turn in range(4):  # all four replicas, two of them on the headless host
        assert complete(port, f"prompt {turn}") == digest(tokenize(f"prompt {turn}"))
    assert tail.stop() == 0
    assert head.ended() == 0, "the front end ends with one of its engines"


def test_external_data_parallelism_on_one_host(lab: Lab) -> None:
    where, rpc, ports = lab.host(2), free_port(), (free_port(), free_port())
    engines = []
    for rank, port in enumerate(ports):
        where.env["ASCEND_RT_VISIBLE_DEVICES"] = ",".join(map(str, range(rank * 8, rank * 8 + 8)))
        options = data_parallel(where.address, 2, rpc, data_parallel_rank=rank, port=port)
        engines.append(lab.serve(where, lab.model(), **options))
    for engine, port in zip(engines, ports, strict=True):
        engine.until(READY)
        assert complete(port, "x") == digest(tokenize("x"))
    assert engines[0].stop() == 0
    assert engines[1].ended() == 0, "a rank ends with rank 0, which coordinates them"


LOCAL = {"data_parallel_size_local": 1}
SECOND = {**LOCAL, "data_parallel_start_rank": 1}
FOLLOWER = {**SECOND, "headless": True}


@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        (LOCAL, None, "data parallel ranks [1] did not come"),
        (None, FOLLOWER, "Did not receive response from front-end process"),
        (LOCAL, SECOND, "Remote engine 1 must use --headless"),
        (LOCAL, {**FOLLOWER, "decode_context_parallel_size": 8}, "Configuration mismatch detected for engine 1"),
        ({"data_parallel_rank": 0}, FOLLOWER, "Remote engine 1 must not use --headless"),
    ],
)
def test_data_parallel_peers_that_do_not_fit(
    first: dict[str, Any] | None, second: dict[str, Any] | None, text: str, lab: Lab
) -> None:
    hosts, rpc, model = (lab.host(2), lab.host(3)), free_port(), lab.model(index_topk=None)
    for where in hosts:
        where.settings(handshake_seconds=4)
    started = [
        lab.serve(where, model, **{**data_parallel(hosts[0].address, 2, rpc, port=free_port()), **more})
        for where, more in zip(hosts, (first, second), strict=True)
        if more is not None
    ]
    assert [process.ended() for process in started] == [1] * len(started)
    logs = "\n".join(process.text() for process in started)
    assert text in logs, logs


def node(rank: int, address: str, port: int) -> dict[str, Any]:
    own = {"headless": True} if rank else {"port": free_port()}
    shared = {"nnodes": 2, "node_rank": rank, "master_addr": address, "master_port": port}
    return {**COMMON, "tensor_parallel_size": 32, **shared, **own}


@pytest.mark.parametrize(
    ("head", "tail", "text"),
    [
        ({}, None, "node ranks [1] did not join"),
        (None, {}, "The client socket has timed out"),
        ({}, {"tensor_parallel_size": 16}, "Configuration mismatch detected"),
        ({}, {"nnodes": 3}, "must be divisible by nnodes=3"),
        ({}, {"node_rank": 2}, "node_rank=2 must be less than nnodes=2"),
        ({}, {"node_rank": 0, "headless": None}, "node ranks [1] did not join"),
        ({}, {"headless": None}, "start it with --headless"),
    ],
)
def test_nodes_that_do_not_fit(head: dict[str, Any] | None, tail: dict[str, Any] | None, text: str, lab: Lab) -> None:
    hosts, port = (lab.host(2), lab.host(3)), free_port()
    started = []
    for rank, changes in enumerate((head, tail)):
        if changes is not None:
            hosts[rank].settings(handshake_seconds=4)
            options = {"port": free_port(), **node(rank, hosts[0].address, port), **changes}
            started.append(lab.serve(hosts[rank], lab.model(), **options))
    codes = [process.ended() for process in started]
    logs = "\n".join(process.text() for process in started)
    assert codes == [1] * len(started), logs
    assert text in logs, logs


@pytest.mark.parametrize(
    ("sizes", "text"),
    [
        (((1, 8), (1, 8)), "'prefill' config has a conflicting tensor parallel size. Expected 16, but got 8."),
        (((2, 16), (1, 8)), "'prefill' config has a conflicting data parallel size. Expected 1, but got 2."),
        (((1, 16), (1, 32)), "prefill_tp_size: 16 must be greater than or equal to the decode_tp_size: 32"),
        (((1, 16),), 'assert "tp_size" in decode'),
    ],
)
def test_sizes_told_to_the_connector_must_be_true(sizes: tuple[tuple[int, int], ...], text: str, lab: Lab) -> None:
    told = [{"dp_size": data, "tp_size": tensor} for data, tensor in sizes]
    extra = dict(zip(("prefill", "decode"), told, strict=False))
    engine = lab.serve(lab.host(2), lab.model(), **mooncake(36000, extra))
    assert engine.ended() == 1
    assert text in engine.text(), engine.text()


def mooncake(port: int, extra: dict[str, Any]) -> dict[str, Any]:
    base = {"kv_connector": "MooncakeConnectorV1", "kv_role": "kv_producer"}
    transfer = {**base, "kv_port": port, "kv_connector_extra_config": extra}
    return {**COMMON, "tensor_parallel_size": 16, "port": free_port(), "kv_transfer_config": transfer}


def test_a_control_port_in_mooncakes_band_can_be_taken_by_the_transfer_engine(lab: Lab) -> None:
    where, size = lab.host(2), {"dp_size": 1, "tp_size": 16}
    where.settings(mooncake_ports="worst")
    inside = lab.serve(where, lab.model(), **mooncake(30000, {"prefill": size, "decode": size}))
    assert inside.ended() == 1
    assert "Address already in use" in inside.text()
    lab.serve(where, lab.model(), **mooncake(36000, {"prefill": size, "decode": size})).until(READY)


def test_ranks_started_one_by_one_with_a_gate_between_time_out(lab: Lab) -> None:
    """Rank 0 is ready only when all have come: whoever waits for it before starting rank 1 sees both end."""
    hosts, rpc, model = (lab.host(2), lab.host(3)), free_port(), lab.model(index_topk=None)
    for where in hosts:
        where.settings(handshake_seconds=4)
    shared = data_parallel(hosts[0].address, 2, rpc, data_parallel_size_local=1)
    first = lab.serve(hosts[0], model, **shared, port=free_port())
    assert first.ended() == 1  # the gate: ready, or dead
    assert READY not in first.text()
    assert "data parallel ranks [1] did not come" in first.text()
    second = lab.serve(hosts[1], model, **shared, data_parallel_start_rank=1, headless=True)
    assert second.ended() == 1
    assert "Did not receive response from front-end process" in second.text()
