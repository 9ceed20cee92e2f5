# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Waits for services of one host, shows progress, and ends at once when waiting has become pointless."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from ansible import constants
from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

# A container younger than this was made by this run: any restart of it is a failed start.
FRESH_S = 120
# A lost connection is not a failed service: builders and engines go on by themselves.
UNREACHABLE_GRACE_S = 120
# A line to show life at least this often, seconds; changes are shown as they come.
SHOW_EVERY_S = 30


class ActionModule(ActionBase):
    """See the documentation of the module of this name."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validated, options = self.validate_argument_spec(
            argument_spec={
                "services": {"type": "list", "elements": "dict", "required": True},
                "timeout_s": {"type": "int", "default": 3600},
                "interval_s": {"type": "float", "default": 3.0},
            }
        )
        names = [service["container"] for service in options["services"]]
        if self._task.check_mode:
            return {**result, "skipped": True, "msg": f"check mode: would wait for {', '.join(names)}"}
        wait = Wait(self._host(task_vars or {}), options["services"], options["timeout_s"], self._task._uuid)
        while True:
            verdict = wait.judge(self._look(options["services"], task_vars, wait))
            if verdict is not None:
                return {**result, "changed": False, **verdict}
            time.sleep(options["interval_s"])

    def _host(self, task_vars: dict[str, Any]) -> str:
        return str(task_vars.get("inventory_hostname", "the host"))

    def _look(
        self, services: list[dict[str, Any]], task_vars: dict[str, Any] | None, wait: Wait
    ) -> list[dict[str, Any]]:
        """One call of service_status, tried again while the host cannot be reached."""
        lost_at = None
        while True:
            try:
                answer = self._execute_module(
                    module_name="vllm_ascend.pd_serving.service_status",
                    module_args={"services": services},
                    task_vars=task_vars,
                )
            except AnsibleConnectionFailure:
                lost_at = lost_at or time.monotonic()
                if time.monotonic() - lost_at > UNREACHABLE_GRACE_S:
                    raise
                wait.show("connection lost, trying again (what runs on the host goes on)")
                time.sleep(5)
                continue
            if answer.get("failed"):
                raise AnsibleActionFail(str(answer.get("msg")))
            found: list[dict[str, Any]] = answer["services"]
            return found


class Wait:
    """What has been seen so far, and what it means."""

    def __init__(self, host: str, services: list[dict[str, Any]], timeout_s: int, task: str) -> None:
        self.host = host
        self.kinds = {service["container"]: (service.get("ready") or {}).get("kind", "running") for service in services}
        self.timeout_s = timeout_s
        self.start = time.monotonic()
        self.restarts: dict[str, int] = {}  # per container, when first seen
        self.started_at: dict[str, str] = {}
        self.shown: tuple[float, str] = (self.start, "")
        # The workers of all hosts share the run's folder: one that fails tells the others that waiting is pointless.
        self.failed = Path(constants.DEFAULT_LOCAL_TMP) / f"pd_wait-{task}.failed"

    def judge(self, found: list[dict[str, Any]]) -> dict[str, Any] | None:
        """The result of the task, or None while there is something to wait for."""
        dead = [text for text in map(self.death, found) if text]
        if dead:
            self.failed.write_text(self.host, encoding="utf-8")
            return {"failed": True, "msg": "\n".join(dead), "services": found}
        if all(status["ready"] for status in found):
            return {"services": found, "elapsed_s": round(self.elapsed())}
        if self.failed.exists():
            other = self.failed.read_text(encoding="utf-8")
            return {
                "failed": True,
                "msg": f"{self.host}: no longer waited for, since {other} has failed",
                "services": found,
            }
        if self.elapsed() > self.timeout_s:
            self.failed.write_text(self.host, encoding="utf-8")
            return {"failed": True, "msg": "\n".join(self.late(s) for s in found if not s["ready"]), "services": found}
        self.show("; ".join(self.line(status) for status in found if not status["ready"]))
        return None

    def death(self, status: dict[str, Any]) -> str | None:
        """Why this container will not become ready, None while it may."""
        name = status["container"]
        if not status["exists"]:
            return f"{self.host}: {status['reason']}"
        first = self.restarts.setdefault(name, 0 if status["age_s"] < FRESH_S else status["restarts"])
        was_started_at = self.started_at.setdefault(name, status["started_at"])
        builder = self.kinds[name] == "exited"
        if status["ready"] and (builder or status["started_at"] == was_started_at):
            return None
        ended = status["state"] in ("exited", "dead", "restarting", "removing")
        if builder:
            ended = ended and status["exit_code"] != 0
        if not ended and status["restarts"] <= first and status["started_at"] == was_started_at:
            return None
        how = "was killed for want of memory" if status["oom_killed"] else f"ended with exit code {status['exit_code']}"
        if status["restarts"] > first or status["started_at"] != was_started_at:
            how = f"{how} and was restarted ({status['restarts']} times)" if ended else "ended and was restarted"
        meanings = "".join(f"\n  It means: {known['meaning']}" for known in status["fatal"])
        return f"{self.host}: {name} {how}.{meanings}\n  Its log says:\n" + indent(status["explanation"])

    def late(self, status: dict[str, Any]) -> str:
        return (
            f"{self.host}: {status['container']} is not ready after {self.timeout_s} s: {status['reason']}; "
            f"{status['progress'] or 'no progress seen'}.\n  Its log ends with:\n" + indent(status["explanation"])
        )

    def line(self, status: dict[str, Any]) -> str:
        """What is shown of one service that is not ready: how far it is, why it is not, its last sign of life."""
        how_far = status["progress"] or status["reason"]
        return f"{status['container']}: {how_far} | {status['last_line'][-100:]}"

    def show(self, text: str) -> None:
        """Show a line when it says something new or none was shown for a while."""
        at, last = self.shown
        stage = text.split(" | ")[0]
        if stage != last or time.monotonic() - at > SHOW_EVERY_S:
            self.shown = (time.monotonic(), stage)
            Display().display(f"  [{self.host} {int(self.elapsed())} s] {text}")

    def elapsed(self) -> float:
        return time.monotonic() - self.start


def indent(lines: list[str]) -> str:
    return "\n".join(f"    {line}" for line in lines) if lines else "    (nothing)"
