# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Every rule finds what it is for, and nothing where nothing is wrong."""

from __future__ import annotations

import re

import httpx
import pytest
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._model import CONFIG_FIELDS
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._nic_choice import choose
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._sizing_model import EXPERTS
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils import rules
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.findings import ERROR, INFO, NOT_CHECKED, WARNING
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.planner import plan as make_plan
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.rules import nic
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.variables import ROLE_DEFAULTS, VARIABLES
from ansible_collections.vllm_ascend.pd_serving.tests.unit.plugins.plugin_utils.rules.clusters import (
    CLUSTERS,
    ONE_PAIR,
    V31,
    V32,
    cluster,
    take_chips_away,
)
from ansible_collections.vllm_ascend.pd_serving.tests.unit.plugins.plugin_utils.rules.examples import (
    EXAMPLES,
    MORE,
    UNANSWERED,
    Change,
    Example,
    hung,
    model,
    sparse,
)


def test_every_rule_has_an_example_and_every_example_a_rule() -> None:
    assert sorted(EXAMPLES) == sorted(rules.RULES)


def test_probes_bring_every_name_of_the_number_of_experts() -> None:
    assert set(EXPERTS) <= set(CONFIG_FIELDS)


@pytest.mark.parametrize("identifier", sorted(EXAMPLES))
def test_clean_cluster_gives_no_finding(identifier: str) -> None:
    example = EXAMPLES[identifier]
    plan, facts = cluster(example.cluster)
    if example.quiet is not None:
        example.quiet(plan, facts)
    verdict = rules.judge(plan, facts)
    own = [finding for finding in verdict.findings if finding.rule == identifier]
    above = [finding for finding in own if finding.severity != INFO] if _noted(identifier, example) else own
    assert not above
    assert identifier not in verdict.skipped, "the rule does not even apply to its own example"
    assert all(finding.severity != NOT_CHECKED for finding in own)


def _noted(identifier: str, example: Example) -> bool:
    """Rules that also note what is worth knowing on a clean cluster."""
    return not example.clean or identifier in ("PD-MMC-006", "PD-MEM-002", "PD-CONN-011")


#: What looks like a variable of ours in the advice of a finding.
NAMES = re.compile(r"\b(?:pd|prefill|decode|engine|memcache|memfabric|proxy|container|vllm_build)_[a-z_]+")
UPSTREAMS = {"decode_context_parallel_size", "engine_id", "memcache_hybrid", "memfabric_hybrid"}
CASES = [(name, example) for name in sorted(EXAMPLES) for example in (EXAMPLES[name], *MORE.get(name, ()))]


@pytest.mark.parametrize(("identifier", "example"), CASES, ids=[name for name, _ in CASES])
def test_broken_cluster_gives_the_finding(identifier: str, example: Example) -> None:
    """Fails if the rule is removed, says another host, or another number."""
    plan, facts = cluster(example.cluster)
    example.break_(plan, facts)
    wanted = example.severity or rules.RULES[identifier].severity
    own = [finding for finding in rules.judge(plan, facts).findings if finding.rule == identifier]
    hits = [
        finding
        for finding in own
        if finding.severity == wanted
        and (example.host is None or finding.host == example.host)
        and example.found in finding.found
        and example.right in finding.right
    ]
    assert hits, own
    assert all(finding.source and finding.doc for finding in own)
    assert all(finding.mend for finding in own if finding.severity in (ERROR, WARNING))
    assert "the rule itself failed" not in " ".join(finding.found for finding in own)
    named = {name for finding in own for name in NAMES.findall(finding.mend)}
    assert named - UPSTREAMS <= {*VARIABLES, *ROLE_DEFAULTS}


def with_proxy(monkeypatch: pytest.MonkeyPatch, no_proxy: str) -> str:
    """What httpx itself does about 192.0.2.10 with a proxy in the environment."""
    monkeypatch.setenv("http_proxy", "http://198.51.100.1:3128")
    monkeypatch.setenv("no_proxy", no_proxy)
    try:
        client = httpx.Client()
    except httpx.InvalidURL:
        return "fails"
    direct = client._transport_for_url(httpx.URL("http://192.0.2.10:29180/v1")) is client._transport
    return "direct" if direct else "proxy"


@pytest.mark.parametrize(
    "entry",
    [
        *("*", "192.0.2.10", "192.0.2.0/24", "192.0.2.10/24", "192.0.2.10:80", ".0.2.10", "2.10", ".10", "92.0.2.10"),
        *("192.0.2.*", "192.0.2.", "*.10", "localhost", "a b", "/", ".", "192.0.2.10;192.0.2.11", "2001:db8::10"),
        *("http://192.0.2.10", "https://192.0.2.10", "all://192.0.2.10", "all://", "http://192.0.2.0/24", "x:80"),
        *("[::1]", "::1", "::1/128", "2001:db8::/32", "[2001:db8::1]:80", "a.example:port"),
    ],
)
def test_no_proxy_is_read_as_httpx_reads_it(monkeypatch: pytest.MonkeyPatch, entry: str) -> None:
    own = "fails" if nic.unreadable(entry) else "direct" if nic.goes_around(entry, "192.0.2.10") else "proxy"
    assert own == with_proxy(monkeypatch, entry)


def test_a_size_is_mended_once_and_then_right() -> None:
    """Whatever topk_buffer_size is wrong, what is called right satisfies every rule, also where 2 x index_topk is no
    whole number of blocks.
    """
    for topk in (2048, 2000):
        for wrong in (4100, 1000, 8192, 128):
            plan, facts = cluster("sparse")
            sparse("decode", "topk_buffer_size", wrong)(plan, facts)
            model("d1", "config/index_topk", topk)(plan, facts)
            told = [one for one in rules.judge(plan, facts).findings if "topk_buffer_size is" in title(one.rule)]
            assert {one.right.split(" ")[0] for one in told} == {"4096"}, (topk, wrong)
            sparse("decode", "topk_buffer_size", 4096)(plan, facts)
            assert not [one for one in rules.judge(plan, facts).findings if "topk_buffer_size is" in title(one.rule)]


def title(rule: str) -> str:
    return rules.RULES[rule].title if rule in rules.RULES else ""


def test_guide_1_is_clean() -> None:
    """A complete guide-1 cluster: nothing above a note, and nothing unchecked."""
    plan, facts = cluster("sparse")
    verdict = rules.judge(plan, facts)
    assert [finding for finding in verdict.findings if finding.severity != INFO] == []
    assert not verdict.stops


def test_later_gate_takes_no_more_of_the_host_than_requests_need() -> None:
    """PR #14921: a generous dram_size_per_dp_GB is a limit there, not an allocation."""
    plan, facts = cluster("sparse")
    decode = next(engine for engine in plan["engines"] if engine["role"] == "decode")
    decode["vllm_args"]["additional-config"]["sparse_kv_offload_config"]["dram_size_per_dp_GB"] = 1500
    about = {"PD-MEM-001", "PD-SPARSE-013"}
    assert about <= {finding.rule for finding in rules.judge(plan, facts).findings}
    plan["settings"]["pd_dram_gate"] = "planned"
    assert not about & {finding.rule for finding in rules.judge(plan, facts).findings}


@pytest.mark.parametrize("kind", sorted(CLUSTERS))
def test_no_rule_crashes_and_none_stays_silent_without_facts(kind: str) -> None:
    plan, _ = cluster(kind)
    verdict = rules.judge(plan, None)
    assert "the rule itself failed" not in " ".join(finding.found for finding in verdict.findings)
    unchecked = [finding.rule for finding in verdict.findings if finding.severity == NOT_CHECKED]
    assert len(unchecked) == len(set(unchecked)), "one line per rule before hosts are contacted"
    assert {"PD-NPU-002", "PD-MEM-001", "PD-HOST-001"} <= set(unchecked) | set(verdict.skipped)


def test_one_broken_host_leaves_the_others_checked() -> None:
    plan, facts = cluster("sparse")
    facts["d1"] = {"unreachable": "ssh: connection timed out"}
    facts["p1"]["npu"]["chips"][0]["health"] = "Alarm"
    findings = rules.judge(plan, facts).findings
    assert ("PD-HOST-001", ERROR, "d1") in {(f.rule, f.severity, f.host) for f in findings}
    assert ("PD-NPU-002", ERROR, "p1") in {(f.rule, f.severity, f.host) for f in findings}
    assert ("PD-NPU-002", NOT_CHECKED, "d1") in {(f.rule, f.severity, f.host) for f in findings}


def test_empty_facts_are_never_a_pass() -> None:
    """A probe that learnt nothing leaves every rule that needs it unchecked, not passed."""
    plan, facts = cluster("sparse")
    facts["d1"] = {"schema": 1, "npu": {}, "nic": {}, "hccn": {}, "host": {}, "model": {}}
    findings = rules.judge(plan, facts).findings
    unchecked = {finding.rule for finding in findings if finding.severity == NOT_CHECKED and finding.host == "d1"}
    assert {"PD-NPU-001", "PD-NPU-002", "PD-NIC-002", "PD-PORT-004", "PD-MODEL-002", "PD-HOST-006"} <= unchecked
    assert "the rule itself failed" not in " ".join(finding.found for finding in findings)


def test_a_hung_hccn_tool_is_never_a_pass() -> None:
    plan, facts = cluster("sparse")
    hung(3, 4)(plan, facts)
    verdict = rules.judge(plan, facts)
    told = {finding.rule: (finding.severity, finding.host, finding.found) for finding in verdict.findings}
    assert told["PD-NPU-016"][:2] == (WARNING, "d1")
    assert told["PD-NPU-007"][:2] == (NOT_CHECKED, "d1")
    assert told["PD-NPU-008"][:2] == (NOT_CHECKED, "")
    assert "no TLS switch of chips 3-4" in told["PD-NPU-008"][2]
    # What the other chips show still counts.
    facts["p1"]["hccn"]["chips"][0]["tls"] = True
    facts["d1"]["hccn"]["chips"][0]["link"] = "DOWN"
    places = {finding.rule: (finding.severity, finding.host) for finding in rules.judge(plan, facts).findings}
    assert (places["PD-NPU-007"], places["PD-NPU-008"]) == ((WARNING, "d1"), (ERROR, ""))


@pytest.mark.parametrize(
    ("asked", "found", "mend"),
    [
        ({"nic": "eth7"}, "eth7 was asked for, but there is no such interface", "set pd_nic: enp1s0f0"),
        ({"address": "192.0.2.99"}, "192.0.2.99 was asked for, but no interface has it", "set pd_address: 192.0.2.20"),
    ],
)
def test_what_the_probe_refuses_stops_before_a_build(asked: dict[str, str], found: str, mend: str) -> None:
    _, facts = cluster("sparse")
    seen = facts["d1"]["nic"]
    interfaces = [{**one, "master": None, "members": []} for one in seen["interfaces"]]
    seen["serving"], seen["refused"], cause = choose(interfaces, seen["peers"], None, **asked)
    seen["reasons"].append(cause)
    wrong = {f"pd_{name}": value for name, value in asked.items()}
    plan = make_plan({"p1": V32, "d1": {**V32, **wrong}}, ONE_PAIR, facts)
    errors = [one for one in rules.judge(plan, facts).findings if one.severity == ERROR]
    assert [(one.rule, one.host, one.mend) for one in errors] == [("PD-NIC-002", "d1", mend)]
    assert errors[0].found.startswith(found)


def test_engines_without_chips_are_not_told_what_chips_need() -> None:
    """Profile custom on hosts without NPUs: no mounts of a driver, no devices, no HCCL, no chips to look at."""
    custom = {"pd_profile": "custom", "pd_devices": [], "pd_environment_scripts": [], "pd_nic": "enp1s0f0"}
    custom |= {"pd_vllm_args": {"max-model-len": 4096}, "pd_kv_transfer_config": {"kv_connector": "ExampleConnector"}}
    _, facts = cluster("mooncake")
    take_chips_away(facts)
    plan = make_plan({host: {**V31, **custom} for host in facts}, ONE_PAIR, facts)
    verdict = rules.judge(plan, facts)
    # the model's folder is a quantised one, which vLLM would serve here as it is
    assert {f.rule for f in verdict.findings if f.severity != INFO} == {"PD-MODEL-006"}


@pytest.mark.parametrize(("pod", "mend"), [(3, "hccn_tool -i N -link -g"), (4, "one SuperPod"), (None, "one SuperPod")])
def test_what_the_probe_has_seen_is_not_to_be_checked_again(pod: int | None, mend: str) -> None:
    plan, facts = cluster("sparse")
    UNANSWERED(plan, facts)
    facts["p1"]["npu"]["superpod_id"] = pod
    found = [one.mend for one in rules.judge(plan, facts).findings if one.rule == "PD-NPU-011" and one.host == "d1"]
    assert len(found) == 1 and mend in found[0]


@pytest.mark.parametrize(
    ("change", "mend"),
    [
        (model("d1", "shards/bytes", 2 * 10**12), "spread the instance over more chips"),
        (sparse("decode", "topk_buffer_size", 10**7), "lower topk_buffer_size or max-num-seqs"),
    ],
)
def test_what_is_too_large_for_a_chip_is_what_has_to_change(change: Change, mend: str) -> None:
    plan, facts = cluster("sparse")
    change(plan, facts)
    found = [one for one in rules.judge(plan, facts).findings if one.rule == "PD-MEM-002" and one.severity == ERROR]
    assert [one.mend.startswith(mend) for one in found if one.host == "d1"] == [True]
    assert "gpu-memory-utilization" not in found[0].mend  # which would not help
