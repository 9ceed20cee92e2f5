# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""How a running proxy is brought to its new engines. That upstream's proxy behaves so: tests/lab, tests/integration."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils import _proxy_backends as backends

P1, D1, D2, D3 = "10.0.0.1:7100", "10.0.0.2:7200", "10.0.0.3:7200", "10.0.0.4:7200"


class FakeProxy:
    """Adds at its next look, 10 s apart; removes then, if nothing is open."""

    def __init__(self, *decode: str, busy_until: float = 0, others_until: float = 0) -> None:
        self.there: dict[str, list[str]] = {"prefill": [P1], "decode": list(decode)}
        self.now, self.busy_until, self.others_until = 0.0, busy_until, others_until
        self.coming: list[str] = []
        self.leaving: list[str] = []
        self.calls: list[tuple[str, list[str]]] = []
        self.refuse = False

    def backends(self) -> dict[str, list[str]]:
        return {side: list(engines) for side, engines in self.there.items()}

    def add(self, side: str, engines: list[str]) -> None:
        self.calls.append(("add", engines))
        self.coming += engines

    def remove(self, side: str, engines: list[str]) -> None:
        assert set(self.there[side]) - set(engines), "the proxy would be without an engine"
        self.calls.append(("remove", engines))
        self.leaving += engines

    def busy(self, engine: str) -> bool:
        return self.now < self.busy_until

    def sleep(self, seconds: float) -> None:
        before, self.now = self.now, self.now + seconds
        if before // 10 != self.now // 10:
            if not self.refuse:
                self.there["decode"] += self.coming
                self.coming = []
            if self.now >= max(self.busy_until, self.others_until):
                self.there["decode"] = [each for each in self.there["decode"] if each not in self.leaving]

    def reconcile(self, *decode: str, drain_s: float = 100) -> None:
        wanted = {"prefill": [P1], "decode": list(decode)}
        backends.reconcile(self, wanted, drain_s, clock=lambda: self.now, sleep=self.sleep)


def test_new_engines_come_before_old_ones_go() -> None:
    proxy = FakeProxy(D1)
    proxy.reconcile(D2, D3)
    assert proxy.calls == [("add", [D2, D3]), ("remove", [D1])]


def test_as_it_should_be_nothing_is_sent() -> None:
    proxy = FakeProxy(D1, D2)
    proxy.reconcile(D2, D1)
    assert proxy.calls == []


def test_an_engine_is_let_finish() -> None:
    proxy = FakeProxy(D1, D2, busy_until=50, others_until=1e9)
    proxy.reconcile(D1)
    # The proxy keeps it listed as long as any request is open anywhere; the engine itself says when it is done.
    assert 50 <= proxy.now < 60


def test_one_that_does_not_finish_is_named() -> None:
    proxy = FakeProxy(D1, D2, busy_until=1e9)
    with pytest.raises(backends.ProxyError, match=rf"{D2}: still busy 100 s"):
        proxy.reconcile(D1)


def test_one_that_the_proxy_does_not_take_is_named_and_none_is_removed() -> None:
    proxy = FakeProxy(D1)
    proxy.refuse = True
    with pytest.raises(backends.ProxyError, match=f"did not take {D2}"):
        proxy.reconcile(D2)
    assert proxy.calls == [("add", [D2])]


@pytest.fixture
def server() -> Iterator[Any]:
    """An HTTP server that answers with `server.answer`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body: bytes = self.server.answer  # type: ignore[attr-defined]
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *arguments: Any) -> None: ...

    made = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


@pytest.mark.parametrize(
    ("metrics", "busy"),
    [
        ('vllm:num_requests_running{engine="0"} 0.0\nvllm:num_requests_waiting{engine="0"} 0.0\n', False),
        ('vllm:num_requests_running{engine="0"} 0.0\nvllm:num_requests_running{engine="1"} 1.0\n', True),
        ('vllm:num_requests_waiting{engine="0"} 2.0\n', True),
        ('vllm:kv_cache_usage_perc{engine="0"} 0.0007\n', True),  # prefilled, and not fetched yet
        ('vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 1.0\n', False),
    ],
)
def test_what_an_engine_has_in_hand(server: Any, metrics: str, busy: bool) -> None:
    server.answer = metrics.encode()
    assert backends.Proxy("http://unused").busy(f"127.0.0.1:{server.server_port}") is busy


def test_an_engine_that_is_gone_is_not_busy() -> None:
    assert not backends.Proxy("http://unused").busy("127.0.0.1:1")


def test_answers_of_the_proxy(server: Any) -> None:
    proxy = backends.Proxy(f"http://127.0.0.1:{server.server_port}/")
    server.answer = json.dumps({"current_prefill_instances": [P1], "current_decode_instances": [D1]}).encode()
    assert proxy.backends() == {"prefill": [P1], "decode": [D1]}
    server.answer = b'{"error": "Instance type \'\' is not supported."}'
    with pytest.raises(backends.ProxyError, match="is not supported"):
        proxy.backends()
    with pytest.raises(backends.Unreachable):
        backends.Proxy("http://127.0.0.1:1").backends()
