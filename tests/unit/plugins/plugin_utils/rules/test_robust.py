# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Rules meet what probes really return: parts missing, hosts silent, addresses not yet known."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils import _hccn, _host, _model, _nics, _npu
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils import rules
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.facts import SHAPE, well_formed
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.findings import ERROR, NOT_CHECKED, Finding
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.planner import plan as make_plan
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.report_json import as_json
from ansible_collections.vllm_ascend.pd_serving.tests.unit.plugins.plugin_utils.rules.clusters import (
    CLUSTERS,
    ONE_PAIR,
    V32,
    cluster,
)

ROOT = Path(__file__).resolve().parents[5]
DEPLOYMENTS = ROOT / "tests" / "fixtures" / "deployments"
sys.path.insert(0, str(ROOT))  # tools/ is no package that anybody installs

from tools.deployment_to_inventory import to_inventory  # noqa: E402


def crashes(findings: tuple[Finding, ...]) -> list[str]:
    return [f"{finding.rule}: {finding.found}" for finding in findings if "the rule itself failed" in finding.found]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in nested data."""
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        found += places(item, (*path, key))
    return found


def damage(facts: dict[str, Any], path: tuple[Any, ...], value: Any) -> None:
    target: Any = facts
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value


@pytest.mark.parametrize("kind", ["sparse"])
def test_a_missing_part_is_not_checked_and_never_a_crash(kind: str) -> None:
    """Each fact in turn becomes unknown, as a probe says it: null. No rule crashes over it."""
    plan, facts = cluster(kind)
    # of 16 equal chips one is enough; entries of lists are never null, their fields may be
    paths = [path for path in places(facts["d1"]) if isinstance(path[-1], str) and set(path).isdisjoint(range(1, 99))]
    assert len(paths) > 100
    found = []
    for path in paths:
        _, broken = cluster(kind)
        damage(broken["d1"], path, None)
        found += [(path, crash) for crash in crashes(rules.judge(plan, broken).findings)]
    assert not found


WRONG = ("x", 7, [None], {"a": None})


def test_what_has_another_type_is_unknown_and_never_a_crash() -> None:
    """Each fact in turn is what no probe gives; facts are looked at once, before planner and rules."""
    plan, facts = cluster("sparse")
    paths = [path for path in places(facts["d1"]) if set(path).isdisjoint(range(1, 99))]
    found = []
    for path in paths:
        for wrong in WRONG:
            _, broken = cluster("sparse")
            damage(broken["d1"], path, wrong)
            seen = {host: well_formed(each) for host, each in broken.items()}
            found += [(path, wrong, crash) for crash in crashes(rules.judge(plan, seen).findings)]
            make_plan({host: dict(V32) for host in seen}, ONE_PAIR, seen)
    assert len(paths) > 100 and not found


def test_what_has_another_type_is_told() -> None:
    plan, facts = cluster("sparse")
    facts["d1"]["host"]["memory"]["available_bytes"] = "1400 GiB"
    facts["d1"]["host"]["ephemeral_ports"] = [32768]
    facts["d1"]["host"]["listeners"] += [{"port": "ssh"}, 22]
    seen = {host: well_formed(each) for host, each in facts.items()}
    wrong = [f"host.{name} is nothing that a probe gives" for name in ("memory.available_bytes", "ephemeral_ports")]
    assert {*wrong, *(f"host.listeners{part} is nothing that a probe gives" for part in ("", ".port"))} == set(
        seen["d1"]["host"]["reasons"]
    )
    unchecked = {one.rule for one in rules.judge(plan, seen).findings if one.severity == NOT_CHECKED}
    assert {"PD-MEM-001", "PD-PORT-005"} <= unchecked
    assert len(seen["d1"]["host"]["listeners"]) == len(facts["d1"]["host"]["listeners"]) - 1


@pytest.mark.parametrize("kind", sorted(CLUSTERS))
def test_what_probes_give_passes_as_it_is(kind: str) -> None:
    facts = cluster(kind)[1]
    for seen in facts.values():
        seen["host"]["firewall"]["nft_input"] = [{"family": "inet", "table": "t", "name": "in", "policy": "drop"}]
    empty = {"npu": _npu.empty(), "nic": _nics.empty(), "hccn": _hccn.empty(), "host": _host.empty()}
    for seen in (
        *facts.values(),
        {"schema": 1, **empty, "model": {"/m": _model.empty("timed out")}},
        {"unreachable": "x"},
    ):
        assert well_formed(seen) == seen


@pytest.mark.parametrize("face", ["npu", "nic", "hccn", "host", "model"])
def test_shapes_are_those_that_the_modules_document(face: str) -> None:
    module = importlib.import_module(f"ansible_collections.vllm_ascend.pd_serving.plugins.modules.{face}_info")
    documented = yaml.safe_load(module.RETURN)[face]
    shape = SHAPE[face]
    if face == "model":  # by path
        shape = shape["*"]
    assert not list(contradictions(shape, documented, face))


def contradictions(shape: Any, documented: dict[str, Any], where: str) -> Iterator[str]:
    """Where a shape is not the type that the documentation of a module names."""
    kind, contains = documented.get("type"), documented.get("contains") or {}
    if isinstance(shape, dict):
        if kind != "dict":
            yield f"{where}: {kind}"
        for key, inner in shape.items() if contains else ():
            if key != "*":
                yield from contradictions(inner, contains[key], f"{where}.{key}")
    elif isinstance(shape, (list, tuple)):
        if kind != "list":
            yield f"{where}: {kind}"
        yield from contradictions(shape[0], {"type": documented.get("elements"), "contains": contains}, f"{where}[]")
    elif kind not in (None, shape.__name__):  # of a list of lists the inner type has no place in a documentation
        yield f"{where}: {kind}"


@pytest.mark.parametrize("kind", sorted(CLUSTERS))
def test_probe_that_learnt_nothing(kind: str) -> None:
    """Every face empty, with a reason, in the shape that the probe itself gives."""
    plan, facts = cluster(kind)
    for host in facts:
        faces: dict[str, Any] = {
            "npu": _npu.empty(),
            "nic": _nics.empty(),
            "hccn": _hccn.empty(),
            "host": _host.empty(),
            "model": {plan["model"]["path"]: _model.empty("timed out")},
        }
        for name in ("npu", "nic", "hccn", "host"):
            faces[name]["reasons"] = ["the probe of this face failed: timed out"]
        facts[host] = {"schema": 1, **faces}
    verdict = rules.judge(plan, facts)
    assert not crashes(verdict.findings)
    unchecked = {finding.rule for finding in verdict.findings if finding.severity == NOT_CHECKED}
    assert {"PD-PORT-005", "PD-HOST-008", "PD-NIC-002", "PD-NPU-002"} <= unchecked


def test_what_could_not_be_read_stands_where_the_advice_points() -> None:
    plan, facts = cluster("sparse")
    facts["d1"]["npu"]["reasons"] = ["npu-smi is not installed"]
    facts["d1"]["model"][plan["model"]["path"]]["reasons"] = ["timed out"]
    facts["p1"] = {"unreachable": "no answer"}
    wanted = {"d1": {"npu": ["npu-smi is not installed"], plan["model"]["path"]: ["timed out"]}}
    assert as_json(plan, [], facts=facts)["reasons"] == wanted
    unchecked = [one for one in rules.judge(plan, facts).findings if one.severity == NOT_CHECKED]
    assert unchecked and all("preflight.json, reasons" in one.mend for one in unchecked)


def test_four_values_without_any_probe_give_no_error() -> None:
    """What a first `plan.yml` shows: everything that needs a probe is unchecked, nothing else is wrong."""
    inventory = {host: dict(V32) for host in ("p1", "d1")}
    plan = make_plan(inventory, ONE_PAIR, None)
    verdict = rules.judge(plan, None)
    assert not crashes(verdict.findings)
    assert [finding for finding in verdict.findings if finding.severity == ERROR] == []
    assert "PD-NIC-001" in {finding.rule for finding in verdict.findings if finding.severity == NOT_CHECKED}


@pytest.mark.parametrize("path", sorted(DEPLOYMENTS.glob("*.json")), ids=lambda path: path.stem)
def test_upstreams_own_deployments_give_no_error(path: Path) -> None:
    """They run in upstream's nightly tests: a rule that refuses one of them is wrong."""
    inventory = to_inventory(json.loads(path.read_text()))["all"]
    groups = {name: list(group["hosts"]) for name, group in inventory["children"].items()}
    hosts: dict[str, dict[str, Any]] = {}
    for group in inventory["children"].values():  # a host may be in several
        for host, own in group["hosts"].items():
            known = hosts.setdefault(host, dict(inventory["vars"]))
            known.update({**(group.get("vars") or {}), **(own or {})})
    verdict = rules.judge(make_plan(hosts, groups, None), None)
    assert [finding for finding in verdict.findings if finding.severity == ERROR] == []
