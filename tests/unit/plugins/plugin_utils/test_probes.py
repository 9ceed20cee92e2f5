# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Results of probes as facts, and who pings whom."""

from __future__ import annotations

from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils import probes, rules
from ansible_collections.vllm_ascend.pd_serving.tests.unit.plugins.plugin_utils.rules.clusters import cluster


def test_a_host_that_gave_no_facts_keeps_the_reason() -> None:
    assert probes.facts_of({"unreachable": True, "msg": "Connection\n timed out"}) == {
        "unreachable": "Connection timed out"
    }


def test_pings_of_a_later_task_join_the_facts() -> None:
    ping = {"phy_id": 0, "method": "hccs", "address": "203.0.113.1", "ok": True, "reason": None}
    result = {"facts": {"hccn": {"chips": [1], "pings": []}}, "timing": {"total_s": 2.0}}
    assert probes.facts_of(result, {"hccn": {"pings": [ping]}}) == {
        "hccn": {"chips": [1], "pings": [ping]},
        "timing": {"total_s": 2.0},
    }
    for nothing in (None, {"skipped": True}, {"failed": True, "msg": "x"}):
        assert probes.facts_of(result, nothing)["hccn"]["pings"] == []


def test_decode_pings_each_chip_of_prefill_over_hccs() -> None:
    plan, facts = cluster("sparse")
    assert probes.pings(plan, facts)["p1"] == {"hccs": [], "roce": []}
    wanted = probes.pings(plan, facts)["d1"]
    assert wanted["hccs"] == [chip["vnic"] for chip in facts["p1"]["hccn"]["chips"]]
    assert wanted["roce"] == []


def test_chips_are_shared_out_over_several_peers() -> None:
    plan, facts = cluster("sparse_2p")
    wanted = probes.pings(plan, facts)["d1"]["hccs"]
    assert len(wanted) == 16
    for peer in ("p1", "p2"):
        assert len({chip["vnic"] for chip in facts[peer]["hccn"]["chips"]}.intersection(wanted)) == 8


def test_mooncake_and_instances_over_hosts_ping_over_roce() -> None:
    plan, facts = cluster("data_parallel")
    addresses = {host: {chip["ip"] for chip in seen["hccn"]["chips"]} for host, seen in facts.items()}
    wanted = probes.pings(plan, facts)["d1"]
    assert wanted["hccs"] == []
    assert addresses["p1"].intersection(wanted["roce"]) and addresses["d2"].intersection(wanted["roce"])
    assert not addresses["d1"].intersection(wanted["roce"])


def test_a_ping_that_was_not_made_is_a_check_that_was_not_made() -> None:
    plan, facts = cluster("sparse")
    facts["d1"]["hccn"]["pings"] = []
    found = [finding for finding in rules.judge(plan, facts).findings if finding.rule == "PD-NPU-011"]
    assert [(finding.severity, finding.host) for finding in found] == [("not checked", "d1")]
    assert "chips of p1 were not pinged over HCCS" in found[0].found


def test_peers_whose_addresses_are_not_known_are_not_pinged() -> None:
    plan, facts = cluster("sparse")
    facts["p1"] = {"unreachable": "timed out"}
    assert probes.pings(plan, facts)["d1"] == {"hccs": [], "roce": []}
