# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Counts, for bench/rerun, what a run does on each host, and writes it as JSON to the file that BENCH_TASKS names."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: task_count
type: aggregate
short_description: Counts tasks and module calls for each host
description: For bench/rerun.
"""

# Done by the controller alone: they cost it time and the host none.
CONTROLLER = (
    "assert",
    "debug",
    "include_role",
    "include_tasks",
    "meta",
    "pd_plan",
    "set_fact",
    "validate_argument_spec",
)


class CallbackModule(CallbackBase):
    """For each host: tasks that were not skipped, those of them that ran a module there, and modules run in all."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "task_count"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        self.counts: dict[str, dict[str, int]] = {}
        self.items: dict[str, int] = {}

    def _of(self, result: Any) -> tuple[dict[str, int], str, bool]:
        host, task = result._host.get_name(), result._task
        counts = self.counts.setdefault(host, {"tasks": 0, "on_host": 0, "calls": 0, "skipped": 0})
        return counts, host, task.action.rpartition(".")[2] not in CONTROLLER

    def v2_runner_item_on_ok(self, result: Any) -> None:
        _counts, host, there = self._of(result)
        self.items[host] = self.items.get(host, 0) + there

    def v2_runner_on_ok(self, result: Any) -> None:
        counts, host, there = self._of(result)
        items = self.items.pop(host, 0)
        counts["tasks"] += 1
        counts["on_host"] += there
        counts["calls"] += max(items, 1) if there else 0

    def v2_runner_on_skipped(self, result: Any) -> None:
        counts, host, _there = self._of(result)
        self.items.pop(host, None)
        counts["skipped"] += 1

    def v2_playbook_on_stats(self, stats: Any) -> None:
        if os.environ.get("BENCH_TASKS"):
            Path(os.environ["BENCH_TASKS"]).write_text(json.dumps(self.counts), encoding="utf-8")
