# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Guide 2 (long sequences, context parallel): prefill over two hosts, decode on one; every flag and variable."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.options import option_table

from .clusters import MODEL, engine, environment, found, planned, rules, service

COMMON = (
    f"{MODEL} --tensor-parallel-size 16 --enable-expert-parallel --quantization ascend --seed 1024 "
    "--no-enable-prefix-caching --max-model-len 136000 --trust-remote-code --block-size 128"
).split()
MTP = ["--speculative-config", '{"num_speculative_tokens": 3, "method":"deepseek_mtp"}']
SIZES = '"prefill": {"dp_size": 1, "tp_size": 16}, "decode": {"dp_size": 1, "tp_size": 16}'

PREFILL = [
    *COMMON,
    *MTP,
    *"--decode-context-parallel-size 8 --prefill-context-parallel-size 2 --cp-kv-cache-interleave-size 128".split(),
    *"--enforce-eager --no-enable-chunked-prefill --max-num-seqs 1 --max-num-batched-tokens 136000".split(),
    *"--gpu-memory-utilization 0.8 --nnodes 2 --master-addr 10.0.1.10 --master-port 7001".split(),
    "--kv-transfer-config",
    # changed: the guide's port 30000 stands in Mooncake's random band
    '{"kv_connector": "MooncakeConnectorV1", "kv_role": "kv_producer", "kv_port": 36000, '
    f'"kv_connector_extra_config": {{"use_ascend_direct": true, {SIZES}}}}}',
]

DECODE = [
    *COMMON,
    *MTP,
    *"--host 0.0.0.0 --port 8004 --api-server-count 1 --data-parallel-size 1 --data-parallel-size-local 1".split(),
    *"--data-parallel-start-rank 0 --data-parallel-address 10.0.1.12 --data-parallel-rpc-port 5980".split(),
    *"--decode-context-parallel-size 1 --distributed-executor-backend mp --max-num-batched-tokens 128".split(),
    *"--enable-chunked-prefill --max-num-seqs 4 --gpu-memory-utilization 0.96".split(),
    "--additional-config",
    '{"recompute_scheduler_enable": true}',
    "--compilation-config",
    '{"cudagraph_mode": "FULL_DECODE_ONLY", "cudagraph_capture_sizes":[1,2,4]}',
    "--kv-transfer-config",
    '{"kv_connector": "MooncakeConnectorV1", "kv_role": "kv_consumer", "kv_port": 36000, '
    f'"kv_connector_extra_config": {{{SIZES}}}}}',
]

ENVIRONMENT = {
    "HCCL_BUFFSIZE": "768",
    "OMP_PROC_BIND": "false",
    "PYTORCH_NPU_ALLOC_CONF": "expandable_segments:True",
    "OMP_NUM_THREADS": "1",
    "HCCL_OP_EXPANSION_MODE": "AIV",
    "VLLM_USE_V1": "1",
    "TASK_QUEUE_ENABLE": "1",
    "HCCL_SOCKET_IFNAME": "enp1s0f0",
    "GLOO_SOCKET_IFNAME": "enp1s0f0",
    "TP_SOCKET_IFNAME": "enp1s0f0",
    # added
    "HCCL_IF_BASE_PORT": "50000",
    "PYTHONHASHSEED": "0",
    "VLLM_ENGINE_READY_TIMEOUT_S": "3600",
}


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    return planned(prefill=2, pd_profile="context_parallel", pd_served_model_name="deepseek_v3")


def test_nothing_is_found(made: dict[str, Any]) -> None:
    assert made["findings"] == []


@pytest.mark.parametrize(
    ("name", "argv"),
    [
        ("prefill-0", [*PREFILL, "--node-rank", "0", "--host", "0.0.0.0", "--port", "8004"]),
        # changed: a follower has no server, so host and port would say nothing
        ("prefill-1", [*PREFILL, "--node-rank", "1", "--headless"]),
        ("decode-d1-0", DECODE),
    ],
)
def test_options(made: dict[str, Any], name: str, argv: list[str]) -> None:
    expected = option_table("0.22.1").parse(argv) | {"served-model-name": "deepseek_v3"}
    assert engine(made, name)["vllm_args"] == expected


def test_environment(made: dict[str, Any]) -> None:
    own = {"HCCL_IF_IP": "10.0.1.11", "VLLM_HOST_IP": "10.0.1.11"}
    assert environment(made, "prefill-1") == ENVIRONMENT | own | {"VLLM_ASCEND_ENABLE_FLASHCOMM1": "1"}
    assert "VLLM_ASCEND_ENABLE_FLASHCOMM1" not in environment(made, "decode-d1-0")


def test_followers_are_not_asked_and_not_told_to_the_proxy(made: dict[str, Any]) -> None:
    assert service(made, "prefill", "p2")["ready"] == {"kind": "running"}
    assert made["proxy"]["prefill"] == [{"host": "10.0.1.10", "port": 8004}]
    assert made["proxy"]["script"] == "load_balance_proxy_server_example.py"
    assert made["proxy"]["port"] == 8005


def test_container(made: dict[str, Any]) -> None:
    body = service(made, "prefill", "p1")["container"]
    assert body["privileged"] is False
    assert len([device for device in body["devices"] if device[-1].isdigit()]) == 16  # the guide forgets eight
    assert made["images"]["prefill"] == {"base": "quay.io/ascend/vllm-ascend:v0.22.1rc1-a3-openeuler", "layers": []}


def test_one_prefill_host_is_too_few() -> None:
    finding = found(planned(pd_profile="context_parallel"), "layout")
    assert "tensor 16 x prefill context 2 parallel = 32 chips, but p1 has 16" in finding["found"]


def test_hosts_of_two_prefill_instances() -> None:
    hosts = {name: {"pd_instance": "a" if name in ("p1", "p2") else "b"} for name in ("p1", "p2", "p3", "p4")}
    made = planned(prefill=4, hosts=hosts, pd_profile="context_parallel")
    assert rules(made) == []
    assert [instance["hosts"] for instance in made["instances"]] == [["p1", "p2"], ["p3", "p4"], ["d1"]]
    assert engine(made, "prefill-b-1")["vllm_args"]["master-addr"] == "10.0.1.12"
