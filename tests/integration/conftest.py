# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Fixtures of the tests that look at deployed hosts."""

from __future__ import annotations

from typing import Any

import pytest

from . import lab


@pytest.fixture(scope="session")
def inventory() -> dict[str, Any]:
    return lab.inventory()


@pytest.fixture(scope="session")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """testinfra hosts by inventory name."""
    return lab.connect(tmp_path_factory.mktemp("ssh"))
