# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Ways to serve, as data: what each profile puts under the user's variables.

``sparse_kv_offload`` and ``context_parallel`` carry the values of the guide that they come from, with the changes that
upstream's code forces (a comment says which). The others carry only what defines them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

LAYERWISE = "layerwise"
STANDARD = "standard"

#: Upstream's two proxies, in examples/disaggregated_prefill_v1 of vllm-ascend.
PROXY_SCRIPTS = {
    LAYERWISE: "load_balance_proxy_layerwise_server_example.py",
    STANDARD: "load_balance_proxy_server_example.py",
}

_REGISTRY = "quay.io/ascend/vllm-ascend"


@dataclass(frozen=True)
class Profile:
    """Defaults of one way to serve. Mappings are per role."""

    name: str
    roles: tuple[str, ...] = ("prefill", "decode")
    vllm: str = "0.26.0"
    vllm_ascend: str = "0.26.0rc1"
    build: bool = False
    privileged: bool = False
    guided: bool = False  # from a guide: hash seed, ready timeout and a served name are set too
    sparse_kv_offload: bool = False  # decode keeps its KV cache in host memory
    ports: Mapping[str, int] = field(default_factory=dict)  # role or "proxy" -> HTTP port
    one_instance: tuple[str, ...] = ()  # roles whose hosts form one instance unless pd_instance says otherwise
    rpc_port: int | None = None  # data-parallel rendezvous, stated even where one host has all ranks
    parallel: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    vllm_args: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    env: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    kv_transfer: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    prepend: Mapping[str, list[str]] = field(default_factory=dict)

    def image(self, generation: str, vllm_ascend: str | None = None) -> str:
        """Upstream's image of a version (the profile's) for a chip generation: without ``-a3`` it is the one for A2."""
        suffix = "-a3-openeuler" if generation == "A3" else "-openeuler"
        return f"{_REGISTRY}:v{vllm_ascend or self.vllm_ascend}{suffix}"


# Mooncake's AscendDirect transport binds random ports in 20000..20000 + 1000 per chip (vllm-ascend
# docs/source/tutorials/features/pd_disaggregation_mooncake_multi_node.md), so nothing of ours may lie there.
_OUTSIDE_MOONCAKE = {"prefill": 7100, "decode": 7200, "engine": 8080, "proxy": 8005}

_GUIDE_1_ARGS: dict[str, Any] = {
    "max-num-seqs": 4,
    "block-size": 128,
    "max-model-len": 132096,
    "trust-remote-code": True,
    "gpu-memory-utilization": 0.95,
    "quantization": "ascend",
    "enable-chunked-prefill": True,
    "enable-expert-parallel": True,
    "speculative-config": {"method": "mtp", "num_speculative_tokens": 3},
    "safetensors-load-strategy": "prefetch",
    "additional-config": {"enable_mlapo": False},
}

_GUIDE_1_ENV = {
    "HCCL_BUFFSIZE": "400",
    "HCCL_OP_EXPANSION_MODE": "AIV",
    "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS": "3000",
    "OMP_PROC_BIND": "false",
    "OMP_NUM_THREADS": "1",
    "VLLM_USE_V1": "1",
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
}

#: The image says this in ~/.bashrc only (Dockerfile.a3.openEuler), which guides' shells read and a service does not;
#: up to 0.22.1 Mooncake's libraries lie there. Its LD_PRELOAD of jemalloc is left to pd_prepend_paths: other images
#: lack the file, and then the loader complains in every process.
_BASHRC = {"LD_LIBRARY_PATH": ["/usr/local/lib"]}

_GUIDE_2_ARGS: dict[str, Any] = {
    "enable-expert-parallel": True,
    "quantization": "ascend",
    "seed": 1024,
    "max-model-len": 136000,
    "trust-remote-code": True,
    "enable-prefix-caching": False,
    "block-size": 128,  # the guide leaves it out on decode; prefill's blocks are read there, so it says the same
    "speculative-config": {"num_speculative_tokens": 3, "method": "deepseek_mtp"},
}

_GUIDE_2_ENV = {
    "HCCL_BUFFSIZE": "768",
    "OMP_PROC_BIND": "false",
    "PYTORCH_NPU_ALLOC_CONF": "expandable_segments:True",
    "OMP_NUM_THREADS": "1",
    "HCCL_OP_EXPANSION_MODE": "AIV",
    "VLLM_USE_V1": "1",
    "TASK_QUEUE_ENABLE": "1",
}

_MOONCAKE = {"kv_connector": "MooncakeConnectorV1"}

_PROFILES = (
    Profile(
        "sparse_kv_offload",
        build=True,
        privileged=True,
        guided=True,
        sparse_kv_offload=True,
        prepend=_BASHRC,
        ports={"prefill": 29180, "decode": 29181, "proxy": 21600},
        vllm_args={
            "prefill": {
                **_GUIDE_1_ARGS,
                "max-num-batched-tokens": 1024,
                "enable-prefix-caching": True,
                # not in the guide: layerwise transfer runs outside captured graphs (vllm-ascend main,
                # docs/source/user_guide/feature_guide/layerwise_and_sparse_kv_cache_offloading.md)
                "enforce-eager": True,
            },
            "decode": {
                **_GUIDE_1_ARGS,
                "max-num-batched-tokens": 120,
                "enable-prefix-caching": False,
                "compilation-config": {"cudagraph_mode": "FULL_DECODE_ONLY"},
            },
        },
        env={
            "prefill": _GUIDE_1_ENV,
            # not in the guide: ascend_config.py refuses sparse KV offload with the V2 model runner
            "decode": {**_GUIDE_1_ENV, "VLLM_USE_V2_MODEL_RUNNER": "0"},
        },
        kv_transfer={
            "prefill": {
                "kv_connector": "MultiConnector",
                "kv_connector_extra_config": {
                    "connectors": [
                        {
                            "kv_connector": "SfaRemoteD2HConnector",
                            "kv_connector_extra_config": {"transfer_backend": "memfabric"},
                        },
                        {
                            "kv_connector": "AscendStoreConnector",
                            "kv_connector_extra_config": {
                                "backend": "memcache",
                                "use_layerwise": True,
                                "layerwise_num_shared_buffers": 3,
                                "layerwise_independent_layers": [0],
                            },
                        },
                    ]
                },
            },
            "decode": {
                "kv_connector": "SfaRemoteD2HConnector",
                "kv_connector_extra_config": {"transfer_backend": "memfabric", "use_layerwise": True},
            },
        },
    ),
    Profile(
        "context_parallel",
        # prefill context parallelism runs in 0.13 to 0.24 only (later: platform.py wants the V2 model runner)
        vllm="0.22.1",
        vllm_ascend="0.22.1rc1",
        guided=True,
        ports={"prefill": 8004, "decode": 8004, "proxy": 8005},
        one_instance=("prefill",),
        prepend=_BASHRC,
        rpc_port=5980,
        parallel={
            "prefill": {
                "tensor_parallel_size": 16,
                "prefill_context_parallel_size": 2,
                "decode_context_parallel_size": 8,
            },
            "decode": {"tensor_parallel_size": 16, "decode_context_parallel_size": 1, "data_parallel_size": 1},
        },
        vllm_args={
            "prefill": {
                **_GUIDE_2_ARGS,
                "cp-kv-cache-interleave-size": 128,
                "enforce-eager": True,
                "enable-chunked-prefill": False,
                "max-num-seqs": 1,
                "max-num-batched-tokens": 136000,
                "gpu-memory-utilization": 0.8,
            },
            "decode": {
                **_GUIDE_2_ARGS,
                "api-server-count": 1,
                "distributed-executor-backend": "mp",
                "max-num-batched-tokens": 128,
                "enable-chunked-prefill": True,
                "max-num-seqs": 4,
                "gpu-memory-utilization": 0.96,
                "additional-config": {"recompute_scheduler_enable": True},
                "compilation-config": {"cudagraph_mode": "FULL_DECODE_ONLY", "cudagraph_capture_sizes": [1, 2, 4]},
            },
        },
        env={"prefill": {**_GUIDE_2_ENV, "VLLM_ASCEND_ENABLE_FLASHCOMM1": "1"}, "decode": _GUIDE_2_ENV},
        kv_transfer={
            "prefill": {**_MOONCAKE, "kv_connector_extra_config": {"use_ascend_direct": True}},
            "decode": _MOONCAKE,
        },
    ),
    Profile("mooncake", ports=_OUTSIDE_MOONCAKE, kv_transfer={"prefill": _MOONCAKE, "decode": _MOONCAKE}),
    Profile(
        "mooncake_layerwise",
        ports=_OUTSIDE_MOONCAKE,
        kv_transfer={
            "prefill": {"kv_connector": "MooncakeLayerwiseConnector"},
            "decode": {"kv_connector": "MooncakeLayerwiseConnector"},
        },
    ),
    Profile("aggregated", roles=("engine",), ports=_OUTSIDE_MOONCAKE),
    Profile("custom", ports=_OUTSIDE_MOONCAKE),
)

PROFILES: Mapping[str, Profile] = {profile.name: profile for profile in _PROFILES}
