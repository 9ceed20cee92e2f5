# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""docs/rules.md follows from the rules."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils import rules

ROOT = Path(__file__).resolve().parents[5]


def test_rules_md_is_current() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "rules_doc", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_rule_can_be_linked_to() -> None:
    text = (ROOT / "docs" / "rules.md").read_text()
    for rule in rules.RULES.values():
        assert f"\n### {rule.id}\n" in text and rule.doc == f"docs/rules.md#{rule.id.lower()}"


def test_every_area_is_a_module_and_every_module_an_area() -> None:
    areas = {identifier.split("-")[1] for identifier in rules.RULES}
    assert areas == set(rules.AREAS)
    for rule in rules.RULES.values():
        modules = rules.AREAS[rule.id.split("-")[1]]
        assert rule.check.__module__ in {module.__name__ for module in modules}
