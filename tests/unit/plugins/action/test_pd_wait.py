# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""What pd_wait makes of what it sees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible import constants
from ansible_collections.vllm_ascend.pd_serving.plugins.action import pd_wait

HTTP = {"container": "pd-decode-d1", "ready": {"kind": "http", "url": "http://127.0.0.1:1/health"}}
BUILDER = {"container": "pd-build-vllm", "ready": {"kind": "exited"}}
RUNNING: dict[str, Any] = {
    "container": "pd-decode-d1",
    "exists": True,
    "state": "running",
    "ready": False,
    "reason": "connection refused",
    "exit_code": 0,
    "oom_killed": False,
    "started_at": "2026-11-29T19:43:06Z",
    "restarts": 0,
    "age_s": 10,
    "progress": "weights 45% (73/163 shards)",
    "last_line": "Loading",
    "fatal": [],
    "explanation": ["ValueError: the cause"],
}
BUILDING = {**RUNNING, "container": "pd-build-vllm"}


@pytest.fixture(autouse=True)
def run_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "DEFAULT_LOCAL_TMP", str(tmp_path))


def wait(*services: dict[str, Any], host: str = "d1", timeout_s: int = 60) -> pd_wait.Wait:
    return pd_wait.Wait(host, list(services) or [HTTP], timeout_s, "task")


def test_a_service_that_loads_is_waited_for_until_it_is_ready() -> None:
    waiting = wait()
    assert waiting.judge([RUNNING]) is None
    verdict = waiting.judge([{**RUNNING, "ready": True}])
    assert verdict is not None
    assert "failed" not in verdict


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"state": "exited", "exit_code": 1}, ["ended with exit code 1", "ValueError: the cause"]),
        ({"state": "restarting", "exit_code": 78, "restarts": 1}, ["exit code 78", "restarted (1 times)"]),
        ({"state": "exited", "exit_code": 137, "oom_killed": True}, ["want of memory"]),
        ({"restarts": 1}, ["ended and was restarted"]),
        ({"exists": False, "reason": "there is no container pd-decode-d1"}, ["there is no container"]),
        (
            {"state": "exited", "exit_code": 1, "fatal": [{"line": "x", "meaning": "a port is taken"}]},
            ["port is taken"],
        ),
    ],
)
def test_a_death_is_told_at_once_with_what_explains_it(change: dict[str, Any], words: list[str]) -> None:
    verdict = wait().judge([{**RUNNING, **change}])
    assert verdict is not None
    assert verdict["failed"]
    assert [word for word in words if word not in verdict["msg"]] == []


def test_restarts_of_an_old_container_count_from_the_first_look() -> None:
    old = {**RUNNING, "age_s": 86400, "restarts": 2}
    waiting = wait()
    assert waiting.judge([old]) is None
    assert waiting.judge([{**old, "restarts": 3}]) is not None


def test_a_restart_by_somebody_else_is_a_death_too() -> None:
    waiting = wait()
    assert waiting.judge([RUNNING]) is None
    verdict = waiting.judge([{**RUNNING, "started_at": "2026-11-29T19:50:00Z"}])
    assert verdict is not None
    assert verdict["failed"]


@pytest.mark.parametrize(("exit_code", "ready", "failed"), [(0, True, False), (2, False, True)])
def test_a_builder_ends_well_or_badly(exit_code: int, ready: bool, failed: bool) -> None:
    waiting = wait(BUILDER)
    assert waiting.judge([BUILDING]) is None
    verdict = waiting.judge([{**BUILDING, "state": "exited", "exit_code": exit_code, "ready": ready}])
    assert verdict is not None
    assert bool(verdict.get("failed")) is failed


def test_all_services_of_a_host_are_waited_for() -> None:
    other = {**RUNNING, "container": "pd-proxy"}
    waiting = wait(HTTP, {**HTTP, "container": "pd-proxy"})
    assert waiting.judge([{**RUNNING, "ready": True}, other]) is None
    assert waiting.judge([{**RUNNING, "ready": True}, {**other, "ready": True}]) is not None


def test_the_failure_of_one_host_ends_the_waiting_of_the_others() -> None:
    other = wait(host="d2")
    assert other.judge([RUNNING]) is None
    wait(host="d1").judge([{**RUNNING, "state": "exited", "exit_code": 1}])
    verdict = other.judge([RUNNING])
    assert verdict is not None
    assert "d1 has failed" in verdict["msg"]


def test_time_runs_out() -> None:
    verdict = wait(timeout_s=-1).judge([RUNNING])
    assert verdict is not None
    assert "connection refused" in verdict["msg"]
    assert "weights 45%" in verdict["msg"]
