# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""`ansible-doc` can show every plugin and every role, in full."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .conftest import COLLECTION, ROOT, run

# Action plugins are documented by the module of the same name; ansible-test's action-plugin-docs insists on it.
DOCUMENTED = {"modules": "module", "filter": "filter", "lookup": "lookup", "test": "test", "callback": "callback"}


def plugins() -> list[tuple[str, list[str]]]:
    found = []
    for folder, kind in DOCUMENTED.items():
        names = {path.stem for path in (ROOT / "plugins" / folder).glob("*.*") if path.suffix in (".py", ".yml")}
        if kind == "filter":  # one file may hold many filters; each has documentation of its own
            names = set(json.loads(run("ansible-doc", "--type", kind, "--list", "--json", COLLECTION)))
        if names:
            found.append((kind, sorted(name.rpartition(".")[2] for name in names - {"__init__"})))
    return found


def incomplete(name: str, doc: dict[str, Any]) -> list[str]:
    return [
        f"{name}: no {part}"
        for part, there in {
            "short description": doc.get("doc", {}).get("short_description"),
            "examples": doc.get("examples"),
            "return values": doc.get("return"),
        }.items()
        if not there
    ]


@pytest.mark.parametrize(("kind", "names"), plugins())
def test_plugins(kind: str, names: list[str]) -> None:
    wanted = [f"{COLLECTION}.{name}" for name in names]
    docs = json.loads(run("ansible-doc", "--type", kind, "--json", *wanted))
    assert sorted(docs) == sorted(wanted)
    assert [problem for name, doc in docs.items() for problem in incomplete(name, doc)] == []


def test_roles() -> None:
    wanted = sorted(f"{COLLECTION}.{path.name}" for path in (ROOT / "roles").iterdir() if path.is_dir())
    docs = json.loads(run("ansible-doc", "--type", "role", "--json", *wanted))
    assert sorted(docs) == wanted
    problems = [
        f"{name}: {option or 'the role'} is not described"
        for name, doc in docs.items()
        for option, text in {
            "": doc["entry_points"]["main"].get("short_description"),
            **{key: value.get("description") for key, value in doc["entry_points"]["main"].get("options", {}).items()},
        }.items()
        if not text
    ]
    assert problems == []
