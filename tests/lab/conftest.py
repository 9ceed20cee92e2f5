# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Makes the engine's packages importable and gives each test its own hosts."""

from __future__ import annotations

import fcntl
import sys
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "lab" / "engine"))

from tests.lab.harness import Lab


@pytest.fixture(scope="session")
def loopback() -> Iterator[None]:
    """Engines bind fixed ports of 127.0.0.0/8: a second run on the same machine waits for its turn."""
    with (Path(tempfile.gettempdir()) / "vllm-ascend-pd-tests-lab.lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture
def lab(tmp_path: Path, loopback: None) -> Iterator[Lab]:
    hosts = Lab(tmp_path)
    yield hosts
    hosts.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failure shows the ends of all logs: why an engine ended often stands in its peer's."""
    report = yield
    hosts = getattr(item, "funcargs", {}).get("lab")
    if report.failed and hosts is not None:
        for process in hosts.started:
            report.sections.append((process.log.name, process.text()[-3000:]))
    return report
