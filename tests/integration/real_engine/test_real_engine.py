# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""The engines are vLLM's own, KV really moves between them, and a killed engine comes back by itself."""

from __future__ import annotations

import json
import time
import urllib.request
from typing import Any

import pytest

from ..common.test_service import get
from ..conftest import Service

LONG = "A prompt that fills more than one block of the KV cache. " * 12
READY_SECONDS = 300  # two engines load on a machine with two cores


def base(service: Service) -> str:
    return f"http://127.0.0.1:{service.engines[0]['http']['port']}"


def transfers(service: Service) -> float:
    """Reads of KV blocks that this engine has finished."""
    lines = get(service.host, f"{base(service)}/metrics").splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("vllm:nixl_xfer_time_seconds_count"))


def complete(plan: dict[str, Any], url: str) -> str:
    """The likeliest continuation of a long prompt."""
    body = {"model": plan["model"]["name"], "prompt": LONG, "max_tokens": 24, "temperature": 0}
    request = urllib.request.Request(
        f"{url}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        return str(json.load(answer)["choices"][0]["text"])


@pytest.fixture
def decode(engines: list[Service]) -> Service:
    return next(service for service in engines if service.planned["role"] == "decode")


def test_engines_are_the_planned_vllm(engines: list[Service], plan: dict[str, Any]) -> None:
    for service in engines:
        assert get(service.host, f"{base(service)}/version")["version"].startswith(plan["versions"]["vllm"])


def test_decode_reads_the_kv_cache_of_prefill(plan: dict[str, Any], decode: Service) -> None:
    before = transfers(decode)
    assert complete(plan, plan["proxy"]["url"]).strip()
    deadline = time.monotonic() + 30  # an engine tells its metrics every ten seconds
    while transfers(decode) <= before:
        assert time.monotonic() < deadline
        time.sleep(1)


def test_the_transferred_cache_is_the_right_one(plan: dict[str, Any], decode: Service) -> None:
    """Decode asked directly prefills by itself: the answer is the same."""
    alone = f"http://{plan['hosts'][decode.planned['host']]['address']}:{decode.engines[0]['http']['port']}"
    assert complete(plan, alone) == complete(plan, plan["proxy"]["url"])


@pytest.mark.disturbs
@pytest.mark.parametrize("process", ["vllm serve", "VLLM::EngineCore"])
def test_a_killed_decode_engine_comes_back(plan: dict[str, Any], decode: Service, process: str) -> None:
    """Also when its core dies, upon which vLLM ends with 0: Docker would leave that alone, the launcher does not."""
    started = "docker inspect --format '{{.State.StartedAt}} {{.RestartCount}}' " + decode.container
    before = decode.host.check_output(started)
    pid = next(
        line.split()[0]
        for line in decode.host.check_output("docker top %s -eo pid,args", decode.container).splitlines()
        if process in line and "launch" not in line
    )
    decode.host.check_output("kill -KILL %s", pid)
    deadline = time.monotonic() + READY_SECONDS
    while (after := decode.host.check_output(started)) == before or decode.host.run(
        "curl --silent --fail %s/health", base(decode)
    ).rc:
        assert time.monotonic() < deadline
        time.sleep(2)
    assert int(after.split()[1]) == int(before.split()[1]) + 1
    test_decode_reads_the_kv_cache_of_prefill(plan, decode)
