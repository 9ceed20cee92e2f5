# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Memory of chips and hosts as a report shows it: what is taken by what, what is free, what is too much. Bytes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ..module_utils._sizing_input import HOST_RESERVE_BYTES
from .rules.context import Context, Engine, Missing
from .rules.memory import host_pools

Budget = dict[str, Any]
Part = tuple[str, str, float]  # label, kind (what is alike has one colour), bytes


def budget(host: str, name: str, total: int, parts: Sequence[Part]) -> Budget:
    """Parts of a whole; together they may be more than it."""
    shown: list[dict[str, Any]] = [
        {"label": label, "kind": kind, "bytes": max(0, int(size))} for label, kind, size in parts
    ]
    rest = total - sum(one["bytes"] for one in shown)
    return {
        "name": name,
        "host": host,
        "total_bytes": total,
        "parts": [one for one in shown if one["bytes"]],
        "free_bytes": max(0, rest),
        "over_bytes": max(0, -rest),
        "unknown": "",
    }


def unknown(host: str, name: str, why: object) -> Budget:
    """Nothing can be said, and why: an empty place in a report would look as if nothing were there."""
    return {**budget(host, name, 0, []), "unknown": str(why)}


def chip_bars(ctx: Context) -> list[Budget]:
    """One for each engine, since its chips carry the same, and one for the chips of a host that no engine has."""
    return [_of_engine(ctx, engine) for engine in ctx.engines if engine.data.get("devices") != []] + [
        one for host in ctx.hosts for one in _idle(ctx, host)
    ]


def _of_engine(ctx: Context, engine: Engine) -> Budget:
    name = engine.name
    try:
        chips = len(engine.devices)
        size, seqs = ctx.sizing(engine), engine.max_num_seqs
        name = f"{engine.name}, each of {chips} chips" if chips > 1 else engine.name
        hbm = size.hbm
        if hbm is None or hbm.weights_bytes is None:
            raise Missing(f"memory of the chips, or size of the weights, on {engine.host} is not known")
    except Missing as error:
        return unknown(engine.host, name, error)
    except (TypeError, ValueError) as error:  # facts may be odd, and the rules say so
        return unknown(engine.host, name, f"{type(error).__name__}: {error}")
    kv = ("full-length requests", hbm.kv_need_bytes) if size.offloads else ("", hbm.kv_need_bytes / max(1, seqs))
    return budget(
        engine.host,
        name,
        hbm.hbm_bytes,
        [
            ("driver, and kept back by gpu-memory-utilization", "system", hbm.hbm_bytes - hbm.usable_bytes),
            ("weights", "weights", hbm.weights_bytes),
            ("activations, HCCL, graphs", "runtime", hbm.runtime_bytes),
            ("top-k hot buffers", "hot", hbm.hot_buffer_bytes),
            (f"KV cache for {seqs} {kv[0]}" if kv[0] else "KV cache for one full-length request", "kv", kv[1]),
        ],
    )


def _idle(ctx: Context, host: str) -> list[Budget]:
    """Chips that the plan may use and no engine has, with what is in use there now."""
    used = {chip for engine in ctx.on(host) for chip in engine.data.get("devices") or ()}
    idle = [chip for chip in ctx.hosts[host].get("devices") or () if isinstance(chip, int) and chip not in used]
    if not idle or not ctx.on(host):
        return []
    name = f"{len(idle)} chips without an engine ({', '.join(map(str, idle))})"
    try:
        seen = [chip for chip in ctx.chips(host) if chip.get("phy_id") in idle and chip.get("hbm_total_mib")]
        if not seen:
            raise Missing(f"memory of the chips of {host} is not known")
        total = min(int(chip["hbm_total_mib"]) for chip in seen) << 20
        taken = max(int(chip.get("hbm_used_mib") or 0) for chip in seen) << 20
    except Missing as error:
        return [unknown(host, name, error)]
    return [budget(host, name, total, [("in use now, at most", "system", taken)])]


def host_bars(ctx: Context) -> list[Budget]:
    """One for each host: what others use, what our services take, what must stay free."""
    return [_of_host(ctx, host) for host in ctx.hosts]


def _of_host(ctx: Context, host: str) -> Budget:
    try:
        total = int(ctx.fact(host, "host.memory.total_bytes"))
        usable, pools = ctx.usable_memory(host), host_pools(ctx, host)
    except Missing as error:
        return unknown(host, host, error)
    except (TypeError, ValueError) as error:
        return unknown(host, host, f"{type(error).__name__}: {error}")
    return budget(
        host,
        host,
        total,
        [
            ("in use by others", "system", total - usable),
            # without the engine's name, so that hosts that are alike look alike
            *((re.sub(r" of \S+:", ":", label), "kv" if label.startswith("KV") else "pool", n) for label, n in pools),
            ("kept for the system", "runtime", HOST_RESERVE_BYTES),
        ],
    )
