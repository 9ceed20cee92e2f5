# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""What the documentation points to exists: files, tests, rules and variables; and what it shows works."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.planner import plan
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.rules import RULES, judge
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.variables import OWN_PREFIXES, VARIABLES

from .conftest import ROOT

WRITTEN = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("guide-*.md"), *(ROOT / "docs/profiles").glob("*.md")]
PAGES = sorted({*WRITTEN, *(ROOT / "docs").glob("*.md")})
TESTS = {
    name
    for path in (ROOT / "tests").rglob("test_*.py")
    for name in re.findall(r"^ *def (test_\w+)", path.read_text(), re.MULTILINE)
}
ROLE_VARIABLES = {
    name for path in (ROOT / "roles").glob("*/defaults/main.yml") for name in yaml.safe_load(path.read_text()) or {}
}
ROLES = [path.name for path in (ROOT / "roles").iterdir()]


def by_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=by_name)
class TestPage:
    def test_links(self, page: Path) -> None:
        links = re.findall(r"\]\(([^)\s]+)\)", page.read_text())
        local = {link.partition("#")[0] for link in links if "://" not in link}
        assert [link for link in local if link and not (page.parent / link).exists()] == []

    def test_rules(self, page: Path) -> None:
        named = {
            rule for rule in re.findall(r"\bPD-[A-Z]+-\d{3}\b", page.read_text()) if not rule.startswith("PD-WAIVE")
        }
        assert named - set(RULES) == set()


@pytest.mark.parametrize("page", WRITTEN, ids=by_name)
class TestWrittenPage:
    def test_tests(self, page: Path) -> None:
        named = set(re.findall(r"`(test_\w+)(?:\[[^]]*\])?`", page.read_text()))
        assert named - TESTS == set()

    def test_paths(self, page: Path) -> None:
        named = re.findall(
            r"(?<![\w./…])((?:inventories|playbooks|tests|tools|lab|docs|bench)/[\w./-]*\w)", page.read_text()
        )
        assert [path for path in named if not (ROOT / path).exists()] == []

    def test_variables(self, page: Path) -> None:
        words = set(re.findall(r"`(\w+)[:`]", page.read_text()))
        prefixes = (*OWN_PREFIXES, *(f"{role}_" for role in ROLES))
        claimed = {word for word in words if word.startswith(prefixes) and word not in ROLES}
        assert claimed - set(VARIABLES) - ROLE_VARIABLES == set()


def inventories() -> list[tuple[str, str]]:
    """Every inventory that a page shows whole: page and YAML text."""
    return [
        (by_name(page), block)
        for page in WRITTEN
        for block in re.findall(r"```yaml\n(all:.*?)```", page.read_text(), re.DOTALL)
    ]


@pytest.mark.parametrize("shown", inventories(), ids=lambda shown: shown[0])
def test_inventory_of_a_page_is_planned_without_errors(shown: tuple[str, str]) -> None:
    groups = yaml.safe_load(shown[1])
    everywhere = groups.pop("all")["vars"]
    hosts: dict[str, dict[str, Any]] = {}
    for group in groups.values():
        for name, own in group["hosts"].items():
            hosts[name] = {**everywhere, **hosts.get(name, {}), **group.get("vars", {}), **(own or {})}
    made = plan(hosts, {name: list(group["hosts"]) for name, group in groups.items()})
    assert made["engines"]
    assert [finding for finding in judge(made, None).findings if finding.severity == "error"] == []
