# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""What the sizes of a model follow from, read off its ``config.json``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

#: Names of the number of experts (vllm/transformers_utils/model_arch_config_convertor.py get_num_experts); probes bring
#: them along.
EXPERTS = ("num_experts", "moe_num_experts", "n_routed_experts", "num_local_experts")


def text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The language model's part of a ``config.json``; multimodal models nest it."""
    for name in ("text_config", "llm_config", "language_config"):
        nested = config.get(name)
        if isinstance(nested, Mapping) and nested.get("num_hidden_layers"):
            return nested
    return config


def number(text: Mapping[str, Any], name: str, otherwise: int = 0) -> int:
    """A whole number of ``config.json``; `otherwise` where it has none above 0: a broken file is no crash."""
    value = text.get(name)
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}", value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return otherwise
    return int(value) if 0 < value < 2**31 else otherwise


def longest_length(text: Mapping[str, Any]) -> int | None:
    """The length that vLLM gives a model whose ``max-model-len`` is not stated (vllm/config/model.py
    ``_get_and_verify_max_len``), and beyond which it refuses a stated one; ``None``: config.json does not say.
    """
    length = number(text, "max_position_embeddings")
    scaling = text.get("rope_scaling") or text.get("rope_parameters") or {}
    if not length or not isinstance(scaling, Mapping):
        return length or None
    kind = scaling.get("rope_type") or scaling.get("type")
    if kind == "yarn":
        length = number(scaling, "original_max_position_embeddings", length)
    factor = scaling.get("factor")
    if kind in ("su", "longrope", "llama3") or not isinstance(factor, (int, float)) or not 0 < factor < 1e6:
        return length
    return int(length * factor)


def effective_indexer_types(text: Mapping[str, Any]) -> tuple[str, ...] | None:
    """``indexer_types`` with "shared" only where vllm-ascend really leaves the indexer out.

    patch/worker/patch_deepseek_v2.py builds no indexer only where top-k is skipped AND the checkpoint says "shared".
    """
    types = text.get("indexer_types")
    if not types or not isinstance(types, (list, tuple)):
        return None
    frequency = number(text, "index_topk_freq", 1)
    offset = number(text, "index_skip_topk_offset") if "index_skip_topk_offset" in text else 2
    pattern = text.get("index_topk_pattern")
    pattern = pattern if isinstance(pattern, (str, list)) else None
    result: list[str] = []
    for layer, kind in enumerate(types):
        if pattern is None:
            skipped = max(layer - offset + 1, 0) % frequency != 0
        else:
            skipped = layer < len(pattern) and pattern[layer] == "S"
        result.append("shared" if skipped and str(kind).lower() == "shared" else "full")
    return tuple(result)


def experts_of(text: Mapping[str, Any]) -> int:
    """How many experts each layer chooses from; 0 for a dense model."""
    for name in EXPERTS:
        stated = text.get(name)
        found = number({name: stated[0] if isinstance(stated, list) and stated else stated}, name)
        if found:
            return found
    return 0


def expert_weight_share(text: Mapping[str, Any]) -> float:
    """Part of all parameters that routed experts are, from the shapes in ``config.json``; 0 for a dense model."""
    experts = experts_of(text)
    hidden = number(text, "hidden_size")
    layers = number(text, "num_hidden_layers")
    if not (experts and hidden and layers):
        return 0.0
    per_expert = 3 * hidden * number(text, "moe_intermediate_size", number(text, "intermediate_size"))
    dense_layers = number(text, "first_k_dense_replace")
    routed = experts * per_expert * (layers - dense_layers)
    shared = number(text, "n_shared_experts") * per_expert * (layers - dense_layers)
    dense = dense_layers * 3 * hidden * number(text, "intermediate_size")
    heads = number(text, "num_attention_heads")
    if number(text, "kv_lora_rank"):
        q_rank, kv_rank = number(text, "q_lora_rank", hidden), number(text, "kv_lora_rank")
        nope, rope, value = (number(text, k) for k in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"))
        attention = hidden * (q_rank + kv_rank + rope) + heads * (
            q_rank * (nope + rope) + kv_rank * (nope + value) + value * hidden
        )
    else:
        head_dim = number(text, "head_dim", hidden // max(heads, 1))
        attention = 2 * hidden * head_dim * (heads + number(text, "num_key_value_heads", heads))
    total = routed + shared + dense + layers * attention + 2 * hidden * number(text, "vocab_size")
    return routed / total if 0 < routed <= total else 0.0
