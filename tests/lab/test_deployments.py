# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Engines of several processes: data parallelism inside and outside, nodes of one replica, and who does not come."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Host, Process, call, free_port

from vllm.api_server import tokenize
from vllm.engine import digest


def arguments(model: Path, *more: str, tensor: int = 8) -> list[str]:
    return [str(model), "--host", "127.0.0.1", "--tensor-parallel-size", str(tensor), "--enable-expert-parallel",
            "--served-model-name", "m", "--max-model-len", "8192", "--gpu-memory-utilization", "0.9", *more]  # fmt: skip


def data_parallel(address: str, size: int, port: int, *more: str) -> list[str]:
    return ["--data-parallel-size", str(size), "--data-parallel-address", address, "--data-parallel-rpc-port", str(port), *more]


def complete(port: int, prompt: str) -> str:
    status, body = call(f"http://127.0.0.1:{port}/v1/completions", {"model": "m", "prompt": prompt, "max_tokens": 2})
    assert status == 200, body
    return str(json.loads(body)["choices"][0]["text"].split()[0])


def test_internal_data_parallelism_over_two_hosts(
    run: Callable[..., Process], host: Callable[[int], Host], model: Callable[..., Path]
) -> None:
    hosts, folder, rpc, port = (host(2), host(3)), model(), free_port(), free_port()
    shared = data_parallel(hosts[0].address, 4, rpc, "--data-parallel-size-local", "2")
    head = run(hosts[0], *arguments(folder, *shared, "--port", str(port)))
    tail = run(hosts[1], *arguments(folder, *shared, "--data-parallel-start-rank", "2", "--headless"))
    head.until("Application startup complete")
    tail.until("init engine")
    for turn in range(4):  # all four replicas, two of them on the headless host
        assert complete(port, f"prompt {turn}") == digest(tokenize(f"prompt {turn}"))
    assert tail.stop() == 0
    assert head.ended() == 1, "the front end ends with one of its engines"


def test_external_data_parallelism_on_one_host(
    run: Callable[..., Process], host: Callable[[int], Host], model: Callable[..., Path]
) -> None:
    where, folder, rpc, ports = host(2), model(), free_port(), [free_port(), free_port()]
    engines = [
        run(where, *arguments(folder, *data_parallel(where.address, 2, rpc, "--data-parallel-rank", str(rank)), "--port", str(port)),
            env={"ASCEND_RT_VISIBLE_DEVICES": ",".join(map(str, range(rank * 8, rank * 8 + 8)))})
        for rank, port in enumerate(ports)
    ]  # fmt: skip
    for engine, port in zip(engines, ports, strict=True):
        engine.until("Application startup complete")
        assert complete(port, "x") == digest(tokenize("x"))
    assert [engine.stop() for engine in engines] == [0, 1] or engines[1].popen.returncode in (0, 1)


@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        (["--data-parallel-size-local", "1"], None, "data parallel ranks [1] did not come"),
        (None, ["--data-parallel-size-local", "1", "--data-parallel-start-rank", "1", "--headless"],
         "Did not receive response from front-end process"),
        (["--data-parallel-size-local", "1"], ["--data-parallel-size-local", "1", "--data-parallel-start-rank", "1"],
         "Remote engine 1 must use --headless"),
        (["--data-parallel-size-local", "1"],
         ["--data-parallel-size-local", "1", "--data-parallel-start-rank", "1", "--headless", "--decode-context-parallel-size", "8"],
         "Configuration mismatch detected for engine 1"),
        (["--data-parallel-rank", "0"], ["--data-parallel-size-local", "1", "--data-parallel-start-rank", "1", "--headless"],
         "Remote engine 1 must not use --headless"),
    ],
)  # fmt: skip
def test_data_parallel_peers_that_do_not_fit(
    first: list[str] | None, second: list[str] | None, text: str,
    run: Callable[..., Process], host: Callable[[int], Host], model: Callable[..., Path],
) -> None:  # fmt: skip
    hosts, folder, rpc = (host(2), host(3)), model(), free_port()
    started = []
    for where, more in zip(hosts, (first, second), strict=True):
        if more is not None:
            dense = data_parallel(hosts[0].address, 2, rpc, *more)
            line = arguments(model("V3", index_topk=None), *dense, "--port", str(free_port()), tensor=16)
            started.append(run(where, *line))
    assert folder
    assert [process.ended() for process in started] == [1] * len(started)
    assert any(text in process.text() for process in started), "\n".join(process.text() for process in started)


def nodes(rank: int, address: str, port: int, *more: str, count: int = 2) -> list[str]:
    return ["--nnodes", str(count), "--node-rank", str(rank), "--master-addr", address, "--master-port", str(port),
            *(["--headless"] if rank else ["--port", str(free_port())]), *more]  # fmt: skip


@pytest.mark.parametrize(
    ("head", "tail", "text"),
    [
        ({}, None, "node ranks [1] did not join"),
        (None, {}, "The client socket has timed out"),
        ({}, {"tensor": 16}, "Configuration mismatch detected"),
        ({}, {"count": 3, "rank": 2}, "must be divisible by nnodes=3"),
        ({}, {"rank": 0}, "node ranks [1] did not join"),
        ({"address": "127.0.0.9"}, None, "cannot reach own master address|did not join"),
    ],
)
def test_nodes_that_do_not_fit(
    head: dict[str, int] | None, tail: dict[str, int] | None, text: str,
    run: Callable[..., Process], host: Callable[[int], Host], model: Callable[..., Path],
) -> None:  # fmt: skip
    hosts, folder, port = (host(2), host(3)), model(), free_port()
    started = []
    for where, rank, changes in ((hosts[0], 0, head), (hosts[1], 1, tail)):
        if changes is None:
            continue
        address = str(changes.get("address", hosts[0].address))
        more = nodes(changes.get("rank", rank), address, port, count=changes.get("count", 2))
        started.append(run(where, *arguments(folder, *more, tensor=changes.get("tensor", 32))))
    assert [process.ended() for process in started] == [1] * len(started)
    logs = "\n".join(process.text() for process in started)
    assert any(part in logs for part in text.split("|")), logs


def test_node_rank_beyond_nnodes(run: Callable[..., Process], host: Callable[[int], Host], model: Callable[..., Path]) -> None:
    engine = run(host(2), *arguments(model(), *nodes(2, "127.0.0.2", free_port()), tensor=32))
    assert engine.ended() == 1
    assert "node_rank=2 must be less than nnodes=2" in engine.text()


@pytest.mark.parametrize(
    ("sizes", "text"),
    [
        ({"prefill": {"dp_size": 1, "tp_size": 8}, "decode": {"dp_size": 1, "tp_size": 8}},
         "KV transfer 'prefill' config has a conflicting tensor parallel size. Expected 16, but got 8."),
        ({"prefill": {"dp_size": 2, "tp_size": 16}, "decode": {"dp_size": 1, "tp_size": 8}},
         "KV transfer 'prefill' config has a conflicting data parallel size. Expected 1, but got 2."),
        ({"prefill": {"dp_size": 1, "tp_size": 16}, "decode": {"dp_size": 1, "tp_size": 32}},
         "prefill_tp_size: 16 must be greater than or equal to the decode_tp_size: 32"),
        ({"prefill": {"dp_size": 1, "tp_size": 16}}, 'assert "tp_size" in decode'),
    ],
)  # fmt: skip
def test_sizes_told_to_the_connector_must_be_true(
    sizes: dict[str, object], text: str, run: Callable[..., Process], host: Callable[[int], Host], model: Callable[..., Path]
) -> None:
    transfer = {"kv_connector": "MooncakeConnectorV1", "kv_role": "kv_producer", "kv_port": 36000, "kv_connector_extra_config": sizes}
    engine = run(host(2), *arguments(model(), "--kv-transfer-config", json.dumps(transfer), "--port", str(free_port()), tensor=16))
    assert engine.ended() == 1
    assert text in engine.text(), engine.text()


def test_a_control_port_in_mooncakes_band_can_be_taken_by_the_transfer_engine(
    run: Callable[..., Process], host: Callable[[int], Host], model: Callable[..., Path]
) -> None:
    where = host(2)
    where.write("etc/lab-engine.json", '{"weights_seconds": 0.1, "mooncake_ports": "worst"}')
    sizes = {"prefill": {"dp_size": 1, "tp_size": 16}, "decode": {"dp_size": 1, "tp_size": 16}}
    for port, works in ((30000, False), (36000, True)):
        transfer = {"kv_connector": "MooncakeConnectorV1", "kv_role": "kv_producer", "kv_port": port, "kv_connector_extra_config": sizes}
        engine = run(where, *arguments(model(), "--kv-transfer-config", json.dumps(transfer), "--port", str(free_port()), tensor=16))
        if works:
            engine.until("Application startup complete")
        else:
            assert engine.ended() == 1
            assert "Address already in use" in engine.text()
