# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""The service answers, on the planned ports and addresses."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import pytest

from ..conftest import Service


def listeners(host: Any) -> set[tuple[str, int]]:
    """Address and port of every listening TCP socket."""
    lines = host.check_output("ss --tcp --listening --numeric --no-header").splitlines()
    pairs = [line.split()[3].rsplit(":", 1) for line in lines]
    return {(address.strip("[]").partition("%")[0].replace("*", "0.0.0.0"), int(port)) for address, port in pairs}


def get(host: Any, url: str) -> Any:
    """JSON (or text) that the URL answers with on that host; an error status fails."""
    text = host.check_output("curl --silent --show-error --fail --max-time 30 %s", url)
    return json.loads(text) if text.startswith(("{", "[")) else text


def test_ports(hosts: dict[str, Any], plan: dict[str, Any]) -> None:
    open_ports = {name: listeners(host) for name, host in hosts.items()}
    missing = [
        (port["host"], port["owner"], port["purpose"], port["bind"], number)
        for port in plan["ports"]
        if port["fixed"] and "not bound" not in port["purpose"]
        if port["purpose"] != "HCCL"  # opened for a collective and closed again
        for number in range(port["first"], port["last"] + 1)
        if (port["bind"], number) not in open_ports[port["host"]]
    ]
    assert missing == []


def test_memcache_meta_is_ready(services: list[Service], plan: dict[str, Any]) -> None:
    metas = [service for service in services if service.planned["kind"] == "meta"]
    assert len(metas) == (plan["profile"] == "sparse_kv_offload")
    for service in metas:
        assert get(service.host, service.planned["ready"]["url"])["service_ready"] is True


def test_engines_are_healthy(engines: list[Service]) -> None:
    for service in engines:
        for engine in service.engines:
            if engine["serves_http"]:
                port = engine["http"]["port"]
                get(service.host, f"http://127.0.0.1:{port}/health")
                models = get(service.host, f"http://127.0.0.1:{port}/v1/models")["data"]
                assert [model["id"] for model in models] == [engine["vllm_args"]["served-model-name"]]


@pytest.mark.parametrize("prompt", ["Ascend", "The KV cache of a long prompt " * 40])
def test_proxy_answers(plan: dict[str, Any], prompt: str) -> None:
    """From outside, as a client: prefilled on one side, decoded on the other. Without a proxy, what clients ask."""
    body = {"model": plan["model"]["name"], "prompt": prompt, "max_tokens": 8, "temperature": 0}
    request = urllib.request.Request(
        f"{plan['verify']['url']}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        result = json.load(answer)
    assert result["model"] == plan["model"]["name"]
    assert result["choices"][0]["text"].strip()
    assert 0 < result["usage"]["completion_tokens"] <= 8
