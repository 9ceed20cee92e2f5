# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils import _service_status as status
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._docker_api import DockerError

ANSWERS = {
    "/health": (200, ""),
    "/json": (200, json.dumps({"service_ready": True, "status": "ok"})),
    "/later": (200, json.dumps({"service_ready": False})),
    "/odd": (200, "[1]"),
    "/busy": (503, "loading"),
}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        code, body = ANSWERS[self.path]
        # As MetaService 1.2.1 does: who asks for "Connection: close" gets no body.
        text = "" if self.headers.get("Connection") == "close" else body
        self.send_response(code)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http_server:
        thread = threading.Thread(target=http_server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{http_server.server_address[1]}"
        http_server.shutdown()
        thread.join()


META = {"kind": "http", "expect": "json", "key": "service_ready", "value": True}


@pytest.mark.parametrize(
    ("ready", "path", "good", "reason"),
    [
        ({"kind": "http"}, "/health", True, ""),
        ({"kind": "http"}, "/busy", False, "answers 503"),
        (META, "/json", True, ""),
        (META, "/later", False, "service_ready: False"),
        (META, "/odd", False, "without service_ready"),
        ({**META, "value": "ok", "key": "status"}, "/json", True, ""),
    ],
)
def test_answers(server: str, ready: dict[str, Any], path: str, good: bool, reason: str) -> None:
    verdict, why = status.readiness({"state": "running"}, {**ready, "url": server + path})
    assert (verdict, reason in why) == (good, True)


def test_every_url_of_a_service_must_answer(server: str) -> None:
    ready = {"kind": "http", "url": f"{server}/health", "urls": [f"{server}/health", f"{server}/busy"]}
    assert status.readiness({"state": "running"}, ready) == (False, f"{server}/busy answers 503")


def test_a_closed_port_is_a_reason() -> None:
    verdict, why = status.readiness({"state": "running"}, {"kind": "http", "url": "http://127.0.0.1:1/health"})
    assert not verdict
    assert "refused" in why


@pytest.mark.parametrize(
    ("state", "exit_code", "kind", "good"),
    [
        ("running", 0, "running", True),
        ("restarting", 1, "running", False),
        ("exited", 0, "exited", True),
        ("exited", 3, "exited", False),
        ("running", 0, "exited", False),
        ("exited", 0, "http", False),
    ],
)
def test_states(state: str, exit_code: int, kind: str, good: bool) -> None:
    assert status.readiness({"state": state, "exit_code": exit_code}, {"kind": kind, "url": ""})[0] is good


@pytest.mark.parametrize(
    ("line", "progress"),
    [
        (
            "Loading safetensors checkpoint shards:  45% Completed | 73/163 [00:10<00:12,  7.2it/s]",
            "weights 45% (73/163 shards)",
        ),
        ("INFO 11-29 [default_loader.py:391] Loading weights took 12.34 seconds", "weights loaded in 12.34 s"),
        (
            "SparseKVOffloadManager start init CPU KV pool with 36 GB dram per dp group, it might be time consuming",
            "allocating the host KV pool (36 GiB)",
        ),
        ("Capturing CUDA graphs (decode, FULL):  35%|███       | 7/20", "capturing graphs 35%"),
        ("==> install vLLM", "install vLLM"),
        ("nothing of the kind", None),
    ],
)
def test_progress(line: str, progress: str | None) -> None:
    assert status.progress(["==> start", line, "more text"]) == (progress or "start")


def test_lines_are_as_a_terminal_leaves_them() -> None:
    assert status.split_lines(["a 1%\ra 2%\ra 3%\r", "\x1b[31mred\x1b[0m", "plain"]) == ["a 3%", "red", "plain"]


@pytest.mark.parametrize(
    "line",
    [
        "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.",
        "RuntimeError: sparse KV offload received a prefill/mixed batch without keep_device_kv_cache=True; a PD",
        "ERROR MembPull has no destination blocks on D",
        "ValueError: Needed dram size (63.0 GB) is larger than user specified dram size 36",
        "zmq.error.ZMQError: Address already in use (addr='tcp://10.0.1.11:20050')",
        "E50001: EJ0003: bind 60000 failed",
    ],
)
def test_fatal_lines_are_known_and_have_a_meaning(line: str) -> None:
    (found,) = status.fatal(["all is well", line, line])
    assert found["line"] == line
    assert found["meaning"]


def test_nothing_fatal_in_a_good_log() -> None:
    assert status.fatal(["INFO Application startup complete.", "WARNING error correction is off"]) == []


def test_an_explanation_holds_the_cause_and_the_end() -> None:
    log = [f"INFO line {i}" for i in range(300)]
    log[20] = "ValueError: Needed dram size (63.0 GB) is larger than user specified dram size 36"
    log[200] = "RuntimeError: Engine core initialization failed. See root cause above."
    lines = status.explain(log)
    assert lines[0] == log[20]
    assert log[200] in lines
    assert lines[-1] == log[-1]
    assert len(lines) < 20


def test_a_builder_is_explained_by_the_end_of_its_log() -> None:
    log = [
        "==> install vLLM",
        *(f"Collecting {i}" for i in range(100)),
        "ERROR: no matching distribution",
        "==> failed: install vLLM",
    ]
    assert status.explain(log)[-2:] == log[-2:]


class FakeApi:
    """A container engine that knows one container."""

    def __init__(self, **state: Any) -> None:
        self.state = {
            "Status": "running",
            "ExitCode": 0,
            "OOMKilled": False,
            "StartedAt": "2026-11-29T19:43:06.116832251Z",
            **state,
        }

    def inspect(self, name: str) -> dict[str, Any]:
        if name != "pd-decode-d1":
            raise DockerError("no such container", 404)
        return {
            "Id": "c" * 64,
            "Image": "sha256:1",
            "State": self.state,
            "RestartCount": 2,
            "Created": "2026-11-29T19:40:00Z",
            "Config": {"Labels": {"pd.role": "decode"}},
            "Args": ["/etc/vllm-ascend-pd/launch"],
        }

    def logs(self, name: str, tail: int, since: int = 0) -> list[str]:
        earlier = ["EngineDeadError of the start before"]
        return [*([] if since else earlier), "Application startup complete"]


def test_look_tells_lines_of_this_start_from_those_before() -> None:
    seen = status.look(FakeApi(), {"container": "pd-decode-d1"}, 100)  # type: ignore[arg-type]
    assert (seen["ready"], seen["restarts"], seen["fatal"]) == (True, 2, [])
    assert seen["last_line"] == "Application startup complete"


def test_look_at_nothing() -> None:
    seen = status.look(FakeApi(), {"container": "pd-x"}, 100)  # type: ignore[arg-type]
    assert (seen["exists"], seen["ready"], seen["state"]) == (False, False, "absent")


def test_trouble_is_what_is_not_ready_and_what_is_fatal() -> None:
    good = {"container": "pd-x", "ready": True, "reason": "", "fatal": []}
    assert status.trouble(good) == ""
    assert status.trouble({"container": "pd-x", "ready": False, "reason": "there is no container pd-x"}) == (
        "pd-x: there is no container pd-x"
    )
    known = [{"line": "EngineDeadError", "meaning": "the engine core died"}]
    assert status.trouble({**good, "fatal": known}) == "pd-x: the engine core died: EngineDeadError"
