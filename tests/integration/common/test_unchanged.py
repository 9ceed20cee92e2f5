# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""A second run and a run in check mode change nothing: what the scenario wrote down before them still holds after."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from .. import lab, snapshot


@pytest.fixture(scope="module")
def before() -> dict[str, dict[str, list[str]]]:
    """The hosts as the first run left them (molecule/shared/side_effect.yml)."""
    if "PD_SNAPSHOT" not in os.environ:
        pytest.skip("run by molecule, between two runs of site.yml")
    taken: dict[str, dict[str, list[str]]] = json.loads(Path(os.environ["PD_SNAPSHOT"]).read_text())
    return taken


def test_second_run_left_everything_alone(hosts: dict[str, Any], before: dict[str, dict[str, list[str]]]) -> None:
    assert snapshot.take(hosts) == before


def test_check_mode_has_nothing_to_change_and_changes_nothing(
    hosts: dict[str, Any], before: dict[str, dict[str, list[str]]]
) -> None:
    changed = lab.changed(lab.ansible_playbook("site.yml", "--check", "--diff"))
    assert set(hosts) <= set(changed)
    assert {host: count for host, count in changed.items() if count} == {}
    assert snapshot.take(hosts) == before
