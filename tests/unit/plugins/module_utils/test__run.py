# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Commands and tasks are bounded, whatever they do."""

from __future__ import annotations

import os
import threading
import time
from functools import partial
from pathlib import Path

import pytest
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils import _run
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._parallel import Deadline, run_all
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._run import Runner
from hypothesis import given
from hypothesis import strategies as st


def test_output_and_exit_code() -> None:
    ran = Runner(Deadline(10)).run(["/bin/sh", "-c", "echo out; echo err >&2; exit 3"])
    assert (ran.rc, ran.stdout, ran.stderr) == (3, "out\n", "err\n")
    assert ran.reason == "/bin/sh -c echo out; echo err >&2; exit 3 ended with 3: err"
    assert ran.output == "out\n\nerr\n"


def test_success_has_no_reason() -> None:
    assert Runner(Deadline(10)).run(["/bin/true"]) == (0, "", "", None)


def test_missing_tool_and_missing_permission(tmp_path: Path) -> None:
    runner = Runner(Deadline(10))
    assert runner.run(["/nonexistent/npu-smi", "info"]).reason == "/nonexistent/npu-smi: No such file or directory"
    file = tmp_path / "tool"
    file.write_text("#!/bin/sh\n")
    assert runner.run([str(file)]).reason == f"{file}: Permission denied"


def test_a_time_out_ends_the_children_too(tmp_path: Path) -> None:
    started = tmp_path / "pid"
    start = time.monotonic()
    ran = Runner(Deadline(10)).run(["/bin/sh", "-c", f"sleep 60 & echo $! > {started}; wait"], timeout_s=0.5)
    assert time.monotonic() - start < 20
    assert ran.rc is None
    assert ran.reason is not None
    assert ran.reason.endswith("gave no answer within 0.5 s")
    child = int(started.read_text())
    for _attempt in range(50):  # until init has reaped it
        state = Path(f"/proc/{child}/stat")
        if not state.exists() or state.read_text().split()[2] == "Z":
            return
        time.sleep(0.05)
    pytest.fail(f"process {child} lives on")


def test_nothing_is_run_after_the_deadline() -> None:
    assert Runner(Deadline(0)).run(["/bin/true"]).reason == "not run: the time limit of the probe had passed"


def test_messages_are_in_english(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    assert Runner(Deadline(10)).run(["/usr/bin/env"]).stdout.count("LC_ALL=C\n") == 1


def test_timing_tells_the_tools_apart() -> None:
    runner = Runner(Deadline(10))
    run_all({number: lambda: runner.run(["/bin/sleep", "0.3"]) for number in range(3)}, runner.deadline)
    runner.run(["/bin/true"])
    timing = runner.timing()
    assert timing["true"]["calls"] == 1
    assert timing["sleep"]["calls"] == 3
    assert timing["sleep"]["busy_s"] >= 0.9 > timing["sleep"]["wall_s"] >= 0.3


def test_find_tool_beyond_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "hccn_tool"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", "/usr/bin")
    assert _run.find_tool("hccn_tool", [str(tmp_path)]) == str(tool)
    monkeypatch.setattr(_run, "TOOL_FOLDERS", (str(tmp_path),))
    assert _run.find_tool("hccn_tool") == str(tool)
    assert _run.find_tool("no-such-tool") is None


@given(st.text())
def test_last_line_of_any_text(text: str) -> None:
    assert _run.last_line(text)
    assert len(_run.last_line(text)) <= 200


def test_one_failing_task_takes_no_other_with_it() -> None:
    outcomes = run_all({"good": lambda: 1, "bad": lambda: 1 // 0}, Deadline(10))
    assert outcomes["good"].value == 1
    assert outcomes["bad"].reason == "ZeroDivisionError: integer division or modulo by zero"


def test_a_task_that_hangs_is_left_behind() -> None:
    forever = threading.Event()
    start = time.monotonic()
    outcomes = run_all({"stuck": forever.wait, "quick": os.getpid}, Deadline(0.5))
    forever.set()
    assert time.monotonic() - start < 20
    assert outcomes["quick"].value == os.getpid()
    assert outcomes["stuck"].reason == "no answer within the time limit of 0.5 s"


def test_more_tasks_than_workers_all_run() -> None:
    outcomes = run_all({number: partial(abs, number) for number in range(100)}, Deadline(10), workers=3)
    assert [outcomes[number].value for number in range(100)] == list(range(100))
