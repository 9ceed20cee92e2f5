# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Sparse KV offload: what vllm-ascend refuses, when, and what it should refuse but does not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...module_utils._sizing import usual_topk_buffer_size
from ...module_utils._sizing_gate import DEFAULT_TOPK_BUFFER_SIZE, GATE_PLANNED, GIB
from ...module_utils._sizing_model import number
from ...module_utils._text import mask_credentials
from .. import connectors
from ..engine_options import OWNED_OFFLOAD
from ..findings import ERROR, INFO, WARNING
from ..sizes import whole
from .connectors import wrong_roles
from .context import Context, Engine, Missing, known
from .keys import unknown_keys
from .registry import Problem, rule

CONFIG = "ascend_config.py SparseKVOffloadConfig"
OFFLOAD_KEYS = ("enabled", "topk_buffer_size", "dram_size_per_dp_GB", "keep_device_kv_cache")
#: Keys of vllm-ascend's main branch after 0.26.0rc1.
LATER_OFFLOAD_KEYS = ("fused_op_type", "use_fused_overlap", "memfabric_transfer_protocol")
MIN_READY_TIMEOUT_S = 3000
TOO_LARGE = 4
#: No version of it gathers small packets.
OFFICIAL = "vllm-project/vllm-ascend"


def integer(value: Any, what: str) -> int:
    """A number that upstream casts with int(); anything else is another rule's finding."""
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        raise Missing(f"{what} is {value!r}, no number") from None


#: Sizes of offload -> the variable by which profile sparse_kv_offload has them.
SIZES = {"topk_buffer_size": "pd_topk_buffer_size", "dram_size_per_dp_GB": "pd_dram_size_per_dp_gb"}


def size_by(ctx: Context, engine: Engine, size: str) -> str:
    """How to set a size: by a variable in the profile that computes it, by hand in another."""
    if ctx.profile == "sparse_kv_offload":
        return f"{SIZES[size]}: auto"
    return f"set {size} in {offload_place(engine, size)}"


def offload_place(engine: Engine, key: str) -> str:
    """The variable in which to mend a key of sparse_kv_offload_config."""
    return engine.place("additional-config", "sparse_kv_offload_config", key)


def wasted(ctx: Context, engine: Engine) -> int | None:
    """GiB that a data-parallel rank needs, where it is given far more and all of that is allocated."""
    dram, need = ctx.offload_gib(engine), None if ctx.planned_gate else ctx.right_dram(engine)
    return need if dram is not None and need and dram > TOO_LARGE * need else None


def pinned_beyond_need(ctx: Context, engine: Engine) -> bool:
    """Whether the engine is given more HBM for KV than its requests need: the host pool follows from that."""
    pinned = whole(engine.args.get("kv-cache-memory-bytes")) if engine.offloads else None
    return pinned is not None and pinned > (ctx.sizing(engine).recommended.kv_cache_memory_bytes or pinned)


def topk_buffer(engine: Engine) -> int:
    value = known(engine.offload.get("topk_buffer_size", DEFAULT_TOPK_BUFFER_SIZE), "topk_buffer_size")
    return integer(value, "topk_buffer_size")


def usual_buffer(ctx: Context, engine: Engine) -> tuple[int, int]:
    """``index_topk`` of the model, and the ``topk_buffer_size`` that goes with it."""
    topk = number(ctx.model_config(engine.host), "index_topk")
    if not topk:
        raise Missing(f"index_topk of the model on {engine.host} is not known")
    return topk, usual_topk_buffer_size(topk, max(1, engine.block_size))


@rule(
    "PD-SPARSE-001",
    ERROR,
    "topk_buffer_size is below index_topk",
    per="service",
    source=f"{CONFIG}",
    versions=">=0.26",
)
def buffer_holds_topk(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """Each row of the hot buffer must hold the index_topk tokens that one step selects."""
    if not engine.offloads:
        return
    value = topk_buffer(engine)
    if value <= 0:  # wrong with any model
        yield Problem(
            f"topk_buffer_size {value}", "2 x index_topk of the model", size_by(ctx, engine, "topk_buffer_size")
        )
        return
    topk, usual = usual_buffer(ctx, engine)
    if value < topk:
        yield Problem(
            f"topk_buffer_size {value}, index_topk {topk}",
            f"{usual} (2 x index_topk)",
            size_by(ctx, engine, "topk_buffer_size"),
        )


@rule(
    "PD-SPARSE-002",
    ERROR,
    "topk_buffer_size is no multiple of the block size",
    per="service",
    source="sparse_kv_offload_manager.py register_kv_caches",
    versions=">=0.26",
)
def buffer_whole_blocks(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """The cheapest mistake is checked last: after the weights are loaded and the host pool is allocated."""
    if not engine.offloads:
        return
    value, block = topk_buffer(engine), engine.block_size
    if value > 0 and block > 0 and value % block:
        try:
            right = usual_buffer(ctx, engine)[1]
        except Missing:  # the model is not known: the next that is a multiple
            right = -(-value // block) * block
        yield Problem(
            f"topk_buffer_size {value}, block-size {block}", str(right), size_by(ctx, engine, "topk_buffer_size")
        )


@rule(
    "PD-SPARSE-003",
    WARNING,
    "topk_buffer_size is unusual",
    per="service",
    source="guide 1 section 3.6",
    versions=">=0.26",
)
def buffer_usual(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """Twice index_topk, in whole blocks, is what was tried. More costs HBM on every chip, less copies more from the
    host.
    """
    if not engine.offloads:
        return
    value, (topk, usual) = topk_buffer(engine), usual_buffer(ctx, engine)
    if value >= topk and value % engine.block_size == 0 and value != usual:  # else an error of PD-SPARSE-001 or -002
        hot = ctx.sizing(engine).hot_buffer_bytes / GIB
        yield Problem(f"{value}: {hot:.2f} GiB per chip", str(usual), size_by(ctx, engine, "topk_buffer_size"))


def wrong_block(ctx: Context, engine: Engine) -> bool:
    """Whether PD-SPARSE-004 tells the engine's block size."""
    sparse = engine.offloads or connectors.SFA in engine.connectors
    return sparse and ctx.version_in(">=0.26") and engine.block_size != 128


@rule(
    "PD-SPARSE-004",
    ERROR,
    "block-size is not 128",
    per="service",
    source="attention/sfa_v1.py get_supported_kernel_block_sizes",
    versions=">=0.26",
)
def block_size(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """The sparse attention kernel knows blocks of 128 tokens only."""
    if wrong_block(ctx, engine):
        yield Problem(f"block-size {engine.block_size}", "128", "remove block-size, or set 128 on both sides")


@rule(
    "PD-SPARSE-005",
    ERROR,
    "the model has no sparse attention that can be offloaded",
    per="service",
    source=f"{CONFIG}",
    versions=">=0.26",
)
def model_is_sparse(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """Offload needs index_topk in config.json (DeepSeek-V3.2, GLM-5.x) and no compress_ratios (DeepSeek-V4)."""
    if not engine.offloads:
        return
    config = ctx.model_config(engine.host)
    if "compress_ratios" in config:
        yield Problem("compress_ratios in config.json", "a model without", "use profile mooncake for this model")
    elif (name := ctx.lacks_for_offload(engine.host)) and not config.get(name):  # what is odd is PD-MODEL-013's
        yield Problem(f"no {name} ({config.get('model_type')})", name, "use profile mooncake_layerwise or mooncake")


@rule(
    "PD-SPARSE-006",
    ERROR,
    "offload with context or pipeline parallelism",
    per="service",
    source=f"{CONFIG}",
    versions=">=0.26",
)
def no_context_parallel(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """Offload takes neither prefill nor decode context parallelism nor pipeline parallelism."""
    if engine.offloads and (engine.pcp * engine.dcp > 1 or engine.pp > 1):
        yield Problem(f"PCP {engine.pcp}, DCP {engine.dcp}, PP {engine.pp}", "1 each", f"set {engine.role}_parallel")


@rule(
    "PD-SPARSE-007",
    ERROR,
    "offload on an engine that is no KV consumer",
    per="service",
    source=f"{CONFIG}; sfa_pd_rd2h/connector.py SfaRemoteD2HConnector",
    versions=">=0.26",
)
def only_on_consumers(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """Offload belongs on decode alone, with kv_role kv_consumer; kv_both passes the first check and fails the second.

    With SfaRemoteD2HConnector decode must offload and prefill must not. A kv_role that is wrong at prefill or decode
    whether it offloads or not is PD-CONN-004's.
    """
    roles = {str(part.get("kv_role")) for part in engine.parts}
    misplaced = engine.offloads and not engine.offload.get("keep_device_kv_cache") and roles != {"kv_consumer"}
    if misplaced and not any(wrong_roles(engine)):
        yield Problem(
            f"offload with kv_role {', '.join(sorted(roles)) or 'none'}", "kv_consumer", "enable it on decode alone"
        )
    if connectors.SFA in engine.connectors and "kv_consumer" in roles and not engine.offloads:
        yield Problem(
            "SfaRemoteD2HConnector reads without sparse_kv_offload_config.enabled",
            "enabled: true",
            "use profile sparse_kv_offload",
        )


@rule(
    "PD-SPARSE-008",
    ERROR,
    "decode is not kept off the V2 model runner",
    per="engine",
    source=f"{CONFIG}",
    versions=">=0.26",
)
def v1_runner(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """Offload does not work with vLLM's V2 model runner; VLLM_USE_V2_MODEL_RUNNER=0 keeps it off."""
    if not engine.offloads:
        return
    value = engine.env.get("VLLM_USE_V2_MODEL_RUNNER")
    if str(value) not in ("0", "None"):
        yield Problem(f"VLLM_USE_V2_MODEL_RUNNER={value}", "0", "remove it from decode_env")
    elif value is None:
        yield Problem("VLLM_USE_V2_MODEL_RUNNER is unset", "0", "set it in decode_env", severity=INFO)


@rule(
    "PD-SPARSE-009",
    ERROR,
    "an option that offload refuses is on",
    per="service",
    source="ascend_config.py _validate_sparse_c8_kv_offload_compatibility; attention/sfa_kv_offload.py",
    versions=">=0.26",
)
def refused_options(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """enable_sparse_sfa_c8 and DSA context parallelism raise NotImplementedError; enable_sparse_li_c8 is allowed."""
    if not engine.offloads:
        return
    for name in ("enable_sparse_sfa_c8", "enable_dsa_cp", "enable_dsa_cp_with_layer_shard"):
        if engine.additional.get(name):
            yield Problem(f"{name}: true", "false", f"remove it from {engine.place('additional-config', name)}")


@rule(
    "PD-SPARSE-010",
    ERROR,
    "unknown key in sparse_kv_offload_config",
    per="service",
    source=f"{CONFIG}: reads four keys, ignores all others",
    versions=">=0.26",
)
def offload_keys(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """A misspelt key is ignored in silence: dram_size_per_dp_gb leaves the default of 128 in force."""
    later = LATER_OFFLOAD_KEYS if not ctx.version_in("<0.26.1") else ()
    for key, near in unknown_keys(engine.offload, (*OFFLOAD_KEYS, *later)):
        where = offload_place(engine, key)
        owner = OWNED_OFFLOAD.get(near or "") if ctx.profile == "sparse_kv_offload" else None
        if owner and near not in SIZES:
            yield Problem(key, f"left out: {owner} decides {near}", f"remove the key from {where}")
            continue
        mend = f"state {owner} instead, and remove the key from {where}" if owner else f"mend the key in {where}"
        yield Problem(key, near or "one of " + ", ".join(OFFLOAD_KEYS), mend)


@rule(
    "PD-SPARSE-011",
    ERROR,
    "the host pool is too small for its requests",
    per="service",
    source="sparse_kv_offload_manager.py; vLLM null block",
    versions=">=0.26",
)
def pool_holds_workload(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """max-num-seqs requests of max-model-len must fit, or vLLM preempts one, and preemption kills this decode.

    need = (max-num-seqs x ceil(max-model-len / block) + 1) x block x layers x (kv_lora_rank + rope) x 2 + alignment.
    """
    if not engine.offloads:
        return
    sizing, dram = ctx.sizing(engine), ctx.offload_gib(engine)
    need = sizing.bounds.capacity_gib
    if dram is not None and need is not None and dram < need:
        most, right = sizing.recommended.max_num_seqs or 0, ctx.right_dram(engine)
        fewer = right is None and 0 < most < engine.max_num_seqs  # the host does not have what so many need
        yield Problem(
            f"dram_size_per_dp_GB {dram}, need {(sizing.host_need_bytes + sizing.align_bytes) / GIB:.3f} GiB",
            f"max-num-seqs {most}, dram_size_per_dp_GB {ctx.wanted_dram(engine, most)}"
            if fewer
            else str(right or need),
            size_by(ctx, engine, "dram_size_per_dp_GB") + (", and" if fewer else ", or") + " lower max-num-seqs",
        )
    pinned, least = whole(engine.args.get("kv-cache-memory-bytes")), sizing.recommended.kv_cache_memory_bytes
    if pinned is not None and least is not None and pinned < least:
        yield Problem(
            f"kv-cache-memory-bytes {pinned}, need {least}",
            str(least),
            "set pd_kv_cache_memory_bytes to auto, or lower max-num-seqs",
        )


@rule(
    "PD-SPARSE-012",
    ERROR,
    "the start-up gate would refuse dram_size_per_dp_GB",
    per="service",
    source="worker/worker.py update_available_memory_for_sparse_kv_offload; PR #14921",
    versions=">=0.26",
)
def start_up_gate(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """0.26.0rc1 wants host:device ratio x free HBM, whatever the workload, and says so after minutes of loading.

    With --kv-cache-memory-bytes pinned to what the workload needs, that equals the workload's own need. Without it the
    free HBM is an estimate, and a failure of the gate only a warning. Later versions (PR #14921) cap instead of refuse.
    """
    if not engine.offloads:
        return
    sizing = ctx.sizing(engine)
    if sizing.gate_passes is None:
        raise Missing("free HBM for KV is not known")
    pinned, dram = whole(engine.args.get("kv-cache-memory-bytes")), ctx.offload_gib(engine)
    capacity, right = sizing.bounds.capacity_gib, ctx.right_dram(engine)
    if pinned and not pinned_beyond_need(ctx, engine) and dram is not None and dram < (capacity or 0):
        return  # PD-SPARSE-011: what the requests need passes the gate
    if sizing.gate == GATE_PLANNED and not sizing.gate_passes:
        yield Problem(
            f"{sizing.tokens_fit} tokens fit, limited by {sizing.planned_limit}; one request has "
            f"{ctx.model_length(engine)}",
            f"dram_size_per_dp_GB {right or capacity}",
            size_by(ctx, engine, "dram_size_per_dp_GB") + ", and pin pd_kv_cache_memory_bytes likewise",
        )
    elif not sizing.gate_passes:
        wanted, limit = sizing.bounds.gate_gib or capacity or 0, sizing.bounds.host_limit_gib
        absurd = right and wanted > min(TOO_LARGE * right, wanted if limit is None else limit)
        yield Problem(
            f"dram_size_per_dp_GB {sizing.dram_size_per_dp_gib}; the gate wants "
            f"{(sizing.gate_needed_bytes or 0) / GIB:.2f} GiB = {sizing.host_device_ratio:.3f} x "
            f"{(sizing.available_kv_bytes or 0) / GIB:.2f} GiB",
            f"{right}, with kv-cache-memory-bytes {sizing.recommended.kv_cache_memory_bytes}"
            if absurd
            else str(wanted),
            size_by(ctx, engine, "dram_size_per_dp_GB") + ", and pin pd_kv_cache_memory_bytes likewise",
            severity=WARNING if pinned is None else None,
        )


@rule(
    "PD-SPARSE-013",
    WARNING,
    "the host pool is far larger than its requests need",
    per="service",
    source="sparse_kv_offload_manager.py SparseKVOffloadManager",
    versions=">=0.26",
)
def pool_not_wasted(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """All of dram_size_per_dp_GB is allocated physically at start: 180 GiB took tens of minutes. Guide 1's 512 is 14 x
    its need. From PR #14921 on (pd_dram_gate: planned) only what is needed is allocated.
    """
    if engine.offloads and (need := wasted(ctx, engine)):
        dram = ctx.offload_gib(engine) or 0
        mend = size_by(ctx, engine, "dram_size_per_dp_GB")
        if pinned_beyond_need(ctx, engine):
            mend += "; pd_kv_cache_memory_bytes: auto"
        yield Problem(f"{dram} GiB, {dram / need:.1f} x the need", str(need), mend)


@rule(
    "PD-SPARSE-014",
    ERROR,
    "a size of offload is no whole number",
    per="service",
    source=f"{CONFIG}: int()",
    versions=">=0.26",
)
def dram_whole(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """vllm-ascend cuts 1.5 to 1, and text such as 36G fails. The unit is GiB (2**30 bytes) whatever the name says."""
    for name, unit in (("dram_size_per_dp_GB", "GiB"), ("topk_buffer_size", "tokens")):
        value = engine.offload.get(name)
        if value is not None:
            known(value, name)
        whole = isinstance(value, int) or (isinstance(value, str) and value.strip().isdigit())
        if value is not None and (isinstance(value, bool) or not whole):
            yield Problem(f"{name} {value!r}", f"a whole number of {unit}", size_by(ctx, engine, name))


@rule(
    "PD-SPARSE-015",
    ERROR,
    "prefix caching is on at decode",
    per="service",
    source="sfa_pd_rd2h/scheduler.py get_num_new_matched_tokens",
    versions=">=0.26",
)
def no_prefix_cache(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """Decode reads whole blocks from prefill and asserts that; a prefix hit breaks it. vLLM's default is on."""
    if engine.offloads and engine.args.get("enable-prefix-caching") is not False:
        yield Problem("enable-prefix-caching is on", "enable-prefix-caching: false", "set it in decode_vllm_args")


@rule(
    "PD-SPARSE-016",
    ERROR,
    "a failed KV read would be recomputed on decode",
    per="service",
    source="vLLM kv_load_failure_policy; attention/sfa_kv_offload.py",
    versions=">=0.26",
)
def no_local_recompute(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """kv_load_failure_policy recompute makes decode prefill the prompt itself, which raises inside the worker and ends
    it.
    """
    if engine.offloads and engine.transfer.get("kv_load_failure_policy") == "recompute":
        yield Problem("kv_load_failure_policy: recompute", "fail", "remove it from pd_kv_transfer_config")


@rule(
    "PD-SPARSE-017",
    WARNING,
    "KV is kept on the chips as well",
    per="service",
    source=f"{CONFIG}: warning",
    versions=">=0.26",
)
def no_device_copy(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """keep_device_kv_cache keeps all KV in HBM as well: no longer sequence and no larger batch than without offload."""
    if engine.offloads and engine.offload.get("keep_device_kv_cache"):
        yield Problem(
            "keep_device_kv_cache: true", "false", f"remove it from {offload_place(engine, 'keep_device_kv_cache')}"
        )


@rule(
    "PD-SPARSE-018",
    ERROR,
    "a data-parallel group with offload spans hosts",
    per="service",
    source="sparse_kv_offload_manager.py register_kv_caches",
    versions=">=0.26",
)
def group_on_one_host(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """TP rank 0 allocates the pool and the others map it: all ranks of a data-parallel group must be on one host."""
    if engine.offloads and len(engine.devices) % (engine.tp * engine.pp):
        yield Problem(
            f"{len(engine.devices)} chips on {engine.host}, TP {engine.tp}",
            "whole groups per host",
            f"lower tensor_parallel_size in {engine.role}_parallel",
        )


@rule(
    "PD-SPARSE-019",
    WARNING,
    "decode may be given up while it still allocates",
    per="engine",
    source="vLLM VLLM_ENGINE_READY_TIMEOUT_S, default 600",
    versions=">=0.26",
)
def ready_timeout(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """Loading weights and allocating the pool takes longer than vLLM's 600 s; upstream's own tests give 3000.

    VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS, which the guides set, is another timer.
    """
    if not engine.offloads:
        return
    value = engine.env.get("VLLM_ENGINE_READY_TIMEOUT_S")
    seconds = whole(value)  # what is no number is PD-ENV-014's
    if value is None or (seconds is not None and seconds < MIN_READY_TIMEOUT_S):
        ours = str(value) == str(ctx.settings.get("pd_ready_timeout_s"))
        yield Problem(
            f"VLLM_ENGINE_READY_TIMEOUT_S {value or 'unset'}",
            f"{MIN_READY_TIMEOUT_S}",
            "raise pd_ready_timeout_s" if ours else "leave it to the plan",
        )


@rule(
    "PD-SPARSE-020",
    WARNING,
    "the recompute scheduler was not tried with offload",
    per="service",
    source="upstream e2e: no such test",
    versions=">=0.26",
)
def recompute_with_offload(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """It ships preempted requests back to prefill, which would save this decode, but nobody upstream has tested the
    pair.
    """
    if engine.offloads and engine.scheduler_option("recompute_scheduler_enable"):
        yield Problem(
            "recompute_scheduler_enable: true",
            "a pool that never preempts",
            f"remove it from {engine.scheduler_place('recompute_scheduler_enable')}; pd_dram_size_per_dp_gb: auto",
        )


@rule(
    "PD-SPARSE-021",
    WARNING,
    "a step may hold fewer tokens than decode wants",
    per="service",
    source="sparse_kv_offload_manager.py allocate_kv_offload_topk_buffer_pair, onload_topk_kv",
    versions=">=0.26",
)
def rows_cover_batch(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """max-num-batched-tokens below max-num-seqs x (1 + speculative tokens) caps the rows: requests wait for each
    other.
    """
    if not engine.offloads:
        return
    want = engine.max_num_seqs * (1 + engine.speculative_tokens)
    have = engine.max_num_batched_tokens
    if have < want and not (have < engine.max_num_seqs and engine.args.get("max-num-seqs")):  # PD-ARG-002
        yield Problem(
            f"max-num-batched-tokens {have}", f"{want} or more", f"raise it in {engine.place('max-num-batched-tokens')}"
        )


@rule(
    "PD-SPARSE-022",
    ERROR,
    "small-packet gather cannot work so",
    per="service",
    source="guide 1 section 4",
    versions=">=0.26",
)
def gather(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """Gather runs in eager mode on decode with offload only; under graphs it falls back to discrete copies.

    It is in no official vllm-ascend: with one, its variables do nothing. What is in an image that was not built here
    cannot be seen (PD-SPARSE-024).
    """
    if str(engine.env.get("VLLM_ASCEND_ENABLE_CPU_GATHER_H2D", "0")) != "1":
        return
    if not engine.offloads:
        yield Problem(
            f"gather on {engine.role} without offload",
            "decode with offload only",
            f"remove the variables from {engine.role}_env",
        )
        return
    if engine.graph_mode.upper() != "NONE":
        yield Problem(
            f"gather with cudagraph_mode {engine.graph_mode}", "enforce-eager", "pd_small_packet_gather sets both"
        )
    repository = str(ctx.settings.get("vllm_build_vllm_ascend_repo") or OFFICIAL)
    if "vllm" in ctx.image_of(engine).get("layers", ()) and OFFICIAL in repository:
        yield Problem(
            f"built from {mask_credentials(repository)}, which has no gather",
            "a fork that has it",
            "name it for all hosts in vllm_build_vllm_ascend_repo and _ref (docs/profiles/sparse_kv_offload.md)",
            severity=WARNING,
        )


@rule(
    "PD-SPARSE-023",
    ERROR,
    "prefill and decode disagree about the indexer",
    per="cluster",
    source="sfa_pd_rd2h worker layout validation",
    versions=">=0.26",
)
def li_c8_equal(ctx: Context) -> Iterator[Problem]:
    """enable_sparse_li_c8 changes the layout of each layer's indexer cache: it must be equal on both sides."""
    seen: dict[bool, list[str]] = {}
    for engine in ctx.engines:
        if connectors.SFA in engine.connectors:
            seen.setdefault(bool(engine.additional.get("enable_sparse_li_c8")), []).append(engine.name)
    if len(seen) > 1:
        yield Problem(
            f"on at {', '.join(seen[True])}, off at {', '.join(seen[False])}", "equal", "set it in pd_vllm_args"
        )


@rule(
    "PD-SPARSE-024",
    WARNING,
    "decode's image was not built here",
    per="service",
    source="sparse_kv_offload_manager.py _build_cpp; Dockerfile.a3.openEuler; memfabric_hybrid wheels",
    versions=">=0.26",
)
def image_checked(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """At every start decode compiles code: it needs clang++, omp.h, ninja, and a libmf_hybm_accoffload.so that is
    not empty.

    Upstream's image has clang but no omp.h, and MemFabric's wheels lack the library (1.2.0) or have it empty
    (1.2.1). Images that are built here are checked for all of it; others are not.
    """
    image = ctx.image_of(engine)
    if engine.offloads and "memfabric" not in image.get("layers", ()):
        yield Problem(f"{image.get('base')} is served as it is", "pd_build: true", "build, or check the image by hand")
