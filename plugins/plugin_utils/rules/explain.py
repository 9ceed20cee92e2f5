# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Why? The long explanation of a rule, with this cluster's numbers in the formulas that it judges by."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from ...module_utils._sizing_gate import GIB
from ..findings import Finding
from ..plan_rules import PLAN_RULES
from .context import Context, Engine, Missing
from .registry import RULES, Rule

#: Areas whose verdicts follow from sizes.
SIZED = ("PD-SPARSE-", "PD-MEM-", "PD-MMC-")


class NoSuchRule(ValueError):
    """An id that is none; the message has the nearest that are."""


def rule_id(identifier: str) -> str:
    """The id as it is written here, also of what the planner itself finds."""
    names = {name.lower(): name for name in (*RULES, *PLAN_RULES)}
    name = names.get(identifier.strip().lower())
    if name is None:
        near = difflib.get_close_matches(identifier.lower(), list(names), n=3, cutoff=0.4)
        raise NoSuchRule(
            f"There is no rule {identifier}. "
            + (f"Near: {', '.join(names[one] for one in near)}." if near else f"There are {len(names)}.")
        )
    return name


def explain(
    identifier: str, plan: Mapping[str, Any] | None, facts: Mapping[str, Any] | None, findings: list[Finding]
) -> str:
    """Text for people, also for what the planner itself finds; for an id that is none, the nearest that are."""
    try:
        name = rule_id(identifier)
    except NoSuchRule as error:
        return str(error)
    one = RULES.get(name)
    if one is None:
        lines = [name, "", PLAN_RULES[name], ""]
    else:
        lines = [f"{one.id}  {one.title}  [{one.severity}]", "", one.why, "", f"Source: {one.source}"]
        lines += [f"Applies to vllm-ascend {one.versions}"] if one.versions else []
        lines += [f"Documentation: {one.doc}", ""]
    own = [finding for finding in findings if finding.rule == name]
    lines += ["In this cluster:"] + ([_line(finding) for finding in own] or ["  nothing found"])
    if plan and one:
        lines += list(numbers(one, Context(plan, facts)))
    return "\n".join(lines)


def _line(finding: Finding) -> str:
    where = f"{finding.host}: " if finding.host else ""
    parts = [f"  {finding.severity}: {where}{finding.found}"]
    parts += [f"    right: {finding.right}"] if finding.right else []
    parts += [f"    mend:  {finding.mend}"] if finding.mend else []
    parts += [f"    waived: {finding.waived}"] if finding.waived else []
    return "\n".join(parts)


def numbers(one: Rule, ctx: Context) -> Iterator[str]:
    """What the rule judges by, as this cluster has it."""
    if one.id.startswith("PD-PORT-"):
        yield "\nPorts:"
        for port in sorted(ctx.plan.get("ports") or [], key=lambda p: (p["host"], p["first"])):
            span = str(port["first"]) if port["first"] == port["last"] else f"{port['first']}-{port['last']}"
            yield f"  {port['host']:<16} {span:<12} {port['owner']} ({port['purpose']})"
    elif one.id.startswith(SIZED):
        for engine in ctx.heads:
            try:
                yield from size_lines(ctx, engine)
            except Missing as error:
                yield f"\n{engine.name}: {error}"


def size_lines(ctx: Context, engine: Engine) -> Iterator[str]:
    """The sizing formulas of an instance, filled in."""
    inp, size = ctx.sizing_input(engine), ctx.sizing(engine)
    per_request = -(-inp.max_model_len // inp.block_size)
    yield f"\n{engine.name} ({size.attention} attention, {size.kv_layers} KV layers, {size.indexer_layers} indexers):"
    yield f"  blocks      = {inp.max_num_seqs} requests x {per_request} + 1 = {size.blocks}"
    yield (
        f"  on a chip   = {size.blocks} x {inp.block_size} tokens x {size.device_bytes_per_token} bytes"
        f" = {size.device_need_bytes / GIB:.3f} GiB"
    )
    if size.reuse_factor != 1:
        yield (
            f"  layers share buffers: {size.device_need_bytes / GIB:.3f} / {size.reuse_factor:.2f}"
            f" = {size.device_need_bytes / size.reuse_factor / GIB:.3f} GiB"
        )
    if size.offloads:
        yield (
            f"  on the host = {size.blocks} x {inp.block_size} tokens x {size.host_bytes_per_token} bytes"
            f" + {size.align_bytes / GIB:.3f} GiB alignment = {(size.host_need_bytes + size.align_bytes) / GIB:.3f} GiB"
        )
        yield (
            f"  hot buffers = {size.kv_layers} layers x {size.hot_rows} rows x {size.topk_buffer_size} tokens x "
            f"{inp.main_bytes_per_token_layer} bytes = {size.hot_buffer_bytes / GIB:.3f} GiB on each chip"
        )
        if size.gate_needed_bytes is not None:
            yield (
                f"  gate        = {size.host_device_ratio or 0:.3f} x {(size.available_kv_bytes or 0) / GIB:.3f} GiB"
                f" ({size.available_kv_source}) = {size.gate_needed_bytes / GIB:.3f} GiB <= "
                f"dram_size_per_dp_GB {size.dram_size_per_dp_gib}: {'passes' if size.gate_passes else 'refused'}"
            )
        elif size.planned_limit is not None:
            yield (
                f"  pool        = {(size.host_pool_bytes or 0) / GIB:.3f} GiB of dram_size_per_dp_GB "
                f"{size.dram_size_per_dp_gib}, limited by {size.planned_limit}"
            )
    if size.memcache_dram_gib_per_rank is not None:
        yield (
            f"  MemCache    = {size.memcache_ranks} ranks x {size.memcache_dram_gib_per_rank} GiB"
            f" = {size.memcache_dram_host_gib} GiB, {size.pool_bytes_per_token} bytes per token"
        )
    if size.hbm is not None and size.hbm.weights_bytes is not None:
        hbm, weights = size.hbm, size.hbm.weights_bytes
        yield (
            f"  HBM         = {hbm.usable_bytes / GIB:.1f} usable - {weights / GIB:.1f} weights - "
            f"{hbm.runtime_bytes / GIB:.1f} runtime - {hbm.hot_buffer_bytes / GIB:.1f} hot = "
            f"{(hbm.kv_available_bytes or 0) / GIB:.1f} GiB for KV"
        )
