# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""All faces together: whatever one of them does, the answer comes in time and in shape."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils import (
    _containers,
    _faces,
    _hccn,
    _host,
    _model,
    _npu,
    _peers,
    _system,
)
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._docker_api import DockerError
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._parallel import Deadline
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._run import Runner
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._tree import Tree
from hypothesis import given
from hypothesis import strategies as st

OPTIONS: dict[str, Any] = {
    "timeout_s": 10.0,
    "docker_socket": "/nonexistent/docker.sock",
    "peers": [],
    "nic": None,
    "address": None,
    "npu_count_hint": None,
    "ping_hccs": [],
    "ping_roce": [],
    "pings_only": False,
    "paths": ["/etc/hosts"],
    "disk_paths": [],
    "controller_epoch_s": None,
    "model_paths": ["/nonexistent/model"],
}


def test_all_faces_of_an_empty_host(tmp_path: Path) -> None:
    answer = _faces.probe(_faces.FACES, OPTIONS, Tree(str(tmp_path)))
    assert list(answer["facts"]) == ["schema", *_faces.FACES]
    assert all(answer["facts"][face]["reasons"] for face in ("npu", "nic", "hccn", "host"))
    assert answer["facts"]["model"]["/nonexistent/model"]["reasons"]
    assert set(answer["timing"]["faces"]) == set(_faces.FACES)
    json.dumps(answer)


def test_only_what_is_asked_for() -> None:
    assert list(_faces.probe(["model"], {"timeout_s": 10.0, "model_paths": []})["facts"]) == ["schema", "model"]


def test_a_face_that_breaks_or_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_arguments: Any, **_options: Any) -> None:
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr(_host, "gather", broken)
    monkeypatch.setattr(_model, "gather", broken)
    monkeypatch.setattr(_hccn, "gather", lambda *_arguments: time.sleep(30))
    start = time.monotonic()
    facts = _faces.probe(_faces.FACES, {**OPTIONS, "timeout_s": 2.0})["facts"]
    assert time.monotonic() - start < 20
    assert facts["host"] == {
        **_host.empty(),
        "reasons": ["the probe of this face failed: RuntimeError: a mistake of ours"],
    }
    assert facts["hccn"]["reasons"] == ["the probe of this face failed: no answer within the time limit of 2 s"]
    assert facts["model"]["/nonexistent/model"]["exists"] is False
    assert facts["nic"]["interfaces"]


def test_a_host_on_which_every_tool_hangs(
    tool: Callable[[str, str], Path], host: Callable[[dict[str, str]], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each tool has its time limit, the whole has another, and what needs no tool is known all the same."""
    for name in ("npu-smi", "hccn_tool", "systemctl", "iptables", "nft", "ping"):
        tool(name, "exec sleep 300")
    monkeypatch.setattr(_hccn, "TIME_LIMIT_S", 1.0)
    files = {f"/dev/davinci{number}": "" for number in range(16)}
    root = host({**files, "/proc/meminfo": "MemTotal: 8 kB\n", "/sys/module/nf_tables/": ""})
    options = {**OPTIONS, "timeout_s": 3.0, "ping_hccs": ["192.0.2.1"] * 16, "peers": [{"address": "127.0.0.1"}]}
    start = time.monotonic()
    facts = _faces.probe(_faces.FACES, options, Tree(str(root)))["facts"]
    assert time.monotonic() - start < 20
    told = {face: " ".join(facts[face]["reasons"]) for face in ("npu", "nic", "hccn", "host")}
    assert "npu-smi info gave no answer within" in told["npu"]
    assert "hccn_tool -i 0-15 -link -g: " in told["hccn"]
    assert {ping["ok"] for ping in facts["hccn"]["pings"]} == {None}
    assert facts["npu"]["device_nodes"] == list(range(16))
    assert facts["host"]["memory"]["total_bytes"] == 8192
    assert facts["host"]["hostname"]
    assert facts["nic"]["peers"]["127.0.0.1"]["local"]
    assert "the probe of this face failed" not in " ".join(told.values())


@pytest.mark.parametrize(
    ("states", "asked"),
    [("inactive active", False), ("failed active", False), ("active active", True), ("inactive inactive", True)],
)
def test_a_stopped_engine_is_not_started_by_asking(
    tool: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch, states: str, asked: bool
) -> None:
    tool("systemctl", f"echo {states}")
    questions: list[str] = []

    class Api:
        def __init__(self, path: str, **_options: Any) -> None:
            questions.append(path)

        def __getattr__(self, name: str) -> Any:
            raise DockerError("nobody answers")

    monkeypatch.setattr(_faces, "DockerApi", Api)
    options = {**OPTIONS, "docker_socket": "/var/run/docker.sock"}
    seen = _faces._engine(["host"], options, Runner(Deadline(5)))
    assert bool(questions) == asked
    assert seen.engine["reason"]


class Noise(Tree):
    """A host in whose files anything may stand."""

    def __init__(self, draw: Callable[[], str], names: list[str]) -> None:
        super().__init__("/nonexistent")
        self.draw, self.entries = draw, names

    def text(self, path: str, reasons: list[str] | None = None) -> str | None:
        return self.draw()

    def names(self, path: str, reasons: list[str] | None = None) -> list[str]:
        return self.entries

    def exists(self, path: str) -> bool:
        return path.endswith("flags")

    def link(self, path: str) -> str | None:
        return self.draw()


LINES = [
    "MemTotal: 99999999999999 kB", "Hugepagesize: 2048 kB", "processor : 0", "Features : sve", "32768 60999",
    "Node 0, zone Normal 1 2 3 4 5 6 7 8 9 9 9 9", "Node 0, zone Normal, type CMA >100000 2", "127.0.1.1 host",
    "0x1003", "eth0 000200C0 00000000 0001 0 0 100 00FFFFFF", "-1", "772", "socket:[4242]", "VID: 7", "DEVTYPE=vlan",
    "8080,9-7", "0: 0100007F:2134 00000000:0000 0A 0 0 0 0 0 4242", "Version=25.5.1", "http_proxy=http://a:b@c",
    "\0", "²٣", "0" * 400,
]  # fmt: skip
NAMES = ["node0", "davinci3", "eth0", "hugepages-1048576kB", "4242", "config.json", "a.safetensors.index.json", "x"]


@given(st.data())
def test_whatever_stands_in_the_files_of_a_host(data: st.DataObject) -> None:
    pieces = st.lists(st.sampled_from(LINES) | st.text(max_size=8), max_size=3).map("\n".join)
    drawn = data.draw(st.lists(pieces, min_size=1, max_size=12))
    count = itertools.count()
    tree = Noise(lambda: drawn[next(count) % len(drawn)], data.draw(st.lists(st.sampled_from(NAMES), unique=True)))
    with pytest.MonkeyPatch.context() as patch:
        for module in (_hccn, _npu, _peers, _system):
            patch.setattr(module, "find_tool", lambda *_arguments: None)
        facts = _faces.probe(_faces.FACES, {**OPTIONS, "disk_paths": ["/data"]}, tree)["facts"]
    told = [reason for face in ("npu", "nic", "hccn", "host") for reason in facts[face]["reasons"]]
    told += facts["model"]["/nonexistent/model"]["reasons"]
    assert not [reason for reason in told if "Error: " in reason or "failed" in reason]
    json.dumps(facts)


ANSWERS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                [
                    "Id",
                    "Name",
                    "Config",
                    "HostConfig",
                    "State",
                    "Components",
                    "Runtimes",
                    "Driver",
                    "Env",
                    "DriverStatus",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
)


@given(ANSWERS)
def test_odd_answers_of_an_engine_are_data_or_a_reason(answer: Any) -> None:
    class Api:
        def __init__(self, *_arguments: Any, **_options: Any) -> None: ...

        def version(self) -> Any:
            return answer

        info = containers = version

        def inspect(self, _name: str) -> Any:
            return answer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_faces, "DockerApi", Api)
        seen = _faces._engine(["npu"], OPTIONS, Runner(Deadline(5)))
    assert set(seen.engine) == set(_containers.no_engine(None))
    json.dumps(seen)
