# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""The planner: layers, instances, ports, chips, and everything that is refused."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.plan_rules import PLAN_RULES
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.planner import plan
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.profiles import PROFILES
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.rules import judge
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.settings import Report
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.variables import VARIABLES
from hypothesis import given
from hypothesis import strategies as st

from .clusters import MODEL, aggregated, cluster, engine, environment, facts_of, found, planned, rules, service

EXTERNAL = {"data_parallel_mode": "external"}


def mooncake(*args: Any, **kwargs: Any) -> dict[str, Any]:
    return planned(*args, pd_profile="mooncake", **kwargs)


# ---- shape ----


@pytest.mark.parametrize("profile", sorted(PROFILES))
def test_a_plan_is_plain_json(profile: str) -> None:
    names = ["h1", "h2"]
    inventory = {name: {"pd_profile": profile, "pd_model_path": MODEL} for name in names}
    groups = {"prefill": names[:1], "decode": names[1:], "proxy": names[:1], "engine": names}
    made = plan(inventory, groups)
    assert json.loads(json.dumps(made)) == made


def test_a_second_planning_gives_the_same() -> None:
    inventory, groups = cluster(prefill=2, decode=2)
    assert plan(inventory, groups) == plan(inventory, groups)


def test_the_inventory_is_not_changed() -> None:
    inventory, groups = cluster(pd_vllm_args={"additional-config": {"a": 1}}, pd_env={"A": 1})
    before = json.dumps(inventory)
    plan(inventory, groups)
    assert json.dumps(inventory) == before


def test_a_finding_without_an_explanation_cannot_be_made() -> None:
    with pytest.raises(KeyError):
        Report().add("no-such-rule", "x")
    assert all(text.endswith(".") for text in PLAN_RULES.values())


def test_config_file_is_named_in_two_words() -> None:
    """`--config=FILE` is not what vLLM looks for, and then no option of the file counts."""
    expected = ["vllm", "serve", "--config", "/etc/vllm-ascend-pd/decode-d1-0.yaml"]
    assert engine(planned(), "decode-d1-0")["argv"] == expected


# ---- layers ----

LAYERS = ["pd_{}", "decode_{}", "pd_instance_{}", "pd_host_{}"]


@pytest.mark.parametrize("strongest", range(len(LAYERS)))
def test_later_layers_win(strongest: int) -> None:
    """Each layer says its own number; the strongest that speaks is heard."""
    said = {name.format("vllm_args"): {"seed": i} for i, name in enumerate(LAYERS[: strongest + 1])}
    said |= {name.format("env"): {"A": i} for i, name in enumerate(LAYERS[: strongest + 1])}
    made = mooncake(**said)
    assert engine(made, "decode-d1-0")["vllm_args"]["seed"] == strongest
    assert environment(made, "decode-d1-0")["A"] == str(strongest)
    expected = {0: 0, 1: 0, 2: 2, 3: 3}[strongest]  # decode's layer is nothing to prefill
    assert engine(made, "prefill-p1-0")["vllm_args"]["seed"] == expected


def test_mappings_merge_and_null_removes() -> None:
    made = planned(
        pd_vllm_args={"additional-config": {"a": {"x": 1, "y": 2}}},
        decode_vllm_args={"additional-config": {"a": {"y": None}, "enable_mlapo": None}, "speculative-config": None},
        pd_env={"OMP_NUM_THREADS": None, "NEW": "1"},
    )
    args = engine(made, "decode-d1-0")["vllm_args"]
    assert args["additional-config"]["a"] == {"x": 1}
    assert "enable_mlapo" not in args["additional-config"]
    assert "speculative-config" not in args
    assert "speculative-config" in engine(made, "prefill-p1-0")["vllm_args"]
    env = environment(made, "decode-d1-0")
    assert "OMP_NUM_THREADS" not in env
    assert env["NEW"] == "1"


def test_any_spelling_lies_on_any_other() -> None:
    made = planned(pd_vllm_args={"max_num_seqs": 8}, decode_vllm_args={"no-trust-remote-code": True})
    args = engine(made, "decode-d1-0")["vllm_args"]
    assert (args["max-num-seqs"], args["trust-remote-code"]) == (8, False)
    assert engine(made, "decode-d1-0")["config"]["no-trust-remote-code"] is True


def test_instance_entries_have_layers_of_their_own() -> None:
    entries = [
        {"name": "a", "devices": [0, 1, 2, 3], "vllm_args": {"seed": 1}, "env": {"A": "1"}},
        {"name": "b", "devices": [4, 5, 6, 7], "parallel": {"tensor_parallel_size": 2, "data_parallel_size": 2}},
    ]
    made = mooncake(decode_instances=entries)
    assert engine(made, "decode-d1-a-0")["vllm_args"]["seed"] == 1
    assert environment(made, "decode-d1-a-0")["A"] == "1"
    assert engine(made, "decode-d1-b-0")["vllm_args"]["data-parallel-size"] == 2


# ---- refusals ----


@pytest.mark.parametrize(
    ("variables", "rule", "words"),
    [
        ({"pd_vllm_args": {"port": 1}}, "owned-option", ["port", "decode_port"]),
        ({"decode_vllm_args": {"tp": 4}}, "owned-option", ["tensor-parallel-size", "decode_parallel"]),
        ({"decode_vllm_args": {"kv-transfer-config": {}}}, "owned-option", ["decode_kv_transfer_config"]),
        ({"decode_vllm_args": {"kv-cache-memory-bytes": 1}}, "owned-option", ["pd_kv_cache_memory_bytes"]),
        ({"decode_vllm_args": {"headless": None}}, "owned-option", ["pd_instance"]),
        ({"decode_vllm_args": {"served_model_name": "x"}}, "owned-option", ["pd_served_model_name"]),
        (
            {"decode_vllm_args": {"additional-config": {"sparse_kv_offload_config": {"topk_buffer_size": 1}}}},
            "owned-option",
            ["topk_buffer_size", "pd_topk_buffer_size"],
        ),
        ({"decode_vllm_args": {"max-num-seq": 4}}, "unknown-option", ["max-num-seqs"]),
        ({"decode_vllm_args": {"tokenizer-mode": "fast"}}, None, []),  # any word: vLLM takes registered ones
        ({"decode_vllm_args": {"kv-cache-dtype": "fp7"}}, "option-choice", ["fp7", "auto"]),
        ({"decode_vllm_args": {"enable-prefix-caching": "false"}}, "option-value", ['"false"', "without quotes"]),
        ({"decode_vllm_args": {"compilation-config": True}}, "option-value", ["true", "null"]),
        (
            {"decode_vllm_args": {"no-enable-prefix-caching": True, "trust-remote-code": False, "hf-token": True}},
            None,
            [],
        ),
        ({"decode_vllm_args": {"quantization": None, "enable-prefix-caching": None}}, None, []),
        ({"decode_env": {"HCCL_IF_IP": "1"}}, "environment", ["HCCL_IF_IP", "pd_address"]),
        ({"decode_env": {"ASCEND_RT_VISIBLE_DEVICES": "1"}}, "environment", ["pd_devices"]),
        ({"decode_env": {"LD_LIBRARY_PATH": "/x"}}, "environment", ["pd_prepend_paths"]),
        ({"decode_env": {"PYTHONPATH": None}}, "environment", ["pd_prepend_paths"]),
        ({"decode_env": {"A": "$HOME"}}, "environment", ["$"]),
        ({"decode_env": {"A": "x\ny"}}, "environment", ["line break"]),
        ({"decode_env": {"A": {"b": 1}}}, "environment", ["not a word"]),
        ({"decode_env": {"A B": "1"}}, "environment", ["no name"]),
        ({"pd_profile": "sparse"}, "variable-choice", ["sparse_kv_offload"]),
        ({"pd_build": "perhaps"}, "variable-type", ["not true or false"]),
        ({"decode_port": "http"}, "variable-type", ["not a whole number"]),
        ({"pd_dram_size_per_dp_gb": "many"}, "variable-type", ["not auto"]),
        ({"pd_devices": 4}, "variable-type", ["not a list"]),
        ({"decode_vllm_args": "--seed 1"}, "variable-type", ["not a mapping"]),
        ({"pd_modell_path": "x"}, "unknown-variable", ["pd_model_path"]),
        ({"decode_vlm_args": {}}, "unknown-variable", ["decode_vllm_args"]),
        ({"decode_kv_transfer_config": {"kv_port": 1}}, "owned-kv-field", ["kv_port", "decode_kv_port"]),
        ({"pd_address": "db.example"}, "address-not-ipv4", ["IPv4"]),
        ({"pd_address": "2001:db8::10"}, "address-not-ipv4", ["IPv4"]),
        ({"decode_instances": [{"devices": [0]}]}, "instance-entry", ["without a name"]),
        ({"decode_instances": [{"name": "a", "chips": [0]}]}, "instance-entry", ["chips", "devices"]),
        ({"decode_instances": [{"name": "a", "port": "http"}]}, "instance-entry", ["port of a is no port"]),
        ({"pd_devices": [0, 0]}, "device-list", ["different"]),
        ({"decode_instances": [{"name": "a", "devices": [16]}]}, "device-list", ["[16]"]),
        ({"decode_parallel": {"tensor_parallel_size": 32}}, "layout", ["= 32 chips, but d1 has 16"]),
        ({"decode_kv_port": 65530}, "port-range", ["65520 or below", "lower decode_kv_port"]),
    ],
)
def test_refused_with_what_is_right(variables: dict[str, Any], rule: str | None, words: list[str]) -> None:
    made = planned(hosts={"d1": variables})
    if rule is None:
        assert rules(made) == []
        return
    finding = next(one for one in made["findings"] if one["rule"] == rule)
    text = " ".join(str(value) for value in finding.values())
    for word in words:
        assert word in text
    assert finding["severity"] == "error"


@pytest.mark.parametrize("option", ["host", "port", "data-parallel-rank", "nnodes", "device-ids", "config"])
def test_a_refused_option_does_not_reach_the_engine(option: str) -> None:
    plain = engine(planned(), "decode-d1-0")["vllm_args"]
    assert engine(planned(pd_vllm_args={option: 7}), "decode-d1-0")["vllm_args"] == plain


@pytest.mark.parametrize(
    ("variables", "rule", "right"),
    [
        ({"prefill_port": "abc"}, "variable-type", "a whole number (default: the profile's)"),
        ({"pd_build": "perhaps"}, "variable-type", "true or false (default: the profile's)"),
        ({"pd_mount_sbin": "perhaps"}, "variable-type", "true or false (default: false)"),
        ({"pd_ready_timeout_s": "1h"}, "variable-type", "a whole number of s from 1 on (default: 3600)"),
        ({"pd_devices": "0,1"}, "variable-type", "a list, such as [one, another]"),
        ({"decode_env": "A=1"}, "variable-type", "a mapping, such as {name: value}"),
        ({"pd_log_dir": ["/var"]}, "variable-type", "a path from the root on (default: /var/log/vllm-ascend-pd)"),
        ({"decode_parallel": {"data_parallel_mode": "extern"}}, "layout", "one of internal, external, hybrid"),
        ({"decode_parallel": {"tensor_parallel_size": "x"}}, "layout", "a whole number from 1 on"),
        ({"decode_parallel": {"tensor_parallel_size": 32}}, "layout", "sizes whose product is at most 16"),
        ({"decode_parallel": {"data_parallel_size": 32, "tensor_parallel_size": 1}}, "layout", "product is at most 16"),
        ({"decode_parallel": {"tp": 8}}, "layout", "one of tensor_parallel_size, pipeline_parallel_size"),
    ],
)
def test_right_is_what_can_be_written(variables: dict[str, Any], rule: str, right: str) -> None:
    assert right in found(planned(**variables), rule)["right"]


@pytest.mark.parametrize(
    ("variables", "severity", "words"),
    [
        ({"pd_image_source": "archive"}, "error", "pd_image_archive is not set"),
        ({"pd_image_share": "registry"}, "error", "pd_registry is not set"),
        ({"pd_image_archive": "/a.tar"}, "warning", "pd_image_source is pull"),
        ({"pd_registry": "registry.example"}, "warning", "pd_image_share is archive"),
        ({"pd_image_source": "archive", "pd_image_archive": "/a.tar"}, None, ""),
        ({"pd_image_share": "registry", "pd_registry": "registry.example"}, None, ""),
        ({"pd_image_share": "registry", "pd_build": False}, None, ""),
    ],
)
def test_a_choice_and_the_variable_that_it_needs(variables: dict[str, Any], severity: str | None, words: str) -> None:
    made = planned(**variables)
    if severity is None:
        assert "variable-partner" not in [finding["rule"] for finding in made["findings"]]
        return
    finding = found(made, "variable-partner")
    assert words in finding["found"] and finding["severity"] == severity


def test_one_finding_for_the_same_mistake_on_many_hosts() -> None:
    finding = found(planned(decode=6, pd_modell="x"), "unknown-variable")
    assert "7 hosts: p1, d1, d2, d3, …" in finding["found"]
    assert finding["host"] == ""


def test_cluster_wide_values_must_agree() -> None:
    finding = found(planned(hosts={"p1": {"pd_image": "a"}, "d1": {"pd_image": "b"}}), "variable-differs")
    assert "p1: 'a'; d1: 'b'" in finding["found"]


def test_what_is_built_is_stated_for_all_hosts_or_for_none() -> None:
    fork = {"vllm_build_vllm_ascend_repo": "https://me:secret@git.example/fork.git"}
    hosts = {"d1": fork, "d2": fork}
    finding = found(planned(decode=2, hosts=hosts), "variable-differs")
    assert "(p1: not set; d1, d2: 'https://***@git.example/fork.git')" in finding["found"]
    assert "variable-differs" not in rules(planned(decode=2, **fork))
    assert "variable-differs" not in rules(planned(decode=2, hosts=hosts, pd_build=False))


def test_a_mirror_may_be_each_hosts_own() -> None:
    mirror = {"vllm_build_git_prefix": "https://mirror.example/", "container_pip_index_url": "https://pip.example/"}
    assert "variable-differs" not in rules(planned(hosts={"d1": mirror}))


def test_missing_groups_and_model() -> None:
    made = plan({"p1": {}}, {"prefill": ["p1"]})
    assert rules(made).count("no-hosts") == 2  # decode and proxy
    assert found(made, "model-path")["mend"] == "set pd_model_path"


def test_without_hosts_nothing_is_said_of_what_they_might_have_set() -> None:
    inventory, groups = cluster(pd_profile="aggregated")
    made = plan(inventory, groups)
    assert rules(made) == ["no-hosts"]
    assert made["profile"] == "aggregated"


def test_the_group_that_is_meant_is_named() -> None:
    inventory, groups = cluster(2)
    made = plan(inventory, {"all": ["p1", "p2", "d1"], "prefil": groups["prefill"], "decode": ["d1"], "proxy": ["d1"]})
    finding = found(made, "no-hosts")
    assert finding["found"] == "group 'prefill' has no hosts; there is a group 'prefil' with p1, p2"
    assert finding["mend"] == "call the group prefill, or set pd_groups: {prefill: prefil}"
    lonely = found(plan(inventory, {"decode": ["d1"], "proxy": ["d1"], "web": ["p1"]}), "no-hosts")
    assert lonely["found"] == "group 'prefill' has no hosts"


def test_a_role_that_does_not_exist_has_no_group() -> None:
    finding = found(planned(pd_groups={"prefil": "prefill"}), "unknown-group-role")
    assert (finding["found"], finding["mend"]) == ("pd_groups: there is no role prefil", "write prefill")


def test_hosts_that_get_nothing_are_told() -> None:
    inventory, groups = cluster()
    finding = found(plan(inventory, groups | {"all": ["p1", "d1", "x1"]}), "left-out")
    assert (finding["found"], finding["severity"]) == ("nothing runs on x1: in none of the profile's groups", "info")
    assert "left-out" not in [one["rule"] for one in plan(inventory, groups | {"all": ["p1", "d1"]})["findings"]]


def test_a_group_called_almost_like_a_role_is_told() -> None:
    inventory, groups = cluster()
    groups |= {"all": ["p1", "d1", "x1"], "decodes": ["x1"], "monitoring": ["x1"]}
    told = [one for one in plan(inventory, groups)["findings"] if one["rule"] == "left-out"]
    assert [(one["found"], one["right"]) for one in told[1:]] == [("group 'decodes' with x1", "decode")]


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"proxy_port": 29180}, "HTTP of prefill is at 29181 instead of 29180: 29180 is taken by PD proxy"),
        ({"decode_kv_port": 29181}, "HTTP of decode is at 29197 instead of 29181"),
        ({}, None),
        (
            {"decode_parallel": {"tensor_parallel_size": 4, "data_parallel_size": 4, "data_parallel_mode": "external"}},
            None,
        ),
    ],
)
def test_a_default_port_that_gives_way_is_told(variables: dict[str, Any], words: str | None) -> None:
    made = planned(**variables)
    if words is None:
        assert "port-moved" not in [finding["rule"] for finding in made["findings"]]
        return
    finding = found(made, "port-moved")
    assert words in finding["found"] and finding["severity"] == "info"


def test_groups_may_have_other_names() -> None:
    inventory, _ = cluster(pd_groups={"prefill": "left", "decode": "right", "proxy": "front"})
    made = plan(inventory, {"left": ["p1"], "right": ["d1"], "front": ["d1"], "prefill": ["d1"]})
    assert [instance["name"] for instance in made["instances"]] == ["prefill-p1", "decode-d1"]
    assert made["proxy"]["host"] == "d1"


def test_two_proxies_are_refused() -> None:
    inventory, groups = cluster()
    assert "one-proxy" in rules(plan(inventory, groups | {"proxy": ["p1", "d1"]}))


def test_hosts_of_an_instance_must_agree_on_sizes() -> None:
    hosts = {
        name: {"pd_instance": "x", "decode_parallel": {"tensor_parallel_size": 8, "data_parallel_size": n}}
        for name, n in (("d1", 4), ("d2", 2))
    }
    assert (
        "d2 {'tensor_parallel_size': 8, 'data_parallel_size': 2}"
        in found(mooncake(decode=2, hosts=hosts), "instance-differs")["found"]
    )


def test_connectors_are_told_one_size_of_each_side() -> None:
    made = mooncake(decode=2, hosts={"d2": {"decode_parallel": {"tensor_parallel_size": 8, "data_parallel_size": 2}}})
    assert "decode-d2" in found(made, "sizes-differ")["found"]


GARBAGE = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 70000) | st.text(max_size=6) | st.sampled_from(["auto", "10G", "a b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@given(
    profile=st.sampled_from(sorted(PROFILES)),
    everywhere=st.dictionaries(st.sampled_from(sorted(set(VARIABLES) - {"pd_profile"})), GARBAGE, max_size=4),
    here=st.dictionaries(st.sampled_from(sorted(VARIABLES)), GARBAGE, max_size=4),
)
def test_whatever_is_written_is_planned_or_told(profile: str, everywhere: dict[str, Any], here: dict[str, Any]) -> None:
    """Mistakes are findings: nothing that a user writes ends in a traceback."""
    inventory = {
        "h1": {"pd_profile": profile, "pd_model_path": MODEL, **everywhere},
        "h2": {"pd_profile": profile, "pd_model_path": MODEL, **everywhere, **here},
    }
    made = plan(inventory, {"prefill": ["h1"], "decode": ["h2"], "proxy": ["h1"], "engine": ["h1", "h2"]})
    assert json.loads(json.dumps(made)) == made


# ---- instances ----


def test_2p2d_with_external_ranks() -> None:
    sizes = {"tensor_parallel_size": 8, "data_parallel_size": 4, **EXTERNAL}
    made = mooncake(
        prefill=2,
        decode=2,
        prefill_parallel=sizes,
        decode_parallel=sizes,
        hosts={h: {"pd_instance": h[0]} for h in ("p1", "p2", "d1", "d2")},
    )
    assert rules(made) == []
    assert len(made["engines"]) == 8
    ranks = [
        (e["host"], e["data_parallel_rank"], e["http"]["port"], e["devices"][0])
        for e in made["engines"]
        if e["role"] == "decode"
    ]
    assert ranks == [("d1", 0, 7200, 0), ("d1", 1, 7201, 8), ("d2", 2, 7200, 0), ("d2", 3, 7201, 8)]
    assert len(made["proxy"]["decode"]) == len(made["proxy"]["prefill"]) == 4
    last = engine(made, "decode-d-3")
    assert last["vllm_args"]["data-parallel-address"] == "10.0.1.12"
    assert environment(made, "decode-d-3")["ASCEND_RT_VISIBLE_DEVICES"] == "8,9,10,11,12,13,14,15"
    config = last["vllm_args"]["kv-transfer-config"]
    assert config["kv_connector_extra_config"] == {side: {"dp_size": 4, "tp_size": 8} for side in ("prefill", "decode")}


def test_external_ranks_of_a_host_share_one_container() -> None:
    sizes = {"tensor_parallel_size": 4, "data_parallel_size": 4, **EXTERNAL}
    made = mooncake(decode_parallel=sizes)
    own = service(made, "decode-d1")
    assert [command["name"] for command in own["commands"]] == [f"decode-d1-{i}" for i in range(4)]
    assert set(own["commands"][1]["env"]) == {"HCCL_IF_BASE_PORT", "ASCEND_RT_VISIBLE_DEVICES"}
    assert not set(own["env"]) & set(own["commands"][1]["env"])
    assert own["ready"]["urls"] == [f"http://127.0.0.1:{port}/health" for port in range(7200, 7204)]
    assert len(own["files"]) == 4


def test_internal_data_parallelism_over_hosts() -> None:
    sizes = {"tensor_parallel_size": 4, "data_parallel_size": 8}
    made = mooncake(decode=2, decode_parallel=sizes, hosts={h: {"pd_instance": "x"} for h in ("d1", "d2")})
    head, follower = engine(made, "decode-x-0")["vllm_args"], engine(made, "decode-x-1")["vllm_args"]
    expected = {"data-parallel-size": 8, "data-parallel-size-local": 4, "data-parallel-rpc-port": 13389}
    assert expected.items() <= head.items()
    assert expected.items() <= follower.items()
    assert (head["data-parallel-start-rank"], follower["data-parallel-start-rank"]) == (0, 4)
    assert (head["data-parallel-address"], follower["data-parallel-address"]) == ("10.0.1.11", "10.0.1.11")
    assert follower["headless"] is True
    assert not {"host", "port"} & set(follower)


def test_what_only_a_server_takes_is_kept_from_followers() -> None:
    sizes = {"tensor_parallel_size": 4, "data_parallel_size": 8}
    hosts = {h: {"pd_instance": "x"} for h in ("d1", "d2")}
    made = mooncake(decode=2, decode_parallel=sizes, hosts=hosts, decode_vllm_args={"api-server-count": 4})
    assert engine(made, "decode-x-0")["vllm_args"]["api-server-count"] == 4
    assert "api-server-count" not in engine(made, "decode-x-1")["vllm_args"]


def test_prefill_and_decode_on_one_host() -> None:
    inventory, _ = cluster(
        prefill=1,
        decode=0,
        pd_profile="mooncake",
        prefill_parallel={"tensor_parallel_size": 8},
        decode_parallel={"tensor_parallel_size": 2, "data_parallel_size": 4, **EXTERNAL},
    )
    made = plan(inventory, {group: ["p1"] for group in ("prefill", "decode", "proxy")})
    assert rules(made) == []
    devices = [chip for item in made["engines"] for chip in item["devices"]]
    assert devices == list(range(16))
    ports = [(e["first"], e["last"]) for e in made["ports"] if e["fixed"]]
    assert all(a[1] < b[0] for a, b in zip(sorted(ports), sorted(ports)[1:]))  # noqa: B905 - pairs of neighbours
    assert len({environment(made, e["name"])["HCCL_IF_BASE_PORT"] for e in made["engines"]}) == 5


def test_an_unprivileged_container_counts_its_own_chips_from_zero() -> None:
    entries = [{"name": "a", "devices": [0, 1]}, {"name": "b", "devices": [2, 3]}]
    for privileged, seen in ((True, "2,3"), (False, "0,1")):
        made = mooncake(decode_instances=entries, pd_container_privileged=privileged)
        assert environment(made, "decode-d1-b-0")["ASCEND_RT_VISIBLE_DEVICES"] == seen
        nodes = service(made, "decode-d1-b")["container"]["devices"]
        assert ("/dev/davinci0" in nodes) is privileged


def test_stated_chips() -> None:
    made = mooncake(hosts={"d1": {"pd_devices": [4, 5, 6, 7]}})
    assert engine(made, "decode-d1-0")["devices"] == [4, 5, 6, 7]
    assert engine(made, "decode-d1-0")["vllm_args"]["tensor-parallel-size"] == 4
    assert service(made, "decode-d1")["container"]["devices"][:4] == [f"/dev/davinci{i}" for i in (4, 5, 6, 7)]


def test_instances_that_share_chips_are_refused() -> None:
    entries = [{"name": "a", "devices": [0, 1]}, {"name": "b", "devices": [1, 2]}]
    assert "[1]" in found(mooncake(decode_instances=entries), "device-list")["found"]


def test_sizes_say_how_many_chips_an_instance_takes() -> None:
    entries = [{"name": name, "parallel": {"tensor_parallel_size": 4}} for name in "abc"]
    made = mooncake(hosts={"d1": {"decode_instances": entries}})
    assert [e["devices"][0] for e in made["engines"] if e["role"] == "decode"] == [0, 4, 8]
    unsized = mooncake(hosts={"d1": {"decode_instances": [{"name": name} for name in "ab"]}})
    told = [finding["found"] for finding in unsized["findings"] if finding["rule"] == "device-list"]
    assert told == ["decode-d1-a shares d1 with other instances and neither its chips nor its sizes are stated"]


def test_a2_has_eight_chips_and_another_image() -> None:
    made = mooncake(pd_npu_generation="A2")
    assert len(engine(made, "prefill-p1-0")["devices"]) == 8
    assert made["images"]["prefill"]["base"] == "quay.io/ascend/vllm-ascend:v0.26.0rc1-openeuler"
    assert engine(made, "prefill-p1-0")["vllm_args"]["kv-transfer-config"]["kv_port"] == 28000


@pytest.mark.parametrize(
    ("generation", "stated", "count"),
    [
        ("A2", {}, 8),
        ("A3", {}, 16),
        (None, {}, 16),
        (None, {"pd_npu_generation": "A2"}, 8),
        ("A3", {"pd_devices": list(range(8))}, 8),
    ],
)
def test_chips_that_are_gone_make_no_instance_smaller(
    generation: str | None, stated: dict[str, Any], count: int
) -> None:
    """Of eight that a probe has seen. A server that has fewer than others of its generation says so."""
    seen = facts_of("10.0.1.11", chips=8)
    seen["npu"]["generation"] = generation
    made = plan(*cluster(pd_profile="mooncake", **stated), {"d1": seen})
    assert len(engine(made, "decode-d1-0")["devices"]) == count


def test_chips_beyond_those_of_a_generation_count() -> None:
    made = plan(*cluster(pd_profile="mooncake", pd_npu_generation="A2"), {"d1": facts_of("10.0.1.11", chips=16)})
    assert len(engine(made, "decode-d1-0")["devices"]) == 16


def test_changed_sizes_and_order_of_hosts_derive_everything_anew() -> None:
    hosts = {h: {"pd_instance": "x"} for h in ("d1", "d2")}
    inventory, groups = cluster(
        decode=2,
        hosts=hosts,
        pd_profile="mooncake",
        decode_parallel={"tensor_parallel_size": 4, "data_parallel_size": 8, **EXTERNAL},
    )
    first = plan(inventory, groups)
    for host in ("d1", "d2"):
        inventory[host]["decode_parallel"] = {"tensor_parallel_size": 8, "data_parallel_size": 4, **EXTERNAL}
    halved = plan(inventory, groups)
    turned = plan(inventory, groups | {"decode": ["d2", "d1"]})
    decode = [[e for e in made["engines"] if e["role"] == "decode"] for made in (first, halved, turned)]
    assert [len(engines) for engines in decode] == [8, 4, 4]
    assert [e["devices"] for e in decode[1]] == [list(range(8)), list(range(8, 16))] * 2
    assert [(e["host"], e["data_parallel_rank"]) for e in decode[2]] == [("d2", 0), ("d2", 1), ("d1", 2), ("d1", 3)]
    assert {e["vllm_args"]["data-parallel-address"] for e in decode[2]} == {"10.0.1.12"}
    sizes = engine(halved, "prefill-p1-0")["vllm_args"]["kv-transfer-config"]["kv_connector_extra_config"]["decode"]
    assert sizes == {"dp_size": 4, "tp_size": 8}


@pytest.mark.parametrize("profile", ["sparse_kv_offload", "mooncake", "mooncake_layerwise"])
@pytest.mark.parametrize("more", [{"prefill": 2}, {"decode": 2}])
def test_a_further_host_changes_nothing_but_itself_and_the_proxy(profile: str, more: dict[str, int]) -> None:
    """Two prefill hosts to begin with: from one to two MetaService must leave loopback."""
    start = {"prefill": 2, "decode": 2}
    addresses = {
        name: {"pd_address": f"10.0.{1 + (name[0] == 'd')}.{name[1]}"} for name in ("p1", "p2", "p3", "d1", "d2", "d3")
    }
    before = planned(**start, hosts=addresses, pd_profile=profile)
    grown = {role: count + (role in more) for role, count in start.items()}
    after = planned(**grown, hosts=addresses, pd_profile=profile)
    own = {(item["host"], item["name"]): item for item in after["services"]}
    changed = [item["name"] for item in before["services"] if own[item["host"], item["name"]] != item]
    assert changed == ["proxy"]
    assert len(after["services"]) == len(before["services"]) + 1


# ---- other ways to serve ----


def test_aggregated_has_no_proxy_and_is_asked_directly() -> None:
    made = aggregated(hosts=2, pd_instance="all", engine_parallel={"tensor_parallel_size": 8, "data_parallel_size": 4})
    assert made["proxy"] is None
    assert made["verify"]["url"] == "http://10.0.1.10:8080"
    assert [item["kind"] for item in made["services"]] == ["engine", "engine"]
    assert "kv-transfer-config" not in engine(made, "engine-all-0")["vllm_args"]


def test_profiles_that_are_no_guide_set_nothing_of_their_own() -> None:
    args = engine(mooncake(), "decode-d1-0")["vllm_args"]
    assert set(args) == {"model", "host", "port", "tensor-parallel-size", "kv-transfer-config"}
    assert set(environment(mooncake(), "decode-d1-0")) == {
        "VLLM_HOST_IP",
        "HCCL_IF_IP",
        "HCCL_SOCKET_IFNAME",
        "GLOO_SOCKET_IFNAME",
        "TP_SOCKET_IFNAME",
        "HCCL_IF_BASE_PORT",
    }


def test_layerwise_needs_the_other_proxy() -> None:
    assert planned(pd_profile="mooncake_layerwise")["proxy"]["flavour"] == "layerwise"
    assert mooncake()["proxy"]["flavour"] == "standard"


def test_connector_settings_of_the_user_are_kept() -> None:
    made = mooncake(
        pd_kv_transfer_config={"kv_connector_extra_config": {"use_ascend_direct": True}},
        prefill_kv_transfer_config={
            "kv_connector": "MultiConnector",
            "kv_connector_extra_config": {
                "connectors": [
                    {"kv_connector": "MooncakeConnectorV1"},
                    {"kv_connector": "AscendStoreConnector", "kv_connector_extra_config": {"backend": "memcache"}},
                ]
            },
        },
    )
    assert rules(made) == []
    config = engine(made, "prefill-p1-0")["vllm_args"]["kv-transfer-config"]
    peer, store = config["kv_connector_extra_config"]["connectors"]
    assert (peer["kv_role"], peer["kv_port"]) == ("kv_producer", 36000)
    assert peer["kv_connector_extra_config"]["decode"] == {"dp_size": 1, "tp_size": 16}
    assert store["kv_role"] == "kv_producer"
    assert config["kv_connector_extra_config"]["use_ascend_direct"] is True
    assert service(made, "memcache-meta")["host"] == "p1"
    assert "MMC_LOCAL_CONFIG_PATH" in environment(made, "prefill-p1-0")


def test_custom_takes_any_connector_and_hosts_without_chips() -> None:
    config = {"kv_connector": "NixlConnector", "kv_role": "kv_both"}
    made = planned(pd_profile="custom", pd_kv_transfer_config=config, pd_devices=[], pd_environment_scripts=[])
    assert rules(made) == []
    assert engine(made, "decode-d1-0")["vllm_args"]["kv-transfer-config"] == config
    assert engine(made, "decode-d1-0")["vllm_args"]["tensor-parallel-size"] == 1
    own = service(made, "decode-d1")
    assert own["container"]["devices"] == []
    assert own["sources"] == []
    assert not [mount for mount in own["container"]["mounts"] if "Ascend" in mount or "hccn" in mount]
    assert not [name for name in environment(made, "decode-d1-0") if name.startswith(("HCCL", "ASCEND"))]
    assert made["unknowns"] == []


# ---- ports ----


def test_stated_ports_stay_and_clashes_are_told() -> None:
    made = planned(hosts={"p1": {"prefill_port": 21600}})
    assert engine(made, "prefill-p1-0")["http"]["port"] == made["proxy"]["port"] == 21600
    finding = next(one for one in judge(made, None).findings if one.rule == "PD-PORT-001")
    assert "21600" in finding.found
    assert finding.host == "p1"


def test_defaults_move_out_of_the_way() -> None:
    made = mooncake(proxy_port=7100)
    assert rules(made) == []
    assert engine(made, "prefill-p1-0")["http"]["port"] == 7101


def test_nothing_stands_in_mooncakes_band() -> None:
    for profile in ("mooncake", "mooncake_layerwise", "context_parallel"):
        made = planned(prefill=2, pd_profile=profile)
        inside = [e for e in made["ports"] if e["fixed"] and e["first"] < 36000 and e["last"] >= 20000]
        assert inside == []


def test_kv_ports_count_over_all_ranks() -> None:
    sizes = {"tensor_parallel_size": 4, "data_parallel_size": 8}
    made = mooncake(decode=2, decode_parallel=sizes, hosts={h: {"pd_instance": "x"} for h in ("d1", "d2")})
    spans = [
        (e["host"], e["first"], e["last"])
        for e in made["ports"]
        if e["purpose"].startswith("KV transfer control") and e["host"] != "p1"
    ]
    assert spans == [("d1", 36000, 36015), ("d2", 36016, 36031)]


@pytest.mark.parametrize(
    ("profile", "listening"),
    [("mooncake", {"prefill"}), ("mooncake_layerwise", {"decode"}), ("sparse_kv_offload", {"decode"})],
)
def test_whoever_is_asked_for_kv_or_given_it_layer_by_layer_listens(profile: str, listening: set[str]) -> None:
    made = planned(pd_profile=profile)
    assert {e["owner"].split("-")[0] for e in made["ports"] if e["purpose"] == "KV transfer control"} == listening


def test_instances_on_one_host_have_kv_ports_of_their_own() -> None:
    entries = [{"name": name, "parallel": {"tensor_parallel_size": 4}} for name in "ab"]
    made = mooncake(hosts={"d1": {"decode_instances": entries}})
    ports = [e["vllm_args"]["kv-transfer-config"]["kv_port"] for e in made["engines"] if e["role"] == "decode"]
    assert ports == [36000, 36004]


def test_in_profile_custom_each_host_has_the_kv_port_of_its_own_configuration() -> None:
    sizes = {"prefill": {"dp_size": 2, "tp_size": 16}, "decode": {"dp_size": 1, "tp_size": 16}}
    config = {"kv_connector": "MooncakeConnectorV1", "kv_connector_extra_config": sizes}
    parallel = {"tensor_parallel_size": 16, "data_parallel_size": 2}
    inventory: dict[str, dict[str, Any]] = {
        host: {
            "pd_profile": "custom",
            "pd_model_path": MODEL,
            "pd_kv_transfer_config": {**config, "kv_port": port},
            **({"pd_instance": "p", "prefill_parallel": parallel} if host != "d1" else {}),
        }
        for host, port in (("p1", 40000), ("p2", 41000), ("d1", 42000))
    }
    made = plan(inventory, {"prefill": ["p1", "p2"], "decode": ["d1"], "proxy": ["p1"]})
    noted = [(p["host"], p["first"], p["last"]) for p in made["ports"] if p["purpose"].startswith("KV transfer")]
    assert noted == [("p1", 40000, 40015), ("p2", 41016, 41031), ("d1", 42000, 42015)]


def test_an_entry_may_state_ports_of_its_own() -> None:
    """The others count on from what stands for the host, as if it were not there."""
    parallel = {"tensor_parallel_size": 1, "data_parallel_size": 2, "data_parallel_mode": "external"}
    stated = {"port": 9000, "kv_port": 40000, "data_parallel_rpc_port": 14000}
    entries = [{"name": name, "parallel": parallel, **(stated if name == "b" else {})} for name in "abc"]
    ports = {"decode_port": 8100, "decode_kv_port": 36500, "pd_data_parallel_rpc_port": 13000}
    made = mooncake(hosts={"d1": {"decode_instances": entries, **ports}})
    decode = [e["vllm_args"] for e in made["engines"] if e["role"] == "decode"]
    assert [options["port"] for options in decode] == [8100, 8101, 9000, 9001, 8102, 8103]
    assert [options["kv-transfer-config"]["kv_port"] for options in decode[::2]] == [36500, 40000, 36502]
    assert [options["data-parallel-rpc-port"] for options in decode[::2]] == [13000, 14000, 13001]


def test_ports_in_the_ephemeral_range_are_reserved_and_what_was_reserved_stays() -> None:
    facts = {"d1": facts_of("10.0.1.11")}
    facts["d1"]["host"]["reserved_ports"] = [[8080, 8080], [50030, 50040]]
    made = plan(*cluster(pd_profile="mooncake"), facts)
    assert made["hosts"]["d1"]["reserved_ports"] == ["8080", "36000-36015", "50000-50040"]


# ---- the rest ----


def test_no_proxy_covers_the_cluster_where_a_proxy_is_set() -> None:
    env = environment(planned(pd_env={"http_proxy": "http://192.0.2.1:3128", "no_proxy": "internal"}), "decode-d1-0")
    assert env["no_proxy"] == "internal,127.0.0.1,localhost,10.0.1.10,10.0.1.11"
    assert env["NO_PROXY"] == "127.0.0.1,localhost,10.0.1.10,10.0.1.11"
    assert "no_proxy" not in environment(planned(), "decode-d1-0")


def test_values_become_the_words_that_a_shell_would_export() -> None:
    env = environment(planned(pd_env={"A": True, "B": 1, "C": 0.5, "D": "false"}), "decode-d1-0")
    assert (env["A"], env["B"], env["C"], env["D"]) == ("true", "1", "0.5", "false")


def test_addresses_come_from_the_inventory_then_from_probes_then_are_unknown() -> None:
    inventory, groups = cluster()
    for variables in inventory.values():
        del variables["pd_address"], variables["pd_nic"]
    assert plan(inventory, groups)["hosts"]["d1"]["address"] == "<unknown: serving address of d1>"
    probed = plan(inventory, groups, {"d1": facts_of("192.0.2.7", "bond0")})["hosts"]["d1"]
    assert (probed["address"], probed["nic"]) == ("192.0.2.7", "bond0")
    inventory["d1"]["pd_address"] = "192.0.2.8"
    assert plan(inventory, groups, {"d1": facts_of("192.0.2.7")})["hosts"]["d1"]["address"] == "192.0.2.8"


def test_probes_are_told_the_peers() -> None:
    inventory, groups = cluster(hosts={"d1": {"pd_address": None, "ansible_host": "192.0.2.9"}})
    probe = plan(inventory, groups)["probe"]
    assert probe["p1"]["peers"] == [{"address": "192.0.2.9", "ports": [20050, 29181, 50000], "ping": True}]
    assert probe["d1"]["model_paths"] == [MODEL]
    assert "/etc/hccn.conf" in probe["d1"]["paths"]


@pytest.mark.parametrize(("hosts", "each"), [(2, 1), (3, 2), (4, 2), (9, 4), (64, 6)])
def test_every_host_looks_at_all_others_and_measures_the_way_to_some(hosts: int, each: int) -> None:
    probe = plan(*cluster(prefill=1, decode=hosts - 1))["probe"]
    assert {len(asked["peers"]) for asked in probe.values()} == {hosts - 1}
    measured = [peer["address"] for asked in probe.values() for peer in asked["peers"] if peer["ping"]]
    assert len(measured) == hosts * each
    assert set(Counter(measured).values()) == {each}  # nobody is left out, nobody gets more than others


def test_the_model_may_be_mounted_from_further_up() -> None:
    mounts = service(planned(pd_model_mount="/data"), "decode-d1")["container"]["mounts"]
    assert "/data:/data:ro" in mounts
    assert not [mount for mount in mounts if MODEL in mount]


def test_several_served_names() -> None:
    made = planned(pd_served_model_name="a b")
    assert engine(made, "decode-d1-0")["vllm_args"]["served-model-name"] == ["a", "b"]
    assert made["verify"]["requests"][0]["body"]["model"] == "a"


# ---- what a user writes in another way ----


def test_base_image_is_of_the_stated_version() -> None:
    assert planned(pd_vllm_ascend_version="0.27.0rc1")["images"]["decode"]["base"].endswith(":v0.27.0rc1-a3-openeuler")


def test_null_removes_what_the_profile_says_of_the_connector() -> None:
    nothing = {"kv_connector_extra_config": {"use_layerwise": None}}
    config = engine(planned(decode_kv_transfer_config=nothing), "decode-d1-0")["vllm_args"]["kv-transfer-config"]
    assert config["kv_connector_extra_config"] == {"transfer_backend": "memfabric"}


def test_a_switch_with_a_word_is_left_out_so_that_nothing_else_is_told_of_it() -> None:
    """The profile's own value stays: rules would take any word for "on"."""
    made = planned(decode_vllm_args={"enable-prefix-caching": "false", "quantization": True})
    options = engine(made, "decode-d1-0")["vllm_args"]
    assert options["enable-prefix-caching"] is False and options["quantization"] == "ascend"


@pytest.mark.parametrize("text", ['{"enable_kv_nz": true,}', "[]", '"true"'])
def test_text_that_is_no_mapping_is_told_and_left_out(text: str) -> None:
    made = planned(decode_vllm_args={"additional-config": text})
    assert found(made, "option-mapping")["right"].startswith("a mapping")
    assert engine(made, "decode-d1-0")["vllm_args"]["additional-config"]["enable_mlapo"] is False
    fine = planned(decode_vllm_args={"additional-config": '{"enable_kv_nz": true}'})
    assert engine(fine, "decode-d1-0")["vllm_args"]["additional-config"]["enable_kv_nz"] is True


def test_a_stated_hccl_port_that_has_to_move_is_told() -> None:
    """21000 lies among the ports that Mooncake's ranks choose from."""
    made = mooncake(pd_hccl_if_base_port=21000)
    moved = [finding for finding in made["findings"] if finding["rule"] == "port-moved"]
    assert {finding["host"] for finding in moved} == {"p1", "d1"}
    assert all("HCCL of" in finding["found"] and "instead of 21000" in finding["found"] for finding in moved)
    assert "port-moved" not in rules(mooncake())
