# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Waivers, crashes, missing facts, versions: how rules are run, whatever they say."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils import rules
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.findings import (
    ERROR,
    INFO,
    NOT_CHECKED,
    WARNING,
    Finding,
    in_order,
)
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.plan_rules import PLAN_RULES
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.rules.context import (
    Context,
    Missing,
    in_range,
    numbers,
    parse_size,
)
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.rules.keys import unknown_keys
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.rules.registry import Rule, rule
from ansible_collections.vllm_ascend.pd_serving.tests.unit.plugins.plugin_utils.rules.clusters import cluster

Problem = rules.Problem


def made(identifier: str, check: Any, severity: str = ERROR, versions: str = "", per: str = "host") -> dict[str, Rule]:
    return {identifier: Rule(identifier, severity, "title", per, "source", versions, "why", check)}


def judge(check: Any, settings: dict[str, Any] | None = None, facts: bool = True, **more: Any) -> rules.Verdict:
    plan, seen = cluster("sparse")
    plan["settings"].update(settings or {})
    return rules.judge(plan, seen if facts else None, made("PD-TEST-001", check, **more))


def bad(ctx: Context, host: str) -> Iterator[Problem]:
    yield Problem("wrong", "right", "mend")


def crash(ctx: Context, host: str) -> Iterator[Problem]:
    yield Problem("before the crash")
    raise KeyError("oops")


def blind(ctx: Context, host: str) -> Iterator[Problem]:
    if ctx.fact(host, "host.memory.nothing_such"):
        yield Problem("never")


def test_waiver_keeps_the_finding_but_stops_nothing() -> None:
    verdict = judge(bad, {"pd_waived_rules": {"PD-TEST-001": "known, ticket 7"}})
    assert {finding.waived for finding in verdict.findings} == {"known, ticket 7"}
    assert len(verdict.findings) == 2 and not verdict.stops
    assert judge(bad).stops


def test_waiver_without_a_reason_is_an_error_itself() -> None:
    verdict = judge(bad, {"pd_waived_rules": {"PD-TEST-001": " "}})
    assert verdict.stops
    assert [f.rule for f in verdict.findings if f.rule.startswith("PD-WAIVE")] == ["PD-WAIVE-001"]
    assert not any(finding.waived for finding in verdict.findings)


def test_waiver_of_nothing_is_noted_with_the_nearest_rule() -> None:
    verdict = judge(bad, {"pd_waived_rules": {"PD-TEST-01": "typo"}})
    note = next(finding for finding in verdict.findings if finding.rule == "PD-WAIVE-002")
    assert (note.severity, note.right) == (INFO, "PD-TEST-001")
    assert note.found == "PD-TEST-01 is waived, but there is no such rule"


@pytest.mark.parametrize("identifier", ["PD-TEST-001", "port-range"])
def test_waiver_of_a_rule_that_found_nothing_is_noted(identifier: str) -> None:
    verdict = judge(lambda ctx, host: iter(()), {"pd_waived_rules": {identifier: "was needed once"}})
    note = next(finding for finding in verdict.findings if finding.rule == "PD-WAIVE-002")
    assert (note.found, note.right) == (f"{identifier} is waived, but found nothing", "no waiver")


@pytest.mark.parametrize(
    ("identifier", "severity", "waivable"),
    [
        *(("unknown-option", ERROR, True), ("port-moved", INFO, True), ("unknown-variable", WARNING, True)),
        *((one, ERROR, False) for one in ("layout", "variable-type", "device-list", "unknown-variable")),
    ],
)
def test_errors_of_the_planner_stand_whatever_is_waived(identifier: str, severity: str, waivable: bool) -> None:
    """But for those after which the plan holds what is stated."""
    plan, facts = cluster("sparse")
    plan["findings"] = [Finding(identifier, severity, "p1", "is odd").as_dict()]
    plan["settings"]["pd_waived_rules"] = {identifier: "meant"}
    verdict = rules.judge(plan, facts)
    assert verdict.stops != waivable
    assert [one.waived for one in verdict.findings if one.rule == identifier] == ["meant" if waivable else ""]
    notes = [one.found for one in verdict.findings if one.rule == "PD-WAIVE-002"]
    assert notes == ([] if waivable else [f"{identifier} is waived, but without mending it there is no plan"])


@pytest.mark.parametrize("wrong", [None, "d1", "p1", ""])
def test_errors_of_a_host_are_pointed_to_where_there_are_some(wrong: str | None) -> None:
    plan, facts = cluster("sparse")
    plan["findings"] = [] if wrong is None else [Finding("layout", ERROR, wrong, "is odd").as_dict()]
    facts["d1"]["host"]["clock"] = None
    note = next(one for one in rules.judge(plan, facts).findings if one.rule == "PD-HOST-003")
    assert ("host's errors here" in note.mend) == (wrong in ("d1", ""))


@pytest.mark.parametrize(("severity", "seen"), [(ERROR, ERROR), (WARNING, WARNING), (INFO, WARNING)])
def test_crash_is_in_the_report_with_the_place(severity: str, seen: str) -> None:
    """A crash of a rule that could have stopped the launch stops it; what it yielded before is not trusted."""
    findings = judge(crash, severity=severity).findings
    assert {finding.severity for finding in findings} == {seen}
    assert all("KeyError: 'oops'" in finding.found and "of crash" in finding.found for finding in findings)
    assert {finding.host for finding in findings} == {"p1", "d1"}


def test_missing_fact_is_not_checked_never_a_pass() -> None:
    verdict = judge(blind)
    assert {(finding.severity, finding.host) for finding in verdict.findings} == {
        (NOT_CHECKED, "p1"),
        (NOT_CHECKED, "d1"),
    }
    assert verdict.passed == ()


def test_before_hosts_are_contacted_one_line_per_rule() -> None:
    verdict = judge(blind, facts=False)
    assert [(finding.severity, finding.host) for finding in verdict.findings] == [(NOT_CHECKED, "")]


def test_rule_out_of_its_versions_is_skipped_not_passed() -> None:
    verdict = judge(bad, versions="<0.26")
    assert (verdict.findings, verdict.passed, verdict.skipped) == ((), (), ("PD-TEST-001",))


@pytest.mark.parametrize("identifier", ["PD-PORT-001", "PORT-900", "PD-port-900"])
def test_ids_are_unique_and_well_formed(identifier: str) -> None:
    with pytest.raises(ValueError, match=identifier):
        rule(identifier, ERROR, "t", per="host", source="s")(bad)


def test_rule_must_say_why() -> None:
    with pytest.raises(ValueError, match="why"):
        rule("PD-TEST-900", ERROR, "t", per="host", source="s")(bad)


def test_order_of_a_report() -> None:
    findings = [Finding(str(n), severity, "", "") for n, severity in enumerate((INFO, NOT_CHECKED, ERROR, WARNING))]
    waived = Finding("w", ERROR, "", "", waived="known")
    assert [f.severity for f in in_order([waived, *findings])] == [ERROR, WARNING, NOT_CHECKED, INFO, ERROR]


@pytest.mark.parametrize(
    ("version", "specifier", "inside"),
    [
        ("0.26.0rc1", ">=0.26", True),
        ("0.25.1rc1", ">=0.26", False),
        ("0.22.1rc1", ">=0.22,<0.25", True),
        ("0.24.0rc1", ">=0.22,<0.25", True),
        ("0.25.0", ">=0.22,<0.25", False),
        ("0.26.0.post1", "<=0.26", True),
        ("1.0", ">0.26", True),
        ("main", ">=0.26", True),
        ("main", ">=0.22,<0.25", False),
    ],
)
def test_version_ranges(version: str, specifier: str, inside: bool) -> None:
    assert in_range(version, specifier) is inside


def test_versions_of_drivers_are_ordered() -> None:
    assert numbers("25.3.rc1") < numbers("25.5.0") < numbers("25.5.1") < numbers("26.0.rc2") < numbers("26.1.1")
    with pytest.raises(ValueError, match="range"):
        in_range("1.0", "~=1.0")


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("10G", 10 << 30),
        ("2.5GB", 5 << 29),
        ("134217728", 1 << 27),
        ("2048kb", 1 << 21),
        ("1TB", 1 << 40),
        ("many", None),
    ],
)
def test_memcache_sizes(text: str, size: int | None) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("key", "near"),
    [("dram_size_per_dp_gb", "dram_size_per_dp_GB"), ("topk_bufer_size", "topk_buffer_size"), ("zzz", None)],
)
def test_unknown_key_comes_with_the_nearest(key: str, near: str | None) -> None:
    assert list(unknown_keys([key, "enabled"], ["enabled", "topk_buffer_size", "dram_size_per_dp_GB"])) == [(key, near)]


def test_unknown_value_of_the_plan_is_missing() -> None:
    plan, facts = cluster("sparse")
    plan["hosts"]["d1"]["address"] = "<unknown: serving address of d1>"
    with pytest.raises(Missing, match="serving address of d1"):
        Context(plan, facts).address("d1")


def test_explanation_has_this_clusters_numbers() -> None:
    plan, facts = cluster("sparse")
    findings = list(rules.judge(plan, facts).findings)
    text = rules.explain("pd-sparse-011", plan, facts, findings)
    for part in ("(132096 tokens / 128) + 1 = 4129", "35.519 GiB", "preempts", "nothing found"):
        assert part in text
    assert "4.500 x 7.812 GiB (pinned)" in rules.explain("PD-SPARSE-012", plan, facts, findings)
    assert "layers share buffers: 42.968 / 15.25 = 2.818 GiB" in rules.explain("PD-MEM-002", plan, facts, findings)
    plan["settings"]["pd_dram_gate"] = "planned"
    assert "pool         = 35.519 GiB of dram_size_per_dp_GB 36, limited by workload" in rules.explain(
        "PD-SPARSE-012", plan, facts, findings
    )
    assert "29181" in rules.explain("PD-PORT-001", plan, facts, findings)
    assert "PD-SPARSE-011" in rules.explain("PD-SPARS-011", plan, facts, findings)
    assert "model-path" in rules.explain("model-pth", plan, facts, findings)
    assert "Applies to vllm-ascend >=0.26" in rules.explain("PD-SPARSE-001", None, None, [])


def test_what_the_planner_finds_is_explained_too() -> None:
    plan, facts = cluster("sparse")
    finding = Finding("port-range", ERROR, "d1", "65530-65545", "up to 65535", "another base")
    text = rules.explain("Port-Range", plan, facts, [finding])
    assert text.startswith("port-range\n") and PLAN_RULES["port-range"] in text and "Source: " in text
    assert "error: d1: 65530-65545" in text


def test_thousand_engines_are_judged_in_a_second() -> None:
    """64 hosts of 16 engines: the report before any contact must not keep people waiting. CPU time: others run too."""
    plan, _ = cluster("halves")
    pattern = next(engine for engine in plan["engines"] if engine["role"] == "decode")
    instance = next(one for one in plan["instances"] if one["name"] == pattern["instance"])
    for number in range(1024):
        host, name = f"h{number // 16}", f"copy-{number}"
        plan["engines"].append({**pattern, "name": name, "host": host, "instance": name, "devices": [number % 16]})
        plan["instances"].append({**instance, "name": name})
        plan["hosts"].setdefault(host, {**plan["hosts"]["d1"], "address": f"198.51.100.{number // 16}"})
    start = time.process_time()
    rules.judge(plan, None)
    assert time.process_time() - start < 1.0
