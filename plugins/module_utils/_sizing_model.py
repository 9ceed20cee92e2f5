# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""What the sizes of a model follow from, read off its ``config.json``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The language model's part of a ``config.json``; multimodal models nest it."""
    for name in ("text_config", "llm_config", "language_config"):
        nested = config.get(name)
        if isinstance(nested, Mapping) and nested.get("num_hidden_layers"):
            return nested
    return config


def longest_length(text: Mapping[str, Any]) -> int | None:
    """The length that vLLM gives a model whose ``max-model-len`` is not stated (vllm/config/model.py
    ``_get_and_verify_max_len``), and beyond which it refuses a stated one; ``None``: config.json does not say.
    """
    length = text.get("max_position_embeddings")
    scaling = text.get("rope_scaling") or text.get("rope_parameters") or {}
    if not length or not isinstance(scaling, Mapping):
        return int(length) if length else None
    kind = scaling.get("rope_type") or scaling.get("type")
    if kind == "yarn" and scaling.get("original_max_position_embeddings"):
        length = scaling["original_max_position_embeddings"]
    factor = scaling.get("factor") or 1
    return int(length * (1 if kind in ("su", "longrope", "llama3") else factor))


def effective_indexer_types(text: Mapping[str, Any]) -> tuple[str, ...] | None:
    """``indexer_types`` with "shared" only where vllm-ascend really leaves the indexer out.

    patch/worker/patch_deepseek_v2.py builds no indexer only where top-k is skipped AND the checkpoint says "shared".
    """
    types = text.get("indexer_types")
    if not types:
        return None
    frequency = int(text.get("index_topk_freq") or 1)
    offset = int(text.get("index_skip_topk_offset", 2))
    pattern = text.get("index_topk_pattern")
    result: list[str] = []
    for layer, kind in enumerate(types):
        if pattern is None:
            skipped = max(layer - offset + 1, 0) % frequency != 0
        else:
            skipped = layer < len(pattern) and pattern[layer] == "S"
        result.append("shared" if skipped and str(kind).lower() == "shared" else "full")
    return tuple(result)


def expert_weight_share(text: Mapping[str, Any]) -> float:
    """Part of all parameters that routed experts are, from the shapes in ``config.json``; 0 for a dense model."""
    experts = int(text.get("n_routed_experts") or text.get("num_experts") or 0)
    hidden = int(text.get("hidden_size") or 0)
    layers = int(text.get("num_hidden_layers") or 0)
    if not (experts and hidden and layers):
        return 0.0
    per_expert = 3 * hidden * int(text.get("moe_intermediate_size") or 0)
    dense_layers = int(text.get("first_k_dense_replace") or 0)
    routed = experts * per_expert * (layers - dense_layers)
    shared = int(text.get("n_shared_experts") or 0) * per_expert * (layers - dense_layers)
    dense = dense_layers * 3 * hidden * int(text.get("intermediate_size") or 0)
    heads = int(text.get("num_attention_heads") or 0)
    if text.get("kv_lora_rank"):
        q_rank, kv_rank = int(text.get("q_lora_rank") or hidden), int(text["kv_lora_rank"])
        nope, rope, value = (int(text.get(k) or 0) for k in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"))
        attention = hidden * (q_rank + kv_rank + rope) + heads * (
            q_rank * (nope + rope) + kv_rank * (nope + value) + value * hidden
        )
    else:
        head_dim = int(text.get("head_dim") or hidden // max(heads, 1))
        attention = 2 * hidden * head_dim * (heads + int(text.get("num_key_value_heads") or heads))
    total = routed + shared + dense + layers * attention + 2 * hidden * int(text.get("vocab_size") or 0)
    return routed / total
