# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""The contract between prefill and decode: what must be equal on both sides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..findings import ERROR, INFO, WARNING, as_counted
from .context import Context, Engine
from .model import incomplete
from .registry import Problem, rule
from .sparse_kv import wrong_block
from .versions import driver_told


def differing(
    ctx: Context, value: Callable[[Engine], Any], engines: list[Engine] | None = None
) -> dict[str, list[str]]:
    """Engines by value, if there is more than one value. A host may have options of its own within an instance."""
    seen: dict[str, list[str]] = {}
    for engine in ctx.carriers if engines is None else engines:
        found = value(engine)
        seen.setdefault("unset" if found is None else str(found), []).append(engine.name)
    return seen if len(seen) > 1 else {}


def listed(seen: dict[str, list[str]]) -> str:
    return "; ".join(f"{value}: {', '.join(names)}" for value, names in sorted(seen.items()))


def option(name: str, default: Any = None) -> Callable[[Engine], Any]:
    return lambda engine: engine.args.get(name, default)


def equal(
    identifier: str,
    title: str,
    why: str,
    value: Callable[[Engine], Any],
    mend: str | Callable[[Context], str],
    source: str,
    told: Callable[[Context, Engine], bool] = lambda ctx, engine: False,
) -> None:
    """Register a rule that a value of the engines is the same on all instances that talk to each other.

    ``told``: whether another rule tells that an engine's value is wrong, and which is right; then this one is silent.
    """

    def check(ctx: Context) -> Iterator[Problem]:
        seen = differing(ctx, value)
        if seen and not any(told(ctx, engine) for engine in ctx.carriers):
            how = mend if isinstance(mend, str) else mend(ctx)
            yield Problem(listed(seen), "equal on prefill and decode", how)

    check.__doc__ = why
    rule(identifier, ERROR, title, per="cluster", source=source)(check)


def where_stated(name: str) -> Callable[[Context], str]:
    """A mend that names every variable in which an option stands, since a role's own wins over that of all."""

    def mend(ctx: Context) -> str:
        places = dict.fromkeys(engine.stated_in(name, default="pd_vllm_args") for engine in ctx.carriers)
        return f"state one {name} for all; now {' and '.join(places)} decide"

    return mend


equal(
    "PD-PARITY-001",
    "block sizes differ",
    "KV moves block by block: a block of one side must be a block of the other.",
    option("block-size", 128),
    where_stated("block-size"),
    "sfa_pd_rd2h; mooncake_connector.py",
    told=wrong_block,
)
equal(
    "PD-PARITY-003",
    "dtype differs",
    "KV is copied as bytes: with another dtype the numbers mean something else.",
    option("dtype", "auto"),
    where_stated("dtype"),
    "kv_cache_interface.py",
)
equal(
    "PD-PARITY-004",
    "quantization differs",
    "Prefill and decode must compute the same model, or tokens drift.",
    option("quantization"),
    where_stated("quantization"),
    "guide 1 sections 3.5 and 3.6",
)
equal(
    "PD-PARITY-005",
    "kv-cache-dtype differs",
    "KV is copied as bytes: with another dtype the numbers mean something else.",
    option("kv-cache-dtype", "auto"),
    where_stated("kv-cache-dtype"),
    "kv_cache_interface.py",
)
equal(
    "PD-PARITY-006",
    "served-model-name differs",
    "The proxy passes the client's model name to both sides; the one that does not know it answers 404.",
    option("served-model-name"),
    "set pd_served_model_name",
    "load_balance_proxy_server_example.py",
)
equal(
    "PD-PARITY-007",
    "model paths differ",
    "Both sides must serve the same model. The path may differ between hosts only if it is mounted to the same place.",
    option("model"),
    "set pd_model_path for all hosts",
    "vllm-ascend #9999",
)


@rule(
    "PD-PARITY-002",
    ERROR,
    "max-model-len differs",
    per="cluster",
    source="vllm-ascend #2649; upstream's own GLM-5.1 deployment has more at decode",
)
def length_equal(ctx: Context) -> Iterator[Problem]:
    """A prompt that prefill takes and decode refuses fails half way: prefill is done, decode says no.

    The other way round works, for prompts that fit prefill; it is only noted. A side that does not state it has the
    model's own length.
    """
    sides = [one for one in ctx.carriers if one.role in ("prefill", "decode")]
    if not any(one.args.get("max-model-len") for one in sides):
        return
    lengths = {role: {ctx.model_length(one) for one in sides if one.role == role} for role in ("prefill", "decode")}
    if not lengths["prefill"] or not lengths["decode"]:
        return
    most, least = max(lengths["prefill"]), min(lengths["decode"])
    if most != least:
        yield Problem(
            f"up to {most} at prefill, {least} at decode",
            "equal on prefill and decode",
            where_stated("max-model-len")(ctx),
            severity=INFO if most < least else None,
        )


def uses_hash(ctx: Context) -> list[Engine]:
    """Engines whose blocks are found by hash: a KV pool, or prefix caching across engines."""
    return [engine for engine in ctx.engines if engine.transfer]


def seed(engine: Engine) -> str | None:
    """Python's hash seed; ``None`` where each process draws its own."""
    value = str(engine.env.get("PYTHONHASHSEED") or "random")
    return None if value == "random" else value


@rule(
    "PD-PARITY-008",
    ERROR,
    "PYTHONHASHSEED is not one value for all engines",
    per="cluster",
    source="vllm-ascend #12002; vLLM #51875; LMCache #1739; kv_pool.md:39",
)
def hash_seed(ctx: Context) -> Iterator[Problem]:
    """Block hashes begin from Python's own hash seed, drawn anew by each process if unset, empty or random: the pool
    then never hits.

    Where every engine leaves it unset it is a warning, and only noted where none uses a pool.
    """
    engines = uses_hash(ctx)
    seen = differing(ctx, seed, engines)
    if seen:
        yield Problem(listed(seen), 'PYTHONHASHSEED "0" everywhere', "set it in pd_env")
    elif engines and seed(engines[0]) is None:
        pool = any(engine.uses_memcache or engine.part("AscendStoreConnector") for engine in engines)
        yield Problem(
            "unset, empty or random everywhere",
            'PYTHONHASHSEED "0"',
            "set it in pd_env",
            severity=WARNING if pool else INFO,
        )


@rule("PD-PARITY-009", ERROR, "the model differs between hosts", per="cluster", source="collection; vllm-ascend #9999")
def model_digest(ctx: Context) -> Iterator[Problem]:
    """The digest covers config, tokenizer, index and the size of every shard. Different models give wrong tokens in
    silence. Hosts whose weights are not whole (PD-MODEL-002) are not compared.
    """
    seen: dict[str, list[str]] = {}
    contents: list[dict[str, Any]] = []
    for host in sorted({engine.host for engine in ctx.engines}, key=as_counted):
        model = ctx.model(host)
        if model.get("digest") and not any(incomplete(model)):  # PD-MODEL-002
            seen.setdefault(str(model["digest"])[:12], []).append(host)
            contents.append({**(model.get("digests") or {}), **((model.get("shards") or {}).get("sizes") or {})})
    if len(seen) > 1:
        names = sorted({name for one in contents for name in one})
        differ = [name for name in names if any(one.get(name) != contents[0].get(name) for one in contents)]
        rest = f" and {len(differ) - 3} more files" if len(differ) > 3 else ""
        files = f"; not the same: {', '.join(differ[:3])}{rest}" if differ else ""
        yield Problem(listed(seen) + files, "one digest", "copy the model folder anew to the hosts that differ")


@rule(
    "PD-PARITY-010",
    WARNING,
    "driver or firmware differs between hosts",
    per="cluster",
    source="vllm-ascend #9447, #2406",
)
def driver_equal(ctx: Context) -> Iterator[Problem]:
    """Hosts of one cluster with different drivers fail in operators and collectives that work within each host.

    A driver that is too old on its own is not told again: PD-VER-003, -004 and -005 name the one that is right for all.
    """
    if any(driver_told(ctx, host) for host in ctx.hosts):
        return
    for name in ("driver_version", "firmware_version"):
        seen: dict[str, list[str]] = {}
        for host in sorted({engine.host for engine in ctx.engines}, key=as_counted):
            value = ctx.fact(host, "npu").get(name)
            if value:
                seen.setdefault(str(value), []).append(host)
        if len(seen) > 1:
            yield Problem(f"{name.replace('_', ' ')} {listed(seen)}", "one version", "update the older ones")


@rule(
    "PD-PARITY-011",
    ERROR,
    "prefill and decode images are of different versions",
    per="cluster",
    source="vllm-ascend #9447",
)
def image_equal(ctx: Context) -> Iterator[Problem]:
    """Both images must come from one base: KV layout and messages are those of a version."""
    bases = {
        str(name): str(image.get("base")) for name, image in (ctx.plan.get("images") or {}).items() if image.get("base")
    }
    if len(set(bases.values())) > 1:
        yield Problem(
            "; ".join(f"{name}: {base}" for name, base in sorted(bases.items())), "one base image", "set pd_image"
        )


@rule(
    "PD-PARITY-012",
    WARNING,
    "speculative methods differ",
    per="cluster",
    source="pd_disaggregation_mooncake_multi_node.md:242-245",
)
def draft_equal(ctx: Context) -> Iterator[Problem]:
    """The draft layer has KV of its own, which moves with the rest: both sides need it, or neither."""
    seen = differing(ctx, lambda engine: engine.speculative.get("method", "none"))
    if seen and "prefill" in {e.role for e in ctx.heads}:
        yield Problem(listed(seen), "one method", "set speculative-config in pd_vllm_args")


#: What vLLM compares between ranks (ParallelConfig), and what else decides in which collectives a step runs.
SHARED_BY_RANKS = ("enable-expert-parallel", "enable-eplb", "all2all-backend", "speculative-config")


@rule(
    "PD-PARITY-013",
    ERROR,
    "hosts of one instance differ in what its ranks do together",
    per="instance",
    source="vllm/v1/engine/utils.py wait_for_engine_startup (parallel_config_hash)",
)
def ranks_alike(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """Ranks compute each step together: vLLM refuses those whose parallel options differ, and others wait for each
    other for ever. KV moves by one connector.
    """
    own = list({one.host: one for one in ctx.of_instance(str(engine.data["instance"]))}.values())
    for name in SHARED_BY_RANKS:
        if seen := differing(ctx, option(name), own):
            yield Problem(f"{name} {listed(seen)}", "equal on all hosts of an instance", f"set {engine.role}_vllm_args")
    if seen := differing(ctx, lambda one: ", ".join(sorted(one.connectors)) or "no connector", own):
        yield Problem(listed(seen), "equal on all hosts of an instance", f"set {engine.role}_kv_transfer_config")
