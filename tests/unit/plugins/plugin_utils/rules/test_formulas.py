# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Formulas say what their rules find, with the numbers of the cluster in them."""

from __future__ import annotations

import re

import pytest
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils import rules
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.plan_rules import PLAN_RULES
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.rules.context import Context
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.rules.formulas import FORMULAS, numbers
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.rules.registry import WAIVERS
from ansible_collections.vllm_ascend.pd_serving.tests.unit.plugins.plugin_utils.rules.clusters import (
    CLUSTERS,
    GIB,
    cluster,
)
from ansible_collections.vllm_ascend.pd_serving.tests.unit.plugins.plugin_utils.rules.examples import EXAMPLES

#: Formulas that only give numbers: what the rule compares is no single sum.
TELLING = {
    "PD-CONN-005",
    "PD-CONN-013",
    "PD-MEM-003",
    "PD-MEM-004",
    "PD-MEM-008",
    "PD-MMC-003",
    "PD-MMC-005",
    "PD-MMC-014",
    "PD-MODEL-005",
    "PD-PORT-001",
    "PD-PORT-003",
    "PD-PORT-004",
    "PD-PORT-005",
    "PD-PORT-013",
    "PD-PROXY-009",
    "PD-SPARSE-003",
}


def filled(identifier: str, broken: bool) -> str:
    example = EXAMPLES[identifier]
    plan, facts = cluster(example.cluster)
    if example.quiet and not broken:
        example.quiet(plan, facts)
    if broken:
        example.break_(plan, facts)
    return "\n".join(numbers(identifier, Context(plan, facts)))


@pytest.mark.parametrize("identifier", sorted(FORMULAS))
def test_a_formula_agrees_with_its_rule(identifier: str) -> None:
    """Where the rule finds nothing every comparison holds, and where it finds something one does not."""
    clean, broken = filled(identifier, False), filled(identifier, True)
    assert "not known" not in clean + broken and "DOES NOT HOLD" not in clean
    assert clean != broken, "a formula has the numbers of the cluster in it"
    assert ("DOES NOT HOLD" in broken) == (identifier not in TELLING)
    assert (": holds" in clean) or identifier in TELLING


@pytest.mark.parametrize(
    ("identifier", "part"),
    [
        ("PD-MEM-001", "160.0 GiB + 32.0 GiB for the system = 192.0 GiB <= 1400.0 GiB"),
        ("PD-MEM-002", "57.9 usable - 40.2 weights - 3.0 runtime - 4.4 hot = 10.4 GiB"),
        ("PD-SPARSE-011", "4 requests x 1032 (132096 tokens / 128) + 1 = 4129"),
        ("PD-SPARSE-011", "4129 x 128 tokens x 71424 bytes + 0.363 GiB alignment = 35.519 GiB"),
        ("PD-SPARSE-012", "4.500 x 7.812 GiB (pinned) = 35.156 GiB <= dram_size_per_dp_GB 36: holds"),
        ("PD-SPARSE-003", "62 layers x 16 rows x 4096 tokens x 1152 bytes = 4.359 GiB"),
        ("PD-SPARSE-021", "4 requests x (1 + 3 speculative tokens) = 16 <= max-num-batched-tokens 120: holds"),
        ("PD-PORT-002", "20000 to 20000 + 1000 x 16 chips - 1"),
        ("PD-PORT-006", "9000 to 9000 + 2 x 16 ranks - 1 = 9031"),
        ("PD-MMC-012", "132096 tokens x 87296 bytes = 10.740 GiB <= 16 ranks x 10 GiB = 160 GiB: holds"),
        ("PD-NPU-005", "TP 16 x PP 1 x PCP 1 x DP 1 = 16; the instance has 16: holds"),
    ],
)
def test_sums_of_the_worked_example(identifier: str, part: str) -> None:
    plan, facts = cluster("sparse" if identifier != "PD-PORT-002" else "mooncake")
    assert part in "\n".join(numbers(identifier, Context(plan, facts)))


@pytest.mark.parametrize("kind", sorted(CLUSTERS))
@pytest.mark.parametrize("keep", [False, True])
def test_sums_add_up(kind: str, keep: bool) -> None:
    """Context parallelism shares a request's tokens out, and a kept device cache changes what the gate wants."""
    plan, facts = cluster(kind)
    for engine in plan["engines"]:
        offload = engine["vllm_args"].get("additional-config", {}).get("sparse_kv_offload_config")
        if keep and offload:
            offload["keep_device_kv_cache"] = True
    text = "\n".join(numbers("PD-MEM-002", Context(plan, facts)) + numbers("PD-SPARSE-012", Context(plan, facts)))
    sums = re.findall(r"blocks +=.* (\d+) requests x (\d+) .*\+ 1 = (\d+)", text)
    assert sums and all(int(n) * int(each) + 1 == int(total) for n, each, total in sums)
    chips = re.findall(r"on a chip +=.* (\d+) x (\d+) tokens x (\d+) bytes = ([\d.]+) GiB", text)
    assert chips and all(
        int(a) * int(b) * int(c) / GIB == pytest.approx(float(total), abs=1e-3) for a, b, c, total in chips
    )
    gates = re.findall(r"gate +=.* ([\d.]+) x ([\d.]+) GiB \(.*\) = ([\d.]+) GiB", text)
    assert bool(gates) == kind.startswith("sparse")
    assert all(float(a) * float(b) == pytest.approx(float(total), rel=1e-3) for a, b, total in gates)


def test_units_that_are_alike_stand_once_and_hosts_can_be_chosen() -> None:
    plan, facts = cluster("sparse_2p")
    lines = numbers("PD-NPU-005", Context(plan, facts))
    assert lines[0] == "prefill-p1-0, prefill-p2-0, decode-d1-0:" and len(lines) == 2
    assert numbers("PD-NPU-005", Context(plan, facts), {"d1"})[0] == "decode-d1-0:"
    assert numbers("PD-NPU-002", Context(plan, facts)) == []


def test_rules_with_sums_have_a_formula() -> None:
    """Rules that judge by a size or a product; whoever adds one adds its formula."""
    sized = {one for one in rules.RULES if one.startswith("PD-MEM-")} - {"PD-MEM-005"}  # which is about a setting
    sized |= {f"PD-SPARSE-{n:03}" for n in (1, 2, 3, 11, 12, 13, 21)} | {f"PD-MMC-{n:03}" for n in (3, 4, 5, 12, 14)}
    assert sized <= FORMULAS.keys() <= rules.RULES.keys()


def test_odd_facts_break_no_formula() -> None:
    plan, facts = cluster("sparse")
    facts["d1"]["host"]["contiguous"]["free_bytes"] = "plenty"
    assert "not known: ValueError" in "\n".join(numbers("PD-MEM-007", Context(plan, facts)))
    facts["d1"] = {"unreachable": "ssh: timed out"}
    assert "not known: d1 was not reached" in "\n".join(numbers("PD-MEM-007", Context(plan, facts)))


@pytest.mark.parametrize("identifier", sorted([*rules.RULES, *PLAN_RULES, *WAIVERS]))
def test_every_id_is_explained_with_its_source(identifier: str) -> None:
    plan, facts = cluster("sparse")
    text = rules.explain(identifier.lower(), plan, facts, [])
    assert text.startswith(identifier) and "\nSource: " in text and "Documentation: docs/" in text
    why = text.split("\n\n")[1]
    assert len(why) > 45 and max(map(len, why.splitlines())) <= 100
    assert ("With its numbers:" in text) == bool(numbers(identifier, Context(plan, facts)))


def test_a_rule_of_other_versions_is_not_said_to_have_found_nothing() -> None:
    plan, facts = cluster("context_parallel")
    text = rules.explain("PD-SPARSE-001", plan, facts, [])
    assert "not applied: it has vllm-ascend 0.22.1rc1" in text and "nothing found" not in text
