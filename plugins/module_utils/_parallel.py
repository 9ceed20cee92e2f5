# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""A time limit shared by all work of one probe, and tasks that run side by side under it."""

from __future__ import annotations

import queue
import threading
import time
from typing import Any, Callable, Hashable, Mapping, NamedTuple, TypeVar

Key = TypeVar("Key", bound=Hashable)
MARGIN = 0.2  # seconds


class Deadline:
    """The moment, on the monotonic clock, at which a probe must answer with what it has."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def remaining(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self._end - time.monotonic())

    def earlier(self) -> Deadline:
        """The deadline for a part of the work, so that the whole can still hand in what the part has."""
        part = Deadline(self.seconds)
        part._end = self._end - MARGIN
        return part

    def within(self, seconds: float) -> float:
        """The smaller of `seconds` and what is left."""
        return min(seconds, self.remaining())


class Outcome(NamedTuple):
    """What became of one task: a value, or the reason why there is none."""

    value: Any
    reason: str | None
    seconds: float


def run_all(tasks: Mapping[Key, Callable[[], Any]], deadline: Deadline, workers: int = 16) -> dict[Key, Outcome]:
    """Run the tasks in at most `workers` threads until all are done or the deadline has passed.

    Threads are daemons: a task stuck in the kernel (a dead NFS server, a driver that does not answer)
    must not keep the module from ending, which the threads of concurrent.futures would do.
    A task that raises gives its exception as the reason: one broken reading never takes the others with it.
    """
    waiting: queue.SimpleQueue[Key] = queue.SimpleQueue()
    for key in tasks:
        waiting.put(key)
    finished: queue.SimpleQueue[tuple[Key, Outcome]] = queue.SimpleQueue()

    def work() -> None:
        while deadline.remaining() > 0:
            try:
                key = waiting.get_nowait()
            except queue.Empty:
                return
            start = time.monotonic()
            try:
                value, reason = tasks[key](), None
            except Exception as error:  # any error of one reading is data about that reading
                value, reason = None, f"{type(error).__name__}: {error}"
            finished.put((key, Outcome(value, reason, time.monotonic() - start)))

    for _thread in range(min(workers, len(tasks))):
        threading.Thread(target=work, daemon=True).start()
    outcomes: dict[Key, Outcome] = {}
    while len(outcomes) < len(tasks):
        try:
            key, outcome = finished.get(timeout=max(0.001, deadline.remaining()))
        except queue.Empty:
            break
        outcomes[key] = outcome
    for key in tasks:
        if key not in outcomes:
            outcomes[key] = Outcome(
                None, f"no answer within the time limit of {deadline.seconds:g} s", deadline.seconds
            )
    return outcomes
