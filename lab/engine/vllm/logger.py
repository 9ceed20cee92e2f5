# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Logging with vLLM's line format: LEVEL MM-DD HH:MM:SS [file:line] message, on stdout."""

from __future__ import annotations

import logging
import sys
from typing import TextIO

_FORMAT = "%(levelname)s %(asctime)s [%(filename)s:%(lineno)d] %(message)s"


class _ProcessFormatter(logging.Formatter):
    """Prefixes every line, also those of tracebacks, with the process it would come from on real hardware."""

    def format(self, record: logging.LogRecord) -> str:
        prefix = getattr(record, "process_prefix", "")
        text = super().format(record)
        return "\n".join(prefix + line for line in text.splitlines()) if prefix else text


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
        handler.setFormatter(_ProcessFormatter(_FORMAT, datefmt="%m-%d %H:%M:%S"))
        root.addHandler(handler)
        root.setLevel(logging.INFO)
        root.propagate = False
    return logging.getLogger(name if name.startswith("vllm.") else f"vllm.{name}")


logger = init_logger("vllm")
