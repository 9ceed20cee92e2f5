# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""The Docker Engine API client and what is made of its answers, against a server on a unix socket."""

from __future__ import annotations

import json
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils import _containers
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._docker_api import (
    DockerApi,
    DockerError,
    log_lines,
)
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._parallel import Deadline
from hypothesis import given
from hypothesis import strategies as st

Answers = dict[str, tuple[int, bytes]]

VERSION = {"Version": "27.5.1", "ApiVersion": "1.47", "MinAPIVersion": "1.24", "Components": [{"Name": "Engine"}]}
INFO = {
    "Driver": "overlay2",
    "DockerRootDir": "/data/docker",
    "CgroupDriver": "systemd",
    "Runtimes": {"runc": {}, "ascend": {}},
    "HttpProxy": "http://192.0.2.9:3128",
    "NoProxy": "",
    "RegistryConfig": {"IndexConfigs": {"192.0.2.5:5000": {"Secure": False}, "docker.io": {"Secure": True}}},
}


def inspected(number: str, name: str, **host_config: Any) -> dict[str, Any]:
    return {
        "Id": number,
        "Name": f"/{name}",
        "Image": "sha256:abc",
        "RestartCount": 2,
        "State": {"Status": "running", "Pid": 77, "StartedAt": "2026-01-01T00:00:00Z"},
        "Config": {
            "Image": "vllm:1",
            "Labels": {"pd.service": name},
            "Env": ["SECRET=x", "ASCEND_RT_VISIBLE_DEVICES=4,6-7"],
        },
        "HostConfig": {"Privileged": True, "NetworkMode": "host", **host_config},
    }


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[[Answers], str]]:
    """Serve answers by path (without query) on a unix socket; its path."""
    running: list[socketserver.BaseServer] = []

    def start(answers: Answers) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, body = answers.get(self.path.partition("?")[0], (404, b'{"message":"no such thing"}'))
                if status == 0:
                    time.sleep(5)
                    return
                self.send_response(status)
                self.end_headers()
                self.wfile.write(body)

            def address_string(self) -> str:
                return "unix"

            def log_message(self, *_arguments: Any) -> None:
                pass

        class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
            daemon_threads = True

        place = str(tmp_path / f"s{len(running)}")
        server = Server(place, Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        running.append(server)
        return place

    yield start
    for server in running:
        server.shutdown()
        server.server_close()


def ok(value: Any) -> tuple[int, bytes]:
    return 200, json.dumps(value).encode()


def test_engine_and_containers(serve: Callable[[Answers], str]) -> None:
    by_env, by_device = "a" * 64, "b" * 64
    device = [{"PathOnHost": "/dev/davinci3"}, {"PathOnHost": "/dev/davinci_manager"}]
    place = serve(
        {
            "/version": ok(VERSION),
            "/info": ok(INFO),
            "/containers/json": ok([{"Id": by_env}, {"Id": by_device}, {"Id": "c" * 64}]),  # the last is gone by now
            f"/containers/{by_env}/json": ok(inspected(by_env, "pd-prefill")),
            f"/containers/{by_device}/json": ok(inspected(by_device, "pd-decode", Devices=device)),
        }
    )
    seen = _containers.gather(DockerApi(place), Deadline(10))
    assert seen.reasons == []
    assert seen.engine == {
        "name": "docker",
        "version": "27.5.1",
        "api_version": "1.47",
        "min_api": "1.24",
        "storage_driver": "overlay2",
        "root_dir": "/data/docker",
        "image_dir": "/data/docker",
        "cgroup_driver": "systemd",
        "runtimes": ["ascend", "runc"],
        "insecure_registries": ["192.0.2.5:5000"],
        "reason": None,
    }
    assert set(seen.engine) == set(_containers.no_engine(None))
    assert seen.proxies == {"http_proxy": "http://192.0.2.9:3128"}
    assert [(entry["name"], entry["chips"]) for entry in seen.entries] == [
        ("pd-decode", [3]),
        ("pd-prefill", [4, 6, 7]),
    ]
    assert seen.entries[1] == {
        "id": by_env,
        "name": "pd-prefill",
        "image": "vllm:1",
        "image_id": "sha256:abc",
        "state": "running",
        "started_at": "2026-01-01T00:00:00Z",
        "pid": 77,
        "restart_count": 2,
        "privileged": True,
        "network_mode": "host",
        "labels": {"pd.service": "pd-prefill"},
        "devices": [],
        "chips": [4, 6, 7],
    }


@pytest.mark.parametrize(
    ("containerd", "folder"),
    [
        ("/run/containerd/containerd.sock", "/var/lib/containerd"),
        ("/var/run/docker/containerd/containerd.sock", "/data/docker/containerd/daemon"),
    ],
)
def test_images_that_containerd_keeps(containerd: str, folder: str) -> None:
    info = {
        **INFO,
        "Driver": "overlayfs",
        "DriverStatus": [["driver-type", "io.containerd.snapshotter.v1"]],
        "Containerd": {"Address": containerd},
    }
    assert _containers.describe_engine(VERSION, info)["image_dir"] == folder


def test_refusal(serve: Callable[[Answers], str]) -> None:
    api = DockerApi(serve({"/info": (500, b"oops"), "/version": (200, b"not json"), "/containers/json": ok({})}))
    with pytest.raises(DockerError, match="no such thing") as refused:
        api.inspect("x/../y")
    assert refused.value.status == 404
    for ask, message in ((api.info, "oops"), (api.version, "is not JSON"), (api.containers, "is not a list")):
        with pytest.raises(DockerError, match=message):
            ask()


def test_no_answer(serve: Callable[[Answers], str], tmp_path: Path) -> None:
    with pytest.raises(DockerError, match=r"no answer within 0\.2 s"):
        DockerApi(serve({"/version": (0, b"")}), timeout_s=0.2).version()
    with pytest.raises(DockerError, match="No such file or directory"):
        DockerApi(str(tmp_path / "none")).version()


def test_an_absent_engine_is_data() -> None:
    seen = _containers.gather(DockerApi("/nonexistent/docker.sock"), Deadline(5))
    assert seen.entries == []
    assert seen.engine["reason"] == "/nonexistent/docker.sock: No such file or directory"


@pytest.mark.parametrize(
    ("devices", "env", "chips"),
    [
        # Under the Ascend runtime CANN's variable counts from 0 inside the container.
        ([], ["ASCEND_VISIBLE_DEVICES=8-9", "ASCEND_RT_VISIBLE_DEVICES=0,1"], [8, 9]),
        ([], ["ASCEND_RT_VISIBLE_DEVICES=0,1"], []),
        (["/dev/davinci0", "/dev/davinci15", "/dev/davinci_manager"], [], [0, 15]),
        (["/dev/davinci2"], ["ASCEND_RT_VISIBLE_DEVICES=0"], [2]),  # renumbered inside
        ([], ["ASCEND_VISIBLE_DEVICES=0-2,5"], [0, 1, 2, 5]),
        ([], ["ASCEND_VISIBLE_DEVICES=0-999999999"], list(range(64))),
        ([], ["PATH=/bin", "ASCEND_RT_VISIBLE_DEVICES="], []),
    ],
)
def test_chips_of_a_container(devices: list[str], env: list[str], chips: list[int]) -> None:
    assert _containers.chips_of(devices, env) == chips


def test_a_privileged_container_names_physical_chips() -> None:
    assert _containers.chips_of([], ["ASCEND_RT_VISIBLE_DEVICES=0,1"], privileged=True) == [0, 1]


def frame(stream: int, text: bytes) -> bytes:
    return bytes([stream, 0, 0, 0]) + len(text).to_bytes(4, "big") + text


@pytest.mark.parametrize(
    ("stream", "lines"),
    [
        (frame(1, b"one\ntwo\n") + frame(2, b"three\n"), ["one", "two", "three"]),
        (b"plain\nlines\n", ["plain", "lines"]),
        (frame(1, b"half")[:-2], ["ha"]),
        (b"", []),
    ],
)
def test_log_lines(stream: bytes, lines: list[str]) -> None:
    assert log_lines(stream) == lines


@given(st.binary())
def test_any_bytes_are_some_log(stream: bytes) -> None:
    log_lines(stream)
