# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""One bounded way to run a command: the output, or the reason why there is none."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from pathlib import PurePath
from typing import Any, NamedTuple, Sequence

from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._parallel import Deadline

# An SSH session without a login shell often lacks the folders that the Ascend driver installs to.
TOOL_FOLDERS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/sbin", "/usr/bin", "/bin")


# One start at a time. Python does little else meanwhile anyway, and 16 threads that wait for it in turns, call by call,
# would take more CPU time than the starts.
_STARTING = threading.Lock()


class Ran(NamedTuple):
    """What a command did. `reason` is None when it ran and ended with 0."""

    rc: int | None
    stdout: str
    stderr: str
    reason: str | None

    @property
    def output(self) -> str:
        """Both streams: the Ascend tools write their complaints to either."""
        return self.stdout + ("\n" if self.stdout and self.stderr else "") + self.stderr


class Call(NamedTuple):
    """One call, for the timing report. Seconds on the monotonic clock."""

    tool: str
    start: float
    end: float


def find_tool(name: str, folders: Sequence[str] = ()) -> str | None:
    """The path of an executable: in `folders`, then in PATH, then where tools usually are."""
    places = [*folders, *os.environ.get("PATH", "").split(os.pathsep), *TOOL_FOLDERS]
    return shutil.which(name, path=os.pathsep.join(place for place in places if place))


class Runner:
    """Runs commands under one deadline and remembers how long each took."""

    def __init__(self, deadline: Deadline) -> None:
        self.deadline = deadline
        self._calls: list[Call] = []
        self._lock = threading.Lock()

    def run(self, argv: Sequence[str], timeout_s: float = 20.0) -> Ran:
        """Run `argv` (no shell) for at most `timeout_s` seconds; never raises."""
        start = time.monotonic()
        try:
            return _run(list(argv), self.deadline.earlier().within(timeout_s))
        finally:
            with self._lock:
                self._calls.append(Call(PurePath(argv[0]).name, start, time.monotonic()))

    def timing(self) -> dict[str, dict[str, Any]]:
        """Per tool: number of calls, seconds summed over calls, seconds from the first start to the last end."""
        report: dict[str, dict[str, Any]] = {}
        with self._lock:
            calls = list(self._calls)
        for tool in sorted({call.tool for call in calls}):
            mine = [call for call in calls if call.tool == tool]
            report[tool] = {
                "calls": len(mine),
                "busy_s": round(sum(call.end - call.start for call in mine), 3),
                "wall_s": round(max(call.end for call in mine) - min(call.start for call in mine), 3),
            }
        return report


def _run(argv: list[str], timeout_s: float) -> Ran:
    if timeout_s <= 0:
        return Ran(None, "", "", "not run: the time limit of the probe had passed")
    try:
        with _STARTING:
            process = subprocess.Popen(  # pylint: disable=ansible-bad-function  # the core of the probes has no AnsibleModule
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=dict(os.environ, LC_ALL="C", LANG="C"),
                start_new_session=True,  # so that a time-out ends the children of a wrapper script too
            )
    except OSError as error:
        return Ran(None, "", "", f"{argv[0]}: {error.strerror or error}")
    try:
        out, err = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        _end(process)
        return Ran(None, "", "", "{} gave no answer within {:g} s".format(" ".join(argv), round(timeout_s, 1)))
    except (OSError, ValueError) as error:
        _end(process)
        return Ran(None, "", "", "{}: no output could be read: {}".format(" ".join(argv), error))
    stdout, stderr = out.decode("utf-8", "replace"), err.decode("utf-8", "replace")
    reason = None
    if process.returncode != 0:
        reason = "{} ended with {}: {}".format(" ".join(argv), process.returncode, last_line(stderr or stdout))
    return Ran(process.returncode, stdout, stderr, reason)


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=1)
    except (OSError, subprocess.TimeoutExpired):
        pass  # gone already, or stuck inside the driver, where no signal reaches it


def last_line(text: str) -> str:
    """The last line that says something, shortened: what tools end with is what went wrong."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "no output"
