# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Clusters as they grow: instances of different sizes, shared hosts, odd names, hosts that do not divide."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.planner import plan
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.rules import judge

from .clusters import aggregated, cluster, engine, environment, found, planned, rules

TP, DP = "tensor_parallel_size", "data_parallel_size"
SIDES = ("prefill", "decode")


def errors(made: dict[str, Any]) -> list[str]:
    """Of the planner and of the rules that need no host."""
    return [finding.rule for finding in judge(made, None).findings if finding.severity == "error"]


def sizes(tp: int, dp: int = 1, **more: Any) -> dict[str, Any]:
    return {TP: tp, DP: dp, **more}


def told(made: dict[str, Any], name: str) -> dict[str, tuple[int, int]]:
    """(dp, tp) of both sides, as an engine's connector is told."""
    extra = engine(made, name)["vllm_args"]["kv-transfer-config"]["kv_connector_extra_config"]
    return {side: (extra[side]["dp_size"], extra[side]["tp_size"]) for side in SIDES}


# ---- instances of different sizes ----


@pytest.mark.parametrize("profile", ["mooncake", "mooncake_layerwise"])
def test_instances_of_a_role_may_differ_where_each_transfer_says_the_size(profile: str) -> None:
    """vllm-ascend compares what is told of the own side with the real sizes (utils.py), so each is told its own."""
    hosts = {
        "p1": {"prefill_parallel": sizes(16)},
        "p2": {"prefill_parallel": sizes(8, 2)},
        "d1": {"pd_instance": "big", "decode_parallel": sizes(4, 8)},
        "d2": {"pd_instance": "big", "decode_parallel": sizes(4, 8)},
        "d3": {"decode_parallel": sizes(4, 4)},
    }
    made = planned(2, 3, hosts=hosts, pd_profile=profile)
    assert errors(made) == []
    assert told(made, "prefill-p1-0")["prefill"] == (1, 16)
    assert told(made, "prefill-p2-0")["prefill"] == (2, 8)
    assert told(made, "decode-big-1") == {"prefill": (1, 16), "decode": (8, 4)}
    assert told(made, "decode-d3-0") == {"prefill": (1, 16), "decode": (4, 4)}


@pytest.mark.parametrize(
    ("role", "size"),
    [("decode", TP), ("decode", "pipeline_parallel_size"), ("prefill", "pipeline_parallel_size")],
)
def test_what_the_other_side_is_told_once_is_the_same_in_all_instances(role: str, size: str) -> None:
    parallel = f"{role}_parallel"
    hosts = {f"{role[0]}2": {parallel: {**sizes(4, 2), size: 2}}}
    made = planned(2, 2, pd_profile="mooncake", **{parallel: sizes(4, 2)}, hosts=hosts)
    finding = found(made, "sizes-differ")
    assert f"{role}-{role[0]}2 has {'tp' if size == TP else 'pp'}_size 2" in finding["found"]
    assert finding["mend"] == f"correct {parallel}"


def test_a_side_that_could_not_be_laid_out_is_told_once() -> None:
    """Not again as a connector that does not state its sizes."""
    made = planned(pd_profile="mooncake", decode_parallel=sizes(32))
    assert errors(made) == ["layout"]


# ---- data parallelism ----


def test_hybrid_balancing_is_told_only_to_engines_that_take_it() -> None:
    """vLLM refuses it without the local size, and with --headless (arg_utils.py create_engine_config)."""
    option = "data-parallel-hybrid-lb"
    alone = aggregated(engine_parallel=sizes(8, 2, data_parallel_mode="hybrid"))
    together = aggregated(2, pd_instance="x", engine_parallel=sizes(8, 4, data_parallel_mode="hybrid"))
    for each in (*alone["engines"], *together["engines"]):
        assert (each["vllm_args"][option], each["vllm_args"]["data-parallel-size-local"]) == (True, 2)
    shared = aggregated(2, pd_instance="x", engine_parallel=sizes(32, 1, data_parallel_mode="hybrid"))
    assert all(option not in e["vllm_args"] for e in shared["engines"])


def test_instances_that_share_hosts_get_whole_ranks() -> None:
    """Three ranks of four chips over two hosts are two here and one there, not six chips on each."""
    inventory, _ = cluster(2, 0, pd_profile="mooncake", pd_instance="x")
    for variables in inventory.values():
        variables |= {"prefill_parallel": sizes(4, 3), "decode_parallel": sizes(4, 3)}
    made = plan(inventory, {"prefill": ["p1", "p2"], "decode": ["p1", "p2"], "proxy": ["p1"]})
    assert errors(made) == []
    assert [(e["role"], e["host"], e["devices"]) for e in made["engines"]] == [
        ("prefill", "p1", list(range(8))),
        ("prefill", "p2", list(range(4))),
        ("decode", "p1", list(range(8, 16))),
        ("decode", "p2", list(range(8, 12))),
    ]


def test_a_sum_counts_what_others_hold() -> None:
    inventory, _ = cluster(1, 0, pd_profile="mooncake", prefill_parallel=sizes(8), decode_parallel=sizes(12))
    made = plan(inventory, {group: ["p1"] for group in ("prefill", "decode", "proxy")})
    assert "12 chips, but p1 has 8 (prefill-p1 holds 8 of p1)" in found(made, "layout")["found"]


@pytest.mark.parametrize(("stated", "suffix"), [(None, "-openeuler"), ("A3", "-a3-openeuler")])
def test_the_default_image_is_that_of_the_chips(stated: str | None, suffix: str) -> None:
    """As stated, else as probed: eight chips of an A2 want another image than A3."""
    inventory, groups = cluster(pd_profile="mooncake", pd_npu_generation=stated)
    facts = {host: {"npu": {"generation": "A2", "device_nodes": list(range(8))}} for host in inventory}
    made = plan(inventory, groups, facts)
    assert made["images"]["decode"]["base"] == f"quay.io/ascend/vllm-ascend:v0.26.0rc1{suffix}"
    assert [len(e["devices"]) for e in made["engines"]] == [8, 8]


def test_connectors_of_vllm_ascend_want_chips() -> None:
    finding = found(planned(pd_profile="mooncake", hosts={"d1": {"pd_devices": []}}), "device-list")
    assert "pd_devices of d1 is empty" in finding["found"]


# ---- names ----


@pytest.mark.parametrize("name", ["a/b", "a b", "2001:db8::1", "größe"])
def test_a_name_that_docker_does_not_take_is_refused(name: str) -> None:
    made = planned(pd_profile="mooncake", hosts={"d1": {"pd_instance": name}})
    finding = found(made, "instance-name")
    assert f"decode-{name}" in finding["found"]
    assert "pd_instance" in finding["mend"]


def test_a_hosts_address_as_its_name_wants_pd_instance() -> None:
    inventory, groups = cluster(pd_profile="mooncake")
    renamed = {"d1": "2001:db8::11"}
    groups = {group: [renamed.get(host, host) for host in members] for group, members in groups.items()}
    inventory = {renamed.get(host, host): variables for host, variables in inventory.items()}
    assert found(plan(inventory, groups), "instance-name")["host"] == "2001:db8::11"
    inventory["2001:db8::11"]["pd_instance"] = "d1"
    assert errors(plan(inventory, groups)) == []


@pytest.mark.parametrize(
    ("hosts", "words"),
    [
        ({"d1": {"decode_instances": [{"name": "a"}, {"name": "a"}]}}, "d1 with entry a, and d1 with entry a"),
        ({"d1": {"decode_instances": [{"name": "2"}]}, "d2": {"pd_instance": "d1-2"}}, "d1 with entry 2, and d1-2"),
    ],
)
def test_two_instances_of_one_name_are_refused(hosts: dict[str, dict[str, Any]], words: str) -> None:
    assert words in found(planned(decode=2, pd_profile="mooncake", hosts=hosts), "instance-name")["found"]


# ---- ports and addresses ----


@pytest.mark.parametrize(
    ("stated", "moved"),
    [
        ({"pd_data_parallel_rpc_port": 7200}, {"decode-d1-0": 7201}),
        ({"decode_kv_port": 7190}, {"decode-d1-0": 7206}),  # 16 chips
    ],
)
def test_engines_defaults_move_out_of_the_way_of_whatever_is_stated(
    stated: dict[str, Any], moved: dict[str, int]
) -> None:
    external = sizes(4, 4, data_parallel_mode="external")
    made = planned(pd_profile="mooncake", hosts={"d1": {"decode_parallel": external, **stated}})
    assert errors(made) == []
    ports = {e["name"]: e["http"]["port"] for e in made["engines"]}
    assert moved.items() <= ports.items()
    if "pd_data_parallel_rpc_port" in stated:
        assert engine(made, "decode-d1-0")["vllm_args"]["data-parallel-rpc-port"] == 7200


@pytest.mark.parametrize("variable", ["proxy_port", "decode_port", "decode_kv_port", "pd_data_parallel_rpc_port"])
def test_port_0_is_refused_and_not_taken_for_unset(variable: str) -> None:
    made = planned(
        pd_profile="mooncake_layerwise",
        decode_parallel=sizes(4, 4, data_parallel_mode="external"),
        prefill_parallel=sizes(4),
        **{variable: 0},
    )
    assert "PD-PORT-003" in errors(made)


@pytest.mark.parametrize(("port", "wrong"), [(65520, False), (65521, True)])
def test_control_ports_go_up_to_the_last_port(port: int, wrong: bool) -> None:
    made = planned(pd_profile="mooncake", prefill_kv_port=port)
    assert ("port-range" in rules(made)) == wrong


def test_an_ipv6_address_of_the_proxy_is_refused() -> None:
    assert (
        "proxy_address"
        in found(planned(pd_profile="mooncake", proxy_address="2001:db8::1"), "address-not-ipv4")["found"]
    )


@pytest.mark.parametrize(
    ("bind", "wrong"),
    [("0.0.0.0", False), ("::", False), ("10.0.1.11", False), ("127.0.0.1", True), ("::1", True), ("10.9.9.9", True)],
)
def test_engines_listen_where_they_are_asked(bind: str, wrong: bool) -> None:
    made = planned(pd_profile="mooncake", hosts={"d1": {"pd_http_host": bind}})
    assert ("PD-PROXY-010" in errors(made)) == wrong


# ---- MemCache over hosts ----


@pytest.mark.parametrize("meta_host", [None, "p3", "d1"])
def test_memcache_over_three_prefill_hosts(meta_host: str | None) -> None:
    made = planned(3, 1, memcache_meta_host=meta_host)
    assert errors(made) == []
    address = made["hosts"][meta_host or "p1"]["address"]
    urls = {
        value
        for item in made["services"]
        for file in item["files"].values()
        if file["format"] == "properties"
        for key, value in file["content"].items()
        if key.endswith("url")
    }
    assert urls == {f"tcp://{address}:5000", f"tcp://{address}:6000", f"http://{address}:8100"}


def test_world_size_holds_all_ranks() -> None:
    made = planned(20, 1)
    files = [s["files"]["mmc-local.conf"]["content"] for s in made["services"] if "mmc-local.conf" in s["files"]]
    assert {file["ock.mmc.local_service.world_size"] for file in files} == {320}


@pytest.mark.parametrize("wheel", [True, False])
def test_memcache_of_the_images_wheel_wants_its_libraries_only(wheel: bool) -> None:
    """As upstream's kv_pool.md has it, beside Mooncake; MemFabric by itself wants its set_env.sh."""
    pool = {"kv_connector": "AscendStoreConnector", "kv_connector_extra_config": {"backend": "memcache"}}
    both = {"connectors": [{"kv_connector": "MooncakeConnectorV1"}, pool]}
    folder = "/usr/local/python3.11/lib/python3.11/site-packages/memcache_hybrid/lib"
    made = planned(
        pd_profile="mooncake",
        prefill_kv_transfer_config={"kv_connector": "MultiConnector", "kv_connector_extra_config": both},
        pd_prepend_paths={"LD_LIBRARY_PATH": [folder if wheel else "/usr/local/lib"]},
    )
    assert ("PD-ENV-012" in errors(made)) != wheel


def test_layerwise_2p2d_with_the_proxy_on_the_last_host() -> None:
    inventory, groups = cluster(2, 2, pd_profile="mooncake_layerwise")
    made = plan(inventory, {**groups, "proxy": ["d2"]})
    assert errors(made) == []
    assert (made["proxy"]["flavour"], made["proxy"]["address"]) == ("layerwise", "10.0.1.13")
    assert [backend["host"] for side in SIDES for backend in made["proxy"][side]] == [
        f"10.0.1.{last}" for last in range(10, 14)
    ]
    assert environment(made, "decode-d2-0")["VLLM_HOST_IP"] == "10.0.1.13"
