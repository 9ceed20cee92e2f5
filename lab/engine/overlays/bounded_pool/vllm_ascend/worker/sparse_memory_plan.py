# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Host pool bounded by NPU, DRAM and workload, as vllm-ascend's main has it since PR 14921.

Laid over the tree of releases that behave so; the function's name is what people look for in an installed tree.
"""

from __future__ import annotations

from vllm.config import VllmConfig
from vllm.logger import init_logger
from vllm.memory import CacheLayout

logger = init_logger("vllm_ascend.worker.sparse_memory_plan")
_ALIGNMENT = 2 << 20


def plan_sparse_kv_offload_memory(config: VllmConfig, layout: CacheLayout, free: int, dram: int) -> int:
    """Blocks: the least of what the chip holds, what the host pool holds, and what the workload can ever use."""
    reserve = layout.main_layers * 3 * _ALIGNMENT
    by_chip = free // (layout.indexer_bytes * config.block_size)
    by_host = (dram - reserve) // (layout.main_bytes * config.block_size)
    by_workload = -(-config.model.max_model_len // config.block_size) * config.max_num_seqs + 1
    if by_host < min(by_chip, by_workload):
        logger.warning("Sparse KV offload: dram_size_per_dp_GB caps the KV cache at %d blocks", by_host)
    return min(by_chip, by_host, by_workload)


plan = plan_sparse_kv_offload_memory
