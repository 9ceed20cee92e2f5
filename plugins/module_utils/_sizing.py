# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""How much memory a vLLM-Ascend instance needs, on the chips and on the host: one pure function, ``size``.

Units: every name that ends in ``_bytes`` is bytes, in ``_gib`` is GiB (2**30). vllm-ascend writes
``dram_size_per_dp_GB`` but multiplies by ``1 << 30``, so that number is GiB too.

Sources are files of vllm-ascend 0.26.0rc1, short names: SKO = distributed/kv_transfer/sparse_kv_offload/
sparse_kv_offload_manager.py, RUNNER = worker/model_runner_v1.py, WORKER = worker/worker.py, CONFIG = ascend_config.py,
LAYOUT = distributed/kv_transfer/kv_pool/ascend_store/layerwise_cache_layout.py. PR14921 is the later pull request
"Bound sparse KV offload memory by NPU, DRAM and workload limits".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

GIB = 1 << 30
BF16_BYTES = 2
#: Host tensors of K and V start on 2 MiB, SKO ``_CPU_CACHE_ALIGNMENT``; per layer at most one chunk to move the
#: base and one rounded up for each of K and V, SKO ``empty_aligned_int8_cpu_tensors``.
ALIGN_BYTES_PER_LAYER = 3 * (2 << 20)
#: What CONFIG ``SparseKVOffloadConfig`` takes where the user says nothing.
DEFAULT_TOPK_BUFFER_SIZE = 4096
DEFAULT_DRAM_GIB = 128
#: The gate of 0.26.0rc1 (WORKER ``update_available_memory_for_sparse_kv_offload``): host need follows from free HBM.
GATE_AVAILABLE = "available"
#: The gate of PR14921 (``plan_sparse_kv_offload_memory``): the smallest of HBM, DRAM and workload decides.
GATE_PLANNED = "planned"

#: Assumptions of the HBM estimate, none of them measured on an A3 by this project; each can be overridden.
HBM_SYSTEM_BYTES = 3 * GIB  # npu-smi shows 2.9 to 3.4 GB used on an idle A3 chip
HBM_RUNTIME_BYTES = 3 * GIB  # activation peak, HCCL buffers and captured graphs
HOST_RESERVE_BYTES = 32 * GIB  # operating system, page cache for weights, the engines' own processes


def ceil_div(value: int, divisor: int) -> int:
    """Integer division, rounded up."""
    return -(-value // divisor)


# ---- inputs ----

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
    block_size: int = 128
    max_model_len: int = 0
    max_num_seqs: int = 1
    max_num_batched_tokens: int = 8192
    num_speculative_tokens: int = 0
    gpu_memory_utilization: float = 0.9

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
        """Read the model's part from its ``config.json``, nested or not; ``"auto"`` in an override means ``None``."""
        text = text_config(config)
        values: dict[str, Any] = {
            name: int(text.get(name) or 0)
            for name in (
                "num_hidden_layers",
                "kv_lora_rank",
                "qk_rope_head_dim",
                "index_head_dim",
                "index_topk",
                "hidden_size",
            )
        }
        heads = int(text.get("num_attention_heads") or 0)
        values["num_key_value_heads"] = int(text.get("num_key_value_heads") or heads)
        values["head_dim"] = int(text.get("head_dim") or (values["hidden_size"] // heads if heads else 0))
        values["compressed"] = "compress_ratios" in text
        values["indexer_types"] = effective_indexer_types(text)
        values["expert_weight_share"] = expert_weight_share(text)
        if text.get("num_nextn_predict_layers") and int(overrides.get("num_speculative_tokens") or 0) > 0:
            values["mtp_layers"] = 1
        layer_types = text.get("layer_types")
        if layer_types:  # hybrid models: only full-attention layers keep KV that grows with the context
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


def text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The language model's part of a ``config.json``; multimodal models nest it."""
    for name in ("text_config", "llm_config", "language_config"):
        nested = config.get(name)
        if isinstance(nested, Mapping) and nested.get("num_hidden_layers"):
            return nested
    return config


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


# ---- upstream's own decisions ----


def offload_refusal(
    *,
    has_compress_ratios: bool,
    index_topk: int | None,
    context_parallel_size: int,
    pipeline_parallel_size: int,
    is_kv_consumer: bool,
    use_v2_model_runner: bool,
    topk_buffer_size: int = DEFAULT_TOPK_BUFFER_SIZE,
    keep_device_kv_cache: bool = False,
    enabled: bool = True,
) -> str | None:
    """The first reason for which CONFIG ``SparseKVOffloadConfig`` refuses, in its order; ``None``: it accepts."""
    if not enabled:
        return None
    if has_compress_ratios:
        return "compress_ratios"
    if index_topk is None:
        return "no_index_topk"
    if context_parallel_size > 1:
        return "context_parallel"
    if pipeline_parallel_size > 1:
        return "pipeline_parallel"
    if not keep_device_kv_cache and not is_kv_consumer:
        return "not_kv_consumer"
    if use_v2_model_runner:
        return "v2_model_runner"
    if topk_buffer_size <= 0:
        return "topk_buffer_not_positive"
    if topk_buffer_size < index_topk:
        return "topk_buffer_below_index_topk"
    return None


def gate_needed_bytes(
    host_page_bytes: int, device_page_bytes: int, available_bytes: int, keep_device_kv_cache: bool = False
) -> float:
    """What the gate of 0.26.0rc1 wants of ``dram_size_per_dp_GB``, in its own float arithmetic (WORKER:628-640)."""
    if keep_device_kv_cache:
        return available_bytes
    return host_page_bytes / device_page_bytes * available_bytes


def gate_passes(needed_bytes: float, dram_gib: int) -> bool:
    """The comparison of the gate of 0.26.0rc1 (WORKER:641); it counts no alignment."""
    return not needed_bytes > dram_gib * GIB


def gate_min_dram_gib(needed_bytes: float) -> int:
    """The smallest ``dram_size_per_dp_GB`` that the gate of 0.26.0rc1 lets pass."""
    dram = max(0, int(needed_bytes // GIB))
    return dram if gate_passes(needed_bytes, dram) else dram + 1


def planned_blocks(
    *,
    available_bytes: int,
    device_page_bytes: int,
    host_page_bytes: int,
    dram_gib: int,
    align_bytes: int,
    workload: int,
) -> tuple[int, str]:
    """Blocks that PR14921 would allocate and the limit that decided: ``npu``, ``dram``, ``workload``. 0: it refuses."""
    limits = {
        "workload": workload,
        "npu": available_bytes // device_page_bytes,
        "dram": max(0, (dram_gib * GIB - align_bytes) // host_page_bytes),
    }
    name = min(limits, key=lambda key: limits[key])
    return limits[name], name


def layerwise_reuse_factor(num_layers: int, shared_buffers: int | None, independent: Sequence[int]) -> float:
    """By how much layerwise buffer reuse multiplies prefill's logical KV budget (LAYOUT, WORKER ``factor``)."""
    if not num_layers or shared_buffers is None:
        return 1.0
    own = len({layer % num_layers for layer in independent})
    reused = num_layers - own
    if reused <= shared_buffers:
        return 1.0
    return num_layers / (own + shared_buffers)


# ---- outputs ----


@dataclass(frozen=True)
class HbmBudget:
    """One chip, estimated. ``kv_available_bytes`` is what would be left for KV if nothing were pinned."""

    hbm_bytes: int
    usable_bytes: int
    weights_bytes: int | None
    runtime_bytes: int
    hot_buffer_bytes: int
    kv_need_bytes: int
    kv_available_bytes: int | None
    fits: bool | None
    assumptions: tuple[str, ...]


@dataclass(frozen=True)
class DramBounds:
    """The bounds on ``dram_size_per_dp_GB``, GiB per data-parallel rank; ``None``: does not apply or unknown."""

    capacity_gib: int | None  # every request at full length, with alignment: no preemption possible
    gate_gib: int | None  # start-up gate of the chosen behaviour, with alignment
    gate_exact_gib: int | None  # the least that upstream's comparison lets pass, without alignment
    host_limit_gib: int | None  # what the host can give each rank


@dataclass(frozen=True)
class Recommendation:
    """Values that ``auto`` takes."""

    topk_buffer_size: int | None
    dram_size_per_dp_GB: int | None
    kv_cache_memory_bytes: int | None
    memcache_dram_gib_per_rank: int | None
    max_num_seqs: int | None  # the most that HBM and host memory carry at full length; None: not known


@dataclass(frozen=True)
class Sizing:
    """Everything about the memory of one instance."""

    attention: str
    offloads: bool
    gate: str
    kv_layers: int
    indexer_layers: int
    host_bytes_per_token: int  # host pool of one data-parallel rank
    device_bytes_per_token: int  # each chip
    pool_bytes_per_token: int  # KV pool (MemCache), all ranks together
    blocks: int  # for max_num_seqs requests of max_model_len, with vLLM's null block
    host_need_bytes: int
    align_bytes: int
    device_need_bytes: int
    host_device_ratio: float | None
    hot_rows: int
    hot_buffer_bytes: int
    topk_buffer_size: int | None
    dram_size_per_dp_gib: int | None
    dram_total_host_gib: int | None
    kv_cache_memory_bytes: int | None
    available_kv_bytes: int | None
    available_kv_source: str  # pinned | given | estimate | unknown
    gate_needed_bytes: float | None
    gate_passes: bool | None
    planned_limit: str | None
    tokens_fit: int | None
    full_length_requests_fit: int | None
    reuse_factor: float
    memcache_dram_gib_per_rank: int | None
    memcache_ranks: int
    memcache_dram_host_gib: int | None
    bounds: DramBounds
    hbm: HbmBudget | None
    recommended: Recommendation
    notes: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        plain: dict[str, Any] = _plain(asdict(self))
        return plain


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


# ---- the calculation ----


def blocks_needed(inp: SizingInput) -> int:
    """vLLM blocks for ``max_num_seqs`` requests of ``max_model_len`` on one rank, and its null block."""
    shards = inp.prefill_context_parallel_size * inp.decode_context_parallel_size
    return inp.max_num_seqs * ceil_div(ceil_div(inp.max_model_len, shards), inp.block_size) + 1


def host_page_bytes(inp: SizingInput) -> int:
    """Host bytes of one block over all layers."""
    return inp.block_size * inp.kv_layers * inp.main_bytes_per_token_layer if inp.offloads else 0


def device_page_bytes(inp: SizingInput) -> int:
    """Bytes of one block over all layers on one chip."""
    indexer = inp.indexer_layers * inp.indexer_bytes_per_token_layer
    main = 0 if inp.offloads and not inp.keep_device_kv_cache else inp.kv_layers * inp.main_bytes_per_token_layer
    return ceil_div(inp.block_size * (indexer + main), inp.pipeline_parallel_size)


def recommended_topk_buffer_size(inp: SizingInput) -> int | None:
    """Twice ``index_topk``, rounded up to whole blocks (SKO refuses anything else, after the pool is allocated)."""
    if not inp.index_topk:
        return None
    return ceil_div(2 * inp.index_topk, inp.block_size) * inp.block_size


def hot_buffer_bytes(inp: SizingInput) -> int:
    """Top-k hot buffers of all layers on one chip; not split by tensor parallelism (SKO:66-97)."""
    if not inp.offloads:
        return 0
    size = inp.topk_buffer_size or recommended_topk_buffer_size(inp) or 0
    return inp.kv_layers * inp.hot_rows * size * inp.main_bytes_per_token_layer


def pinned_kv_cache_bytes(inp: SizingInput) -> int:
    """The least ``--kv-cache-memory-bytes`` from which vLLM makes the blocks that the workload needs.

    That is the device need itself where host:device is a short binary fraction; else upstream's rounding
    (``int(A + ratio * A)``, then whole blocks) would lose one block, and a byte more mends it.
    """
    blocks, device, host = blocks_needed(inp), device_page_bytes(inp), host_page_bytes(inp)
    value = blocks * device
    if inp.offloads and not inp.keep_device_kv_cache:
        while int(value + gate_needed_bytes(host, device, value)) // (host + device) < blocks:
            value += 1
    return value


def weights_per_chip_bytes(inp: SizingInput) -> int | None:
    """Estimate: experts are split over all chips of the instance, the rest over one tensor-parallel group."""
    if inp.weight_bytes is None:
        return None
    tensor = inp.tensor_parallel_size * inp.pipeline_parallel_size
    all_chips = tensor * inp.data_parallel_size * inp.prefill_context_parallel_size
    share = inp.expert_weight_share
    return int(inp.weight_bytes * (share / all_chips + (1 - share) / tensor))


def hbm_budget(inp: SizingInput) -> HbmBudget | None:
    """What one chip carries; ``None`` where its size is not known."""
    if inp.hbm_bytes is None:
        return None
    usable = int((inp.hbm_bytes - inp.hbm_system_bytes) * inp.gpu_memory_utilization)
    weights, hot, need = weights_per_chip_bytes(inp), hot_buffer_bytes(inp), blocks_needed(inp) * device_page_bytes(inp)
    factor = _reuse(inp)
    available = None if weights is None else usable - weights - inp.hbm_runtime_bytes - hot
    return HbmBudget(
        hbm_bytes=inp.hbm_bytes,
        usable_bytes=usable,
        weights_bytes=weights,
        runtime_bytes=inp.hbm_runtime_bytes,
        hot_buffer_bytes=hot,
        kv_need_bytes=int(need / factor),
        kv_available_bytes=available,
        fits=None if available is None else available >= int(need / factor),
        assumptions=(
            f"{inp.hbm_system_bytes / GIB:.1f} GiB of HBM belong to driver and firmware",
            f"{inp.hbm_runtime_bytes / GIB:.1f} GiB for activations, HCCL buffers and graphs",
            f"{inp.expert_weight_share:.1%} of the weights are experts, split over all chips of the instance",
        ),
    )


def _reuse(inp: SizingInput) -> float:
    return layerwise_reuse_factor(
        inp.num_hidden_layers, inp.layerwise_num_shared_buffers, inp.layerwise_independent_layers
    )


def _host_limit_gib(inp: SizingInput) -> int | None:
    if inp.host_available_bytes is None:
        return None
    return max(0, (inp.host_available_bytes - inp.host_reserve_bytes) // GIB // max(1, inp.data_parallel_size_local))


def _fits(inp: SizingInput, budget: HbmBudget | None) -> bool | None:
    """Whether HBM and host memory carry the workload; ``None`` if neither is known."""
    verdicts: list[bool] = []
    if budget is not None and budget.fits is not None:
        verdicts.append(budget.fits)
    limit = _host_limit_gib(inp)
    if inp.offloads and limit is not None:
        verdicts.append(capacity_dram_gib(inp) <= limit)
    return all(verdicts) if verdicts else None


def most_seqs(inp: SizingInput, ceiling: int = 1024) -> int | None:
    """The largest ``max_num_seqs`` whose full-length requests fit HBM and host memory; ``None``: not known."""
    if _fits(inp, hbm_budget(inp)) is None:
        return None
    low, high = 0, ceiling
    while low < high:  # need grows with max_num_seqs, so bisection is right
        middle = (low + high + 1) // 2
        trial = replace(inp, max_num_seqs=middle)
        if _fits(trial, hbm_budget(trial)):
            low = middle
        else:
            high = middle - 1
    return low


def align_bytes(inp: SizingInput) -> int:
    """The most that 2 MiB alignment costs in the host pool."""
    return inp.kv_layers * ALIGN_BYTES_PER_LAYER if inp.offloads else 0


def capacity_dram_gib(inp: SizingInput) -> int:
    """Host pool for every request at full length, so that nothing is ever preempted (preemption kills decode)."""
    return ceil_div(blocks_needed(inp) * host_page_bytes(inp) + align_bytes(inp), GIB)


def pool_bytes_per_token(inp: SizingInput) -> int:
    """KV pool bytes of one token over all ranks; equal heads are stored once (pool_worker.py ``put_step``)."""
    if inp.attention == "gqa":
        return 2 * inp.num_key_value_heads * inp.head_dim * BF16_BYTES * inp.kv_layers
    return inp.kv_layers * inp.main_bytes_per_token_layer + inp.indexer_layers * inp.indexer_bytes_per_token_layer


def recommended_memcache_gib(inp: SizingInput) -> int:
    """Whole GiB per rank (A3 takes no other), so that all ranks together hold the pool's tokens."""
    tokens = inp.memcache_pool_tokens
    if tokens is None:
        tokens = inp.max_num_seqs * inp.max_model_len
    ranks = inp.tensor_parallel_size * inp.pipeline_parallel_size * inp.prefill_context_parallel_size
    return max(1, ceil_div(ceil_div(tokens * pool_bytes_per_token(inp), ranks * max(1, inp.data_parallel_size)), GIB))


def size(inp: SizingInput) -> Sizing:
    """All numbers for one instance."""
    notes: list[str] = _notes(inp)
    blocks, host_page, device_page = blocks_needed(inp), host_page_bytes(inp), device_page_bytes(inp)
    budget = hbm_budget(inp)
    pinned = pinned_kv_cache_bytes(inp) if inp.offloads else None

    available, source = _available(inp, budget, pinned)
    needed = None
    if inp.offloads and available is not None and inp.gate == GATE_AVAILABLE:
        needed = gate_needed_bytes(host_page, device_page, available, inp.keep_device_kv_cache)

    capacity = capacity_dram_gib(inp) if inp.offloads else None
    gate_gib = None if needed is None else -int(-(needed + align_bytes(inp)) // GIB)
    bounds = DramBounds(
        capacity_gib=capacity,
        gate_gib=gate_gib,
        gate_exact_gib=None if needed is None else gate_min_dram_gib(needed),
        host_limit_gib=_host_limit_gib(inp) if inp.offloads else None,
    )
    dram_recommended = None if capacity is None else max(capacity, gate_gib or 0)
    dram = (inp.dram_size_per_dp_gib or dram_recommended) if inp.offloads else None

    passes, fit_blocks, limit = _verdict(inp, available, needed, dram)
    ranks_on_host = inp.tensor_parallel_size * inp.pipeline_parallel_size * inp.data_parallel_size_local
    memcache_recommended = recommended_memcache_gib(inp) if inp.memcache else None
    memcache = (inp.memcache_dram_gib or memcache_recommended) if inp.memcache else None
    shards = inp.prefill_context_parallel_size * inp.decode_context_parallel_size
    per_request = ceil_div(ceil_div(inp.max_model_len, shards), inp.block_size)
    return Sizing(
        attention=inp.attention,
        offloads=inp.offloads,
        gate=inp.gate,
        kv_layers=inp.kv_layers,
        indexer_layers=inp.indexer_layers,
        host_bytes_per_token=host_page // inp.block_size,
        device_bytes_per_token=device_page // inp.block_size,
        pool_bytes_per_token=pool_bytes_per_token(inp),
        blocks=blocks,
        host_need_bytes=blocks * host_page,
        align_bytes=align_bytes(inp),
        device_need_bytes=blocks * device_page,
        host_device_ratio=host_page / device_page if host_page and device_page else None,
        hot_rows=inp.hot_rows if inp.offloads else 0,
        hot_buffer_bytes=hot_buffer_bytes(inp),
        topk_buffer_size=(inp.topk_buffer_size or recommended_topk_buffer_size(inp)) if inp.offloads else None,
        dram_size_per_dp_gib=dram,
        dram_total_host_gib=None if dram is None else dram * inp.data_parallel_size_local,
        kv_cache_memory_bytes=available if source == "pinned" else None,
        available_kv_bytes=available,
        available_kv_source=source,
        gate_needed_bytes=needed,
        gate_passes=passes,
        planned_limit=limit,
        tokens_fit=None if fit_blocks is None else max(0, fit_blocks - 1) * inp.block_size * shards,
        full_length_requests_fit=None
        if fit_blocks is None or not per_request
        else max(0, fit_blocks - 1) // per_request,
        reuse_factor=_reuse(inp),
        memcache_dram_gib_per_rank=memcache,
        memcache_ranks=ranks_on_host if inp.memcache else 0,
        memcache_dram_host_gib=None if memcache is None else memcache * ranks_on_host,
        bounds=bounds,
        hbm=budget,
        recommended=Recommendation(
            topk_buffer_size=recommended_topk_buffer_size(inp),
            dram_size_per_dp_GB=dram_recommended,
            kv_cache_memory_bytes=pinned,
            memcache_dram_gib_per_rank=memcache_recommended,
            max_num_seqs=most_seqs(inp),
        ),
        notes=tuple(notes),
    )


def _available(inp: SizingInput, budget: HbmBudget | None, pinned: int | None) -> tuple[int | None, str]:
    """HBM for KV on one rank (upstream's A), and where the number comes from."""
    if inp.kv_cache_memory_bytes is not None:
        return inp.kv_cache_memory_bytes, "pinned"
    if inp.available_kv_bytes is not None:
        return inp.available_kv_bytes, "given"
    if (
        pinned is not None and inp.pin_kv_cache
    ):  # auto: the plan pins what the workload needs, which makes the gate deterministic
        return pinned, "pinned"
    if budget is not None and budget.kv_available_bytes is not None:
        return max(0, budget.kv_available_bytes), "estimate"
    return None, "unknown"


def _verdict(
    inp: SizingInput, available: int | None, needed: float | None, dram: int | None
) -> tuple[bool | None, int | None, str | None]:
    """Gate verdict, blocks that will exist, and what limits them."""
    host_page, device_page = host_page_bytes(inp), device_page_bytes(inp)
    if available is None or not device_page:
        return None, None, None
    if not inp.offloads:
        return None, int(available * _reuse(inp)) // device_page, None
    if dram is None:
        raise AssertionError("an instance that offloads has a host pool")
    if inp.gate == GATE_PLANNED:
        blocks, limit = planned_blocks(
            available_bytes=available,
            device_page_bytes=device_page,
            host_page_bytes=host_page,
            dram_gib=dram,
            align_bytes=align_bytes(inp),
            workload=blocks_needed(inp),
        )
        return blocks > ceil_div(inp.max_model_len, inp.block_size), blocks, limit
    if needed is None:
        raise AssertionError("the gate of 0.26.0rc1 compares with what is needed")
    total = available if inp.keep_device_kv_cache else int(available + needed)
    page = device_page if inp.keep_device_kv_cache else host_page + device_page
    return gate_passes(needed, dram), total // page, None


def _notes(inp: SizingInput) -> list[str]:
    notes: list[str] = []
    attention = inp.attention
    if attention == "compressed":
        notes.append("compress_ratios in config.json: KV is compressed per layer, the formulas here do not hold")
    if attention == "unknown":
        notes.append("config.json lacks kv_lora_rank, index_head_dim or key-value heads: KV size cannot be derived")
    if inp.sparse_kv_offload and not inp.offloads:
        notes.append("sparse KV offload needs a model with index_topk and indexer layers: its sizes do not apply")
    if attention in ("mla", "gqa"):
        notes.append("no sparse attention: all KV stays in HBM, host pool and hot buffer do not apply")
    heads, tensor = inp.num_key_value_heads, inp.tensor_parallel_size
    if attention == "gqa" and heads % tensor and tensor % heads:
        notes.append("key-value heads and tensor_parallel_size do not divide each other")
    return notes
