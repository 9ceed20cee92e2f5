# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""How a failed start looks in the log: the process that raised, its traceback, and what its parents make of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from vllm.logger import init_logger

logger = init_logger(__name__)


class EngineCoreFailed(RuntimeError):
    """Raised in the API server when a process below it died."""

    def __init__(self, process: str) -> None:
        super().__init__(
            f"Engine core initialization failed. See root cause above. Failed core proc(s): {{'{process}': 1}}"
        )


class ConfigRefused(ValueError):
    """What pydantic makes of an error raised while VllmConfig is built."""


@contextmanager
def config_stage() -> Iterator[None]:
    """Wraps errors of the configuration stage as pydantic does."""
    try:
        yield
    except (ValueError, AssertionError) as error:
        kind = "Assertion failed" if isinstance(error, AssertionError) else "Value error"
        raise ConfigRefused(
            f"1 validation error for VllmConfig\n  {kind}, {error} [type={kind.split()[0].lower()}_error]"
        ) from error


@contextmanager
def process(name: str) -> Iterator[None]:
    """Errors inside are logged as those of the process called name; the API server only learns that it failed."""
    try:
        yield
    except EngineCoreFailed:
        raise
    except Exception as error:
        message = "WorkerProc failed to start." if name.startswith("Worker") else "EngineCore failed to start."
        logger.error(message, exc_info=error, extra={"process_name": name})
        raise EngineCoreFailed("EngineCore") from None
