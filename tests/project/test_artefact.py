# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""The collection as users get it: built, installed without Galaxy, and run by its name from a foreign folder."""

from __future__ import annotations

import os
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml

from .conftest import COLLECTION, ROOT, run

NOT_SHIPPED = {"lab", "tests", "molecule", "bench", "tools", "site.yml", "ansible.cfg", "Makefile", "pyproject.toml"}
PLAYBOOKS = sorted(path.stem for path in (ROOT / "playbooks").glob("*.yml"))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The collection's folder after an offline installation of the freshly built artefact."""
    folder = tmp_path_factory.mktemp("artefact")
    run("ansible-galaxy", "collection", "build", "--output-path", str(folder / "dist"))
    (archive,) = (folder / "dist").glob("*.tar.gz")
    # Not --no-deps: the collections of `tools/setup` have to satisfy the ranges in galaxy.yml.
    path = os.pathsep.join([str(folder / "installed"), str(ROOT / ".cache/collections")])
    run(
        *("ansible-galaxy", "collection", "install", "--offline", str(archive)),
        *("--collections-path", str(folder / "installed")),
        cwd=folder,
        env={"ANSIBLE_COLLECTIONS_PATH": path},
    )
    return folder / "installed/ansible_collections" / COLLECTION.replace(".", "/")


def ansible_playbook(installed: Path, *arguments: str) -> str:
    path = os.pathsep.join([str(installed.parents[2]), str(ROOT / ".cache/collections")])
    return run("ansible-playbook", *arguments, cwd=installed.parents[3], env={"ANSIBLE_COLLECTIONS_PATH": path})


def test_ships_what_users_run_and_nothing_of_the_bench(installed: Path) -> None:
    names = {entry.name for entry in installed.iterdir()}
    assert {"playbooks", "plugins", "roles", "inventories", "meta", "README.md", "LICENSE"} <= names
    assert not names & NOT_SHIPPED
    assert not [name for name in names if name.startswith(".")]
    assert not (installed / "inventories/lab").exists()
    assert not list(installed.rglob("__pycache__"))


def test_what_git_ignores_is_not_packed() -> None:
    """Reports, caches and artefacts lie in a checkout that was worked in."""
    ignored = [line.strip("/") for line in (ROOT / ".gitignore").read_text().split()]
    patterns = yaml.safe_load((ROOT / "galaxy.yml").read_text())["build_ignore"]
    assert [name for name in ignored if not any(fnmatch(name, pattern) for pattern in patterns)] == []


@pytest.mark.parametrize("playbook", PLAYBOOKS)
def test_playbook_runs_by_name_from_a_foreign_folder(installed: Path, playbook: str) -> None:
    inventory = installed / "inventories/sparse_kv_offload"
    tasks = ansible_playbook(installed, f"{COLLECTION}.{playbook}", "--inventory", str(inventory), "--list-tasks")
    assert "TAGS:" in tasks


@pytest.mark.parametrize(
    ("argument", "told"),
    [([], "Which rule"), (["-e", "rule=PD-SPARS-011"], "There is no rule PD-SPARS-011. Near: PD-SPARSE-011")],
)
def test_explain_refuses_what_is_no_rule_before_a_host_is_looked_at(
    tmp_path: Path, argument: list[str], told: str
) -> None:
    here = {"hosts": {"here": {"ansible_connection": "local"}}}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump({"prefill": here, "decode": here, "proxy": here}))
    with pytest.raises(AssertionError, match="ended with 2") as refusal:
        run("ansible-playbook", "playbooks/explain.yml", "--inventory", str(tmp_path), *argument)
    assert told in str(refusal.value)
    assert "Probe this host" not in str(refusal.value)


def test_site_yml_of_a_checkout_is_the_same_playbook() -> None:
    tasks = run("ansible-playbook", "site.yml", "--inventory", "inventories/sparse_kv_offload", "--list-tasks")
    assert "TAGS:" in tasks
