# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""From an inventory with a mistake to the finding: planner and rules together, on hosts that have no fault."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils import _model
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils import rules
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.planner import plan as make_plan
from ansible_collections.vllm_ascend.pd_serving.tests.unit.plugins.plugin_utils.rules.clusters import (
    CLUSTERS,
    host_facts,
)

MISTAKES = yaml.safe_load((Path(__file__).parents[3] / "data/mistakes.yml").read_text())


def planned(mistake: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Plan and facts; ``model``: what config.json has instead."""
    groups, variables = CLUSTERS[mistake.get("cluster", "sparse")]
    hosts = list(dict.fromkeys(host for members in groups.values() for host in members))
    per_host = variables.get("per_host", {})
    shared = {**{key: value for key, value in variables.items() if key != "per_host"}, **mistake.get("all", {})}
    inventory = {host: {**shared, **per_host.get(host, {}), **mistake.get(host, {})} for host in hosts}
    facts = None
    if mistake.get("contact", True):
        facts = {host: host_facts(host, hosts, shared["pd_model_path"]) for host in hosts}
        for seen in facts.values():
            seen["model"][shared["pd_model_path"]]["config"].update(mistake.get("model", {}))
    return json.loads(json.dumps(make_plan(inventory, groups, facts))), facts


def judged(mistake: dict[str, Any]) -> rules.Verdict:
    return rules.judge(*planned(mistake))


def ids(mistake: dict[str, Any]) -> str:
    own = {key: mistake[key] for key in ("all", "p1", "d1") if key in mistake}
    return f"{mistake['rule']}: {json.dumps(own)[:80]}"


@pytest.mark.parametrize("mistake", MISTAKES, ids=ids)
def test_mistake_is_told(mistake: dict[str, Any]) -> None:
    findings = judged(mistake).findings
    assert [one.found for one in findings if "the rule itself failed" in one.found] == []
    told = [one for one in findings if one.rule == mistake["rule"]]
    assert any(
        one.severity == mistake.get("severity", "error")
        and one.host == mistake.get("host", one.host)
        and mistake.get("says", "") in f"{one.found} {one.right} {one.mend}"
        for one in told
    ), told


EXTRA = "kv_connector_extra_config"
POOLED = {"kv_connector": "MultiConnector", EXTRA: {"connectors": [{"kv_connector": "SfaRemoteD2HConnektor"}]}}


@pytest.mark.parametrize(
    ("rule", "stated", "mend"),
    [
        ("PD-ARG-003", {"pd_vllm_args": {"max_num_seqs": "four"}}, "correct it in pd_vllm_args"),
        ("PD-ARG-003", {"decode_vllm_args": {"block-size": 0}}, "correct it in decode_vllm_args"),
        (
            "PD-ARG-003",
            {"pd_vllm_args": {"max-num-seqs": 4}, "pd_host_vllm_args": {"max-num-seqs": 0}},
            "correct it in pd_host_vllm_args",
        ),
        (
            "PD-ARG-003",
            {"pd_vllm_args": {"speculative_config": {"num_speculative_tokens": 0}}},
            "correct it in pd_vllm_args",
        ),
        (
            "PD-ARG-004",
            {"pd_vllm_args": {"additional-config": {"enable_mlpao": True}}, "decode_vllm_args": {"seed": 1}},
            "mend the key in pd_vllm_args",
        ),
        (
            "PD-CONN-001",
            {"pd_kv_transfer_config": {"kv_connector": "Sfa"}, "decode_kv_transfer_config": {"kv_buffer_size": 1}},
            "mend kv_connector in pd_kv_transfer_config",
        ),
        (
            "PD-ARG-002",
            {"pd_host_vllm_args": {"max-num-batched-tokens": 2}},
            "set it in pd_host_vllm_args",
        ),
        (
            "PD-ARG-001",
            {"pd_vllm_args": {"max-num-batched-tokens": 4096, "enable-chunked-prefill": False}},
            "set it in pd_vllm_args, or enable-chunked-prefill: true",
        ),
        (
            "PD-SPARSE-010",
            {"pd_vllm_args": {"additional-config": {"sparse_kv_offload_config": {"dram_size_per_dp_gb": 1}}}},
            "state pd_dram_size_per_dp_gb instead, and remove the key from pd_vllm_args",
        ),
        (
            "PD-SPARSE-010",
            {"pd_vllm_args": {"additional-config": {"sparse_kv_offload_config": {"keep_device_kv_cash": True}}}},
            "mend the key in pd_vllm_args",
        ),
        (
            "PD-PARITY-003",
            {"decode_vllm_args": {"dtype": "half"}, "pd_vllm_args": {"dtype": "bfloat16"}},
            "state one dtype for all; now pd_vllm_args and decode_vllm_args decide",
        ),
        (
            "PD-ARG-005",
            {"pd_host_vllm_args": {"additional-config": {"enable_mlapo": "no"}}},
            "mend it in pd_host_vllm_args",
        ),
        (
            "PD-ARG-005",
            {"pd_kv_transfer_config": {EXTRA: {"use_layerwise": "true"}}},
            "mend it in pd_kv_transfer_config",
        ),
        (
            "PD-MEM-001",
            {"pd_kv_cache_memory_bytes": 10**12},
            "lower pd_kv_cache_memory_bytes, pd_dram_size_per_dp_gb, memcache_dram_size or max-num-seqs, "
            "or free memory",
        ),
        ("PD-CONN-001", {"decode_kv_transfer_config": POOLED}, "mend kv_connector in decode_kv_transfer_config"),
        ("PD-CONN-001", {"pd_kv_transfer_config": POOLED}, "mend kv_connector in pd_kv_transfer_config"),
        ("PD-CONN-002", {"pd_kv_transfer_config": {"kv_buffer_sice": 1}}, "mend the key in pd_kv_transfer_config"),
        (
            "PD-CONN-002",
            {"pd_kv_transfer_config": {EXTRA: {"use_layerwize": True}}, "decode_kv_transfer_config": {EXTRA: {}}},
            "mend the key in pd_kv_transfer_config",
        ),
        (
            "PD-CONN-003",
            {"pd_kv_transfer_config": {EXTRA: {"transfer_backend": "mooncake"}}},
            "set it in pd_kv_transfer_config",
        ),
        (
            "PD-CONN-003",
            {"decode_kv_transfer_config": {EXTRA: {"transfer_backend": None}}},
            "set it in decode_kv_transfer_config",
        ),
    ],
)
def test_advice_names_the_variable_that_states_the_value(rule: str, stated: dict[str, Any], mend: str) -> None:
    told = {one.mend for one in judged({"all": stated}).findings if one.rule == rule and one.host in ("d1", "")}
    assert told == {mend}


@pytest.mark.parametrize("place", ["recompute_scheduler_enable", "scheduler_config"])
def test_advice_names_the_variable_that_turns_recomputing_on(place: str) -> None:
    inner = {"recompute_scheduler_enable": True}
    stated = {"pd_instance_vllm_args": {"additional-config": {place: inner} if place == "scheduler_config" else inner}}
    told = {(one.host, one.mend) for one in judged({"all": stated}).findings if one.rule == "PD-CONN-019"}
    assert told == {("p1", "remove it from pd_instance_vllm_args")}


@pytest.mark.parametrize("word", ["auto", "AUTO", -1])
def test_a_length_that_is_left_to_vllm_leaves_nothing_unchecked(word: Any) -> None:
    findings = judged({"all": {"pd_vllm_args": {"max-model-len": word}}}).findings
    assert [one.rule for one in findings if one.severity == "not checked"] == []


V31 = {"pd_model_path": "/data/models/DeepSeek-V3.1-W8A8"}


@pytest.mark.parametrize(
    ("stated", "model", "told"),
    [
        (V31, {}, {"PD-SPARSE-005"}),
        ({}, {"index_topk": "many"}, {"PD-MODEL-013"}),
        ({}, {"index_topk": -1}, {"PD-MODEL-013"}),
        ({}, {"index_head_dim": None}, {"PD-SPARSE-005"}),
        ({"pd_vllm_args": {"max-num-seqs": 0}}, {}, {"PD-ARG-003"}),
        ({"decode_vllm_args": {"max-num-seqs": [4]}}, {}, {"PD-ARG-003"}),
        ({"pd_vllm_args": {"max-num-seqs": "4k"}}, {}, {"PD-ARG-003"}),
        ({"pd_vllm_args": {"block-size": 0}}, {}, {"PD-ARG-003"}),
        ({"pd_topk_buffer_size": 4100}, {}, {"PD-SPARSE-002"}),
        ({"pd_dram_size_per_dp_gb": 0}, {}, {"PD-SPARSE-011"}),
        ({"pd_vllm_args": {"max-model-len": "auto"}}, {}, set()),
        ({"pd_kv_transfer_config": {"kv_load_failure_policy": "retry"}}, {}, {"PD-CONN-025"}),
        ({"decode_kv_transfer_config": {"kv_role": "producer"}}, {}, {"PD-CONN-004"}),
        ({"pd_extra_mounts": ["/a"]}, {}, {"PD-ENV-015"}),
        ({"pd_stop_grace_s": -1}, {}, {"variable-type"}),
        ({"pd_env": {"VLLM_ENGINE_READY_TIMEOUT_S": "soon"}}, {}, {"PD-ENV-014"}),
        ({"pd_devices": [], "pd_profile": "sparse_kv_offload"}, {}, {"device-list"}),
    ],
)
def test_what_follows_from_a_mistake_is_not_told_beside_it(
    stated: dict[str, Any], model: dict[str, Any], told: set[str]
) -> None:
    findings = judged({"all": stated, "model": model}).findings
    assert {one.rule for one in findings if one.severity in ("error", "warning")} == told


@pytest.mark.parametrize("path", [None, "DeepSeek-V3.2-W8A8"])
def test_without_a_model_folder_no_size_is_told_to_be_unknown(path: str | None) -> None:
    """The probe looks at no folder then, and stating a size would mend nothing."""
    groups, variables = CLUSTERS["sparse"]
    facts = {host: host_facts(host, ["p1", "d1"], variables["pd_model_path"]) for host in ("p1", "d1")}
    for seen in facts.values():
        seen["model"] = {}
    made = make_plan({host: {**variables, "pd_model_path": path} for host in facts}, groups, facts)
    assert any(gap["what"] == "dram_size_per_dp_GB" for gap in made["unknowns"])
    told = {one.rule for one in rules.judge(made, facts).findings if one.severity in ("error", "warning")}
    assert "model-path" in told and "PD-HOST-012" not in told


def test_where_the_model_is_not_there_nothing_is_told_of_what_would_be_in_it() -> None:
    plan, facts = planned({})
    path = plan["model"]["path"]
    for seen in (facts or {}).values():
        seen["model"] = {path: _model.empty(f"{path}: No such file or directory")}
    findings = rules.judge(plan, facts).findings
    told = {(one.rule, one.severity) for one in findings if one.rule.startswith("PD-MODEL-") and one.host == "d1"}
    stops = {("PD-MODEL-001", "error")}
    unchecked = {rule for rule, severity in told - stops}
    assert told - stops == {(rule, "not checked") for rule in unchecked}
    assert {"PD-MODEL-002", "PD-MODEL-003", "PD-MODEL-006"} <= unchecked
    cause = next(one for one in findings if one.rule == "PD-MODEL-001")
    assert cause.found == f"{path}: No such file or directory"
    assert cause.mend == "copy it there, or correct pd_model_path"


def test_no_size_is_made_of_a_number_that_vllm_refuses() -> None:
    """Not of vLLM's own 256 requests: a pool of 2250 GiB would be called right."""
    mistake = {"all": {"pd_vllm_args": {"max-num-seqs": 0}, "memcache_dram_size": "auto"}}
    made = planned(mistake)[0]
    offload = made["engines"][1]["vllm_args"]["additional-config"]["sparse_kv_offload_config"]
    assert offload["dram_size_per_dp_GB"] == "<unknown: dram_size_per_dp_GB of d1>"
    assert offload["topk_buffer_size"] == 4096  # stated, or not made of requests
    unchecked = {(one.rule, one.host): one.found for one in judged(mistake).findings if one.severity == "not checked"}
    assert "max-num-seqs of decode-d1-0 is 0, which vLLM refuses" in unchecked["PD-MEM-001", "d1"]


def test_without_the_mistake_nothing_is_told() -> None:
    """Of what the mistakes are told by, nothing stands on the same clusters as they are."""
    noise = {"PD-MEM-002"}  # an instance on half a host
    for kind in {mistake.get("cluster", "sparse") for mistake in MISTAKES}:
        told = {one.rule for one in judged({"cluster": kind}).findings if one.severity in ("error", "warning")}
        assert told & {mistake["rule"] for mistake in MISTAKES} <= noise
