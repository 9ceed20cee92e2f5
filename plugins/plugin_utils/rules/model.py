# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""The model folder on each host, and the model against the options."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...module_utils._sizing_model import longest_length, number, text_config
from .. import connectors
from ..findings import ERROR, INFO, WARNING
from .context import Context, Engine, Missing, covers, targets
from .registry import Problem, rule


def path_of(ctx: Context) -> str:
    return str((ctx.plan.get("model") or {}).get("path"))


@rule("PD-MODEL-001", ERROR, "the model is not there", per="host", source="vllm-ascend #9999, #135")
def present(ctx: Context, host: str) -> Iterator[Problem]:
    """Without config.json vLLM takes the path for the name of a repository ("HFValidationError") and wants to
    download.
    """
    if not ctx.on(host):
        return
    model = ctx.model(host)
    if not model.get("exists"):
        path, reasons = path_of(ctx), model.get("reasons") or ["missing"]
        reason = str(reasons[0]).removeprefix(f"{path}: ")
        yield Problem(f"{path}: {reason}", "the model folder", "copy it there, or correct pd_model_path")
    elif not model.get("config"):
        yield Problem(f"{path_of(ctx)}: no readable config.json", "config.json", "copy the folder anew")


def incomplete(model: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What is wrong with shards that a model folder should hold, and what would be right."""
    shards = model.get("shards") or {}

    def first(kind: str) -> Iterator[tuple[Any, str]]:
        for one in (shards.get(kind) or [])[:1]:
            yield one, f" and {len(shards[kind]) - 1} more" if len(shards[kind]) > 1 else ""

    whole = f"all {shards.get('count')} shards"
    for one, more in first("missing"):
        yield f"{one}{more}: missing", whole
    for one, more in first("lfs_pointers"):
        yield f"{one}{more}: Git LFS pointers instead of weights", whole
    for one, more in first("short"):
        size = f"{one['size_bytes']} bytes, its header says {one['expected_bytes']}"
        yield f"{one['name']}{more}: {size}", "whole files"
    for one, more in first("unreadable"):
        size = f"{one['size_bytes']} bytes that vLLM cannot load: {one['reason']}"
        yield f"{one['name']}{more}: {size}", "whole files"


@rule("PD-MODEL-002", ERROR, "weights are missing", per="host", source="collection")
def complete(ctx: Context, host: str) -> Iterator[Problem]:
    """A shard that the index names is missing, cut short, a Git LFS pointer, or without a header, as a download leaves
    it that allocates first: loading fails after minutes.
    """
    if not ctx.on(host):
        return
    model = ctx.model(host)
    if not model.get("exists"):
        raise Missing(f"the model is not on {host}")
    shards = model.get("shards")
    if not shards or shards.get("bytes") is None:
        raise Missing(f"the weights on {host} were not counted")
    if not shards.get("count"):
        yield Problem(f"no weights in {path_of(ctx)}", "*.safetensors", "copy them there")
    for found, right in incomplete(model):
        yield Problem(found, right, "copy them anew")


@rule("PD-MODEL-003", ERROR, "tokenizer files are missing", per="host", source="vllm-ascend #9999")
def tokenizer(ctx: Context, host: str) -> Iterator[Problem]:
    """Every API server and the benchmark need the tokenizer."""
    if not ctx.on(host):
        return
    model = ctx.model(host)
    if not model.get("exists"):
        raise Missing(f"the model is not on {host}")
    files = set(model.get("tokenizer") or [])
    if not files & {"tokenizer.json", "tokenizer.model", "tiktoken.model", "vocab.json"}:
        yield Problem(
            f"{', '.join(sorted(files)) or 'none'} in {path_of(ctx)}", "tokenizer.json or its like", "copy them"
        )


@rule("PD-MODEL-004", ERROR, "the model's dtype is float16", per="service", source="guide 2, model weights")
def float16(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """Some quantised weights were published with torch_dtype float16, with which this runs wrong: it must be bfloat16.

    The guide edits config.json; dtype: bfloat16 does the same and leaves your files alone.
    """
    declared = str(ctx.model(engine.host).get("torch_dtype"))
    chosen = str(engine.args.get("dtype") or "auto")
    if chosen in ("float16", "half") or (declared == "float16" and chosen == "auto"):
        yield Problem(f"torch_dtype {declared}, dtype {chosen}", "bfloat16", "pd_vllm_args: {dtype: bfloat16}")


@rule(
    "PD-MODEL-005",
    ERROR,
    "max-model-len is beyond the model",
    per="service",
    source="vLLM ModelConfig; vllm-ascend #2649",
)
def length(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """vLLM refuses a max-model-len above the length that it derives from config.json (max_position_embeddings,
    rope_scaling), unless VLLM_ALLOW_LONG_MAX_MODEL_LEN is 1 or hf-overrides changes what it reads.
    """
    if engine.args.get("hf-overrides") or str(engine.env.get("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "0")) == "1":
        return
    wanted = engine.number("max-model-len", 0)
    limit = longest_length(text_config(ctx.model_config(engine.host)))
    if limit and wanted > limit:
        yield Problem(f"max-model-len {wanted}", f"{limit} or less", "lower max-model-len")


@rule(
    "PD-MODEL-006",
    WARNING,
    "quantization and weights do not match",
    per="service",
    source="vllm-ascend quantization; msModelSlim",
)
def quantization(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """quantization ascend needs quant_model_description.json beside the weights; with it and without the option the
    weights are read as if they were not quantised.
    """
    model = ctx.model(engine.host)
    if not model.get("exists"):
        raise Missing(f"the model is not on {engine.host}")
    found = model.get("quantization")
    asked = engine.args.get("quantization")
    if asked == "ascend" and not found:
        yield Problem(
            "quantization ascend, no quant_model_description", "the description", "remove the option, or copy it"
        )
    elif found and found.get("files") and not asked:
        yield Problem(
            f"{found['files'][0]} but no quantization option", "quantization: ascend", "set it in pd_vllm_args"
        )


@rule("PD-MODEL-007", INFO, "weights are yours to copy", per="cluster", source="collection")
def weights_not_copied(ctx: Context) -> Iterator[Problem]:
    """This collection reads model folders and never writes, downloads or copies weights: the guides' shared folder, or
    a copy on each host, is up to you.
    """
    yield Problem(
        f"{path_of(ctx)} is read on every engine's host", "present everywhere", "copy it before the first launch"
    )


@rule("PD-MODEL-008", ERROR, "the model folder is not mounted", per="service", source="vllm-ascend #9999, #135")
def mounted(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """The container sees only what is mounted, at the path inside: the model option must name a path below a mount."""
    model = str(engine.args.get("model") or path_of(ctx))
    if not model.startswith("/"):  # a repository's name, which the planner warns of
        return
    if not covers(targets(engine), model):
        yield Problem(
            f"{model} is below no mount of {engine.service.get('name')}",
            "mounted",
            "set pd_model_mount or pd_extra_mounts",
        )


@rule(
    "PD-MODEL-009",
    ERROR,
    "heads cannot be split over the chips",
    per="service",
    source="vLLM ModelConfig.verify_with_parallel_config",
)
def heads(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """The number of attention heads must be a multiple of the tensor parallel size."""
    if ctx.heads_left(engine):
        count = number(ctx.model_config(engine.host), "num_attention_heads")
        yield Problem(f"{count} heads, TP {engine.tp}", f"TP that divides {count}", f"set {engine.role}_parallel")


@rule("PD-MODEL-010", ERROR, "the model has no draft layer", per="service", source="vLLM SpeculativeConfig")
def draft_layer(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """Method mtp drafts with layers of the model itself (num_nextn_predict_layers), which this one does not have."""
    method = str(engine.speculative.get("method") or "")
    if (
        "mtp" in method
        and engine.speculative_tokens
        and not ctx.model_config(engine.host).get("num_nextn_predict_layers")
    ):
        yield Problem(f"method {method}, no num_nextn_predict_layers", "a model with MTP", "remove speculative-config")


@rule("PD-MODEL-011", ERROR, "the model does not fit the pipeline", per="service", source="vLLM get_pp_indices")
def pipeline(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """There must be at least one layer for each pipeline stage."""
    layers = number(ctx.model_config(engine.host), "num_hidden_layers")
    if layers and engine.pp > layers:
        yield Problem(f"PP {engine.pp}, {layers} layers", f"{layers} or less", f"set {engine.role}_parallel")


@rule(
    "PD-MODEL-012",
    ERROR,
    "data parallelism of a model without experts",
    per="instance",
    source="vllm/engine/arg_utils.py create_engine_config; vllm/v1/engine/core.py run_engine_core",
)
def dense_ranks(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """Ranks of a model without experts have nothing to share, and vLLM refuses external ones.

    In one engine each of them is rank 0 to the connector, so that those who are asked for KV, or given it layer by
    layer, all want the same control ports. An instance for each rank does the same work.
    """
    if engine.dp == 1 or ctx.has_experts(engine.host):
        return
    most = max(one.local_ranks for one in ctx.of_instance(str(engine.data["instance"])))
    external = engine.data.get("data_parallel_rank") is not None
    listens = bool(engine.transfer) and connectors.listens_on_kv_ports(engine.transfer, engine.role)
    if external or (listens and most > 1):
        ranks = f"{engine.dp} external ranks" if external else f"{most} ranks with the same control ports"
        yield Problem(
            f"{engine.data['instance']}: {ranks}, and the model has no experts",
            f"data_parallel_size 1, and {engine.dp} instances",
            f"list them in {engine.role}_instances, each with its devices",
        )


#: Numbers of config.json that sizes and vllm-ascend's checks are made of; some models list several for others.
NEVER_0 = ("hidden_size", "num_hidden_layers", "num_attention_heads", "max_position_embeddings", "vocab_size")
NUMBERS = (
    *NEVER_0,
    *("num_nextn_predict_layers", "q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"),
    *("index_topk", "index_head_dim"),
)


@rule(
    "PD-MODEL-013",
    ERROR,
    "a number in config.json is none",
    per="host",
    source="vllm-ascend ascend_config.py SparseKVOffloadConfig: topk_buffer_size < index_topk",
)
def numbers(ctx: Context, host: str) -> Iterator[Problem]:
    """A number in quotes, a list, a fraction or a negative number: whoever compares or multiplies it first, fails."""
    if not ctx.on(host):
        return
    config = ctx.model_config(host)
    for name in NUMBERS:
        value = config.get(name)
        whole = isinstance(value, int) and not isinstance(value, bool)
        if value is not None and not (whole and (1 if name in NEVER_0 else 0) <= value < 2**31):
            read = number(config, name)
            yield Problem(
                f"{name} in config.json is {value!r}",
                str(read) if read and not isinstance(value, bool) else "a whole number",
                f"copy config.json of the published model anew to {path_of(ctx)}",
            )
