# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""KV transfer: the parallel sizes that connectors are told, and those of both sides that must go together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...module_utils._sizing_model import number
from .. import connectors as kinds
from ..findings import ERROR, WARNING
from ..sizes import whole
from .connectors import MOONCAKE_P2P, extra_of, extra_place, layerwise_store
from .context import Context, Engine, Missing, NotLaidOut
from .registry import Problem, rule

SIDES = ("prefill", "decode")


def told_of_heads(ctx: Context, engine: Engine) -> bool:
    """Whether PD-MODEL-009 refuses this tensor parallel size: with another the comparison is another."""
    try:
        return ctx.heads_left(engine)
    except Missing:
        return False


@rule(
    "PD-CONN-005",
    ERROR,
    "tensor parallel sizes of prefill and decode do not match",
    per="cluster",
    source="sfa_pd_rd2h/worker.py _map_prefill_rank_to_decode_rank; "
    "mooncake_connector.py MooncakeConnectorWorker; ascend_config.py, pd_tp_ratio",
)
def tensor_ratio(ctx: Context) -> Iterator[Problem]:
    """Each decode rank reads from P_tp / D_tp prefill ranks: prefill's size must be the same or a multiple.

    SfaRemoteD2H finds out at the first request, Mooncake at start. With Mooncake a model with multi-head latent
    attention (DeepSeek) needs no multiple: there prefill's size must only not be the smaller one.
    """
    for prefill, decode in ctx.pairs:
        shared = prefill.connectors & decode.connectors & {kinds.SFA, *MOONCAKE_P2P}
        if not shared or any(told_of_heads(ctx, side) for side in (prefill, decode)):
            continue
        multiple = kinds.SFA in shared
        if prefill.tp > decode.tp and prefill.tp % decode.tp and not multiple:
            multiple = not ctx.model_config(decode.host).get("kv_lora_rank")
        if prefill.tp < decode.tp or (multiple and prefill.tp % decode.tp):
            yield Problem(
                f"prefill TP {prefill.tp}, decode TP {decode.tp}",
                f"a multiple of {decode.tp} at prefill" if multiple else f"{decode.tp} or more at prefill",
                "set prefill_parallel or decode_parallel",
                decode.host,
            )


@rule(
    "PD-CONN-006",
    ERROR,
    "sizes in the connector differ from the real ones",
    per="service",
    source="vllm-ascend #8345, #10652; mooncake_connector.py _get_prefill_decode_size",
)
def sizes_true(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """Mooncake connectors are told the sizes of both sides; wrong ones end in 'conflicting' errors or wrong ports.

    Its own side's sizes are those of the engine's instance, the other side's those of any instance there.
    """
    if not all(ctx.of(name) for name in SIDES) or ctx.told("kv-transfer-shape"):
        return
    sides = {name: [one for one in ctx.of(name) if one.laid_out] for name in SIDES}
    if not engine.laid_out or not all(sides.values()):
        raise NotLaidOut("the layout of prefill or decode is not known")
    for part in engine.parts:
        if part.get("kv_connector") not in MOONCAKE_P2P:
            continue
        for name in SIDES:
            stated = extra_of(part).get(name)
            mend = "leave it to the plan"
            if ctx.profile == "custom":  # the plan fills in none there
                mend = f"state it in {extra_place(engine, part, name)}"
            if not isinstance(stated, Mapping):
                yield Problem(f"{part['kv_connector']} does not state {name}", f"{name}: dp_size, tp_size", mend)
                continue
            others = [engine] if engine.role == name else sides[name]
            for key, real in (("dp_size", {one.dp for one in others}), ("tp_size", {one.tp for one in others})):
                if whole(stated.get(key)) not in real:
                    right = " or ".join(map(str, sorted(real)))
                    yield Problem(f"{name}.{key} {stated.get(key)}", right, mend)


@rule(
    "PD-CONN-012",
    ERROR,
    "pipeline or context parallelism that the connector does not take",
    per="service",
    source="mooncake_connector.py _get_prefill_decode_size; mooncake_hybrid_connector.py; "
    "mooncake_layerwise_connector.py MooncakeLayerwiseConnectorScheduler; vllm-ascend #4244",
)
def parallelism(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """Mooncake: decode has no pipeline parallelism, and PP and PCP are not both above 1. Layerwise: decode's PCP is 1.
    Hybrid: no context parallelism.

    With the KV pool on memcache pipeline parallelism does not work (another rule).
    """
    names = engine.connectors & set(MOONCAKE_P2P)
    if not names:
        return
    if engine.role == "decode" and engine.pp > 1:
        yield Problem(f"decode PP {engine.pp}", "1", "set decode_parallel")
    if engine.pp > 1 and engine.pcp > 1:
        yield Problem(f"PP {engine.pp} and PCP {engine.pcp}", "one of them 1", f"set {engine.role}_parallel")
    if "MooncakeHybridConnector" in names and engine.pcp * engine.dcp > 1:
        yield Problem(f"PCP {engine.pcp}, DCP {engine.dcp}", "1 each", f"set {engine.role}_parallel")
    if "MooncakeLayerwiseConnector" in names and engine.role == "decode" and engine.pcp > 1:
        yield Problem(f"decode PCP {engine.pcp}", "1", "set decode_parallel")
    if "MooncakeLayerwiseConnector" in names and engine.role == "prefill" and engine.pp > 1:
        # its port is kv_port + rank without the pipeline stage, so stages would share one
        yield Problem(f"prefill PP {engine.pp}", "1", "set prefill_parallel, or use MooncakeConnectorV1")


@rule(
    "PD-CONN-013",
    ERROR,
    "context parallel sizes do not fit",
    per="service",
    source="vllm-ascend platform.py check_and_update_config",
)
def context_parallel(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """With KV transfer cp-kv-cache-interleave-size must be the block size; TP must be a multiple of DCP.

    Sparse attention wants DCP equal to TP; with grouped-query attention DCP is at most TP / key-value heads.
    """
    if engine.pcp * engine.dcp == 1:
        return
    block, interleave = engine.block_size, engine.number("cp-kv-cache-interleave-size", 1)
    if engine.transfer and interleave != block:
        yield Problem(
            f"cp-kv-cache-interleave-size {interleave}, block-size {block}",
            str(block),
            f"set it in {engine.place('cp-kv-cache-interleave-size')}",
        )
    if engine.tp % engine.dcp:
        yield Problem(f"TP {engine.tp}, DCP {engine.dcp}", "TP a multiple of DCP", f"set {engine.role}_parallel")
    if engine.dcp == 1:
        return
    config = ctx.model_config(engine.host)
    if config.get("index_topk") and engine.dcp != engine.tp:
        yield Problem(
            f"sparse attention with DCP {engine.dcp}, TP {engine.tp}",
            f"{engine.tp}",
            f"set decode_context_parallel_size in {engine.role}_parallel, or 1",
        )
    heads = number(config, "num_key_value_heads")
    if heads and not config.get("kv_lora_rank") and engine.dcp > max(1, engine.tp // heads):
        most = max(1, engine.tp // heads)
        yield Problem(
            f"DCP {engine.dcp} with {heads} key-value heads and TP {engine.tp}",
            f"{most} or less",
            f"lower decode_context_parallel_size in {engine.role}_parallel",
        )


@rule(
    "PD-CONN-018",
    ERROR,
    "the KV pool meets different tensor parallel sizes",
    per="cluster",
    source="ascend_store/config_data.py infer_tp_mismatch_info; pool_worker.py _init_key_head_config",
)
def pool_tensor_sizes(ctx: Context) -> Iterator[Problem]:
    """A layerwise KV pool that is told of another size (prefill_tp_size, decode_tp_size) refuses to start.

    One that is not told goes by each side's own size: right where all ranks hold the same KV, as with MLA, so only a
    warning (upstream's memcache deployment of DeepSeek-V4 has TP 4 and TP 1).
    """
    sizes: dict[int, list[str]] = {}
    told = False
    for engine in ctx.heads:
        extra = layerwise_store(engine)
        if extra is not None:
            sizes.setdefault(engine.tp, []).append(engine.name)
            told = told or "prefill_tp_size" in extra or "decode_tp_size" in extra
    if len(sizes) > 1:
        yield Problem(
            "; ".join(f"TP {tp}: {', '.join(names)}" for tp, names in sorted(sizes.items())),
            "one size",
            "set tensor_parallel_size in prefill_parallel and decode_parallel",
            severity=None if told else WARNING,
        )


@rule(
    "PD-CONN-023",
    ERROR,
    "context parallel sizes of prefill and decode do not match",
    per="cluster",
    source="mooncake_connector.py context_parallel_parameters_check; kv_transfer/utils/utils.py, the same",
)
def context_ratio(ctx: Context) -> Iterator[Problem]:
    """PCP x DCP of prefill must be a multiple of decode's. Both start, and the first request fails an assertion."""
    for prefill, decode in ctx.pairs:
        own, other = prefill.pcp * prefill.dcp, decode.pcp * decode.dcp
        if own % other and prefill.connectors & decode.connectors & set(MOONCAKE_P2P):
            yield Problem(
                f"prefill {prefill.pcp} x {prefill.dcp} = {own}, decode {decode.pcp} x {decode.dcp} = {other}",
                f"a multiple of {other} at prefill",
                "set decode_context_parallel_size in prefill_parallel or decode_parallel",
                decode.host,
            )


@rule(
    "PD-CONN-024",
    ERROR,
    "decode is told other pipeline stages than prefill has",
    per="service",
    source="mooncake_connector.py get_prefill_pp_indices; vLLM VLLM_PP_LAYER_PARTITION",
)
def pipeline_stages(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """prefill.pp_layer_partition says which layers each of prefill's stages has, as VLLM_PP_LAYER_PARTITION says it to
    prefill itself: one number for each stage. Left out, vLLM's own split is taken, with what is over in the last stages
    but one.
    """
    prefill = next(iter(ctx.of("prefill")), None)
    if prefill is None or prefill.pp == 1:
        return
    name = "VLLM_PP_LAYER_PARTITION"
    real = prefill.env.get(name)
    mend = f"set prefill.pp_layer_partition in {engine.role}_kv_transfer_config and {name} in prefill_env, or neither"
    for part in engine.parts:
        stated = extra_of(part).get("prefill") if part.get("kv_connector") in MOONCAKE_P2P else None
        told = stated.get("pp_layer_partition", engine.env.get(name)) if isinstance(stated, Mapping) else real
        if told == real:
            continue
        stages, right = (layers_of_stages(ctx, prefill, text) for text in (told, real))
        if stages != right:
            yield Problem(f"{told or 'the default'} is told, prefill has {real or right}", f"{real or right}", mend)


def layers_of_stages(ctx: Context, prefill: Engine, text: str | None) -> list[int | None]:
    """Layers of each of prefill's pipeline stages as written, else as vLLM splits them (``get_pp_indices``)."""
    if text:
        return [whole(number) for number in text.split(",")]
    layers = number(ctx.model_config(prefill.host), "num_hidden_layers")
    share, over = divmod(layers, prefill.pp)
    return [share + (prefill.pp - 1 - over <= stage < prefill.pp - 1) for stage in range(prefill.pp)]
