# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Upstream's real standard proxy is given other engines while it runs. The engines are what a proxy sees of them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils import _proxy_backends as backends

from tests.lab.harness import Lab, call


class Engine(ThreadingHTTPServer):
    """Answers completions with its own name, and not before `hold` is set."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.place = f"127.0.0.1:{self.server_port}"
        self.running = 0
        self.hold = threading.Event()
        self.hold.set()


class Handler(BaseHTTPRequestHandler):
    server: Engine

    def do_GET(self) -> None:
        running = f'vllm:num_requests_running{{engine="0"}} {self.server.running}.0\n'
        self.reply(running.encode() if self.path == "/metrics" else b"{}")

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.running += 1
        self.server.hold.wait(60)
        self.server.running -= 1
        self.reply(json.dumps({"choices": [{"text": self.server.place}], "usage": {}}).encode())

    def reply(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: Any) -> None: ...


@contextmanager
def serving() -> Iterator[Engine]:
    with Engine() as engine:
        thread = threading.Thread(target=engine.serve_forever)
        thread.start()
        yield engine
        engine.hold.set()
        engine.shutdown()
        thread.join()


def answered_by(url: str) -> str:
    status, body = call(f"{url}/v1/completions", {"model": "m", "prompt": "x", "max_tokens": 1}, timeout=60)
    assert status == 200
    return str(json.loads(body)["choices"][0]["text"])


@pytest.mark.parametrize("release", ["0.22.1rc1", "0.26.0rc1"])
def test_engines_of_a_running_proxy(release: str, lab: Lab) -> None:
    with ExitStack() as stack:
        prefill, first, second = (stack.enter_context(serving()) for _ in range(3))
        url = lab.proxy(lab.host(2), release, "server_example", [prefill.server_port], [first.server_port])
        proxy = backends.Proxy(url)
        assert proxy.backends() == {"prefill": [prefill.place], "decode": [first.place]}
        assert answered_by(url) == first.place

        first.hold.clear()
        answers: list[str] = []
        client = threading.Thread(target=lambda: answers.append(answered_by(url)))
        client.start()
        while not first.running:
            time.sleep(0.05)
        wanted = {"prefill": [prefill.place], "decode": [second.place]}
        with pytest.raises(backends.ProxyError, match=f"{first.place}: still busy"):
            backends.reconcile(proxy, wanted, 4)
        assert [answered_by(url) for _ in range(3)] == [second.place] * 3, "nothing new for the one that leaves"

        first.hold.set()
        backends.reconcile(proxy, wanted, 30)
        client.join()
        assert answers == [first.place], "its last request was answered"
        assert answered_by(url) == second.place
