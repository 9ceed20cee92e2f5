# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Which engines a running proxy sends to, and how to change that without restarting it.

For upstream's standard proxy (examples/disaggregated_prefill_v1/load_balance_proxy_server_example.py).
"""

from __future__ import annotations

import http.client
import json
import re
import time
import urllib.error
import urllib.request
from typing import Any, Callable

SIDES = ("prefill", "decode")

# The proxy looks at engines that wait to be added every 10 s, three times (--waiting-retry-interval, -retries).
ADD_TIMEOUT_S = 60
# Two idle looks in a row, so that a request on its way from the proxy to the engine is not missed.
IDLE_LOOKS = 2
POLL_S = 2.0

# What an engine has in hand: requests, and KV cache that the other side has not fetched yet.
_BUSY = re.compile(
    r"^vllm:(?:num_requests_running|num_requests_waiting|kv_cache_usage_perc)(?:\{[^}]*\})?\s+(\S+)", re.MULTILINE
)


class ProxyError(Exception):
    """The proxy does not do what it was asked for."""


class Unreachable(ProxyError):
    """Nothing answers at the proxy's address."""


class Proxy:
    """The administrative side of a running proxy."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        # Addresses of the cluster are reached directly, whatever http_proxy says.
        self._open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open

    def backends(self) -> dict[str, list[str]]:
        """Host:port of the engines, by side. Adding nothing is how the proxy can be asked."""
        return self._adjust("add", "decode", [])

    def add(self, side: str, engines: list[str]) -> None:
        self._adjust("add", side, engines)

    def remove(self, side: str, engines: list[str]) -> None:
        """From now on they get no new request; they are gone when the proxy has none open."""
        self._adjust("remove", side, engines)

    def busy(self, engine: str) -> bool:
        """Whether an engine has something in hand. One that does not answer has nothing left to lose."""
        try:
            with self._open(f"http://{engine}/metrics", timeout=10) as answer:
                text = answer.read().decode("utf-8", "replace")
        except (OSError, http.client.HTTPException):
            return False
        return any(float(value) > 0 for value in _BUSY.findall(text))

    def _adjust(self, verb: str, side: str, engines: list[str]) -> dict[str, list[str]]:
        body = json.dumps({"type": side, "instances": engines}).encode()
        request = urllib.request.Request(
            f"{self._url}/instances/{verb}", body, {"Content-Type": "application/json"}, method="POST"
        )
        try:
            with self._open(request, timeout=30) as answer:
                told = json.loads(answer.read().decode())
        except urllib.error.HTTPError as error:
            raise ProxyError(f"{request.full_url} answers {error.code}: is it upstream's standard proxy?") from error
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(f"{request.full_url}: {error}") from error
        except ValueError as error:
            raise ProxyError(f"{request.full_url} answers no JSON") from error
        if "current_decode_instances" not in told:
            raise ProxyError(f"{request.full_url}: {told.get('error', told)}")
        return {name: [str(engine) for engine in told[f"current_{name}_instances"]] for name in SIDES}


def difference(there: dict[str, list[str]], wanted: dict[str, list[str]]) -> dict[str, dict[str, list[str]]]:
    """What is to be added and removed, by side."""
    return {
        side: {
            "add": [engine for engine in wanted[side] if engine not in there[side]],
            "remove": [engine for engine in there[side] if engine not in wanted[side]],
        }
        for side in SIDES
    }


def reconcile(
    proxy: Any,
    wanted: dict[str, list[str]],
    drain_timeout_s: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Give the proxy the wanted engines: new ones first, so that it is never without; then take the others out and
    wait until they have nothing in hand. ProxyError names what did not come about."""
    steps = difference(proxy.backends(), wanted)
    for side in SIDES:
        if steps[side]["add"]:
            proxy.add(side, steps[side]["add"])
    end = clock() + ADD_TIMEOUT_S
    while any(entry["add"] for entry in difference(proxy.backends(), wanted).values()):
        if clock() > end:
            late = [e for entry in difference(proxy.backends(), wanted).values() for e in entry["add"]]
            raise ProxyError(f"the proxy did not take {', '.join(late)}: they do not answer /v1/models from its host")
        sleep(POLL_S)

    leaving = {engine: 0 for side in SIDES for engine in steps[side]["remove"]}  # idle looks in a row
    for side in SIDES:
        if steps[side]["remove"]:
            proxy.remove(side, steps[side]["remove"])
    end = clock() + drain_timeout_s
    while True:
        there = {engine for engines in proxy.backends().values() for engine in engines}
        for engine in leaving:
            leaving[engine] = 0 if proxy.busy(engine) else leaving[engine] + 1
        left = [engine for engine, looks in leaving.items() if engine in there and looks < IDLE_LOOKS]
        if not left:
            return
        if clock() > end:
            raise ProxyError(f"{', '.join(left)}: still busy {drain_timeout_s:g} s after their last new request")
        sleep(POLL_S)
