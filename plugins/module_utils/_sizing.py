# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""How much memory a vLLM-Ascend instance needs, on the chips and on the host: one pure function, ``size``.

Units: every name that ends in ``_bytes`` is bytes, in ``_gib`` is GiB (2**30). vllm-ascend writes
``dram_size_per_dp_GB`` but multiplies by ``1 << 30``, so that number is GiB too.

Sources are files of vllm-ascend 0.26.0rc1, short names: SKO = distributed/kv_transfer/sparse_kv_offload/
sparse_kv_offload_manager.py, RUNNER = worker/model_runner_v1.py, WORKER = worker/worker.py, CONFIG = ascend_config.py,
LAYOUT = distributed/kv_transfer/kv_pool/ascend_store/layerwise_cache_layout.py.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from ._sizing_gate import (
    GATE_AVAILABLE,
    GATE_PLANNED,
    GIB,
    gate_min_dram_gib,
    gate_needed_bytes,
    gate_passes,
    layerwise_reuse_factor,
    planned_blocks,
)
from ._sizing_input import BF16_BYTES, SizingInput

#: Host tensors of K and V start on 2 MiB, SKO ``_CPU_CACHE_ALIGNMENT``; per layer at most one chunk to move the
#: base and one rounded up for each of K and V, SKO ``empty_aligned_int8_cpu_tensors``.
ALIGN_BYTES_PER_LAYER = 3 * (2 << 20)


def ceil_div(value: int, divisor: int) -> int:
    """Integer division, rounded up."""
    return -(-value // divisor)


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
    host_pool_bytes: int | None  # what each data-parallel rank really allocates on the host
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


def usual_topk_buffer_size(index_topk: int, block_size: int) -> int:
    """Twice ``index_topk``, rounded up to whole blocks (SKO refuses anything else, after the pool is allocated)."""
    return ceil_div(2 * index_topk, block_size) * block_size


def recommended_topk_buffer_size(inp: SizingInput) -> int | None:
    """What ``auto`` takes; ``None`` without sparse attention."""
    return usual_topk_buffer_size(inp.index_topk, inp.block_size) if inp.index_topk else None


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
    if not inp.offloads or inp.keep_device_kv_cache:
        return value

    def enough(size: int) -> bool:
        return int(size + gate_needed_bytes(host, device, size)) // (host + device) >= blocks

    # Doubled steps and then halves: of absurd sizes upstream's floating point numbers do not move by single bytes.
    low, step = value, 1
    while not enough(value):
        low, value, step = value, value + step, 2 * step
    while value - low > 1:
        middle = (low + value) // 2
        low, value = (low, middle) if enough(middle) else (middle, value)
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
    dram = dram_recommended if inp.dram_size_per_dp_gib is None or not inp.offloads else inp.dram_size_per_dp_gib

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
        host_pool_bytes=_host_pool_bytes(inp, dram, fit_blocks),
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


def _host_pool_bytes(inp: SizingInput, dram: int | None, blocks: int | None) -> int | None:
    """0.26.0rc1 allocates all of ``dram_size_per_dp_GB`` (SKO:358-371), PR14921 only what its blocks need."""
    if dram is None:
        return None
    if inp.gate == GATE_AVAILABLE:
        return dram * GIB
    return min(dram * GIB, (blocks_needed(inp) if blocks is None else blocks) * host_page_bytes(inp) + align_bytes(inp))


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
