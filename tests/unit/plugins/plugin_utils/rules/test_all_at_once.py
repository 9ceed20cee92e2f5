# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""One mistake does not hide another, and none is told twice."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._nic_choice import choose
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils import rules
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.commands import describe
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.findings import Finding
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.planner import plan as make_plan
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.report_json import as_json
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.rules.registry import REPORT
from ansible_collections.vllm_ascend.pd_serving.tests.unit.plugins.plugin_utils.rules.clusters import (
    CLUSTERS,
    host_facts,
)
from ansible_collections.vllm_ascend.pd_serving.tests.unit.plugins.plugin_utils.rules.test_mistakes import (
    judged,
    planned,
)

HALF_NAMED = [{"name": "a", "devices": [0, 1, 2, 3, 4, 5, 6, 7]}, {"nme": "b", "devices": [8, 9]}]
OVERLAPPING = [{"name": "a", "devices": [0, 1, 2, 3, 4, 5, 6, 7]}, {"name": "b", "devices": [7, 8]}]


def told(mistake: dict[str, Any]) -> set[tuple[str, str]]:
    """Rule and host of all that is told of a mistake, beyond what is told without it."""
    before, after = (
        {(one.rule, one.host) for one in judged(each).findings if one.severity in ("error", "warning")}
        for each in ({"cluster": mistake.get("cluster", "sparse")}, mistake)
    )
    return after - before


def offload(config: dict[str, Any]) -> dict[str, Any]:
    return {"additional-config": {"sparse_kv_offload_config": config}}


# ---- an instance that cannot be laid out ----


@pytest.mark.parametrize("kind", ["sparse", "mooncake", "layerwise", "halves", "data_parallel"])
@pytest.mark.parametrize("host", ["p1", "d1"])
@pytest.mark.parametrize(
    ("broken", "cause"),
    [
        ({"pd_devices": [0, 0, 1]}, "device-list"),
        ({"ROLE_parallel": {"tensor_parallel_size": "many"}}, "layout"),
        ({"pd_data_parallel_size_local": 7}, "layout"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_broken_layout_hides_nothing_and_entails_nothing(
    kind: str, host: str, broken: dict[str, Any], cause: str
) -> None:
    role = {"p": "prefill", "d": "decode"}[host[0]]
    own = {name.replace("ROLE", role): value for name, value in broken.items()}
    args = {f"{role}_vllm_args": {"nonsense": 1, "seed": 3}, f"{role}_env": {"PYTHONHASHSEED": "7", "A": "$B"}}
    alone = {rule for rule, _host in told({"cluster": kind, host: args})}
    assert {"unknown-option", "environment"} < alone
    shared = kind == "data_parallel" and host == "d1" and "ROLE_parallel" in broken  # the other host states sizes too
    with_it = {rule for rule, _host in told({"cluster": kind, host: {**args, **own}})}
    assert with_it == alone | {cause} | ({"instance-differs"} if shared else set())


@pytest.mark.parametrize(
    ("own", "causes"),
    [
        ({"decode_instances": HALF_NAMED}, {"instance-entry"}),
        ({"decode_instances": OVERLAPPING}, {"device-list"}),
        ({"decode_instances": ["a", "b"]}, {"instance-entry"}),
    ],
)
def test_a_broken_entry_hides_nothing_and_entails_nothing(own: dict[str, Any], causes: set[str]) -> None:
    stated = {**own, "decode_vllm_args": {"nonsense": 1, "max-num-seqs": 0}}
    assert told({"cluster": "halves", "d1": stated}) == {
        (rule, "d1") for rule in {*causes, "unknown-option", "PD-ARG-003"}
    }


@pytest.mark.parametrize("contact", [True, False])
def test_sizes_without_a_layout_are_not_guessed(contact: bool) -> None:
    mistake = {"contact": contact, "d1": {"decode_parallel": {"tensor_parallel_size": 32}}}
    plan, facts = planned(mistake)
    assert plan["instances"][1]["parallel"] is None
    assert plan["engines"][1]["vllm_args"]["tensor-parallel-size"] == "<unknown: layout of decode-d1>"
    findings = judged(mistake).findings
    unchecked = {one.rule: one for one in findings if "the layout of decode-d1 is not known" in one.found}
    assert {one.severity for one in unchecked.values()} == {"not checked"}
    assert unchecked["PD-SPARSE-006"].mend == "mend the layout"
    assert ("PD-MEM-002" in unchecked) == contact
    assert "<unknown: layout of decode-d1>" in describe(plan)
    assert as_json(plan, findings, facts=facts)["ready"] is False


def test_all_that_is_wrong_with_sizes_is_told() -> None:
    stated = {"tp": 8, "data_parallel_mode": "extern", "pipeline_parallel_size": "x", "data_parallel_size": 0}
    findings = judged({"d1": {"decode_parallel": stated}}).findings
    assert {one.found.removeprefix("decode-d1: ") for one in findings if one.rule == "layout"} == {
        "unknown parallel size tp",
        "there is no data_parallel_mode 'extern'",
        "pipeline_parallel_size is 'x'",
        "data_parallel_size is 0",
    }


def test_instances_with_a_layout_are_compared_before_one_without() -> None:
    """Neither the first instance nor the whole rule ends at it."""
    groups = {"prefill": ["p1", "p2", "p3"], "decode": ["d1", "d2"], "proxy": ["p1"]}
    shared = {key: value for key, value in CLUSTERS["mooncake"][1].items() if key != "per_host"}
    inventory: dict[str, dict[str, Any]] = {host: dict(shared) for host in ("p1", "p2", "p3", "d1", "d2")}
    inventory["p1"]["prefill_parallel"] = inventory["d1"]["decode_parallel"] = {"tensor_parallel_size": 99}
    inventory["p3"]["prefill_parallel"] = {"tensor_parallel_size": 8}
    verdict = rules.judge(make_plan(inventory, groups), None)
    assert next((one.severity, one.found) for one in verdict.findings if one.rule == "PD-CONN-005") == (
        "error",
        "prefill TP 8, decode TP 16",
    )


# ---- what nothing comes to read ----


def test_a_value_that_nothing_reads_is_judged_too() -> None:
    stated = {"pd_topk_buffer_size": "many", "engine_port": "theirs"}
    assert told({"cluster": "mooncake", "d1": stated}) == {("variable-type", "d1")}


def test_a_misspelt_profile_entails_nothing() -> None:
    """Sparse KV offload, the default, would not go with this model."""
    findings = judged({"cluster": "mooncake", "all": {"pd_profile": "mooncacke"}}).findings
    assert {(one.rule, one.mend) for one in findings if one.severity == "error"} == {
        ("variable-choice", "write mooncake")
    }


# ---- instances over several hosts ----

TWO_AND_TWO = {"prefill": ["p1", "p2"], "decode": ["d1", "d2"], "proxy": ["p1"]}
SHARED = {"data_parallel_size": 4, "tensor_parallel_size": 8}


def over_hosts(per_host: dict[str, dict[str, Any]] | None = None, **variables: Any) -> list[tuple[str, str, str]]:
    """Rule, host and found of what is told of one instance of each role over two hosts."""
    base = {key: value for key, value in CLUSTERS["mooncake"][1].items() if key != "per_host"}
    sizes = {"prefill_parallel": SHARED, "decode_parallel": SHARED}
    inventory = {
        host: {**base, "pd_instance": host[0], **sizes, **variables, **(per_host or {}).get(host, {})}
        for host in ("p1", "p2", "d1", "d2")
    }
    findings = rules.judge(make_plan(inventory, TWO_AND_TWO), None).findings
    return [(one.rule, one.host, one.found) for one in findings if one.severity in ("error", "warning")]


def test_a_wrong_option_is_told_of_all_hosts_of_an_instance() -> None:
    args = {**CLUSTERS["mooncake"][1]["pd_vllm_args"], "max-num-seqs": 0}
    assert over_hosts(pd_vllm_args=args) == [
        ("PD-ARG-003", host, "max-num-seqs 0") for host in ("d1", "d2", "p1", "p2")
    ]


def test_a_wrong_option_of_a_following_host_is_told() -> None:
    """The first host of the instance does not speak for the others."""
    own = {"d2": {"pd_host_vllm_args": {"max-num-seqs": 0}}}
    assert over_hosts(own) == [("PD-ARG-003", "d2", "max-num-seqs 0")]


def test_a_layout_names_all_hosts_of_its_instance() -> None:
    told_once = over_hosts(decode_parallel={"tensor_parallel_size": 99, "data_parallel_size": 4})
    assert [(rule, host) for rule, host, _found in told_once] == [("layout", "")]
    assert told_once[0][2].endswith("d1 16 + d2 16 = 32 (on 2 hosts: d1, d2)")


def test_what_two_pairs_show_of_one_host_is_told_once() -> None:
    inventory = {host: dict(CLUSTERS["mooncake"][1]) for host in ("p1", "p2", "d1", "d2")}
    for host in ("p1", "p2"):
        inventory[host]["prefill_parallel"] = {"tensor_parallel_size": 8}
    findings = rules.judge(make_plan(inventory, TWO_AND_TWO), None).findings
    assert [one.host for one in findings if one.rule == "PD-CONN-005"] == ["d1", "d2"]


# ---- one size that keeps all bounds ----

DRAM, PIN, TOPK, MEMCACHE = (
    "pd_dram_size_per_dp_gb",
    "pd_kv_cache_memory_bytes",
    "pd_topk_buffer_size",
    "memcache_dram_size",
)
PINNED = "8388542464"


@pytest.mark.parametrize(
    ("stated", "rights", "mended"),
    [
        *(({DRAM: size}, {"PD-SPARSE-011": "36"}, {DRAM: 36}) for size in (0, 1, 35)),
        *(({DRAM: size}, {"PD-SPARSE-013": "36"}, {DRAM: 36}) for size in (150, 300, 1300)),
        ({DRAM: 4000}, {"PD-SPARSE-013": "36", "PD-MEM-001": "dram_size_per_dp_GB 36"}, {DRAM: 36}),
        ({DRAM: 4, "pd_dram_gate": "planned"}, {"PD-SPARSE-011": "36"}, {DRAM: 36, "pd_dram_gate": "planned"}),
        (
            {DRAM: 4000, PIN: 10**12},
            {
                "PD-SPARSE-012": f"36, with kv-cache-memory-bytes {PINNED}",
                "PD-SPARSE-013": "36",
                "PD-MEM-001": f"dram_size_per_dp_GB 36, kv-cache-memory-bytes {PINNED}",
                "PD-MEM-002": PINNED,
            },
            {DRAM: 36, PIN: int(PINNED)},
        ),
        ({PIN: 10**6}, {"PD-SPARSE-011": PINNED}, {PIN: int(PINNED)}),
        ({TOPK: 4100}, {"PD-SPARSE-002": "4096"}, {TOPK: 4096}),
        ({TOPK: 40000}, {"PD-SPARSE-002": "4096", "PD-MEM-002": "topk_buffer_size 4096"}, {TOPK: 4096}),
        ({MEMCACHE: "500G"}, {"PD-MEM-001": "memcache_dram_size 3G"}, {MEMCACHE: "3G"}),
        ({MEMCACHE: "4000G"}, {"PD-MEM-001": "memcache_dram_size 3G", "PD-MMC-003": "3G"}, {MEMCACHE: "3G"}),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_all_findings_about_a_size_call_one_right_and_it_is(
    stated: dict[str, Any], rights: dict[str, str], mended: dict[str, Any]
) -> None:
    host = "p1" if MEMCACHE in stated else "d1"
    findings = judged({host: stated}).findings
    assert {one.rule: one.right for one in findings if one.severity in ("error", "warning")} == rights
    assert told({host: mended}) == set()


def test_requests_that_no_size_holds_are_told_how_many_would_do() -> None:
    findings = judged({"d1": {"decode_vllm_args": {"max-num-seqs": 4000, "max-num-batched-tokens": 16000}}}).findings
    memory = {one.rule: one.right for one in findings if one.rule.startswith("PD-MEM-")}
    assert memory == {"PD-MEM-001": "max-num-seqs 4", "PD-MEM-002": "max-num-seqs 4"}
    mended = {"decode_vllm_args": {"max-num-seqs": 4, "max-num-batched-tokens": 16000}}
    assert not any(rule.startswith("PD-MEM-") for rule, _host in told({"d1": mended}))


# ---- a port that somebody else has ----


@pytest.mark.parametrize(
    ("port", "holder", "right", "mend"),
    [
        (29181, {"process": "nginx"}, "29183", "set another decode_port, or stop nginx"),
        (29181, {"process": "sshd"}, "29183", "set another decode_port"),
        (29181, {"process": "systemd-resolve"}, "29183", "set another decode_port"),
        (29181, {"process": "x", "container": "init-db"}, "29183", "set another decode_port, or stop init-db"),
        (20055, {"process": "dockerd"}, "20056", "set another decode_kv_port"),
        (8500, {"process": "nginx"}, "a free port", "stop nginx"),
        (8500, {"process": "sshd"}, "a free port", "have it listen elsewhere"),
    ],
)
def test_advice_moves_our_port_to_one_that_is_free(port: int, holder: dict[str, Any], right: str, mend: str) -> None:
    plan, facts = planned({})
    assert facts is not None
    listening = {"address": "0.0.0.0", "port": port, "protocol": "tcp", "pid": 9, "container": None, **holder}
    facts["d1"]["host"]["listeners"] += [listening, {**listening, "port": 29182}]
    findings = [one for one in rules.judge(plan, facts).findings if one.rule.startswith("PD-PORT-")]
    assert [(one.rule, one.right, one.mend) for one in findings] == [("PD-PORT-004", right, mend)]


def test_a_system_port_is_told_once_though_somebody_has_it() -> None:
    assert told({"p1": {"proxy_port": 22}}) == {("PD-PORT-003", "p1")}
    findings = judged({"p1": {"proxy_port": 100, "prefill_port": 8100}}).findings  # 8100 is MemCache's as well
    assert next(one.right for one in findings if one.rule == "PD-PORT-003") == "1024 to 65535, such as 8102"


# ---- hosts in the order in which people count ----


def test_hosts_stand_as_people_count() -> None:
    """PD-MMC-006, PD-NPU-006 and -011, PD-PROXY-002, PD-PARITY-010: a2 before a10."""
    groups = {"prefill": ["a1", "a10", "a2"], "decode": ["b10", "b2"], "proxy": ["a1"]}
    hosts = [*groups["prefill"], *groups["decode"]]
    stated = {**CLUSTERS["sparse"][1], "memcache_dram_size": "10G", "proxy_address": "127.0.0.1", "pd_nic": "eth0"}
    inventory = {host: {**stated, "pd_address": f"192.0.2.{number}"} for number, host in enumerate(hosts, 1)}
    plan = make_plan(inventory, groups)
    seen = {
        host: {
            "npu": {"superpod_id": host[0], "driver_version": {"a": "26.0", "b": "26.1"}[host[0]]},
            "hccn": {"pings": []},
        }
        for host in hosts
    }
    texts = {one.rule: one.found for one in rules.judge(plan, seen).findings if one.host in ("", "a1", "b2")}
    assert "a1, a2, a10" in texts["PD-MMC-006"]
    assert "b2, b10" in texts["PD-PROXY-002"]
    assert "a1, a2, a10" in texts["PD-NPU-006"] and "b2, b10" in texts["PD-NPU-006"]
    assert "a1, a2, a10" in texts["PD-PARITY-010"]
    assert "of a1, a2, a10 did not ping" in texts["PD-NPU-011"]


# ---- one cause, one finding ----

EXTRA = "kv_connector_extra_config"
POLICY = {"kv_load_failure_policy": "retry"}  # another mistake, PD-CONN-025
BY_HAND = {"kv_connector": "MooncakeConnectorV1", "kv_port": 36000, **POLICY}
WITHOUT_CONNECTORS = {"kv_connector": "MultiConnector", EXTRA: {"connectors": "[]"}}
SHAPE, CHOICE = ("kv-transfer-shape", ""), {("PD-CONN-025", "d1"), ("PD-CONN-025", "p1")}


@pytest.mark.parametrize(
    ("profile", "stated", "wanted"),
    [
        ("mooncake", {EXTRA: "{}", **POLICY}, {SHAPE, *CHOICE}),
        ("mooncake", {EXTRA: {"prefill": 2, "connectors": ["x"]}, **POLICY}, {SHAPE, *CHOICE}),
        ("mooncake", WITHOUT_CONNECTORS, {SHAPE}),
        ("custom", {**BY_HAND, EXTRA: "{}"}, {SHAPE, *CHOICE}),
        ("custom", {**BY_HAND, EXTRA: {"prefill": 2}}, {SHAPE, *CHOICE}),
        ("custom", WITHOUT_CONNECTORS, {SHAPE}),
    ],
)
def test_a_misshapen_part_of_a_connector_hides_and_entails_nothing(
    profile: str, stated: dict[str, Any], wanted: set[tuple[str, str]]
) -> None:
    everywhere = {"pd_profile": profile, "pd_kv_transfer_config": stated}
    assert told({"cluster": "mooncake", "all": everywhere}) == wanted


@pytest.mark.parametrize("kind", ["mooncake", "layerwise", "sparse"])
@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_a_tensor_parallel_size_that_splits_no_heads_is_not_compared(kind: str, role: str) -> None:
    host = role[0] + "1"
    found = told({"cluster": kind, host: {f"{role}_parallel": {"tensor_parallel_size": 3}}})
    assert ("PD-MODEL-009", host) in found
    assert {rule for rule, _host in found} <= {"PD-MODEL-009", "PD-MEM-002"}  # the weights on three chips


def test_a_missing_kv_port_is_told_once_and_where_it_belongs() -> None:
    stated = {**BY_HAND, "kv_port": None, "kv_load_failure_policy": "fail"}
    everywhere = {"pd_profile": "custom", "pd_kv_transfer_config": stated}
    findings = [one for one in judged({"cluster": "mooncake", "all": everywhere}).findings if "kv_port" in one.found]
    assert {(one.rule, one.host, one.mend) for one in findings} == {
        ("PD-CONN-015", host, "set kv_port in pd_kv_transfer_config") for host in ("d1", "p1")
    }


# ---- containers of an earlier plan ----


def while_serving(renamed: dict[str, str], **variables: Any) -> list[tuple[str, str, str, str]]:
    """What is told of a plan with these names for p1 and d1, on hosts where the service of the old names runs."""
    groups, shared = CLUSTERS["sparse"]
    old = make_plan({host: dict(shared) for host in ("p1", "d1")}, groups)
    facts = {}
    for host, name in renamed.items():
        facts[name] = seen = host_facts(host, ["p1", "d1"], shared["pd_model_path"])
        for service in (one for one in old["services"] if one["host"] == host):
            container = service["container"]["name"]
            seen["host"]["containers"].append({"name": container, "state": "running"})
            seen["host"]["listeners"] += [
                {"address": "0.0.0.0", "port": port, "protocol": "tcp", "pid": 9, "container": container}
                for port in service["ports"]
            ]
            if service["kind"] == "engine":
                seen["npu"]["holders"] = {str(chip): [container] for chip in range(16)}
    members = {role: [renamed[host] for host in hosts] for role, hosts in groups.items()}
    inventory = {name: {**shared, **variables} for name in renamed.values()}
    findings = rules.judge(make_plan(inventory, members, facts), facts).findings
    return [(one.rule, one.host, one.found, one.mend) for one in findings if one.severity in ("error", "warning")]


def test_a_service_that_keeps_running_under_the_old_names_is_told() -> None:
    told_of = while_serving({"p1": "pa", "d1": "da"})
    assert {(rule, host) for rule, host, _found, _mend in told_of} == {
        (rule, host) for rule in ("PD-NPU-003", "PD-PORT-004") for host in ("pa", "da")
    }
    texts = {found: mend for _rule, _host, found, mend in told_of}
    chips = "pd-decode-d1 holds chips 0-15, of a service that this plan does not have there"
    assert texts[chips] == "docker rm -f pd-decode-d1 on da, once it serves nobody; or give the service its old name"
    ports = next(found for found in texts if found.endswith("held by pd-decode-d1, " + chips.partition(", ")[2]))
    assert "29181" in ports and texts[ports] == texts[chips]
    assert not any("pd-proxy" in text for text in texts)  # its name is the same


def test_a_service_of_the_same_names_is_made_anew_whatever_its_layout() -> None:
    same = {"p1": "p1", "d1": "d1"}
    assert while_serving(same) == []
    halves = {"decode_parallel": {"tensor_parallel_size": 8, "data_parallel_size": 2}}
    assert not any(rule in ("PD-NPU-003", "PD-PORT-004") for rule, *_rest in while_serving(same, **halves))


def test_memory_is_forgiven_to_containers_of_this_plan_alone() -> None:
    for container, wanted in (("pd-decode-d1", set()), ("pd-decode-old", {"PD-MEM-001", "PD-HOST-008"})):
        plan, facts = planned({})
        assert facts is not None
        facts["d1"]["host"]["memory"].update(available_bytes=60 << 30)
        facts["d1"]["host"]["containers"] = [{"name": container, "state": "running"}]
        found = {one.rule for one in rules.judge(plan, facts).findings if one.severity in ("error", "warning")}
        assert found == wanted


@pytest.mark.parametrize(
    ("kind", "stated", "right"),
    [
        ("sparse", 1.2, "0.95"),
        ("sparse", "1.02", "0.95"),
        ("context_parallel", 1.2, "0.96"),
        ("mooncake", 9.5, "0.92"),
        ("sparse", 90, "0.9"),
        ("sparse", "95", "0.95"),
        ("sparse", 0, "above 0, at most 1"),
    ],
)
def test_a_share_of_memory_above_all_has_one_right(kind: str, stated: Any, right: str) -> None:
    args = {
        **CLUSTERS[kind][1].get("pd_vllm_args", {}),
        "gpu-memory-utilization": stated,
        "max-num-batched-tokens": 9999,
    }
    findings = judged({"cluster": kind, "d1": {"decode_vllm_args": args}}).findings
    assert {one.rule: one.right for one in findings if "utilization" in one.found and one.severity == "error"} == {
        "PD-ARG-003": right
    }
    assert not {"PD-MEM-003", "PD-MEM-004"} & {one.rule for one in findings if one.host == "d1"}


# ---- advice that stands after it was taken ----


@pytest.mark.parametrize(
    ("mistake", "right", "refused"),
    [
        ({"d1": {"decode_vllm_args": offload({"enable": True})}}, "left out: pd_profile decides enabled", "enabled"),
        ({"d1": {"decode_kv_transfer_config": {"kv_prt": 1}}}, "left out: decode_kv_port decides kv_port", "kv_port"),
        (
            {"cluster": "mooncake", "d1": {"decode_kv_transfer_config": {EXTRA: {"decod": {"tp_size": 8}}}}},
            "left out: the plan decides decode",
            "decode",
        ),
        (
            {"cluster": "mooncake", "d1": {"decode_kv_transfer_config": {EXTRA: {"use_ascend_driect": True}}}},
            "left out: nobody reads use_ascend_direct",
            "use_ascend_direct",
        ),
        ({"d1": {"decode_kv_transfer_config": {"kv_loade_failure_policy": "fail"}}}, "kv_load_failure_policy", ""),
        (
            {
                "cluster": "mooncake",
                "d1": {"decode_kv_transfer_config": {EXTRA: {"prefil": {"pp_layer_partition": "3"}}}},
            },
            "prefill",
            "",
        ),
    ],
)
def test_no_key_is_called_right_that_would_be_refused(mistake: dict[str, Any], right: str, refused: str) -> None:
    told_of = [one for one in judged(mistake).findings if one.severity == "error"]
    assert [one.right for one in told_of] == [right]
    assert told_of[0].mend.startswith("remove" if refused else "mend")
    misspelt = json.dumps(mistake["d1"])
    as_advised = {
        **mistake,
        "d1": json.loads(re.sub(r'"(enable|kv_prt|decod|use_ascend_driect)"', f'"{refused}"', misspelt)),
    }
    if refused:
        assert {one.rule for one in judged(as_advised).findings} & {"owned-option", "owned-kv-field", "PD-CONN-016"}


@pytest.mark.parametrize("port", [30000, 36100, 70000])
def test_the_plan_is_not_blamed_for_what_the_planner_refuses(port: int) -> None:
    for kind in ("sparse", "mooncake"):
        findings = judged({"cluster": kind, "d1": {"decode_kv_transfer_config": {"kv_port": port}}}).findings
        assert any(one.rule == "owned-kv-field" for one in findings)
        assert not any(one.mend == REPORT or one.rule == "PD-PORT-013" for one in findings)


def test_a_configuration_that_the_user_writes_whole_is_mended_where_it_stands() -> None:
    """In profile custom the plan fills in neither sizes nor ports."""
    parts = [
        {"kv_connector": f"Mooncake{kind}", "kv_role": "kv_producer"} for kind in ("ConnectorV1", "HybridConnector")
    ]
    for number, part in enumerate(parts):
        part["kv_port"] = 36000 + 1000 * number  # type: ignore[assignment]
    stated = {"kv_connector": "MultiConnector", "kv_role": "kv_producer", EXTRA: {"connectors": parts}}
    own = {"prefill_kv_transfer_config": stated}
    findings = judged({"cluster": "mooncake", "all": {"pd_profile": "custom"}, "p1": own}).findings
    mends = {one.rule: one.mend for one in findings if one.host == "p1"}
    assert mends["PD-PORT-013"] == "state one kv_port for all connectors in prefill_kv_transfer_config"
    assert mends["PD-CONN-006"] == "state it in prefill_kv_transfer_config"


# ---- what a guide publishes ----


def test_a_sound_guide_gives_no_warnings_about_its_own_values() -> None:
    notes = {"PD-CONN-011": "num_speculative_tokens 3, the guide's value", "PD-MEM-003": "0.96, the guide's value with"}
    for kind in ("sparse", "context_parallel"):
        findings = judged({"cluster": kind}).findings
        assert {one.severity for one in findings} == {"info"}
        assert not any(one.rule == "PD-CONN-016" for one in findings)
        told_of = {one.rule: one.found for one in findings if one.rule in notes}
        assert all(found.startswith(notes[rule]) for rule, found in told_of.items())
        assert ("PD-CONN-011" in told_of) and ("PD-MEM-003" in told_of) == (kind == "context_parallel")


@pytest.mark.parametrize(
    ("host", "own", "rule"),
    [
        ("d1", {"decode_vllm_args": {"gpu-memory-utilization": 0.96}}, "PD-MEM-003"),
        ("d1", {"decode_vllm_args": {"gpu-memory-utilization": 0.98}}, "PD-MEM-003"),
        ("p1", {"pd_vllm_args": {"speculative-config": {"num_speculative_tokens": 3}}}, "PD-CONN-011"),
        ("p1", {"pd_vllm_args": {"speculative-config": {"num_speculative_tokens": 2}}}, "PD-CONN-011"),
    ],
)
def test_the_same_values_are_warned_of_where_a_user_states_them(host: str, own: dict[str, Any], rule: str) -> None:
    findings = [one for one in judged({"cluster": "context_parallel", host: own}).findings if one.rule == rule]
    assert [(one.severity, "guide" in one.found) for one in findings if one.host == host] == [("warning", False)]


def test_what_nobody_reads_is_told_of_what_a_user_states() -> None:
    own = {"pd_kv_transfer_config": {EXTRA: {"use_ascend_direct": True}}}
    findings = [one for one in judged({"cluster": "mooncake", "d1": own}).findings if one.rule == "PD-CONN-016"]
    assert [(one.host, one.mend) for one in findings] == [("d1", "may be removed from pd_kv_transfer_config")]


def test_a_title_holds_for_a_note_too() -> None:
    """vLLM takes fewer requests at once then, and runs."""
    args = {**CLUSTERS["mooncake"][1]["pd_vllm_args"], "max-num-seqs": 64}
    findings = judged({"cluster": "mooncake", "d1": {"decode_vllm_args": args}}).findings
    assert ("PD-MEM-002", "info") in {(one.rule, one.severity) for one in findings}
    assert rules.RULES["PD-MEM-002"].title.endswith("with all its requests at full length")


# ---- the one that tells the cause stays ----


@pytest.mark.parametrize(
    ("mistake", "wanted"),
    [
        *(
            ({"d1": {"pd_address": wrong}}, "address-not-ipv4")
            for wrong in ("d1.example", "2001:db8::1", "::1", "192.0.2")
        ),
        *(({"d1": {"pd_address": wrong}}, "PD-NIC-001") for wrong in ("127.0.0.1", "169.254.1.1", "0.0.0.0")),
        *(({"d1": {"decode_vllm_args": {"block-size": size}}}, "PD-SPARSE-004") for size in (64, 256)),
        ({"p1": {"prefill_vllm_args": {"block-size": 64}}}, "PD-SPARSE-004"),
        ({"d1": {"decode_kv_transfer_config": {"kv_role": "kv_both"}}}, "PD-CONN-004"),
        ({"all": {"pd_kv_transfer_config": {"engine_id": "x"}}}, "owned-kv-field"),
        *(({"d1": {"decode_kv_port": port}}, "port-range") for port in (65530, 70000)),
        ({"cluster": "mooncake", "p1": {"prefill_kv_port": 70000}}, "port-range"),
    ],
)
def test_what_follows_from_a_cause_is_not_told_beside_it(mistake: dict[str, Any], wanted: str) -> None:
    before = {(one.rule, one.found) for one in judged({"cluster": mistake.get("cluster", "sparse")}).findings}
    findings = judged(mistake).findings
    assert {one.rule for one in findings if (one.rule, one.found) not in before} == {wanted}


def test_another_mistake_beside_it_is_told_all_the_same() -> None:
    assert {rule for rule, _host in told({"d1": {"pd_address": "127.0.0.1", "pd_nic": "eth7"}})} == {
        "PD-NIC-001",
        "PD-NIC-002",
    }
    blocks = {"decode_vllm_args": {"block-size": 64}, "decode_kv_transfer_config": {"kv_role": "kv_both"}}
    assert {rule for rule, _host in told({"d1": blocks})} == {"PD-SPARSE-004", "PD-CONN-004"}


def judged_with(kind: str, change: Callable[[dict[str, Any]], Any]) -> list[Finding]:
    """What is told above a note after a change of facts."""
    plan, facts = planned({"cluster": kind})
    assert facts is not None
    change(facts)
    return [one for one in rules.judge(plan, facts).findings if one.severity in ("error", "warning")]


def missing_file(path: str, face: str, name: str, value: Any) -> Callable[[dict[str, Any]], Any]:
    def change(facts: dict[str, Any]) -> None:
        facts["d1"]["host"]["paths"] = {path: {"exists": False}}
        facts["d1"][face][name] = value

    return change


KINDS = ("sparse", "mooncake")


@pytest.mark.parametrize(
    ("kind", "change", "wanted"),
    [
        *(
            (kind, missing_file("/etc/hccn.conf", "hccn", "hccn_conf", {"exists": False}), "PD-NPU-009")
            for kind in KINDS
        ),
        ("sparse", missing_file("/etc/ascend_install.info", "npu", "ascend_install_info", None), "PD-NPU-010"),
        ("mooncake", missing_file("/etc/ascend_install.info", "npu", "ascend_install_info", None), "PD-HOST-009"),
        (
            "sparse",
            missing_file("/usr/local/dcmi", "npu", "ascend_install_info", "/etc/ascend_install.info"),
            "PD-HOST-009",
        ),
    ],
)
def test_a_missing_file_is_told_by_the_rule_that_knows_what_makes_it(
    kind: str, change: Callable[[dict[str, Any]], Any], wanted: str
) -> None:
    assert {(one.rule, one.host) for one in judged_with(kind, change)} == {(wanted, "d1")}


@pytest.mark.parametrize(
    ("kind", "drivers", "wanted"),
    [
        ("sparse", {"d1": "24.1.rc3"}, {("PD-VER-003", "d1", "25.5.1 or newer")}),
        ("sparse", {"d1": "25.2.0", "p1": "26.0.rc1"}, {("PD-VER-003", "d1", "26.0.rc1 or newer")}),
        ("mooncake", {"d1": "24.1.rc3", "p1": "25.2.0"}, {("PD-VER-004", "d1", "25.2.0 or newer")}),
        (
            "mooncake",
            {"d1": "24.1.rc3", "p1": "24.1.rc3"},
            {("PD-VER-004", host, "25.0 or newer") for host in ("d1", "p1")},
        ),
        ("mooncake", {"d1": "25.2.0", "p1": "25.5.1"}, {("PD-PARITY-010", "", "one version")}),
    ],
)
def test_one_driver_is_right_for_all_rules(
    kind: str, drivers: dict[str, str], wanted: set[tuple[str, str, str]]
) -> None:
    def install(facts: dict[str, Any]) -> None:
        for host, version in drivers.items():
            facts[host]["npu"]["driver_version"] = version

    findings = judged_with(kind, install)
    assert {(one.rule, one.host, one.right) for one in findings} == wanted
    assert not any("driver" in one.found and one.rule.startswith("PD-MMC") for one in findings)


@pytest.mark.parametrize("kind", ["missing", "lfs_pointers", "short", "unreadable"])
def test_weights_that_are_not_whole_are_not_compared(kind: str) -> None:
    one = {"name": "a", "size_bytes": 1, "expected_bytes": 2, "reason": "x"} if kind in ("short", "unreadable") else "a"

    def cut(facts: dict[str, Any]) -> None:
        for model in facts["d1"]["model"].values():
            model["shards"][kind], model["digest"] = [one], "aa" * 32

    assert {(one.rule, one.host) for one in judged_with("sparse", cut)} == {("PD-MODEL-002", "d1")}


def test_an_interface_of_no_use_is_told_once() -> None:
    own = {"d1": {"pd_nic": "docker0", "pd_address": "192.0.2.20"}}
    plan, facts = planned(own)
    assert facts is not None
    facts["d1"]["nic"]["interfaces"].append(
        {**facts["d1"]["nic"]["interfaces"][0], "name": "docker0", "state": "down", "addresses": []}
    )
    findings = [one for one in rules.judge(plan, facts).findings if one.severity == "error"]
    assert [(one.rule, one.mend) for one in findings] == [("PD-NIC-002", "set pd_nic: enp1s0f0")]


def test_an_address_that_nobody_reaches_is_told_with_the_right_one() -> None:
    """The probe refuses it, so no interface follows, and that is not told again."""
    _, facts = planned({})
    assert facts is not None
    seen = facts["d1"]["nic"]
    interfaces = [{**one, "master": None, "members": []} for one in seen["interfaces"]]
    seen["serving"], seen["refused"], cause = choose(interfaces, seen["peers"], None, address="127.0.0.1")
    seen["reasons"].append(cause)
    facts["p1"]["nic"]["peers"]["127.0.0.1"] = {
        "interface": "lo",
        "source": "127.0.0.1",
        "local": True,
        "path_mtu": 65535,
    }
    facts["p1"]["nic"]["interfaces"].append({**seen["interfaces"][0], "name": "lo", "mtu": 65536, "addresses": []})
    groups, variables = CLUSTERS["sparse"]
    plan = make_plan({"p1": variables, "d1": {**variables, "pd_address": "127.0.0.1"}}, groups, facts)
    findings = [one for one in rules.judge(plan, facts).findings if one.severity in ("error", "warning")]
    assert [(one.rule, one.host, one.right, one.mend) for one in findings] == [
        ("PD-NIC-001", "d1", "192.0.2.20", "set pd_address: 192.0.2.20")
    ]


def test_loopback_has_packets_of_its_own_size() -> None:
    def loop(facts: dict[str, Any]) -> None:
        own = facts["d1"]["nic"]
        own["interfaces"].append({**own["interfaces"][0], "name": "lo", "mtu": 65536, "addresses": []})
        own["peers"]["192.0.2.10"] |= {"interface": "lo", "path_mtu": 65535}

    assert {one.rule for one in judged_with("sparse", loop)} == {"PD-NIC-005"}


@pytest.mark.parametrize("host", ["d1", "all"])
def test_what_a_step_holds_has_one_right(host: str) -> None:
    """PD-ARG-002 counts the drafts too, so PD-SPARSE-021 has nothing to add."""
    findings = judged({host: {"pd_vllm_args": {"max-num-seqs": 4096}}}).findings
    steps = {(one.rule, one.right) for one in findings if one.host == "d1" and "batched-tokens" in one.found}
    assert steps == {("PD-ARG-002", "max-num-batched-tokens 16384 or more")}


# ---- a host that has too little memory ----


def tight(host: str, have_gib: float, stated: dict[str, Any]) -> list[Finding]:
    """What is told above a note of a host with so much memory, all of it available."""
    plan, facts = planned({host: stated})
    assert facts is not None
    facts[host]["host"]["memory"].update(total_bytes=int(have_gib * 2**30), available_bytes=int(have_gib * 2**30))
    return [one for one in rules.judge(plan, facts).findings if one.severity in ("error", "warning")]


@pytest.mark.parametrize(
    ("host", "have_gib", "stated", "right"),
    [
        *(("d1", have, {}, f"max-num-seqs {most}") for have, most in ((67, 3), (60, 3), (50, 2), (42, 1))),
        *(("d1", have, {}, "68.0 GiB available") for have in (40, 33, 20)),
        ("d1", 60, {DRAM: 4000}, "max-num-seqs 3, dram_size_per_dp_GB 27"),
        ("d1", 40, {DRAM: 4000}, "dram_size_per_dp_GB 36, 68.0 GiB available"),
        ("d1", 100, {DRAM: 4000}, "dram_size_per_dp_GB 36"),
        *(("d1", 60, {DRAM: size}, "max-num-seqs 3, dram_size_per_dp_GB 27") for size in (28, 5)),
        ("d1", 100, {DRAM: 28}, "36"),
        ("p1", 150, {MEMCACHE: "10G"}, "memcache_dram_size 3G"),
        ("p1", 80, {MEMCACHE: "10G"}, "memcache_dram_size 3G"),
        ("p1", 70, {MEMCACHE: "10G"}, "memcache_dram_size 2G"),
        ("p1", 60, {MEMCACHE: "auto"}, "memcache_dram_size 1G"),
        ("p1", 40, {MEMCACHE: "10G"}, "memcache_dram_size 3G, 80.0 GiB available"),
    ],
)
def test_what_a_tight_host_is_told_is_right_once_it_is_done(
    host: str, have_gib: float, stated: dict[str, Any], right: str
) -> None:
    told_of = {one.rule: one.right for one in tight(host, have_gib, stated)}
    assert told_of.get("PD-MEM-001", told_of.get("PD-SPARSE-011")) == right
    assert set(told_of) <= {"PD-MEM-001", "PD-SPARSE-013", "PD-SPARSE-011"}
    done = dict(stated)
    for part in right.split(", "):
        name, value = part.rsplit(" ", 1) if " " in part else (DRAM, part)
        if value == "available":
            have_gib = float(name.removesuffix(" GiB"))
        elif name == "max-num-seqs":
            done["decode_vllm_args"] = {name: int(value)}
        else:
            done[{"dram_size_per_dp_GB": DRAM}.get(name, name)] = value
    assert tight(host, have_gib, done) == []


def test_a_pool_that_does_not_fit_is_told_without_a_model_too() -> None:
    plan, facts = planned({"p1": {MEMCACHE: "100G"}})
    assert facts is not None
    facts["p1"]["model"] = {}
    found = {one.rule: one.right for one in rules.judge(plan, facts).findings if one.severity == "error"}
    assert found["PD-MEM-001"] == "1632.0 GiB available"


@pytest.mark.parametrize("size", ["80G", "85G", "86G", "100G"])
def test_no_more_shared_memory_is_asked_for_than_the_host_has(size: str) -> None:
    asked = [one for one in judged({"p1": {MEMCACHE: size}}).findings if one.rule == "PD-MMC-005"]
    whole = re.search(r"size=([0-9]+)G", asked[0].mend) if asked else None
    assert whole is None or int(whole.group(1)) + 32 <= 1400
    assert bool(asked) == (size in ("80G", "85G"))


@pytest.mark.parametrize(
    ("mistake", "right", "mend"),
    [
        ({"d1": {"decode_kv_port": 65530}}, "from 65520 or below", "lower decode_kv_port"),
        ({"p1": {"prefill_port": 65536}}, "from 65535 or below", "lower prefill_port"),
        ({"all": {"proxy_port": 70000}}, "from 65535 or below", "lower proxy_port"),
    ],
)
def test_a_port_beyond_the_last_is_told_with_the_variable_that_moves_it(
    mistake: dict[str, Any], right: str, mend: str
) -> None:
    findings = [one for one in judged(mistake).findings if one.severity == "error"]
    assert [(one.rule, one.right, one.mend) for one in findings] == [("port-range", right, mend)]
