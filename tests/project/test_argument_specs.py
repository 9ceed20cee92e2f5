# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""The argument specification of every role is in step with its defaults and with the variables that it really reads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jinja2
import jinja2.meta
import pytest
import yaml
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.variables import TRANSFER_DIR, VARIABLES

from .conftest import ROOT

ROLES = sorted(path for path in (ROOT / "roles").glob("*") if path.is_dir())
# Keys of a task whose values are expressions without braces.
EXPRESSIONS = {"when", "that", "until", "changed_when", "failed_when", "var"}
JINJA = jinja2.Environment(extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols"])


class AnyName(dict[str, Any]):
    """Ansible's filters and tests are not known here, and need not be to find the variables."""

    def get(self, name: str, default: Any = None) -> Any:
        return super().get(name, str)


JINJA.filters = AnyName(JINJA.filters)
JINJA.tests = AnyName(JINJA.tests)


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text()) if path.exists() else None


def options(role: Path) -> dict[str, dict[str, Any]]:
    spec: dict[str, dict[str, Any]] = load(role / "meta/argument_specs.yml")["argument_specs"]["main"].get(
        "options", {}
    )
    return spec


def templates(value: Any, key: str = "") -> Iterator[str]:
    """Every Jinja source in a loaded YAML file."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from templates(item, name)
    elif isinstance(value, list):
        for item in value:
            yield from templates(item, key)
    elif isinstance(value, str):
        yield f"{{{{ {value} }}}}" if key in EXPRESSIONS else value


def read_by(role: Path) -> set[str]:
    """Names of all variables that occur in the role's tasks, handlers, defaults, vars and templates."""
    sources: list[str] = []
    for folder in ("tasks", "handlers", "defaults", "vars"):
        for path in (role / folder).glob("**/*.yml"):
            sources += templates(load(path))
    sources += [path.read_text() for path in (role / "templates").glob("**/*") if path.is_file()]
    names: set[str] = set()
    for source in sources:
        names |= jinja2.meta.find_undeclared_variables(JINJA.parse(source))
    return names


def planned(name: str) -> bool:
    """Is it one of the planner's variables (or does it claim to be)?"""
    return name in VARIABLES or name.startswith("pd_")


def set_by(role: Path) -> set[str]:
    """Names that the role's own tasks set: registered results and facts."""
    text = "".join(path.read_text() for path in (role / "tasks").glob("**/*.yml"))
    return set(re.findall(r"^\s*register: (\w+)$", text, re.MULTILINE))


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
class TestRole:
    def test_defaults_are_options(self, role: Path) -> None:
        undocumented = set(load(role / "defaults/main.yml") or {}) - set(options(role))
        assert undocumented == set()

    def test_options_have_a_default_or_are_required_or_the_planners(self, role: Path) -> None:
        defaults = load(role / "defaults/main.yml") or {}
        homeless = {
            name
            for name, option in options(role).items()
            if name not in defaults and name not in VARIABLES and not option.get("required")
        }
        assert homeless == set()

    def test_documented_defaults_are_the_real_ones(self, role: Path) -> None:
        defaults = load(role / "defaults/main.yml") or {}
        wrong = {
            name: (option["default"], defaults.get(name))
            for name, option in options(role).items()
            if "default" in option and option["default"] != defaults.get(name)
        }
        assert wrong == {}

    def test_defaults_are_not_the_planners(self, role: Path) -> None:
        assert {name for name in load(role / "defaults/main.yml") or {} if planned(name)} == set()

    def test_planner_variables_that_it_reads_are_options(self, role: Path) -> None:
        hidden = {name for name in read_by(role) if planned(name)} - set(options(role)) - set_by(role)
        assert hidden == set()

    def test_planner_variables_among_the_options_exist(self, role: Path) -> None:
        assert {name for name in options(role) if name.startswith("pd_")} - set(VARIABLES) == set()


def test_the_planner_knows_the_folder_for_archives() -> None:
    """It has its free space looked at."""
    assert load(ROOT / "roles/container/defaults/main.yml")["container_transfer_dir"] == TRANSFER_DIR
