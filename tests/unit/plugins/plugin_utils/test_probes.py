# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Results of probes as facts, and who pings whom."""

from __future__ import annotations

import pytest
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils import probes, rules
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.rules.pings import MOST, askers
from ansible_collections.vllm_ascend.pd_serving.tests.unit.plugins.plugin_utils.rules.clusters import cluster
from hypothesis import given
from hypothesis import strategies as st


def test_a_host_that_gave_no_facts_keeps_the_reason() -> None:
    assert probes.facts_of({"unreachable": True, "msg": "Connection\n timed out"}) == {
        "unreachable": "Connection timed out"
    }


@pytest.mark.parametrize("stream", ["module_stdout", "module_stderr"])
def test_a_module_that_did_not_run_is_told_with_the_end_of_its_output(stream: str) -> None:
    result = {"msg": "MODULE FAILURE\nSee stdout/stderr for the exact error", "module_stdout": "", "module_stderr": "x"}
    told = probes.facts_of({**result, stream: "Traceback:\nsh: python3: not found\n\n"})["unreachable"]
    assert told == "MODULE FAILURE See stdout/stderr for the exact error: sh: python3: not found"
    plain = probes.facts_of({"msg": "the interpreter was not found", "module_stdout": "sh: not found"})
    assert plain["unreachable"] == "the interpreter was not found"


def test_pings_of_a_later_task_join_the_facts() -> None:
    ping = {"phy_id": 0, "method": "hccs", "address": "203.0.113.1", "ok": True, "reason": None}
    result = {"facts": {"hccn": {"chips": [1], "pings": []}}, "timing": {"total_s": 2.0}}
    assert probes.facts_of(result, {"hccn": {"pings": [ping]}}) == {
        "hccn": {"chips": [1], "pings": [ping]},
        "timing": {"total_s": 2.0},
    }
    for nothing in (None, {"skipped": True}, {"failed": True, "msg": "x"}):
        assert probes.facts_of(result, nothing)["hccn"]["pings"] == []


def test_each_chip_pings_one_of_the_other_side_over_hccs() -> None:
    plan, facts = cluster("sparse")
    assert probes.pings(plan, facts)["d1"] == {"hccs": [], "roce": []}  # an answer tells both directions
    wanted = probes.pings(plan, facts)["p1"]
    assert wanted["hccs"] == [chip["vnic"] for chip in facts["d1"]["hccn"]["chips"]]
    assert wanted["roce"] == []


def test_every_chip_of_two_prefill_hosts_is_pinged() -> None:
    plan, facts = cluster("sparse_2p")
    wanted = probes.pings(plan, facts)
    assert {host for host in wanted if wanted[host]["hccs"]} == {"d1"}
    both = [chip["vnic"] for peer in ("p1", "p2") for chip in facts[peer]["hccn"]["chips"]]
    assert wanted["d1"]["hccs"] == both


def test_mooncake_and_instances_over_hosts_ping_over_roce() -> None:
    plan, facts = cluster("data_parallel")
    addresses = {host: {chip["ip"] for chip in seen["hccn"]["chips"]} for host, seen in facts.items()}
    wanted = probes.pings(plan, facts)
    assert not any(of["hccs"] for of in wanted.values())
    asking = {host for host in wanted if wanted[host]["roce"]}
    pinged = {host for host in facts for of in wanted.values() if addresses[host].intersection(of["roce"])}
    assert asking | pinged == set(facts)
    assert len(asking) == 1  # a ping tells both directions


def test_a_ping_that_was_not_made_is_a_check_that_was_not_made() -> None:
    plan, facts = cluster("sparse")
    facts["d1"]["hccn"]["pings"] = facts["p1"]["hccn"]["pings"] = []
    found = [finding for finding in rules.judge(plan, facts).findings if finding.rule == "PD-NPU-011"]
    assert {(finding.severity, finding.host) for finding in found} == {("not checked", "d1"), ("not checked", "p1")}
    assert all("did not ping each other over HCCS" in finding.found for finding in found)


def test_peers_whose_addresses_are_not_known_are_not_pinged() -> None:
    plan, facts = cluster("sparse")
    facts["p1"] = {"unreachable": "timed out"}
    assert probes.pings(plan, facts)["d1"] == {"hccs": [], "roce": []}


def near(*edges: str) -> dict[str, list[str]]:
    """`ab` for two hosts that must reach each other."""
    hosts = sorted({host for edge in edges for host in edge})
    return {host: sorted({other for edge in edges for other in edge if host in edge} - {host}) for host in hosts}


def complete(hosts: str) -> dict[str, list[str]]:
    return {host: [other for other in hosts if other != host] for host in hosts}


def takes_part(graph: dict[str, list[str]], chosen: dict[str, list[str]]) -> bool:
    assert all(set(peers) <= set(graph[host]) and peers for host, peers in chosen.items())
    pinged = {peer for peers in chosen.values() for peer in peers}
    return {host for host, peers in graph.items() if peers} <= pinged | set(chosen)


@pytest.mark.parametrize(
    ("graph", "asking", "expected"),
    [
        (near("ab"), "", {"a": ["b"]}),
        (near("ab"), "b", {"b": ["a"]}),  # it pings already over another way
        (near("ab", "ac", "ad"), "", {"a": ["b", "c", "d"]}),  # one prefill, three decode
        (near("ab", "bc", "cd"), "", {"b": ["a", "c"], "c": ["d"]}),
        (complete("abcdefgh"), "", {"a": ["b", "c", "d", "e"], "b": ["f", "g", "h"]}),
        ({host: list("efgh") if host in "abcd" else list("abcd") for host in "abcdefgh"}, "bf", {
            "b": ["e", "f", "g", "h"], "f": ["a", "c", "d"],
        }),
    ],
)  # fmt: skip
def test_few_hosts_ping_and_everybody_takes_part(
    graph: dict[str, list[str]], asking: str, expected: dict[str, list[str]]
) -> None:
    assert takes_part(graph, expected)
    assert askers(graph, asking) == expected


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=30), st.sets(st.integers(0, 9)))
def test_whatever_the_cluster_everybody_takes_part(pairs: list[tuple[int, int]], asking: set[int]) -> None:
    graph = near(*(f"{one}{other}" for one, other in pairs if one != other))
    chosen = askers(graph, {str(host) for host in asking})
    assert takes_part(graph, chosen)
    assert all(len(peers) <= MOST for peers in chosen.values())
