# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Memory of hosts and chips, all services of a host added up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from ...module_utils._sizing_gate import GIB
from ...module_utils._sizing_input import HOST_RESERVE_BYTES
from ..findings import ERROR, INFO, WARNING
from ..sizes import whole
from .context import Context, Engine, Missing
from .registry import GUIDES, IF_IT_FAILS, REPORT, Problem, rule
from .sparse_kv import pinned_beyond_need, wasted

#: Above this share of HBM, reports of running out of memory pile up once KV moves between hosts.
UTILISATION_WITH_TRANSFER = 0.95
LARGE_BATCH = 8192
#: One pinned allocation above this failed in the field on 910B.
PROVEN_POOL_GIB = 200


def host_pools(ctx: Context, host: str) -> list[tuple[str, int]]:
    """(what, bytes) that services of a host take from its memory."""
    pools = []
    for engine in ctx.on(host):
        if engine.offloads:
            pool = ctx.sizing(engine).host_pool_bytes or 0
            words = f"KV pool of {engine.name}: {engine.local_ranks} x {pool / GIB:.0f} GiB"
            pools.append((words, engine.local_ranks * pool))
        if engine.uses_memcache:
            per_rank = ctx.memcache_gib(engine)
            if per_rank is None:
                raise Missing(f"MemCache dram of {engine.name} is not known")
            ranks = len(engine.devices)
            pools.append((f"MemCache of {engine.name}: {ranks} x {per_rank} GiB", ranks * per_rank * GIB))
    return pools


def enough(ctx: Context, host: str) -> tuple[list[str], int]:
    """Settings by which the host's pools would be smaller and still hold what they must, and the bytes of all then."""
    settings, need = [], 0
    for engine in ctx.on(host):
        if engine.offloads:
            pool, right = ctx.sizing(engine).host_pool_bytes or 0, ctx.wanted_dram(engine)
            if right and right * GIB < pool:
                settings.append(f"dram_size_per_dp_GB {right}")
                if pinned_beyond_need(ctx, engine):
                    settings.append(f"kv-cache-memory-bytes {ctx.sizing(engine).recommended.kv_cache_memory_bytes}")
                pool = right * GIB
            need += engine.local_ranks * pool
        if engine.uses_memcache:
            per_rank, right = ctx.memcache_gib(engine) or 0, right_memcache(ctx, engine)
            if right and right < per_rank:
                settings.append(f"memcache_dram_size {right}G")
                per_rank = right
            need += len(engine.devices) * per_rank * GIB
    return list(dict.fromkeys(settings)), need


def right_memcache(ctx: Context, engine: Engine) -> int | None:
    """GiB that ``memcache_dram_size: auto`` would take for each rank."""
    try:
        return ctx.sizing(engine).recommended.memcache_dram_gib_per_rank
    except Missing:
        return None


def one_request(ctx: Context, engine: Engine) -> tuple[int, int]:
    """Bytes that one prompt of max-model-len takes in MemCache's pool, and the GiB of each rank that hold it."""
    ranks = sum(len(one.devices) for one in ctx.engines if one.uses_memcache)
    need = ctx.model_length(engine) * ctx.sizing(engine).pool_bytes_per_token
    return need, -(-need // (max(ranks, 1) * GIB))


def right_memory(ctx: Context, host: str, limit: int) -> str:
    """What fits into so many bytes: other sizes, else fewer requests, else a smaller pool; else what it would take."""
    settings, least = enough(ctx, host)
    if settings and least <= limit:
        return ", ".join(settings)
    offloading = [engine for engine in ctx.on(host) if engine.offloads]
    sharing = [engine for engine in ctx.on(host) if engine.uses_memcache]
    if len(offloading) == 1 and not sharing and (most := ctx.sizing(offloading[0]).recommended.max_num_seqs):
        stated = ctx.offload_gib(offloading[0]) != ctx.sizing(offloading[0]).bounds.capacity_gib
        size = f", dram_size_per_dp_GB {ctx.wanted_dram(offloading[0], most)}" if stated else ""
        return f"max-num-seqs {most}{size}"
    with suppress(Missing):  # without the model nobody knows what one request takes
        share = limit // (len(sharing[0].devices) * GIB) if len(sharing) == 1 and sharing[0].devices else 0
        if not offloading and share and share >= one_request(ctx, sharing[0])[1]:
            return f"memcache_dram_size {share}G"
    return ", ".join([*settings, f"{gib(least + HOST_RESERVE_BYTES)} available"])


def overfull(ctx: Context, host: str) -> bool:
    """Whether PD-MEM-001 tells that the host's memory does not hold its pools."""
    try:
        return sum(size for _words, size in host_pools(ctx, host)) + HOST_RESERVE_BYTES > ctx.usable_memory(host)
    except Missing:
        return False


def gib(value: float) -> str:
    return f"{value / GIB:.1f} GiB"


@rule(
    "PD-MEM-001",
    ERROR,
    "the host's memory does not hold its services",
    per="host",
    source="sparse_kv_offload_manager.py SparseKVOffloadManager; kv_pool.md:510",
)
def host_memory(ctx: Context, host: str) -> Iterator[Problem]:
    """dram_size_per_dp_GB is allocated in full for each data-parallel rank, and MemCache's dram.size for each chip.

    Their sum and 32 GiB for the system must be available. Guide 1's 512 and 10 per rank are 512 and 160 GiB. From
    PR #14921 on (pd_dram_gate: planned) only that part of dram_size_per_dp_GB is allocated which the requests need.
    """
    pools = host_pools(ctx, host)
    need, usable = sum(pool[1] for pool in pools), ctx.usable_memory(host)
    if pools and need + HOST_RESERVE_BYTES > usable:
        pinned = "pd_kv_cache_memory_bytes, " if any(pinned_beyond_need(ctx, engine) for engine in ctx.on(host)) else ""
        yield Problem(
            f"{gib(need)} ({'; '.join(pool[0] for pool in pools)}) of {gib(usable)}",
            right_memory(ctx, host, max(0, usable - HOST_RESERVE_BYTES)),
            f"lower {pinned}pd_dram_size_per_dp_gb, memcache_dram_size or max-num-seqs, or free memory",
        )


@rule(
    "PD-MEM-002",
    ERROR,
    "a chip's memory does not hold the engine with all its requests at full length",
    per="service",
    chips=True,
    source="vllm-ascend #9372; vLLM worker memory profiling",
)
def chip_memory(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """Weights, hot buffers and the KV cache must fit into gpu-memory-utilization x HBM.

    Weights beyond it are an error (vLLM reports a negative KV cache size), and with offload KV that would not fit if
    all HBM were free for it. Else KV that does not fit is a warning with offload, or where not one request fits; in
    other cases vLLM only takes fewer at once. All of it is an estimate, with 3 GiB for the driver and 3 GiB for
    activations, HCCL buffers and graphs.
    """
    sizing = ctx.sizing(engine)
    budget, least = sizing.hbm, sizing.recommended.kv_cache_memory_bytes
    if budget is None or budget.weights_bytes is None or budget.kv_available_bytes is None:
        raise Missing(f"HBM or weights of {engine.host} are not known")
    beyond_doubt = budget.hbm_bytes - budget.weights_bytes - budget.hot_buffer_bytes  # were nothing else on the chip
    if budget.kv_available_bytes <= 0:
        right = "room for KV"
        if budget.weights_bytes + budget.runtime_bytes >= budget.usable_bytes:
            mend = "spread the instance over more chips"
        elif budget.hot_buffer_bytes:
            mend = "lower topk_buffer_size or max-num-seqs, with which the hot buffers grow"
            stated, usual = sizing.topk_buffer_size or 0, sizing.recommended.topk_buffer_size or 0
            more = budget.hot_buffer_bytes - budget.hot_buffer_bytes * usual // max(stated, 1)
            if 0 < usual < stated and budget.kv_available_bytes + more > 0:
                right = f"topk_buffer_size {usual}"
            elif sizing.recommended.max_num_seqs:
                right = f"max-num-seqs {sizing.recommended.max_num_seqs}"
        else:
            mend = "spread the instance over more chips, or raise gpu-memory-utilization"
        yield Problem(
            f"weights {gib(budget.weights_bytes)}, hot buffers {gib(budget.hot_buffer_bytes)} and runtime "
            f"{gib(budget.runtime_bytes)} of {gib(budget.usable_bytes)} usable per chip",
            right,
            mend,
        )
    elif not budget.fits:
        seqs, most = engine.max_num_seqs, sizing.recommended.max_num_seqs
        # without offload vLLM takes fewer requests at once; with it all of them must fit
        severity = WARNING if engine.offloads or not most else INFO
        if engine.offloads and budget.kv_need_bytes > beyond_doubt:
            severity = ERROR
        yield Problem(
            f"KV of {seqs} full-length requests needs {gib(budget.kv_need_bytes)} per chip, "
            f"about {gib(budget.kv_available_bytes)} are left",
            f"max-num-seqs {most}" if most else "a shorter max-model-len",
            "lower max-num-seqs or max-model-len",
            severity=severity,
        )
    elif (pinned := whole(engine.args.get("kv-cache-memory-bytes"))) and pinned > budget.kv_available_bytes:
        yield Problem(
            f"kv-cache-memory-bytes {gib(pinned)}, about {gib(budget.kv_available_bytes)} are left per chip",
            str(least) if engine.offloads and least else f"at most {gib(budget.kv_available_bytes)}",
            "lower pd_kv_cache_memory_bytes, or set it to auto",
            severity=ERROR if pinned > beyond_doubt else WARNING,
        )


@rule(
    "PD-MEM-003",
    WARNING,
    "gpu-memory-utilization leaves no room for KV transfer",
    per="service",
    source="vllm-ascend #12839",
)
def transfer_headroom(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """Connectors register memory outside of what vLLM counts; at 0.96 engines ran out of memory once transfer was
    added. Where a guide publishes such a value and you leave it at that, it is only noted.
    """
    value = engine.memory_utilization
    if engine.transfer and UTILISATION_WITH_TRANSFER < value <= 1:  # above: PD-ARG-003
        guides = ctx.of_guide(engine, "gpu-memory-utilization")
        yield Problem(
            f"{value}{GUIDES if guides else ''} with {', '.join(sorted(engine.connectors))}",
            "0.95 or less",
            f"lower gpu-memory-utilization{IF_IT_FAILS if guides else ''}",
            severity=INFO if guides else None,
        )


@rule("PD-MEM-004", WARNING, "high utilisation with a large batch", per="service", source="vllm-ascend #10839")
def activation_peak(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """Activations grow with max-num-batched-tokens, and uneven expert load makes the real peak higher than the profiled
    one.
    """
    value, batch = engine.memory_utilization, engine.max_num_batched_tokens
    if 0.95 < value <= 1 and batch >= LARGE_BATCH:  # above: PD-ARG-003
        yield Problem(
            f"{value} with max-num-batched-tokens {batch}", f"0.95 or less, or below {LARGE_BATCH}", "lower one of both"
        )


@rule("PD-MEM-005", ERROR, "locked memory of a container is limited", per="service", source="LMCache-Ascend #5")
def memlock(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """Pinned host memory counts against memlock: registering the pool fails at Docker's default of 64 KiB."""
    limits = [str(one).replace(" ", "") for one in engine.container.get("ulimits") or []]
    if not any(one.startswith(("memlock:-1", "memlock=-1")) for one in limits):
        yield Problem(f"ulimits of {engine.service.get('name')}: {', '.join(limits) or 'none'}", "memlock:-1", REPORT)


@rule("PD-MEM-006", WARNING, "a host pool is larger than was seen to work", per="service", source="LMCache-Ascend #242")
def pool_size(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """Single pinned allocations above 200 to 250 GB failed on 910B ("register ptr failed").

    MemFabric allocates in slices of 32 GiB, so a larger pool may work on A3; it also takes tens of minutes.
    """
    dram = ctx.offload_gib(engine)
    if dram is None or dram <= PROVEN_POOL_GIB or wasted(ctx, engine) or overfull(ctx, engine.host):
        return  # also where PD-SPARSE-013 or PD-MEM-001 tells what is right
    right = ctx.right_dram(engine) or PROVEN_POOL_GIB
    if not ctx.planned_gate or (ctx.sizing(engine).host_pool_bytes or 0) > PROVEN_POOL_GIB * GIB:
        yield Problem(
            f"dram_size_per_dp_GB {dram}",
            str(right) if right < PROVEN_POOL_GIB else f"{PROVEN_POOL_GIB} or less",
            "pd_dram_size_per_dp_gb: auto; where that is still more, lower max-num-seqs or max-model-len",
        )


@rule(
    "PD-MEM-007",
    WARNING,
    "free memory is in pieces",
    per="host",
    source="memfabric_hybrid hybm_vmm_based_segment.cpp; kv_pool.md:1108-1131",
)
def contiguous(ctx: Context, host: str) -> Iterator[Problem]:
    """MemFabric asks the driver for physically contiguous pages of 1 GiB, else 2 MiB. Fragmented memory fails to
    allocate.

    What caches hold does not count as free here: dropping caches and compacting memory gives it back.
    """
    engines = [engine for engine in ctx.on(host) if engine.offloads]
    if not engines or ctx.own_running(host) or overfull(ctx, host):  # PD-MEM-001
        return
    need = sum(engine.local_ranks * (ctx.sizing(engine).host_pool_bytes or 0) for engine in engines)
    free = int(ctx.fact(host, "host.contiguous.free_bytes"))
    if free < need and not any(wasted(ctx, engine) for engine in engines):  # PD-SPARSE-013
        yield Problem(
            f"{gib(free)} free in blocks of 2 MiB and more",
            gib(need),
            "echo 3 > /proc/sys/vm/drop_caches; echo 1 > /proc/sys/vm/compact_memory; then `mfcli mem scan`",
        )


@rule(
    "PD-MEM-008",
    WARNING,
    "huge pages are reserved that nobody uses",
    per="host",
    source="memfabric_hybrid hybm_vmm_based_segment.cpp",
)
def hugepages_on_decode(ctx: Context, host: str) -> Iterator[Problem]:
    """The offload pool comes from the driver, not from nr_hugepages: reserving those on decode only takes memory
    away.
    """
    if not any(engine.offloads for engine in ctx.on(host)) or any(engine.uses_memcache for engine in ctx.on(host)):
        return
    pages = ctx.fact(host, "host.memory.hugepages")
    reserved = (pages.get("free") or 0) * (pages.get("size_bytes") or 0)
    if reserved > GIB:
        yield Problem(f"{gib(reserved)} in {pages['free']} free huge pages", "none", "sysctl vm.nr_hugepages=0")
