# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""The sums that rules judge by, with this cluster's numbers in them: one line each, for people.

A formula is asked about the same units as its rule. A line that compares ends with ``holds`` or ``DOES NOT HOLD``, and
a test keeps that in step with what the rule finds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from ...module_utils._sizing import ceil_div
from ...module_utils._sizing_gate import GATE_PLANNED, GIB
from ...module_utils._sizing_input import HOST_RESERVE_BYTES
from ...module_utils._sizing_model import longest_length, text_config
from ..memcache import MOST_RANKS, WORLD_SIZE
from ..ports import LAST_PORT, MEMFABRIC_FIRST_PORT, MEMFABRIC_STORE_PORT
from ..sizes import whole
from .connectors import MOONCAKE_P2P
from .context import Context, Engine, Missing
from .host import free_bytes, image_folder, images_kept, transfer_folder
from .memcache import LOCAL, local
from .memory import LARGE_BATCH, PROVEN_POOL_GIB, UTILISATION_WITH_TRANSFER, host_pools
from .ports import fixed_ports, mooncake_band, overlap, span
from .registry import RULES
from .sparse_kv import TOO_LARGE, topk_buffer, usual_buffer

#: Units named in one heading before the rest is only counted.
MOST_NAMED = 4

Formula = Callable[..., Iterator[str]]


def numbers(identifier: str, ctx: Context, hosts: Collection[str] = ()) -> list[str]:
    """Lines of a rule's formulas, those that are alike once; ``hosts``: only of these. Empty: it has no formula."""
    one = RULES.get(identifier)
    units: dict[tuple[str, ...], list[str]] = {}
    for host, arguments in ctx.units(one.per, with_chips=one.chips) if one and identifier in FORMULAS else ():
        if host and hosts and host not in hosts:
            continue
        name = next((a.name if isinstance(a, Engine) else str(a) for a in arguments), "cluster")
        lines = []
        try:
            for formula in FORMULAS[identifier]:
                lines += list(formula(ctx, *arguments))
        except Missing as error:
            lines.append(f"not known: {error}")
        except Exception as error:  # facts may be odd; the finding itself stands
            lines.append(f"not known: {type(error).__name__}: {error}")
        if lines:
            units.setdefault(tuple(lines), []).append(name)
    return [line for lines, names in units.items() for line in (f"{_named(names)}:", *(f"  {one}" for one in lines))]


def _named(names: list[str]) -> str:
    rest = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + rest


def line(name: str, sum_: str, holds: bool | None = None) -> str:
    verdict = "" if holds is None else ": holds" if holds else ": DOES NOT HOLD"
    return f"{name:<13}= {sum_}{verdict}"


def gib(size: float, digits: int = 3) -> str:
    return f"{size / GIB:.{digits}f} GiB"


# ---- sizes of an instance ----


def blocks(ctx: Context, engine: Engine) -> Iterator[str]:
    inp, size = ctx.sizing_input(engine), ctx.sizing(engine)
    yield f"{size.attention} attention, {size.kv_layers} KV layers, {size.indexer_layers} indexers"
    ranks = inp.prefill_context_parallel_size * inp.decode_context_parallel_size
    each = ceil_div(ceil_div(inp.max_model_len, ranks), inp.block_size)
    tokens = f"{inp.max_model_len} tokens{f' / {ranks} context-parallel ranks' if ranks > 1 else ''}"
    yield line("blocks", f"{inp.max_num_seqs} requests x {each} ({tokens} / {inp.block_size}) + 1 = {size.blocks}")


def on_chip(ctx: Context, engine: Engine) -> Iterator[str]:
    inp, size = ctx.sizing_input(engine), ctx.sizing(engine)
    yield line(
        "on a chip",
        f"{size.blocks} x {inp.block_size} tokens x {size.device_bytes_per_token} bytes = "
        f"{gib(size.device_need_bytes)}",
    )
    if size.reuse_factor != 1:
        shared = size.device_need_bytes / size.reuse_factor
        yield line(
            "shared",
            f"layers share buffers: {size.device_need_bytes / GIB:.3f} / {size.reuse_factor:.2f} = {gib(shared)}",
        )


def on_host(ctx: Context, engine: Engine) -> Iterator[str]:
    inp, size = ctx.sizing_input(engine), ctx.sizing(engine)
    if size.offloads:
        need = size.host_need_bytes + size.align_bytes
        yield line(
            "a token",
            f"{size.kv_layers} layers x {inp.main_bytes_per_token_layer} bytes = {size.host_bytes_per_token} bytes",
        )
        yield line(
            "on the host",
            f"{size.blocks} x {inp.block_size} tokens x {size.host_bytes_per_token} bytes + {gib(size.align_bytes)} "
            f"alignment = {gib(need)}",
        )


def pool(ctx: Context, engine: Engine) -> Iterator[str]:
    """What the requests need of an engine that offloads."""
    if engine.offloads:
        for formula in (blocks, on_chip, on_host):
            yield from formula(ctx, engine)


def hot_buffers(ctx: Context, engine: Engine) -> Iterator[str]:
    inp, size = ctx.sizing_input(engine), ctx.sizing(engine)
    if size.offloads:
        yield line(
            "hot buffers",
            f"{size.kv_layers} layers x {size.hot_rows} rows x {size.topk_buffer_size} tokens x "
            f"{inp.main_bytes_per_token_layer} bytes = {gib(size.hot_buffer_bytes)} on each chip",
        )


def gate(ctx: Context, engine: Engine) -> Iterator[str]:
    """The start-up gate, or from PR #14921 on what of the pool is allocated."""
    size = ctx.sizing(engine)
    if not size.offloads:
        return
    if size.gate_needed_bytes is not None:
        ratio = 1.0 if ctx.sizing_input(engine).keep_device_kv_cache else size.host_device_ratio or 0
        if ratio != 1:
            yield line("ratio", f"{size.host_bytes_per_token} / {size.device_bytes_per_token} bytes = {ratio:.3f}")
        yield line(
            "gate",
            f"{ratio:.3f} x {gib(size.available_kv_bytes or 0)} ({size.available_kv_source}) = "
            f"{gib(size.gate_needed_bytes)} <= dram_size_per_dp_GB {size.dram_size_per_dp_gib}",
            bool(size.gate_passes),
        )
    elif size.planned_limit is not None:
        yield line(
            "pool",
            f"{gib(size.host_pool_bytes or 0)} of dram_size_per_dp_GB {size.dram_size_per_dp_gib}, limited by "
            f"{size.planned_limit}",
            None if size.gate != GATE_PLANNED else bool(size.gate_passes),
        )


def capacity(ctx: Context, engine: Engine) -> Iterator[str]:
    size, dram = ctx.sizing(engine), ctx.offload_gib(engine)
    if dram is not None and size.bounds.capacity_gib is not None:
        need = size.bounds.capacity_gib
        yield line("capacity", f"need, in whole GiB {need} <= dram_size_per_dp_GB {dram}", need <= dram)
    pinned, least = whole(engine.args.get("kv-cache-memory-bytes")), size.recommended.kv_cache_memory_bytes
    if engine.offloads and pinned is not None and least is not None:
        yield line("pinned", f"need {least} bytes <= kv-cache-memory-bytes {pinned}", least <= pinned)


def waste(ctx: Context, engine: Engine) -> Iterator[str]:
    dram, need = ctx.offload_gib(engine), ctx.sizing(engine).recommended.dram_size_per_dp_GB
    if dram is not None and need and not ctx.planned_gate:
        fits = dram <= TOO_LARGE * need
        yield line("waste", f"dram_size_per_dp_GB {dram} <= {TOO_LARGE} x {need} = {TOO_LARGE * need}", fits)


def hbm(ctx: Context, engine: Engine) -> Iterator[str]:
    """What one chip has, and whether weights, buffers and KV go into it."""
    size, budget = ctx.sizing(engine), ctx.sizing(engine).hbm
    if budget is None or budget.weights_bytes is None or budget.kv_available_bytes is None:
        raise Missing(f"HBM or weights of {engine.host} are not known")
    yield line(
        "usable",
        f"gpu-memory-utilization {engine.memory_utilization} x {gib(budget.hbm_bytes, 1)} of HBM - what the driver "
        f"has = {gib(budget.usable_bytes, 1)}",
    )
    yield line(
        "left for KV",
        f"{budget.usable_bytes / GIB:.1f} usable - {budget.weights_bytes / GIB:.1f} weights - "
        f"{budget.runtime_bytes / GIB:.1f} runtime - {budget.hot_buffer_bytes / GIB:.1f} hot = "
        f"{gib(budget.kv_available_bytes, 1)}",
    )
    yield line(
        "KV",
        f"{engine.max_num_seqs} full-length requests: {gib(budget.kv_need_bytes, 1)} <= "
        f"{gib(max(0, budget.kv_available_bytes), 1)}",
        bool(budget.fits),
    )
    if not size.offloads and not budget.fits and size.recommended.max_num_seqs:
        yield f"vLLM takes {size.recommended.max_num_seqs} of them at once instead"
    if pinned := whole(engine.args.get("kv-cache-memory-bytes")):
        yield line(
            "pinned",
            f"kv-cache-memory-bytes {gib(pinned)} <= {gib(max(0, budget.kv_available_bytes))}",
            pinned <= budget.kv_available_bytes,
        )


def utilisation(ctx: Context, engine: Engine) -> Iterator[str]:
    share = engine.memory_utilization
    yield line("vLLM's share", f"gpu-memory-utilization {share} <= {UTILISATION_WITH_TRANSFER}")
    budget = ctx.sizing(engine).hbm
    if budget is not None:
        rest = budget.hbm_bytes * (1 - share)
        yield line("for others", f"(1 - {share}) x {gib(budget.hbm_bytes, 1)} = {gib(rest, 1)} of each chip")


def large_batch(ctx: Context, engine: Engine) -> Iterator[str]:
    yield line("batch", f"max-num-batched-tokens {engine.max_num_batched_tokens} < {LARGE_BATCH}")


def proven(ctx: Context, engine: Engine) -> Iterator[str]:
    dram = ctx.offload_gib(engine)
    if dram is not None:
        allocated = (ctx.sizing(engine).host_pool_bytes or 0) / GIB if ctx.planned_gate else dram
        yield line(
            "allocated", f"{allocated:g} GiB in one piece <= {PROVEN_POOL_GIB} GiB", allocated <= PROVEN_POOL_GIB
        )


# ---- sizes of offload ----


def topk(ctx: Context, engine: Engine) -> Iterator[str]:
    if not engine.offloads:
        return
    value, (least, usual) = topk_buffer(engine), usual_buffer(ctx, engine)
    yield line("usual", f"2 x index_topk {least}, in whole blocks = {usual}; topk_buffer_size is {value}")
    yield line("one row", f"index_topk {least} <= topk_buffer_size {value}", least <= value)


def whole_blocks(ctx: Context, engine: Engine) -> Iterator[str]:
    if engine.offloads and engine.block_size > 0:
        value, block = topk_buffer(engine), engine.block_size
        rest = value % block
        yield line("whole blocks", f"topk_buffer_size {value} = {value // block} x {block} + {rest}", not rest)


def step(ctx: Context, engine: Engine) -> Iterator[str]:
    if engine.offloads:
        want = engine.max_num_seqs * (1 + engine.speculative_tokens)
        yield line(
            "one step",
            f"{engine.max_num_seqs} requests x (1 + {engine.speculative_tokens} speculative tokens) = {want} <= "
            f"max-num-batched-tokens {engine.max_num_batched_tokens}",
            want <= engine.max_num_batched_tokens,
        )


def one_token_each(ctx: Context, engine: Engine) -> Iterator[str]:
    if engine.args.get("max-num-seqs") is not None:
        requests, tokens = engine.max_num_seqs, engine.max_num_batched_tokens
        yield line("one step", f"max-num-seqs {requests} <= max-num-batched-tokens {tokens}", requests <= tokens)


# ---- memory of hosts ----


def host_memory(ctx: Context, host: str) -> Iterator[str]:
    pools, usable = host_pools(ctx, host), ctx.usable_memory(host)
    for label, size in pools:
        yield f"{label} = {gib(size, 1)}"
    if pools:
        need = sum(size for _label, size in pools) + HOST_RESERVE_BYTES
        yield line(
            "in all",
            f"{gib(need - HOST_RESERVE_BYTES, 1)} + {gib(HOST_RESERVE_BYTES, 1)} for the system = {gib(need, 1)} <= "
            f"{gib(usable, 1)} that the host can give",
            need <= usable,
        )


def contiguous(ctx: Context, host: str) -> Iterator[str]:
    engines = [engine for engine in ctx.on(host) if engine.offloads]
    if engines:
        need = sum(engine.local_ranks * (ctx.sizing(engine).host_pool_bytes or 0) for engine in engines)
        free = int(ctx.fact(host, "host.contiguous.free_bytes"))
        yield line("KV pools", f"{gib(need, 1)} <= {gib(free, 1)} free in blocks of 2 MiB and more", need <= free)


def huge_pages(ctx: Context, host: str) -> Iterator[str]:
    pages = ctx.fact(host, "host.memory.hugepages")
    free, size = pages.get("free") or 0, pages.get("size_bytes") or 0
    words = f"{free} free of {pages.get('total') or 0}, {size >> 20} MiB each = {gib(free * size, 1)}"
    yield line("huge pages", words)


def half_available(ctx: Context, host: str) -> Iterator[str]:
    total, available = ctx.fact(host, "host.memory.total_bytes"), ctx.fact(host, "host.memory.available_bytes")
    if not ctx.own_running(host):
        yield line("half", f"{gib(total, 0)} / 2 <= {gib(available, 0)} available", available >= total // 2)


def image_room(ctx: Context, host: str) -> Iterator[str]:
    yield from _room(ctx, host, image_folder(ctx, host), images_kept(ctx))


def archive_room(ctx: Context, host: str) -> Iterator[str]:
    yield from _room(ctx, host, transfer_folder(ctx), 1)


def _room(ctx: Context, host: str, folder: str, times: int) -> Iterator[str]:
    size, free = ctx.settings["pd_image_size"], free_bytes(ctx, host, folder)
    holds = None if ctx.own_running(host) else bool(size * times * GIB <= free)
    words = f"pd_image_size {size} GiB x {times} = {size * times} GiB <= {gib(free, 0)} free in {folder}"
    yield line("room", words, holds)


# ---- MemCache ----


def memcache_ranks(ctx: Context) -> Iterator[str]:
    engines = [engine for engine in ctx.engines if engine.uses_memcache]
    for size in sorted({int(local(ctx, one).get(f"{LOCAL}world_size") or WORLD_SIZE) for one in engines}):
        ranks = sum(len(engine.devices) for engine in engines)
        words = f"{ranks} chips of all engines <= world_size {size} <= {MOST_RANKS}"
        yield line("ranks", words, ranks <= size <= MOST_RANKS)


def memcache_dram(ctx: Context, engine: Engine) -> Iterator[str]:
    each = ctx.memcache_gib(engine) if engine.uses_memcache else None
    if each is not None:
        ranks = len(engine.devices)
        yield line("MemCache", f"{ranks} ranks x {each} GiB = {ranks * each} GiB of its host")


def memcache_request(ctx: Context, engine: Engine) -> Iterator[str]:
    each = ctx.memcache_gib(engine) if engine.uses_memcache else None
    if each is not None:
        ranks, length = sum(len(one.devices) for one in ctx.engines if one.uses_memcache), ctx.model_length(engine)
        token = ctx.sizing(engine).pool_bytes_per_token
        yield line(
            "one request",
            f"{length} tokens x {token} bytes = {gib(length * token)} <= {ranks} ranks x {each} GiB = "
            f"{ranks * each} GiB",
            length * token <= ranks * each * GIB,
        )


def shared_memory(ctx: Context, host: str) -> Iterator[str]:
    yield from _pool_of_host(ctx, host, ("host_shm",))


def roce_pages(ctx: Context, host: str) -> Iterator[str]:
    yield from _pool_of_host(ctx, host, ("device_rdma", "host_rdma"))


def _pool_of_host(ctx: Context, host: str, protocols: Collection[str]) -> Iterator[str]:
    """What the engines that use one of the protocols take, and from what."""
    users = [one for one in ctx.on(host) if one.uses_memcache and local(ctx, one).get(f"{LOCAL}protocol") in protocols]
    if users:
        shares = [(len(engine.devices), ctx.memcache_gib(engine) or 0) for engine in users]
        words = " + ".join(f"{ranks} ranks x {each} GiB" for ranks, each in shares)
        yield line("MemCache", f"{words} = {sum(ranks * each for ranks, each in shares)} GiB")
        yield line("/dev/shm", f"{gib(ctx.fact(host, 'host.shm.free_bytes'), 1)} free")
        yield from huge_pages(ctx, host)


# ---- ports ----


def port_table(ctx: Context, host: str) -> Iterator[str]:
    for port in sorted(ctx.ports_on(host), key=lambda port: int(port["first"])):
        yield f"{span(port):<12}{port['owner']} ({port['purpose']})"


def ephemeral(ctx: Context, host: str) -> Iterator[str]:
    low, high = ctx.fact(host, "host.ephemeral_ports")
    yield line("ephemeral", f"{low}-{high}")
    for who, ranges in (
        ("reserved", [f"{first}-{last}" for first, last in ctx.fact(host, "host.reserved_ports")]),
        ("to reserve", ctx.hosts[host].get("reserved_ports") or []),
    ):
        yield line(who, ", ".join(map(str, ranges)) or "none")


def own_ports(ctx: Context, engine: Engine) -> Iterator[str]:
    for port in ctx.ports_on(engine.host):
        if port["owner"] == engine.name:
            yield f"{span(port):<12}{port['purpose']}"


def _inside(ctx: Context, host: str, band: Mapping[str, Any], words: str) -> Iterator[str]:
    inside = [f"{span(port)} ({port['owner']})" for port in fixed_ports(ctx, host) if overlap(port, band)]
    yield line(words, f"{span(band)}; set ports in it: {', '.join(inside) or 'none'}", not inside)


def mooncake(ctx: Context, host: str) -> Iterator[str]:
    if any(engine.uses_mooncake for engine in ctx.on(host)):
        first, last = mooncake_band(ctx, host)
        chips = int(ctx.hosts[host].get("chips") or 16)
        yield line("random band", f"{first} to {first} + {(last + 1 - first) // chips} x {chips} chips - 1")
        yield from _inside(ctx, host, {"first": first, "last": last}, "in it")


def memfabric(ctx: Context, host: str) -> Iterator[str]:
    ranks = sum(len(engine.devices) for engine in ctx.on(host) if engine.uses_memfabric)
    if ranks:
        last = MEMFABRIC_FIRST_PORT + 2 * ranks - 1
        yield line("own ports", f"{MEMFABRIC_FIRST_PORT} to {MEMFABRIC_FIRST_PORT} + 2 x {ranks} ranks - 1 = {last}")
        yield from _inside(ctx, host, {"first": MEMFABRIC_FIRST_PORT, "last": last}, "in it")


def offload_store(ctx: Context, host: str) -> Iterator[str]:
    engines = [engine for engine in ctx.on(host) if engine.offloads]
    if engines:
        groups = sum(engine.local_ranks for engine in engines)
        last = MEMFABRIC_STORE_PORT + groups - 1
        yield line(
            "stores", f"{MEMFABRIC_STORE_PORT} to {MEMFABRIC_STORE_PORT} + {groups} data-parallel groups - 1 = {last}"
        )
        yield line("engines", f"{len(engines)} with offload <= 1", len(engines) <= 1)


def kv_ports(ctx: Context, engine: Engine) -> Iterator[str]:
    for base in (whole(part.get("kv_port")) for part in engine.parts):
        if base is not None:
            yield line(
                "last port",
                f"kv_port {base} + {_product(engine)} ranks - 1 = {base + engine.ranks - 1} <= {LAST_PORT}",
                base + engine.ranks - 1 <= LAST_PORT,
            )


# ---- parallel sizes ----


def _product(engine: Engine) -> str:
    return f"TP {engine.tp} x PP {engine.pp} x PCP {engine.pcp} x DP {engine.dp}"


def chips(ctx: Context, engine: Engine) -> Iterator[str]:
    have = sum(len(one.devices) for one in ctx.of_instance(str(engine.data["instance"])))
    yield line("chips", f"{_product(engine)} = {engine.ranks}; the instance has {have}", have == engine.ranks)


def tensor_ratio(ctx: Context) -> Iterator[str]:
    for prefill, decode in ctx.pairs:
        yield line("TP", f"prefill {prefill.tp} / decode {decode.tp} = {prefill.tp / decode.tp:g}")


def context_sizes(ctx: Context, engine: Engine) -> Iterator[str]:
    if engine.pcp * engine.dcp > 1:
        yield line("TP / DCP", f"{engine.tp} / {engine.dcp} = {engine.tp / engine.dcp:g}")
        interleave = engine.number("cp-kv-cache-interleave-size", 1)
        yield line("blocks", f"block-size {engine.block_size}, cp-kv-cache-interleave-size {interleave}")


def heads(ctx: Context, engine: Engine) -> Iterator[str]:
    count = whole(ctx.model_config(engine.host).get("num_attention_heads")) or 0
    rest = count % engine.tp
    yield line("heads", f"{count} = {count // engine.tp} x TP {engine.tp} + {rest}", not rest)


def length(ctx: Context, engine: Engine) -> Iterator[str]:
    limit = longest_length(text_config(ctx.model_config(engine.host)))
    if limit and (wanted := engine.number("max-model-len", 0)):
        yield line("length", f"max-model-len {wanted}; the model's own, from config.json, is {limit}")


def context_ratio(ctx: Context) -> Iterator[str]:
    for prefill, decode in ctx.pairs:
        own, other = prefill.pcp * prefill.dcp, decode.pcp * decode.dcp
        if own * other > 1 and prefill.connectors & decode.connectors & set(MOONCAKE_P2P):
            yield line(
                "PCP x DCP",
                f"prefill {prefill.pcp} x {prefill.dcp} = {own}, a multiple of decode's {decode.pcp} x {decode.dcp} = "
                f"{other}",
                not own % other,
            )


def served(ctx: Context) -> Iterator[str]:
    heads = [one for one in ctx.heads if one.role in ("decode", "engine")]
    total = sum(one.max_num_seqs * one.dp for one in heads)
    words = " + ".join(f"{one.max_num_seqs} x DP {one.dp}" for one in heads[:MOST_NAMED])
    more = f" + {len(heads) - MOST_NAMED} more" if len(heads) > MOST_NAMED else ""
    expected = ctx.settings.get("pd_expected_concurrency")
    yield line(
        "at once", f"max-num-seqs {words}{more} = {total}; pd_expected_concurrency is {expected or 'not stated'}"
    )


#: Rule -> its formulas, in the order in which they build on each other.
FORMULAS: Mapping[str, tuple[Formula, ...]] = {
    "PD-ARG-002": (one_token_each,),
    "PD-CONN-005": (tensor_ratio,),
    "PD-CONN-013": (context_sizes,),
    "PD-CONN-021": (kv_ports,),
    "PD-CONN-023": (context_ratio,),
    "PD-HOST-004": (image_room,),
    "PD-HOST-008": (half_available,),
    "PD-HOST-011": (archive_room,),
    "PD-MEM-001": (host_memory,),
    "PD-MEM-002": (blocks, on_chip, hot_buffers, hbm),
    "PD-MEM-003": (utilisation,),
    "PD-MEM-004": (utilisation, large_batch),
    "PD-MEM-006": (pool, proven),
    "PD-MEM-007": (contiguous,),
    "PD-MEM-008": (huge_pages,),
    "PD-MMC-003": (memcache_dram,),
    "PD-MMC-004": (memcache_ranks,),
    "PD-MMC-005": (shared_memory,),
    "PD-MMC-012": (memcache_request,),
    "PD-MMC-014": (roce_pages,),
    "PD-MODEL-005": (length,),
    "PD-MODEL-009": (heads,),
    "PD-NPU-005": (chips,),
    "PD-PORT-001": (port_table,),
    "PD-PORT-002": (mooncake,),
    "PD-PORT-003": (port_table,),
    "PD-PORT-004": (port_table,),
    "PD-PORT-005": (ephemeral, port_table),
    "PD-PORT-006": (memfabric,),
    "PD-PORT-008": (offload_store,),
    "PD-PORT-013": (own_ports,),
    "PD-PROXY-009": (served,),
    "PD-SPARSE-001": (topk,),
    "PD-SPARSE-002": (whole_blocks,),
    "PD-SPARSE-003": (topk, hot_buffers),
    "PD-SPARSE-011": (pool, capacity),
    "PD-SPARSE-012": (pool, gate),
    "PD-SPARSE-013": (pool, waste),
    "PD-SPARSE-021": (step,),
}
