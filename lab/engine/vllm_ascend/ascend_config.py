# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""`--additional-config`: what vLLM-Ascend reads there and refuses.

The order of the checks and their words are those of vllm_ascend/ascend_config.py:1021-1081 (release 0.26.0rc1).
Unknown keys are ignored, as upstream ignores them: a misspelt dram_size_per_dp_GB silently means 128.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from vllm.config import VllmConfig
from vllm.logger import init_logger

from vllm_ascend import release

logger = init_logger("vllm_ascend.ascend_config")


@dataclass(frozen=True)
class SparseKVOffload:
    """Sizes of sparse KV offload; dram in GiB per data-parallel replica."""

    topk_buffer_size: int
    dram_size_per_dp_gib: int
    keep_device_kv_cache: bool

    @property
    def pool_bytes(self) -> int:
        return self.dram_size_per_dp_gib << 30


def sparse_kv_offload(config: VllmConfig) -> SparseKVOffload | None:
    """The checked offload configuration, or None where it is off or this release does not know it."""
    given = config.additional.get("sparse_kv_offload_config") or {}
    if release() < (0, 26, 0) or not bool(given.get("enabled", False)):
        return None
    self = SparseKVOffload(
        int(given.get("topk_buffer_size", 4096)),
        int(given.get("dram_size_per_dp_GB", 128)),
        bool(given.get("keep_device_kv_cache", False)),
    )
    text, parallel = config.model.text, config.parallel
    if "compress_ratios" in text:
        raise ValueError("Sparse KV offload don't support compress now.")
    if "index_topk" not in text:
        raise ValueError("Sparse KV offload only support sparse attention model.")
    if parallel.prefill_context * parallel.decode_context > 1:
        raise ValueError("Sparse KV offload don't support context parallel now.")
    if parallel.pipeline > 1:
        raise ValueError("Sparse KV offload don't support pipeline parallel now.")
    if not self.keep_device_kv_cache and not (config.kv_transfer and config.kv_transfer.is_consumer):
        raise AssertionError(
            "Sparse KV offload is only supported in PD disaggregate scenario and can only be used in D node. "
            "For debugging in PD colocate scenario, you can enable keep_device_kv_cache."
        )
    if os.environ.get("VLLM_USE_V2_MODEL_RUNNER") == "1":
        raise ValueError("Sparse KV offload doesn't support model_runner_v2 now.")
    if self.topk_buffer_size <= 0:
        raise ValueError("sparse_kv_offload_config.topk_buffer_size must be positive")
    if self.topk_buffer_size < text["index_topk"]:
        raise ValueError(
            "sparse_kv_offload_config.topk_buffer_size must be >= topk, "
            f"got topk_buffer_size={self.topk_buffer_size}, topk={text['index_topk']}"
        )
    if config.additional.get("enable_sparse_sfa_c8"):
        raise NotImplementedError(
            "Sparse KV offload requires a BF16 main SFA cache; enable_sparse_sfa_c8 is not supported."
        )
    return self


def recompute_scheduler(config: VllmConfig) -> bool:
    """Whether D hands requests back to P when its KV cache runs out (platform.py:673-697)."""
    nested = config.additional.get("scheduler_config") or {}
    wanted = nested.get("recompute_scheduler_enable", config.additional.get("recompute_scheduler_enable", False))
    role = config.kv_transfer.kv_role if config.kv_transfer else None
    if not wanted or role == "kv_consumer":
        return bool(wanted)
    if role == "kv_producer":
        logger.warning(
            "recompute_scheduler_enable is ignored on PD-disaggregated P nodes (kv_role='kv_producer') and will be "
            "deprecated on P nodes in a future release."
        )
        return False
    raise ValueError(
        "recompute_scheduler_enable can only be enabled on PD-disaggregated D nodes "
        f"(kv_role='kv_consumer', but got kv_role={role!r}), and is not supported in PD-mixed mode."
    )
