# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Checks of vLLM-Ascend's platform while the configuration is built: seconds after the start.

Order of vllm_ascend/platform.py check_and_update_config in release 0.26.0rc1 (:337-344, :440, :728-770) and, for
context parallelism, 0.22.1rc1 (:347-357, :706-716).
"""

from __future__ import annotations

import os
import uuid

from vllm.config import VllmConfig
from vllm.logger import init_logger

from vllm_ascend import release
from vllm_ascend.ascend_config import SparseKVOffload, recompute_scheduler, sparse_kv_offload

logger = init_logger("vllm_ascend.platform")


def check_and_update_config(config: VllmConfig) -> SparseKVOffload | None:
    """Refuse what the platform refuses; gives the offload configuration, if any."""
    _context_parallel(config)
    sparse = sparse_kv_offload(config)
    _tensor_parallel_ratio(config)
    if config.kv_transfer is not None:
        _sizes_of_connectors(config)
        # platform.py:441: a suffix of its own makes every engine's id differ, whatever the configuration says
        config.kv_transfer.engine_id = f"{config.kv_transfer.engine_id}-{uuid.uuid4().hex}"
    recompute_scheduler(config)
    _interleave(config)
    _flash_comm(config)
    return sparse


def _context_parallel(config: VllmConfig) -> None:
    pcp, data = config.parallel.prefill_context, config.parallel.data
    if pcp > 1 and release() >= (0, 25, 0) and os.environ.get("VLLM_USE_V2_MODEL_RUNNER") != "1":
        raise ValueError(
            "PCP (Prefill Context Parallelism) is not supported by vLLM Ascend. "
            f"Please set --prefill-context-parallel-size to 1. Got prefill_context_parallel_size={pcp}."
        )
    if pcp > 1 and data > 1:
        raise ValueError(
            "PCP (Prefill Context Parallelism) and DP (Data Parallelism) cannot be enabled simultaneously in the "
            "current "
            f"version of vLLM Ascend. Got data_parallel_size={data} and prefill_context_parallel_size={pcp}. "
            "Please set either --data-parallel-size 1 or --prefill-context-parallel-size 1."
        )


def _tensor_parallel_ratio(config: VllmConfig) -> None:
    """ascend_config.py:232-257, for models without MLA."""
    if config.kv_transfer is None or config.model.uses_mla:
        return
    prefill = config.kv_transfer.extra.get("prefill", {"tp_size": 1})["tp_size"]
    decode = config.kv_transfer.extra.get("decode", {"tp_size": 1})["tp_size"]
    assert prefill % decode == 0, "Prefill TP size must be divisible by Decode TP size."


def _sizes_of_connectors(config: VllmConfig) -> None:
    """utils.py:1300-1328: what the connector is told about its own side must be true."""
    transfer, parallel = config.kv_transfer, config.parallel
    assert transfer is not None
    for name, concerned in (("prefill", transfer.is_producer), ("decode", transfer.is_consumer)):
        told = transfer.extra.get(name, {}) if concerned else {}
        for key, words, real in (("tp_size", "tensor", parallel.tensor), ("dp_size", "data", parallel.data)):
            if key in told and told[key] != real:
                raise ValueError(
                    f"KV transfer '{name}' config has a conflicting {words} parallel size. "
                    f"Expected {real}, but got {told[key]}."
                )


def _interleave(config: VllmConfig) -> None:
    parallel = config.parallel
    several = parallel.prefill_context * parallel.decode_context > 1
    if config.kv_transfer is not None and several and parallel.interleave != config.block_size:
        raise AssertionError(
            f"cp_kv_cache_interleave_size({parallel.interleave}) and block_size({config.block_size}) "
            "needs to be equal if PCP or DCP is enabled in P/D disaggregate and kv pool scenario."
        )
    sparse_model = "index_topk" in config.model.text
    if sparse_model and parallel.decode_context > 1 and parallel.decode_context != parallel.tensor:
        raise AssertionError(
            f"DCP for SFA is only supported when dcp_size({parallel.decode_context}) == tp_size({parallel.tensor})."
        )


def _flash_comm(config: VllmConfig) -> None:
    wanted = os.environ.get("VLLM_ASCEND_ENABLE_FLASHCOMM1") == "1" or config.additional.get("enable_flashcomm1")
    if wanted:
        assert config.parallel.tensor > 1, "Flash Comm v1 is only supported when tp_size > 1."
        assert not config.model.is_moe or config.parallel.expert, (
            "Flash Comm v1 requires enable_expert_parallel=True for MoE models."
        )
    elif config.additional.get("enable_dsa_cp") and "index_topk" in config.model.text:
        raise ValueError(
            "DSA CP requires SP to be enabled. Please enable SP(set VLLM_ASCEND_ENABLE_FLASHCOMM1=1) to use DSA CP."
        )
