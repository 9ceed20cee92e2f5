# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Guide 1 (Sparse KV Offload): every flag, variable, mount and device, with the changes that are stated beside them."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.options import option_table
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.planner import plan
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.rules import judge

from .clusters import MODEL, cluster, engine, environment, facts_of, found, rules, service

COMMON = (
    f"{MODEL} --host 0.0.0.0 --tensor-parallel-size 16 --served-model-name deepseek-v3.2 --max-num-seqs 4 "
    "--block-size 128 --max-model-len 132096 --trust-remote-code --gpu-memory-utilization 0.95 "
    "--quantization ascend --enable-chunked-prefill --enable-expert-parallel --safetensors-load-strategy prefetch"
).split()
MTP = ["--speculative-config", '{"method": "mtp", "num_speculative_tokens": 3}']

PREFILL = [
    *COMMON,
    *MTP,
    *"--port 29180 --max-num-batched-tokens 1024 --enable-prefix-caching".split(),
    "--enforce-eager",  # changed: layerwise transfer needs eager mode
    "--additional-config",
    '{"enable_mlapo": false}',
    "--kv-transfer-config",
    """{"kv_connector": "MultiConnector", "kv_role": "kv_producer", "kv_connector_extra_config": {"connectors": [
        {"kv_connector": "SfaRemoteD2HConnector", "kv_role": "kv_producer",
         "kv_connector_extra_config": {"transfer_backend": "memfabric"}},
        {"kv_connector": "AscendStoreConnector", "kv_role": "kv_producer",
         "kv_connector_extra_config": {"backend": "memcache", "use_layerwise": true,
                                       "layerwise_num_shared_buffers": 3, "layerwise_independent_layers": [0]}}]}}""",
]

DECODE = [
    *COMMON,
    *MTP,
    *"--port 29181 --max-num-batched-tokens 120 --no-enable-prefix-caching".split(),
    "--compilation-config",
    '{"cudagraph_mode":"FULL_DECODE_ONLY"}',
    "--kv-transfer-config",
    """{"kv_connector": "SfaRemoteD2HConnector", "kv_role": "kv_consumer", "kv_port": 20050,
        "kv_connector_extra_config": {"transfer_backend": "memfabric", "use_layerwise": true}}""",
    "--additional-config",
    # changed: 36 GiB are what 4 requests of 132,096 tokens need; the guide's 512 would all be allocated
    '{"enable_mlapo": false, "sparse_kv_offload_config": '
    '{"enabled": true, "topk_buffer_size": 4096, "dram_size_per_dp_GB": 36}}',
    "--kv-cache-memory-bytes",  # added: else the start-up gate compares with whatever HBM is free
    "8388542464",
]

ENVIRONMENT = {
    "HCCL_IF_BASE_PORT": "50000",
    "GLOO_SOCKET_IFNAME": "enp1s0f0",
    "TP_SOCKET_IFNAME": "enp1s0f0",
    "HCCL_SOCKET_IFNAME": "enp1s0f0",
    "HCCL_BUFFSIZE": "400",
    "HCCL_OP_EXPANSION_MODE": "AIV",
    "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS": "3000",
    "OMP_PROC_BIND": "false",
    "OMP_NUM_THREADS": "1",
    "VLLM_USE_V1": "1",
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
    "PYTHONHASHSEED": "0",
    "VLLM_ENGINE_READY_TIMEOUT_S": "3600",  # added: the default, 600 s, is shorter than loading takes
}


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    """Four values: hosts in groups, model path, served name; all else probed or computed."""
    inventory = {host: {"pd_model_path": MODEL, "pd_served_model_name": "deepseek-v3.2"} for host in ("p1", "d1")}
    groups = {"prefill": ["p1"], "decode": ["d1"], "proxy": ["p1"]}
    return plan(inventory, groups, {"p1": facts_of("10.0.1.10"), "d1": facts_of("10.0.1.11")})


def test_nothing_is_found_or_unknown(made: dict[str, Any]) -> None:
    assert made["findings"] == []
    assert made["unknowns"] == []


@pytest.mark.parametrize(("name", "argv"), [("prefill-p1-0", PREFILL), ("decode-d1-0", DECODE)])
def test_options(made: dict[str, Any], name: str, argv: list[str]) -> None:
    assert engine(made, name)["vllm_args"] == option_table("0.26.0").parse(argv) | {
        "served-model-name": "deepseek-v3.2"
    }


def test_prefill_environment(made: dict[str, Any]) -> None:
    assert environment(made, "prefill-p1-0") == ENVIRONMENT | {
        "HCCL_IF_IP": "10.0.1.10",
        "VLLM_HOST_IP": "10.0.1.10",  # added: vLLM does not look at HCCL_IF_IP
        "MMC_LOCAL_CONFIG_PATH": "/etc/vllm-ascend-pd/mmc-local.conf",  # changed: outside the install tree
    }


def test_decode_environment(made: dict[str, Any]) -> None:
    """The guide sets MMC_LOCAL_CONFIG_PATH here too, where nothing reads it."""
    assert environment(made, "decode-d1-0") == ENVIRONMENT | {
        "HCCL_IF_IP": "10.0.1.11",
        "VLLM_HOST_IP": "10.0.1.11",
        "VLLM_USE_V2_MODEL_RUNNER": "0",  # added: sparse KV offload refuses the other
    }


MOUNTS = [
    "/usr/local/Ascend/driver:/usr/local/Ascend/driver:ro",  # holds the guide's hccn_tool
    "/usr/local/Ascend/add-ons:/usr/local/Ascend/add-ons:ro",
    "/usr/local/sbin/npu-smi:/usr/local/sbin/npu-smi:ro",
    "/var/log/npu/conf/slog/slog.conf:/var/log/npu/conf/slog/slog.conf:ro",
    "/var/log/npu/slog:/var/log/npu/slog",
    "/var/log/npu/profiling:/var/log/npu/profiling",
    "/var/log/npu/dump:/var/log/npu/dump",
    "/usr/local/dcmi:/usr/local/dcmi:ro",  # added, forgotten by the guide
    "/etc/ascend_install.info:/etc/ascend_install.info:ro",  # added
    "/etc/hccn.conf:/etc/hccn.conf:ro",  # added
    f"{MODEL}:{MODEL}:ro",  # changed: the model, not a whole disk
]


@pytest.mark.parametrize("name", ["prefill-p1", "decode-d1"])
def test_container(made: dict[str, Any], name: str) -> None:
    body = service(made, name)["container"]
    own = [
        f"/etc/vllm-ascend-pd/{name}:/etc/vllm-ascend-pd:ro",
        f"/var/log/vllm-ascend-pd/{name}:/root/ascend/log",
    ]
    assert sorted(body["mounts"]) == sorted(MOUNTS + own)
    nodes = ["/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc"]
    assert body["devices"] == [f"/dev/davinci{i}" for i in range(16)] + nodes
    assert (body["privileged"], body["user"], body["network_mode"], body["ipc_mode"]) == (True, "0", "host", "host")
    assert "memlock:-1:-1" in body["ulimits"]


def test_npu_smi_is_mounted_from_where_the_probe_found_it() -> None:
    facts = {host: facts_of(f"10.0.1.{n}") for n, host in enumerate(("p1", "d1"), 10)}
    facts["d1"]["npu"]["npu_smi_path"] = "/usr/local/bin/npu-smi"
    mounts = service(plan(*cluster(), facts), "decode-d1")["container"]["mounts"]
    assert "/usr/local/bin/npu-smi:/usr/local/bin/npu-smi:ro" in mounts
    assert not [mount for mount in mounts if "/usr/local/sbin" in mount]


def test_optional_mounts_that_the_host_lacks_are_left_out() -> None:
    """Required ones stay, so that the missing one is found before launch instead of hidden."""
    facts = {
        host: facts_of(f"10.0.1.{n}", **{"/usr/local/Ascend/add-ons": False, "/etc/hccn.conf": False})
        for n, host in enumerate(("p1", "d1"), 10)
    }
    mounts = service(plan(*cluster(), facts), "decode-d1")["container"]["mounts"]
    assert not [mount for mount in mounts if "add-ons" in mount]
    assert "/etc/hccn.conf:/etc/hccn.conf:ro" in mounts


def test_sbin_only_if_asked_for() -> None:
    mounts = service(plan(*cluster(pd_mount_sbin=True)), "decode-d1")["container"]["mounts"]
    assert "/usr/local/sbin:/usr/local/sbin:ro" in mounts


def test_memcache(made: dict[str, Any]) -> None:
    meta, prefill = service(made, "memcache-meta"), service(made, "prefill-p1")
    assert meta["host"] == "p1"
    assert meta["commands"][0]["argv"] == [
        "python",
        "-c",
        "from memcache_hybrid import MetaService; MetaService.main()",
    ]
    assert meta["env"] == {"MMC_META_CONFIG_PATH": "/etc/vllm-ascend-pd/mmc-meta.conf"}
    local = prefill["files"]["mmc-local.conf"]["content"]
    assert local["ock.mmc.local_service.protocol"] == "host_shm"
    assert local["ock.mmc.local_service.dram.size"] == "10G"
    assert local["ock.mmc.local_service.world_size"] == 256
    assert meta["ready"]["key"] == "service_ready"
    assert not meta["container"]["devices"]
    assert "mmc-local.conf" not in service(made, "decode-d1")["files"]


def test_scripts_and_layers(made: dict[str, Any]) -> None:
    cann = ["/usr/local/Ascend/ascend-toolkit/set_env.sh", "/usr/local/Ascend/nnal/atb/set_env.sh"]
    memfabric, memcache = "/usr/local/memfabric_hybrid/set_env.sh", "/usr/local/memcache_hybrid/set_env.sh"
    assert service(made, "prefill-p1")["sources"] == [*cann, memfabric, memcache]
    assert service(made, "memcache-meta")["sources"] == [*cann, memfabric, memcache]
    assert service(made, "decode-d1")["sources"] == [*cann, memfabric]
    assert service(made, "proxy")["sources"] == cann
    base = "quay.io/ascend/vllm-ascend:v0.26.0rc1-a3-openeuler"
    assert made["images"] == {
        "prefill": {"base": base, "layers": ["vllm", "memfabric", "memcache"]},
        "decode": {"base": base, "layers": ["vllm", "memfabric"]},
    }


def test_search_paths_of_the_images_bashrc() -> None:
    """The guide's shell reads ~/.bashrc, a service does not. What the user states stands before."""
    own = service(plan(*cluster(pd_prepend_paths={"LD_LIBRARY_PATH": ["/a"]})), "decode-d1")
    assert own["prepend"] == {"LD_LIBRARY_PATH": ["/a", "/usr/local/lib"]}
    assert service(plan(*cluster(pd_profile="mooncake")), "decode-d1")["prepend"] == {}


def test_proxy(made: dict[str, Any]) -> None:
    folder = "/vllm-workspace/vllm-ascend/examples/disaggregated_prefill_v1"
    assert service(made, "proxy")["commands"][0]["argv"] == [
        "python",
        f"{folder}/load_balance_proxy_layerwise_server_example.py",
        *"--host 10.0.1.10 --port 21600 --prefiller-hosts 10.0.1.10 --prefiller-ports 29180".split(),
        *"--decoder-hosts 10.0.1.11 --decoder-ports 29181".split(),
    ]
    assert made["verify"]["url"] == "http://10.0.1.10:21600"


def test_services_stand_in_the_order_of_start(made: dict[str, Any]) -> None:
    assert [item["name"] for item in made["services"]] == ["memcache-meta", "prefill-p1", "decode-d1", "proxy"]


def test_decode_is_never_asked_for_a_completion(made: dict[str, Any]) -> None:
    assert service(made, "decode-d1")["ready"]["url"] == "http://127.0.0.1:29181/health"


def test_stated_sizes_are_taken() -> None:
    made = plan(
        *cluster(pd_dram_size_per_dp_gb=512, pd_topk_buffer_size=2048, pd_kv_cache_memory_bytes=10**10),
        {"d1": facts_of("10.0.1.11")},
    )
    args = engine(made, "decode-d1-0")["vllm_args"]
    assert args["additional-config"]["sparse_kv_offload_config"] == {
        "enabled": True,
        "topk_buffer_size": 2048,
        "dram_size_per_dp_GB": 512,
    }
    assert args["kv-cache-memory-bytes"] == 10**10


def test_without_facts_sizes_are_unknown_and_said_so() -> None:
    made = plan(*cluster())
    args = engine(made, "decode-d1-0")["vllm_args"]
    assert args["kv-cache-memory-bytes"] == "<unknown: kv-cache-memory-bytes of d1>"
    assert {"what": "dram_size_per_dp_GB", "host": "d1"} in made["unknowns"]


def test_memcache_dram_auto() -> None:
    made = plan(*cluster(memcache_dram_size="auto"), {"p1": facts_of("10.0.1.10")})
    content = service(made, "prefill-p1")["files"]["mmc-local.conf"]["content"]
    assert (
        content["ock.mmc.local_service.dram.size"]
        == f"{made['sizing']['prefill-p1']['recommended']['memcache_dram_gib_per_rank']}G"
    )


def test_memcache_over_rdma_is_met_at_each_hosts_own_card() -> None:
    inventory, groups = cluster(prefill=2, memcache_protocol="host_rdma")
    url = "ock.mmc.local_service.hcom_url"
    for name in ("p1", "p2"):
        inventory[name]["memcache_hcom_url"] = f"tcp://192.0.2.{name[1]}:7000"
    made = plan(inventory, groups)
    locals_ = [service(made, f"prefill-{name}")["files"]["mmc-local.conf"]["content"] for name in ("p1", "p2")]
    assert [local[url] for local in locals_] == ["tcp://192.0.2.1:7000", "tcp://192.0.2.2:7000"]
    assert "PD-MMC-006" not in {finding.rule for finding in judge(made, None).findings}


@pytest.mark.parametrize(
    ("variables", "place"),
    [
        ({"memcache_protocol": "host_rdma", "memcache_hcom_url": "tcp://192.0.2.9:7100"}, ("192.0.2.9", 7100, 7131)),
        ({"memcache_protocol": "host_tcp"}, ("127.0.0.1", 7000, 7031)),
        ({"memcache_protocol": "host_tcp", "memcache_hcom_url": "mlx5_0"}, None),  # told by PD-MMC-006
        ({"memcache_protocol": "device_rdma", "memcache_hcom_url": "tcp://192.0.2.9:7100"}, None),
        ({}, None),
    ],
)
def test_every_host_keeps_a_port_free_for_each_rank_of_the_pool(
    variables: dict[str, Any], place: tuple[str, int, int] | None
) -> None:
    """MemFabric binds the URL's port + the rank's number, and numbers ranks in the order in which they come."""
    made = plan(*cluster(prefill=2, **variables))
    ports = [port for port in made["ports"] if port["purpose"] == "MemCache hcom"]
    assert [(port["host"], port["bind"], port["first"], port["last"]) for port in ports] == [
        (host, *place) for host in ("p1", "p2") if place
    ]


def test_meta_of_two_prefill_hosts_is_reached_by_address() -> None:
    made = plan(*cluster(prefill=2))
    meta = service(made, "memcache-meta")["files"]["mmc-meta.conf"]["content"]
    for name in ("prefill-p1", "prefill-p2"):
        local = service(made, name)["files"]["mmc-local.conf"]["content"]
        assert local["ock.mmc.meta_service_url"] == meta["ock.mmc.meta_service_url"] == "tcp://10.0.1.10:5000"
        assert (
            local["ock.mmc.local_service.config_store_url"]
            == meta["ock.mmc.meta_service.config_store_url"]
            == "tcp://10.0.1.10:6000"
        )
    assert len([item for item in made["services"] if item["kind"] == "meta"]) == 1


def test_world_size_grows_with_the_ranks() -> None:
    made = plan(*cluster(prefill=20))
    content = service(made, "prefill-p1")["files"]["mmc-local.conf"]["content"]
    assert content["ock.mmc.local_service.world_size"] == 320


def test_meta_on_another_host() -> None:
    made = plan(*cluster(memcache_meta_host="d1"))
    assert service(made, "memcache-meta")["host"] == "d1"
    assert (
        service(made, "prefill-p1")["files"]["mmc-local.conf"]["content"]["ock.mmc.meta_service_url"]
        == "tcp://10.0.1.11:5000"
    )
    assert found(plan(*cluster(memcache_meta_host="x")), "meta-host")["right"] == "one of p1"


def test_two_decode_engines_on_one_host_are_refused() -> None:
    sizes = {"tensor_parallel_size": 8, "data_parallel_size": 2, "data_parallel_mode": "external"}
    findings = judge(plan(*cluster(decode_parallel=sizes)), None).findings
    assert {(one.rule, one.host) for one in findings if one.stops} == {("PD-PORT-008", "d1")}
    assert rules(plan(*cluster(decode_parallel=sizes | {"data_parallel_mode": "internal"}))) == []


def test_small_packet_gather_runs_decode_eagerly_and_touches_nothing_else() -> None:
    off, on = plan(*cluster()), plan(*cluster(pd_small_packet_gather=True))
    assert engine(on, "prefill-p1-0") == engine(off, "prefill-p1-0")
    assert service(on, "prefill-p1") == service(off, "prefill-p1")
    added = environment(on, "decode-d1-0").items() - environment(off, "decode-d1-0").items()
    assert dict(added) == {
        "VLLM_ASCEND_ENABLE_CPU_GATHER_H2D": "1",
        "VLLM_ASCEND_CPU_GATHER_THREADS": "4",
        "VLLM_ASCEND_CPU_GATHER_BUFFER_BYTES": "8388608",
    }
    args = engine(on, "decode-d1-0")["vllm_args"]
    assert args["enforce-eager"] is True
    assert "compilation-config" not in args
    assert found(on, "gather-without-graphs")["severity"] == "info"


@pytest.mark.parametrize(
    "asked", [{"compilation-config": {"cudagraph_mode": "FULL_DECODE_ONLY"}}, {"enforce-eager": False}]
)
def test_small_packet_gather_wins_over_graphs_that_are_asked_for(asked: dict[str, Any]) -> None:
    made = plan(*cluster(pd_small_packet_gather=True, decode_vllm_args=asked))
    args = engine(made, "decode-d1-0")["vllm_args"]
    assert args["enforce-eager"] is True
    assert "compilation-config" not in args
    assert [one for one in judge(made, None).findings if one.stops] == []


def test_small_packet_gather_is_switched_off_on_decode_alone() -> None:
    """The comparison of guide 1, section 4: the variable alone, and nothing of prefill or of the images."""
    on = plan(*cluster(pd_small_packet_gather=True))
    off = plan(*cluster(pd_small_packet_gather=True, decode_env={"VLLM_ASCEND_ENABLE_CPU_GATHER_H2D": "0"}))
    assert [one["name"] for one in on["services"] if one != service(off, one["name"])] == ["decode-d1"]
    assert engine(on, "decode-d1-0")["vllm_args"] == engine(off, "decode-d1-0")["vllm_args"]
    assert on["images"] == off["images"]
    # Both sides run what is built from the fork.
    assert {image["layers"][0] for image in on["images"].values()} == {"vllm"}
