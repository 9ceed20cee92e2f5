# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""One mistake of an inventory, or of a host: told at its place, with what is right, and not what follows from it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import pytest
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils import rules
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.findings import Finding
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.planner import plan
from ansible_collections.vllm_ascend.pd_serving.tests.unit.plugins.plugin_utils.clusters import cluster
from ansible_collections.vllm_ascend.pd_serving.tests.unit.plugins.plugin_utils.rules.clusters import (
    ONE_PAIR,
    V32,
    host_facts,
)

Facts = dict[str, dict[str, Any]]


def facts_of_a_pair(model_path: str = V32["pd_model_path"]) -> Facts:
    return copy.deepcopy({host: host_facts(host, ["p1", "d1"], model_path) for host in ("p1", "d1")})


def judged(
    facts: Facts | None, hosts: Mapping[str, Mapping[str, Any]] | None = None, **variables: Any
) -> list[Finding]:
    """Findings about one pair with these variables, and variables of single hosts."""
    inventory = {host: {**V32, **variables, **((hosts or {}).get(host) or {})} for host in ("p1", "d1")}
    return rules.evaluate(plan(inventory, ONE_PAIR, facts), facts)


def told(findings: list[Finding], *severities: str) -> list[tuple[str, str]]:
    """Rule and host of what is told."""
    return [(one.rule, one.host) for one in findings if one.severity in (severities or ("error",)) and not one.waived]


def the(findings: list[Finding], rule: str) -> Finding:
    (found,) = (one for one in findings if one.rule == rule)
    return found


def test_nothing_is_told_of_a_pair_without_a_mistake() -> None:
    assert told(judged(facts_of_a_pair())) == []


# ---- a gap that site.yml refuses is an error ----


@pytest.mark.parametrize("contacted", [False, True])
def test_a_model_that_is_no_folder_is_an_error_where_sizes_follow_from_it(contacted: bool) -> None:
    relative = {"pd_model_path": "DeepSeek-V3.2-W8A8"}
    facts = facts_of_a_pair() if contacted else None
    findings = judged(facts, **relative)
    assert told(findings) == [("model-path", "")]
    found = the(findings, "model-path")
    assert "(pd_dram_size_per_dp_gb and pd_kv_cache_memory_bytes)" in found.found
    assert found.right == "the absolute path of the folder that holds the weights on every host"
    layout = {"decode_parallel": {"tensor_parallel_size": 64}}
    assert told(judged(facts, **relative, **layout)) == [("layout", "d1"), ("model-path", "")]
    stated = {"pd_dram_size_per_dp_gb": 36, "pd_kv_cache_memory_bytes": 4 << 30}
    assert the(judged(facts, **relative, **stated), "model-path").severity == "warning"


def test_a_waived_cause_leaves_the_gap_to_be_told() -> None:
    facts = facts_of_a_pair()
    for seen in facts.values():
        seen["model"][V32["pd_model_path"]].update(exists=False, config={})
    assert {rule for rule, _host in told(judged(facts))} == {"PD-MODEL-001"}
    waived = judged(facts, pd_waived_rules={"PD-MODEL-001": "it is there"})
    assert told(waived) == [("PD-HOST-012", "d1"), ("PD-HOST-012", "d1")]


# ---- ports ----


def test_a_port_that_everything_binds_clashes_with_an_address_that_is_not_known_yet() -> None:
    clash = [one for one in judged(None, proxy_port=5001, prefill_port=5001) if one.rule == "PD-PORT-001"]
    assert [(one.severity, one.host) for one in clash] == [("error", "p1")]


def test_free_ports_that_are_offered_differ() -> None:
    facts = facts_of_a_pair()
    same = dict.fromkeys(("proxy_port", "prefill_port", "memcache_meta_port", "memcache_config_store_port"), 5001)
    rights = [one.right for one in judged(facts, **same) if one.rule == "PD-PORT-001"]
    assert len(rights) == 6  # pairs of four
    assert len({right.split()[-1] for right in rights}) == 3  # the first stays


# ---- what is right ----


def test_what_sizes_of_a_side_follow_from() -> None:
    inventory, groups = cluster(
        pd_profile="mooncake",
        decode_kv_transfer_config={"kv_connector_extra_config": {"prefill": {"tp_size": 8}, "decode": {"dp_size": 2}}},
    )
    found = [one for one in plan(inventory, groups)["findings"] if one["rule"] == "owned-kv-field"]
    assert {one["found"].split()[2].strip(","): one["right"] for one in found} == {
        "prefill.tp_size": "prefill_parallel and the inventory",
        "decode.dp_size": "decode_parallel and the inventory",
    }


# ---- templates ----


def test_what_cannot_be_templated_is_not_also_missing() -> None:
    """Of a role that is not planned it is nobody's business, nor on a host of no group."""
    inventory = {host: {name: value for name, value in V32.items() if name != "pd_model_path"} for host in ("p1", "d1")}
    why = {"pd_model_path": "'models' is undefined", "engine_port": "'x' is undefined"}
    made = plan({**inventory, "x1": {}}, ONE_PAIR, None, {**dict.fromkeys(inventory, why), "x1": {"pd_nic": "no"}})
    assert [(one["rule"], one["found"]) for one in made["findings"] if one["severity"] == "error"] == [
        ("variable-template", "pd_model_path cannot be templated: 'models' is undefined (on 2 hosts: p1, d1)")
    ]


# ---- two names of one machine ----

SAME, OTHER = {"ansible_host": "192.0.2.10"}, {"ansible_host": "192.0.2.20"}
ADDRESS = {"pd_address": "192.0.2.10"}


@pytest.mark.parametrize(
    ("p1", "d1", "alike"),
    [
        (SAME, SAME, "ansible_host 192.0.2.10"),
        (SAME, {**SAME, "ansible_port": 22}, "ansible_host 192.0.2.10"),
        ({**SAME, **ADDRESS}, {**SAME, **ADDRESS}, "ansible_host 192.0.2.10 and pd_address 192.0.2.10"),
        ({**SAME, **ADDRESS}, {**OTHER, **ADDRESS}, "pd_address 192.0.2.10"),
        ({**SAME, **ADDRESS}, {**SAME, "pd_address": "192.0.2.20"}, "ansible_host 192.0.2.10"),
        (SAME, OTHER, ""),
        (SAME, {**SAME, "ansible_port": 2222}, ""),
        (SAME, {**SAME, "ansible_ssh_common_args": "-J gate"}, ""),
        (*[{**SAME, "ansible_connection": "local"}] * 2, ""),
        ({}, {}, ""),
    ],
    ids=str,
)
@pytest.mark.parametrize("contacted", [False, True])
def test_two_names_of_one_machine_are_one_error(p1: Any, d1: Any, alike: str, contacted: bool) -> None:
    """Whichever address is right is not known until then: what the probe refuses of a copied one is not told."""
    facts = None
    if contacted:
        facts = facts_of_a_pair()
        if alike and d1.get("ansible_host") == p1["ansible_host"]:
            facts["d1"] = copy.deepcopy(facts["p1"])
        elif alike:
            facts["d1"]["nic"].update(serving=None, reasons=["192.0.2.10 is no address of this host"])
    findings = judged(facts, {"p1": p1, "d1": d1})
    assert told(findings) == ([("same-machine", "d1")] if alike else [])
    if alike:
        assert the(findings, "same-machine").found == f"p1 and d1 are one machine: both have {alike}"


def test_other_hosts_are_still_compared() -> None:
    facts = facts_of_a_pair()
    facts["d1"]["nic"] = copy.deepcopy(facts["p1"]["nic"])
    assert told(judged(facts, {"p1": SAME, "d1": OTHER})) == [("PD-NIC-009", "d1")]


# ---- chips ----


def without_chip(facts: Facts, host: str, gone: int) -> Facts:
    """What probes see where a chip has fallen off its bus."""
    npu, hccn = facts[host]["npu"], facts[host]["hccn"]
    npu["device_nodes"].remove(gone)
    npu["chips"] = [chip for chip in npu["chips"] if chip["phy_id"] != gone]
    hccn["chips"] = [chip for chip in hccn["chips"] if chip["phy_id"] != gone]
    return facts


@pytest.mark.parametrize("profile", ["sparse_kv_offload", "mooncake", "mooncake_layerwise"])
def test_a_chip_that_is_gone_is_one_error_at_its_host(profile: str) -> None:
    variables = {"pd_profile": profile, "pd_vllm_args": {"max-model-len": 65536, "block-size": 128}}
    before = judged(facts_of_a_pair(), **variables)
    findings = [one for one in judged(without_chip(facts_of_a_pair(), "p1", 7), **variables) if one not in before]
    assert [(one.rule, one.severity, one.host) for one in findings] == [("PD-NPU-001", "error", "p1")]
    assert findings[0].found == "shows 15 of 16 chips: no /dev/davinci7"


def test_of_a_chip_that_is_left_out_nothing_is_told() -> None:
    stated = {"p1": {"pd_devices": [0, 1, 2, 3, 4, 5, 6, 8]}, "d1": {"pd_devices": list(range(8))}}
    assert told(judged(without_chip(facts_of_a_pair(), "p1", 7), stated)) == told(judged(facts_of_a_pair(), stated))


def test_right_of_a_wrong_list_of_chips_is_a_list() -> None:
    findings = judged(facts_of_a_pair(), {"d1": {"pd_devices": [0, 0, 1, 99]}})
    rights = {one.rule: one.right for one in findings if one.severity == "error"}
    assert rights == {
        "device-list": "different physical chip ids, such as [0, 1, 2, 3]",
        "PD-NPU-001": "chips of 0-15, each once",
    }
