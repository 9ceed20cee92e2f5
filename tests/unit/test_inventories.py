# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Every inventory of the collection, as Ansible reads it, gives a plan without an error. No host is contacted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.vars.manager import VariableManager
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils import rules
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.planner import plan
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.variables import VARIABLES

ROOT = Path(__file__).resolve().parents[2]
INVENTORIES = sorted(path for path in (ROOT / "inventories").iterdir() if path.is_dir())


def planned(folder: Path) -> dict[str, Any]:
    loader = DataLoader()
    inventory = InventoryManager(loader=loader, sources=[str(folder)])
    variables = VariableManager(loader=loader, inventory=inventory)
    hosts = {}
    for host in inventory.get_hosts():
        own = variables.get_vars(host=host)
        hosts[host.name] = {name: own[name] for name in own if name in VARIABLES or name == "ansible_host"}
    return plan(hosts, inventory.get_groups_dict())


@pytest.mark.parametrize("folder", INVENTORIES, ids=lambda folder: folder.name)
def test_inventory_is_planned_without_errors(folder: Path) -> None:
    made = planned(folder)
    assert [finding for finding in rules.evaluate(made, None) if finding.severity == "error"] == []
    assert made["engines"]
    assert made["verify"]["url"]


@pytest.mark.parametrize(
    ("name", "engines", "backends"),
    [
        ("sparse_kv_offload", 2, (1, 1)),
        ("mooncake_layerwise", 2, (1, 1)),
        ("context_parallel", 3, (1, 1)),
        ("mooncake", 4, (2, 1)),
        ("external_ranks", 8, (4, 4)),
        ("xpyd", 8, (4, 4)),
        ("aggregated", 2, None),
    ],
)
def test_what_an_inventory_deploys(name: str, engines: int, backends: tuple[int, int] | None) -> None:
    made = planned(ROOT / "inventories" / name)
    assert len(made["engines"]) == engines
    proxy = made["proxy"]
    assert (proxy and (len(proxy["prefill"]), len(proxy["decode"]))) == backends


@pytest.mark.parametrize(
    "folder", sorted((ROOT / "inventories").glob("lab_*/lab.yml")), ids=lambda path: path.parent.name
)
def test_what_runs_on_the_lab_is_the_published_inventory(folder: Path) -> None:
    """Same engines, services and options; where they are, and where images and weights lie, is all that differs."""
    on_lab, published = (planned(ROOT / "inventories" / name) for name in (folder.parent.name, folder.parent.name[4:]))

    def options(made: dict[str, Any]) -> dict[str, Any]:
        places = ("model", "data-parallel-address", "master-addr")
        return {
            engine["name"]: {name: value for name, value in engine["vllm_args"].items() if name not in places}
            for engine in made["engines"]
        }

    assert options(on_lab) == options(published)
    assert [each["name"] for each in on_lab["services"]] == [each["name"] for each in published["services"]]
    assert on_lab["profile"] == published["profile"]
