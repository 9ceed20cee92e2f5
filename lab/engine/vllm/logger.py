# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Output as vLLM's processes write it: lines carry the process they come from and, of a message, its header.

One process plays them all here; which one a logger speaks for follows from its module (vllm/utils/system_utils.py
decorate_logs, vllm/logging_utils NewLineFormatter).
"""

from __future__ import annotations

import logging
import os
import sys
from typing import TextIO

_HEADER = "%(levelname)s %(asctime)s [%(filename)s:%(lineno)d] "
# What a module's code would run in, by the longest matching start of its logger's name.
_PROCESSES = {
    "vllm": "APIServer",
    "vllm.vllm.engine": "EngineCore",
    "vllm.vllm.rendezvous": "EngineCore",
    "vllm.vllm_ascend": "Worker_TP0",
    "vllm.vllm_ascend.platform": "APIServer",
    "vllm.vllm_ascend.ascend_config": "APIServer",
}


def process_of(name: str) -> str:
    """The process that a logger speaks for."""
    return _PROCESSES[max((start for start in _PROCESSES if name.startswith(start)), key=len)]


def say(process: str, text: str, stream: TextIO | None = None) -> None:
    """Write lines that are no log records, such as uvicorn's, as a process would."""
    lines = "".join(f"({process} pid={os.getpid()}) {line}\n" for line in text.split("\n"))
    target = stream or sys.stdout
    target.write(lines)
    target.flush()


class _Formatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        process = getattr(record, "process_name", None) or process_of(record.name)
        text = super().format(record)
        header = text[: text.index("] ") + 2]
        return "\n".join(
            f"({process} pid={os.getpid()}) {header if number else ''}{line}"
            for number, line in enumerate(text.split("\n"))
        )


class _Stdout(logging.StreamHandler):  # type: ignore[type-arg]
    """Writes to what sys.stdout is now, not to what it was when the logger was made."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:
        return sys.stdout


def init_logger(name: str) -> logging.Logger:
    """A logger that writes as vLLM does; the same one for the same name."""
    root = logging.getLogger("vllm")
    if not root.handlers:
        handler = _Stdout()
        handler.setFormatter(_Formatter(_HEADER + "%(message)s", datefmt="%m-%d %H:%M:%S"))
        root.addHandler(handler)
        root.setLevel(logging.INFO)
        root.propagate = False
    return logging.getLogger(f"vllm.{name}")


logger = init_logger("vllm")
