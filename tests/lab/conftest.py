# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Makes the engine's packages importable and gives each test its own hosts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "lab" / "engine"))

from tests.lab.harness import Lab


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    hosts = Lab(tmp_path)
    yield hosts
    hosts.close()
