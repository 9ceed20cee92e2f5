# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Everything that decides the memory of one instance: the model, how it is served, the hardware."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from ._sizing_gate import GATE_AVAILABLE, GIB
from ._sizing_model import effective_indexer_types, expert_weight_share, longest_length, number, text_config

BF16_BYTES = 2

#: What vLLM 0.22.1 to 0.26.0 takes where the user says nothing (vllm/config/cache.py; vllm/engine/arg_utils.py
#: ``get_batch_defaults`` for a server on chips below 70 GiB), and the block size of vllm-ascend (utils.py
#: ``refresh_block_size``).
DEFAULT_GPU_MEMORY_UTILIZATION = 0.92
DEFAULT_MAX_NUM_SEQS = 256
DEFAULT_MAX_NUM_BATCHED_TOKENS = 2048
DEFAULT_BLOCK_SIZE = 128

#: Assumptions of the HBM estimate, none of them measured on an A3 by this project; each can be overridden.
HBM_SYSTEM_BYTES = 3 * GIB  # npu-smi shows 2.9 to 3.4 GB used on an idle A3 chip
HBM_RUNTIME_BYTES = 3 * GIB  # activation peak, HCCL buffers and captured graphs
HOST_RESERVE_BYTES = 32 * GIB  # operating system, page cache for weights, the engines' own processes

_AT_LEAST_ONE = (
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "prefill_context_parallel_size",
    "decode_context_parallel_size",
    "data_parallel_size",
    "data_parallel_size_local",
    "block_size",
    "max_num_seqs",
)


@dataclass(frozen=True)
class SizingInput:
    """What decides the memory of one instance. ``None``: unknown, or "take the recommendation" where that is said."""

    # the model
    num_hidden_layers: int = 0
    mtp_layers: int = 0  # layers of the draft model that are loaded: 1 with MTP, whatever num_speculative_tokens
    kv_lora_rank: int = 0  # 0: not MLA
    qk_rope_head_dim: int = 0
    index_head_dim: int = 0
    index_topk: int = 0  # 0: no sparse attention
    indexer_types: tuple[str, ...] | None = None  # "shared" layers own no indexer cache; None: every layer owns one
    num_key_value_heads: int = 0
    head_dim: int = 0
    hidden_size: int = 0
    compressed: bool = False  # config.json has compress_ratios (DeepSeek-V4): formulas here do not hold
    expert_weight_share: float = 0.0  # part of the weights that experts are, 0..1
    weight_bytes: int | None = None  # all shards together
    li_c8: bool = False  # additional-config enable_sparse_li_c8

    # how it is served
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    prefill_context_parallel_size: int = 1
    decode_context_parallel_size: int = 1
    data_parallel_size: int = 1
    data_parallel_size_local: int = 1  # ranks of the data-parallel group on one host
    block_size: int = DEFAULT_BLOCK_SIZE
    max_model_len: int = 0
    max_num_seqs: int = DEFAULT_MAX_NUM_SEQS
    max_num_batched_tokens: int = DEFAULT_MAX_NUM_BATCHED_TOKENS
    num_speculative_tokens: int = 0
    gpu_memory_utilization: float = DEFAULT_GPU_MEMORY_UTILIZATION

    # sparse KV offload (decode)
    sparse_kv_offload: bool = False
    keep_device_kv_cache: bool = False
    topk_buffer_size: int | None = None  # None: the recommendation
    dram_size_per_dp_gib: int | None = None  # None: the recommendation
    kv_cache_memory_bytes: int | None = None  # None: the recommendation, unless available_kv_bytes is given
    pin_kv_cache: bool = True  # --kv-cache-memory-bytes is passed; False: vLLM takes whatever HBM is free
    available_kv_bytes: int | None = None  # measured free HBM for KV of one rank, where nothing is pinned
    gate: str = GATE_AVAILABLE

    # layerwise KV pool (prefill)
    layerwise_num_shared_buffers: int | None = None
    layerwise_independent_layers: tuple[int, ...] = (0,)
    memcache: bool = False
    memcache_dram_gib: int | None = None  # per rank; None: the recommendation
    memcache_pool_tokens: int | None = None  # None: max_num_seqs requests of max_model_len

    # the hardware
    hbm_bytes: int | None = None
    hbm_system_bytes: int = HBM_SYSTEM_BYTES
    hbm_runtime_bytes: int = HBM_RUNTIME_BYTES
    host_available_bytes: int | None = None
    host_reserve_bytes: int = HOST_RESERVE_BYTES

    def __post_init__(self) -> None:
        for name in _AT_LEAST_ONE:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be 1 or more, not {getattr(self, name)}")

    @classmethod
    def from_model(cls, config: Mapping[str, Any], **overrides: Any) -> SizingInput:
        """Read the model's part from its ``config.json``, nested or not; ``"auto"`` in an override means ``None``.

        Without ``max_model_len`` the model's own length holds, as in vLLM.
        """
        text = text_config(config)
        values: dict[str, Any] = {
            name: number(text, name)
            for name in (
                "num_hidden_layers",
                "kv_lora_rank",
                "qk_rope_head_dim",
                "index_head_dim",
                "index_topk",
                "hidden_size",
            )
        }
        heads = number(text, "num_attention_heads")
        values["num_key_value_heads"] = number(text, "num_key_value_heads", heads)
        values["head_dim"] = number(text, "head_dim", values["hidden_size"] // heads if heads > 0 else 0)
        values["compressed"] = "compress_ratios" in text
        values["max_model_len"] = longest_length(text) or 0
        values["indexer_types"] = effective_indexer_types(text)
        values["expert_weight_share"] = expert_weight_share(text)
        if number(text, "num_nextn_predict_layers") and int(overrides.get("num_speculative_tokens") or 0) > 0:
            values["mtp_layers"] = 1
        layer_types = text.get("layer_types")
        if isinstance(layer_types, list) and layer_types:
            # hybrid models: only full-attention layers keep KV that grows with the context
            values["num_hidden_layers"] = sum(1 for kind in layer_types if kind == "full_attention") or len(layer_types)
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(overrides) - known)
        if unknown:
            raise TypeError("unknown sizing input: " + ", ".join(unknown))
        values.update({key: _value(value) for key, value in overrides.items()})
        return cls(**values)

    # -- derived layout ---------------------------------------------------------------------------------------------

    @property
    def attention(self) -> str:
        """``sparse`` (SFA/DSA), ``mla``, ``gqa``, ``compressed`` or ``unknown``."""
        if self.compressed:
            return "compressed"
        if self.kv_lora_rank and self.index_topk:
            return "sparse" if self.index_head_dim else "unknown"
        if self.kv_lora_rank:
            return "mla"
        if self.num_key_value_heads and self.head_dim:
            return "gqa"
        return "unknown"

    @property
    def kv_layers(self) -> int:
        return self.num_hidden_layers + self.mtp_layers

    @property
    def indexer_layers(self) -> int:
        """Layers that own an indexer cache; the MTP layer always keeps its own (patch/worker/patch_deepseek_v2.py)."""
        if self.attention != "sparse":
            return 0
        shared = sum(1 for kind in (self.indexer_types or ())[: self.num_hidden_layers] if kind == "shared")
        return self.kv_layers - shared

    @property
    def main_bytes_per_token_layer(self) -> int:
        """KV bytes of one token in one layer of one rank, without the indexer; BF16 (core/kv_cache_interface.py)."""
        if self.attention == "gqa":
            heads = max(1, self.num_key_value_heads // self.tensor_parallel_size)
            return 2 * heads * self.head_dim * BF16_BYTES
        return (self.kv_lora_rank + self.qk_rope_head_dim) * BF16_BYTES

    @property
    def indexer_bytes_per_token_layer(self) -> int:
        """BF16, or with li_c8 on A3 one byte per element and one FP16 scale (RUNNER ``AscendSFAIndexerCacheSpec``)."""
        if self.attention != "sparse":
            return 0
        return self.index_head_dim + 2 if self.li_c8 else self.index_head_dim * BF16_BYTES

    @property
    def offloads(self) -> bool:
        """The main KV cache lives in host memory. Upstream refuses a model none of whose layers has an indexer."""
        return self.sparse_kv_offload and self.attention == "sparse" and self.indexer_layers > 0

    @property
    def hot_rows(self) -> int:
        """Rows of the top-k hot buffer (SKO ``allocate_kv_offload_topk_buffer_pair``)."""
        return min(self.max_num_batched_tokens, self.max_num_seqs * (1 + self.num_speculative_tokens))


def _value(value: Any) -> Any:
    """A setting as YAML or Jinja gave it: ``"auto"``, numbers as text, lists."""
    if value == "auto":
        return None
    if isinstance(value, list):
        return tuple(value)
    if isinstance(value, str) and re.fullmatch(r"-?\d+", value):
        return int(value)
    if isinstance(value, str) and re.fullmatch(r"-?\d*\.\d+", value):
        return float(value)
    return value
