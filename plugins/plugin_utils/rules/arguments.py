# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Options of ``vllm serve`` against each other: what vLLM refuses at start whatever model and hosts are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...module_utils._sizing_input import DEFAULT_GPU_MEMORY_UTILIZATION
from ..findings import ERROR, WARNING
from ..option_configs import Entry, OptionConfigs, option_configs
from ..options import is_known
from ..profiles import PROFILES
from ..sizes import fraction, wrong_numbers
from .connectors import extra_of, extra_place
from .context import Context, Engine
from .keys import unknown_keys
from .registry import Problem, rule

#: What ascend_config.py of vllm-ascend 0.22.1rc1 and 0.26.0rc1 reads of additional-config.
ADDITIONAL_KEYS = (
    *("SLO_limits_for_dynamic_batch", "ascend_compilation_config", "ascend_fusion_config", "ascend_log_path"),
    *("batch_job_sched_config", "c8_enable_reshape_optim", "draft_window_size", "dump_config", "dump_config_path"),
    *("dp_allreduce_on_npu", "enable_async_exponential", "enable_balance_scheduling", "enable_context_parallel"),
    *("enable_cpu_binding", "enable_dsa_cp", "enable_flashcomm1", "enable_fused_mc2", "enable_hamming_sparse"),
    *("enable_kv_nz", "enable_matmul_allreduce", "enable_mc2_hierarchy_comm", "enable_mlapo", "enable_prefill_mc2"),
    *("enable_reduce_sample", "enable_shared_expert_dp", "enable_sleep_mode_extra_cleanup", "enable_sparse_c8"),
    *("enable_sparse_li_c8", "enable_sparse_sfa_c8", "enable_transpose_kv_cache_by_block", "eplb_config"),
    *("finegrained_tp_config", "flashcomm2_parallel_size", "enable_flashcomm2_parallel_size", "hamming_sparse"),
    *("layer_sharding", "mc2_comm_alg", "mega_moe_max_tokens", "mix_placement", "msmonitor_use_daemon"),
    *("multistream_dsv4_dsa_overlap", "multistream_overlap_gate", "multistream_overlap_shared_expert"),
    *("pa_shape_list", "profiling_chunk_config", "recompute_scheduler_enable", "refresh", "rejection_sampler_config"),
    *("scheduler_config", "short_request_first_config", "sparse_kv_offload_config", "weight_nz_mode"),
    *("weight_prefetch_config", "xlite_graph_config"),
)
#: Keys less alike than this may be meant for another plugin.
ALIKE = 0.8


@rule(
    "PD-ARG-001",
    ERROR,
    "a step does not hold a whole prompt, and prompts may not be cut",
    per="service",
    source="vLLM SchedulerConfig.verify_max_model_len; guide 2, notes on parameters",
)
def whole_prompts(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """Without chunked prefill a prompt is computed in one step, so vLLM refuses a max-num-batched-tokens below
    max-model-len. Left out it follows by itself.
    """
    if engine.args.get("enable-chunked-prefill") is not False or engine.args.get("max-num-batched-tokens") is None:
        return
    tokens, length = engine.max_num_batched_tokens, ctx.model_length(engine)
    if tokens < length:
        yield Problem(
            f"max-num-batched-tokens {tokens}, max-model-len {length}, chunked prefill off",
            f"max-num-batched-tokens {length}",
            f"set it in {engine.place('max-num-batched-tokens')}, or enable-chunked-prefill: true",
        )


@rule(
    "PD-ARG-002",
    ERROR,
    "a step does not hold one token of each request",
    per="service",
    source="vLLM SchedulerConfig.verify_max_model_len",
)
def one_token_each(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """vLLM refuses a max-num-batched-tokens below max-num-seqs. Left out, max-num-seqs is lowered by itself.

    With sparse KV offload a step should also hold the speculative tokens of each request (PD-SPARSE-021).
    """
    if engine.args.get("max-num-seqs") is None:
        return
    tokens, requests = engine.max_num_batched_tokens, engine.max_num_seqs
    if tokens < requests:
        right = requests * (1 + engine.speculative_tokens) if engine.offloads else requests
        yield Problem(
            f"max-num-batched-tokens {tokens}, max-num-seqs {requests}",
            f"max-num-batched-tokens {right} or more",
            f"set it in {engine.place('max-num-batched-tokens')}",
        )


#: From here on a gpu-memory-utilization was meant in percent.
PERCENT = 10


def usual_utilization(ctx: Context, engine: Engine) -> float:
    """gpu-memory-utilization where the user states none: the profile's, else vLLM's."""
    own = PROFILES[ctx.profile].vllm_args.get(engine.role, {}) if ctx.profile in PROFILES else {}
    return float(own.get("gpu-memory-utilization", DEFAULT_GPU_MEMORY_UTILIZATION))


@rule(
    "PD-ARG-003",
    ERROR,
    "an option is not a number that vLLM takes",
    per="service",
    source="vLLM CacheConfig, SchedulerConfig",
)
def numbers(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """gpu-memory-utilization is a share, above 0 and at most 1. The others, among them num_speculative_tokens of
    speculative-config, are whole numbers. max-model-len and max-num-batched-tokens vLLM also takes in forms such as
    128k (128000) and 64K (65536).

    Sizes that follow from such a value are neither computed nor checked until it is corrected.
    """
    for path, value in wrong_numbers(engine.args):
        right = "a whole number from 1"
        if path == ("gpu-memory-utilization",):
            percent = fraction(value)
            right = "above 0, at most 1"
            if percent is not None and PERCENT <= percent <= 100:
                right = f"{percent / 100:g}"
            elif percent is not None and 1 < percent < PERCENT:
                right = f"{usual_utilization(ctx, engine):g}"
        yield Problem(f"{path[-1]} {value!r}", right, f"correct it in {engine.place(*path)}")


@rule(
    "PD-ARG-004",
    WARNING,
    "unknown key in additional-config",
    per="service",
    source="vllm-ascend ascend_config.py: reads its own keys, ignores all others",
)
def additional_keys(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """vllm-ascend passes over a key that it does not know, and its default stays in force. What is not much like one of
    its keys may be another plugin's. A misspelt sparse_kv_offload_config is an error: nothing would be offloaded.
    """
    for key, near in unknown_keys(engine.additional, ADDITIONAL_KEYS, ALIKE):
        if near is not None:
            severity = ERROR if near == "sparse_kv_offload_config" else None
            yield Problem(key, near, f"mend the key in {engine.place('additional-config', key)}", severity=severity)


#: Text that somebody meant as a switch.
WORDS = ("true", "yes", "on", "false", "no", "off")


def words(value: Any, *path: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Path and text of each word for true or false in nested mappings."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from words(inner, *path, str(key))
    elif isinstance(value, str) and value.strip().lower() in WORDS:
        yield path, value


@rule(
    "PD-ARG-005",
    ERROR,
    "a switch is written as text",
    per="service",
    source="vllm-ascend ascend_config.py, ascend_store_connector.py: if additional_config.get(...)",
)
def switches(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """What vllm-ascend reads of additional-config and kv_connector_extra_config it takes as it is: "false" in quotes is
    text, and text that is not empty counts as true.
    """
    found = [(engine.place("additional-config", *path), path, text) for path, text in words(engine.additional)]
    for part in engine.parts:
        found += [(extra_place(engine, part, ".".join(path)), path, text) for path, text in words(extra_of(part))]
    for where, path, text in found:
        right = "true" if text.strip().lower() in WORDS[:3] else "false"
        yield Problem(f"{'.'.join(path)} {text!r}", f"{right}, without quotes", f"mend it in {where}")


def configurations(ctx: Context) -> tuple[OptionConfigs, str | None]:
    """What vLLM takes inside options, and how sure that is: of a release that is not known it may have changed."""
    version = str((ctx.plan.get("versions") or {}).get("vllm") or "")
    return option_configs(version), None if is_known(version) else WARNING


def entries(configs: OptionConfigs, engine: Engine) -> Iterator[tuple[str, Entry]]:
    """Option and key of all that is stated in configurations."""
    for name, value in configs.stated(engine.args):
        for entry in configs.entries(name, value):
            yield name, entry


@rule(
    "PD-ARG-006",
    ERROR,
    "a key inside an option is none that vLLM knows",
    per="service",
    source="vllm/config/utils.py config: extra keys are forbidden; tools/vllm_configs",
)
def option_keys(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """speculative-config, compilation-config and their like are read into dataclasses that forbid unknown keys: the
    engine ends with a page of validation errors. A warning where this release's keys are not known, only those of an
    older one.
    """
    configs, severity = configurations(ctx)
    for name, value in configs.stated(engine.args):
        if not isinstance(value, Mapping) and not str(value).lstrip().startswith("{"):
            yield Problem(f"{name} {value!r}", "a mapping of keys", f"write it as a mapping in {engine.place(name)}")
    for name, entry in entries(configs, engine):
        for key, near in unknown_keys([] if entry.known else [entry.key], entry.fields):
            where, path = engine.place(name, *entry.path), ".".join(entry.path)
            right = near or f"one of {', '.join(entry.fields)}"
            stated = engine.stated_in(".".join((name, *entry.path[:-1], right)), default="")
            mend = f"remove {key} in {where}: {right} stands in {stated}" if stated else f"mend the key in {where}"
            yield Problem(f"{name}: vLLM {configs.version} has no {path}", right, mend, severity=severity)


@rule(
    "PD-ARG-007",
    ERROR,
    "a word inside an option is none of those that vLLM takes there",
    per="service",
    source="vllm/config: Literal types and enumerations; tools/vllm_configs",
)
def option_choices(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """The method of speculative-config, cudagraph_mode of compilation-config, backends: each is one of a closed list,
    some in upper or lower case alike. A warning where this release's words are not known, only those of an older one.
    """
    configs, severity = configurations(ctx)
    for name, entry in entries(configs, engine):
        if not entry.is_choice:
            words_known = [str(one) for one in entry.choices or ()]
            near = dict(unknown_keys([str(entry.value)], words_known)).get(str(entry.value))
            yield Problem(
                f"{name}: {'.'.join(entry.path)} {entry.value!r}",
                near or f"one of {', '.join(words_known)}",
                f"correct it in {engine.place(name, *entry.path)}",
                severity=severity,
            )


#: supported_quantization in platform.py of vllm-ascend 0.22.1rc1 and 0.26.0rc1, and what its main branch adds.
QUANTIZATIONS = ("ascend", "compressed-tensors", "fp8", "deepseek_v4_fp8")
LATER_QUANTIZATIONS = ("modelopt_mxfp8", "mxfp8")


@rule(
    "PD-ARG-008",
    ERROR,
    "no such quantization on Ascend",
    per="service",
    source="vllm-ascend platform.py NPUPlatform (supported_quantization); vLLM ModelConfig._verify_quantization",
)
def quantizations(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """Of vLLM's methods vllm-ascend runs a few, and adds its own, ascend (weights of msModelSlim). Everything else ends
    the engine at start, in upper or lower case alike. A warning after vllm-ascend 0.26, which may run more.
    """
    later = ctx.version_in(">0.26")
    methods = (*QUANTIZATIONS, *(LATER_QUANTIZATIONS if later else ()))
    inside = engine.args.get("speculative-config")
    draft = inside.get("quantization") if isinstance(inside, Mapping) else None
    for path, value in (
        (("quantization",), engine.args.get("quantization")),
        (("speculative-config", "quantization"), draft),
    ):
        if isinstance(value, str) and value.lower() not in (*methods, "", "none"):
            near = dict(unknown_keys([value], methods)).get(value)
            yield Problem(
                f"{'.'.join(path)} {value!r}",
                near or f"one of {', '.join(methods)}",
                f"correct it in {engine.place(*path)}",
                severity=WARNING if later else None,
            )
