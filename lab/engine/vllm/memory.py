# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""HBM and KV cache figures of one rank, in bytes.

Byte widths follow vllm_ascend/core/kv_cache_interface.py (AscendMLAAttentionSpec :35-41, AscendSFAIndexerCacheSpec
:122-129) and vllm_ascend/worker/model_runner_v1.py:4777-4835. What a real run measures (activation peak, graphs,
transfer buffers) is a plain estimate here and marked so.
"""

from __future__ import annotations

from dataclasses import dataclass

from vllm.config import VllmConfig
from vllm.lab_host import GIB

# Estimates: non-torch memory and HCCL buffers, ACL graphs, buffers of a KV connector (va issue #12839 saw several GB).
_FIXED = 2 * GIB
_GRAPHS = GIB // 2
_TRANSFER = 1 * GIB


@dataclass(frozen=True)
class CacheLayout:
    """Bytes that one token takes in the KV cache of one rank."""

    main_layers: int
    indexer_layers: int
    main_bytes: int  # of all layers: MLA latent and rope, or K and V
    indexer_bytes: int  # of all layers that own an indexer cache

    @property
    def ratio(self) -> float:
        """Host to device bytes under sparse KV offload (get_host_device_memory_usage_ratio)."""
        return self.main_bytes / self.indexer_bytes


def cache_layout(config: VllmConfig) -> CacheLayout:
    text, parallel = config.model.text, config.parallel
    method = str((config.arguments.speculative_config or {}).get("method", ""))
    draft = min(1, int(text.get("num_nextn_predict_layers", 1))) if "mtp" in method and config.speculative_tokens else 0
    layers = int(text["num_hidden_layers"]) // parallel.pipeline + draft
    shards = parallel.prefill_context * parallel.decode_context
    if not config.model.uses_mla:
        heads = max(1, int(text["num_key_value_heads"]) // parallel.tensor)
        width = int(text.get("head_dim") or text["hidden_size"] // text["num_attention_heads"])
        return CacheLayout(layers, 0, layers * 2 * heads * width * 2 // shards, 0)
    main = layers * (int(text["kv_lora_rank"]) + int(text["qk_rope_head_dim"])) * 2
    if "index_topk" not in text:
        return CacheLayout(layers, 0, main // shards, 0)
    types = text.get("indexer_types") or []
    owners = layers - sum(kind == "shared" for kind in types)
    head = int(text["index_head_dim"])
    width = head + 2 if config.additional.get("enable_sparse_li_c8") else head * 2
    return CacheLayout(layers, owners, main // shards, owners * width // shards)


def weight_bytes(config: VllmConfig) -> int:
    """Weights on one rank: experts are spread over all ranks with expert parallelism, the rest over TP and PP."""
    parallel, total = config.parallel, config.model.weight_bytes
    dense = parallel.tensor * parallel.pipeline
    if not (config.model.is_moe and parallel.expert):
        return total // dense
    everywhere = dense * parallel.prefill_context * parallel.data
    return int(total * (0.95 / everywhere + 0.05 / dense))


def hot_buffer_bytes(config: VllmConfig, topk_buffer_size: int) -> int:
    """NPU top-k buffers of sparse KV offload (allocate_kv_offload_topk_buffer_pair)."""
    rows = min(config.max_num_batched_tokens, config.max_num_seqs * (1 + config.speculative_tokens))
    width = int(config.model.text["kv_lora_rank"]) + int(config.model.text["qk_rope_head_dim"])
    return cache_layout(config).main_layers * rows * topk_buffer_size * width * 2


def free_for_cache(config: VllmConfig, hbm: int, hot_buffers: int) -> int:
    """Bytes left for the KV cache on one rank after weights and the profile run."""
    parallel = config.parallel
    tokens = config.max_num_batched_tokens // parallel.prefill_context
    activations = tokens * int(config.model.text["hidden_size"]) * 2 * 12
    graphs = 0 if config.enforce_eager else _GRAPHS
    transfer = _TRANSFER if config.kv_transfer else 0
    requested = int(hbm * config.gpu_memory_utilization)
    return requested - weight_bytes(config) - _FIXED - activations - graphs - transfer - hot_buffers
