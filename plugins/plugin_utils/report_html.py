# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""The report as one HTML file that needs nothing else: conclusion, findings, topology, memory, ports, hosts.

This module turns plan, facts and findings into what is drawn; ``data/report.html.j2`` only draws it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ..module_utils._sizing_gate import GIB
from ..module_utils._sizing_input import HOST_RESERVE_BYTES
from .findings import SEVERITIES, Finding
from .report import Row, as_findings, conclusion, counted, counts, heading, rows
from .rules import RULES
from .rules.context import Context, Engine, Missing
from .rules.explain import SIZED, numbers
from .rules.memory import host_pools

_DATA = Path(__file__).parent / "data"
#: More hosts of a role than this are counted, not drawn.
MOST_DRAWN = 12
#: More bars than this, and those that are alike are drawn once.
MOST_BARS = 16
#: Ports of more hosts than this are folded up.
MOST_UNFOLDED = 8
#: More arrows than this between two columns are bundled.
MOST_ARROWS = 16
#: Picture: box sizes in user units of the SVG.
BOX_WIDTH, BOX_HEIGHT, GAP, COLUMN, LEFT, TOP = 210, 84, 18, 290, 10, 34


def html(
    plan: Mapping[str, Any],
    facts: Mapping[str, Mapping[str, Any]] | None,
    findings: Iterable[Finding | Mapping[str, Any]],
    made_at: str = "",
) -> str:
    """The page. ``made_at`` is text, since this module reads no clock."""
    environment = Environment(
        loader=FileSystemLoader(_DATA), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("report.html.j2").render(view(plan, facts, findings, made_at))


def view(
    plan: Mapping[str, Any],
    facts: Mapping[str, Mapping[str, Any]] | None,
    findings: Iterable[Finding | Mapping[str, Any]],
    made_at: str = "",
) -> dict[str, Any]:
    """Everything that the page shows, as plain data."""
    ctx = Context(plan, facts or None)
    ordered = as_findings(findings)
    return {
        "made_at": made_at,
        "profile": ctx.profile,
        "model": plan.get("model") or {},
        "versions": plan.get("versions") or {},
        "ready": not any(finding.stops for finding in ordered),
        "conclusion": conclusion(ordered),
        "tally": [
            {"css": name.replace(" ", "-"), "text": counted(number, name)}
            for name, number in counts(ordered).items()
            if number
        ],
        "findings": [_finding(row, ctx) for row in rows(ordered)],
        "picture": picture(ctx, ordered),
        "chip_bars": alike(chip_bars(ctx)),
        "host_bars": alike(host_bars(ctx)),
        "hosts": [_host(ctx, host) for host in ctx.hosts],
        "ports": [
            {"host": host, "rows": sorted(ctx.ports_on(host), key=lambda port: int(port["first"]))}
            for host in ctx.hosts
            if ctx.ports_on(host)
        ],
        "unfolded": len(ctx.hosts) <= MOST_UNFOLDED,
        "probed": facts is not None and bool(facts),
    }


def _finding(row: Row, ctx: Context) -> dict[str, Any]:
    one = RULES.get(row.finding.rule) if len(row.rules) == 1 else None
    return {
        **row.finding.as_dict(),
        "severity": row.severity,
        "css": row.severity.replace(" ", "-"),
        "rule": row.rule,
        "rules": row.rules,
        "hosts": row.place,
        "title": heading(row.title) if row.title else "",
        "why": one.why.split("\n\n") if one else [],
        # The table of ports stands in the report anyway.
        "numbers": "\n".join(numbers(one, ctx)).strip() if one and one.id.startswith(SIZED) else "",
    }


# ---- memory ----


def part(label: str, size: float, kind: str) -> dict[str, Any]:
    return {"label": label, "bytes": max(0, int(size)), "text": f"{max(0, size) / GIB:.1f} GiB", "kind": kind}


def stacked(title: str, note: str, total: int, parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Parts of a whole, with their widths in percent; what does not fit makes the bar overfull."""
    used = sum(int(one["bytes"]) for one in parts)
    scale = max(total, used, 1)
    shown = [{**one, "percent": round(100 * int(one["bytes"]) / scale, 2)} for one in parts if one["bytes"]]
    free = total - used
    if free > 0:
        shown.append({**part("free", free, "free"), "percent": round(100 * free / scale, 2)})
    return {
        "title": title,
        "note": note,
        "total": f"{total / GIB:.1f} GiB",
        "over": f"{-free / GIB:.1f} GiB too much" if free < 0 else "",
        "limit": round(100 * total / scale, 2),
        "parts": shown,
        "others": [],
    }


def alike(bars: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The bars; where there are many, each that looks like an earlier one only as a name in its ``others``."""
    if len(bars) <= MOST_BARS:
        return list(bars)
    kept: dict[str, dict[str, Any]] = {}
    for one in bars:
        look = str({**one, "title": ""})
        if look in kept:
            kept[look] = {**kept[look], "others": [*kept[look]["others"], one["title"]]}
        else:
            kept[look] = one
    return list(kept.values())


def chip_bars(ctx: Context) -> list[dict[str, Any]]:
    """One bar for each engine: its chips carry the same."""
    return [one for engine in ctx.engines if (one := chip_bar(ctx, engine)) is not None]


def chip_bar(ctx: Context, engine: Engine) -> dict[str, Any] | None:
    try:
        size = ctx.sizing(engine)
        chips = len(engine.devices)
    except Missing:
        return None
    hbm = size.hbm
    if hbm is None or hbm.weights_bytes is None:
        return None
    system = hbm.hbm_bytes - hbm.usable_bytes
    parts = [
        part("driver, and kept back by gpu-memory-utilization", system, "system"),
        part("weights", hbm.weights_bytes, "weights"),
        part("activations, HCCL, graphs", hbm.runtime_bytes, "runtime"),
        part("top-k hot buffers", hbm.hot_buffer_bytes, "hot"),
        part(
            f"KV cache for {engine.args.get('max-num-seqs', 'all')} full-length requests"
            if size.offloads
            else "KV cache for one full-length request",
            hbm.kv_need_bytes if size.offloads else hbm.kv_need_bytes / max(1, engine.max_num_seqs),
            "kv",
        ),
    ]
    each = f"each of {chips} chips" if chips > 1 else "one chip"
    return stacked(f"{engine.name} on {engine.host}", f"{each}, estimate", hbm.hbm_bytes, parts)


def host_bars(ctx: Context) -> list[dict[str, Any]]:
    """Memory of each host: what others use, what our services take, what must stay free."""
    bars = []
    for host in ctx.hosts:
        try:
            total = int(ctx.fact(host, "host.memory.total_bytes"))
            usable = ctx.usable_memory(host)
            pools = host_pools(ctx, host)
        except Missing:
            continue
        parts = [part("in use by others", total - usable, "system")]
        parts += [part(label, size, "kv" if label.startswith("KV") else "pool") for label, size in pools]
        parts.append(part("kept for the system", HOST_RESERVE_BYTES, "runtime"))
        bars.append(stacked(host, "host memory", total, parts))
    return bars


# ---- hosts and picture ----


def _host(ctx: Context, host: str) -> dict[str, Any]:
    planned = ctx.hosts[host]
    face = (ctx.facts or {}).get(host) or {}
    npu, own = face.get("npu") or {}, face.get("host") or {}
    memory = (own.get("memory") or {}).get("total_bytes")
    return {
        "name": host,
        "roles": ", ".join(planned.get("roles") or []),
        "address": planned.get("address"),
        "nic": planned.get("nic"),
        "chips": planned.get("chips"),
        "driver": npu.get("driver_version") or "",
        "superpod": npu.get("superpod_id"),
        "memory": f"{memory / GIB:.0f} GiB" if memory else "",
        "services": ", ".join(str(service["name"]) for service in ctx.services_on(host)),
        "unreachable": face.get("unreachable") or "",
    }


def picture(ctx: Context, findings: Sequence[Finding]) -> dict[str, Any]:
    """Boxes and arrows: clients, proxy, prefill, decode (or clients and engines)."""
    marks = _marks(findings)
    columns: list[tuple[str, list[dict[str, Any]]]] = [
        ("clients", [_box("clients", ["requests over HTTP"], "", "none")])
    ]
    proxy = ctx.plan.get("proxy")
    if proxy:
        lines = [str(proxy.get("url")), f"{proxy.get('flavour')} proxy on {proxy['host']}"]
        columns.append(("proxy", [_box("PD proxy", lines, proxy["host"], marks.get(proxy["host"], "none"))]))
    for role in ("prefill", "decode", "engine"):
        hosts = list(dict.fromkeys(engine.host for engine in ctx.of(role)))
        boxes = [_engine_box(ctx, role, host, marks) for host in hosts[:MOST_DRAWN]]
        rest = hosts[MOST_DRAWN:]
        if rest:
            found = {marks[host] for host in rest if host in marks}
            worst = next((name for name in (s.replace(" ", "-") for s in SEVERITIES) if name in found), "none")
            boxes.append(_box(f"and {len(rest)} more hosts", [], "", worst))
        if boxes:
            columns.append((role, boxes))
    highest = max(len(column[1]) for column in columns)
    height = TOP + highest * (BOX_HEIGHT + GAP)
    placed: dict[str, list[dict[str, Any]]] = {}
    for number, (name, boxes) in enumerate(columns):
        offset = TOP + (height - TOP - len(boxes) * (BOX_HEIGHT + GAP)) / 2
        for row, box in enumerate(boxes):
            box.update(x=LEFT + number * COLUMN, y=round(offset + row * (BOX_HEIGHT + GAP)), w=BOX_WIDTH, h=BOX_HEIGHT)
        placed[name] = boxes
    names = [column[0] for column in columns]
    return {
        "width": LEFT * 2 + (len(columns) - 1) * COLUMN + BOX_WIDTH,
        "height": height,
        "heads": [{"x": LEFT + number * COLUMN, "text": name} for number, name in enumerate(names)],
        "boxes": [box for boxes in placed.values() for box in boxes],
        "arrows": [one for left, right in pairwise(names) for one in _arrows(placed[left], placed[right])],
        "transfer": _transfer(ctx),
    }


def _marks(findings: Sequence[Finding]) -> dict[str, str]:
    """The worst that was found on each host."""
    marks: dict[str, str] = {}
    for finding in findings:
        if finding.host and not finding.waived:
            marks.setdefault(finding.host, finding.severity.replace(" ", "-"))
    return marks


def _engine_box(ctx: Context, role: str, host: str, marks: Mapping[str, str]) -> dict[str, Any]:
    engines = [engine for engine in ctx.on(host) if engine.role == role]
    first = engines[0]
    sizes = " ".join(
        f"{name}{size}"
        for name, size in (("TP", first.tp), ("DP", first.dp), ("PP", first.pp), ("PCP", first.pcp), ("DCP", first.dcp))
        if size > 1
    )
    number = "1 engine" if len(engines) == 1 else f"{len(engines)} engines"
    chips = sum(len(engine.devices) for engine in engines)
    extra = "sparse KV offload" if first.offloads else "MemCache pool" if first.uses_memcache else ""
    lines = [str(ctx.hosts[host].get("address")), f"{number}, {chips} chips, {sizes or 'TP1'}", extra]
    return _box(f"{role} {host}", lines, host, marks.get(host, "none"))


def _box(title: str, lines: Sequence[str], host: str, mark: str) -> dict[str, Any]:
    return {"title": title, "lines": [line for line in lines if line], "host": host, "mark": mark}


def _arrows(left: Sequence[Mapping[str, Any]], right: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """From every box to every box of the next column; where that would be a tangle, over one line between them."""
    starts = [(a["x"] + a["w"], a["y"] + a["h"] // 2) for a in left]
    ends = [(b["x"] - 6, b["y"] + b["h"] // 2) for b in right]
    if len(starts) * len(ends) <= MOST_ARROWS:
        return [_line(*start, *end, head=True) for start in starts for end in ends]
    middle = (starts[0][0] + ends[0][0]) // 2
    heights = [y for _x, y in (*starts, *ends)]
    return [
        *(_line(x, y, middle, y) for x, y in starts),
        _line(middle, min(heights), middle, max(heights)),
        *(_line(middle, y, x, y, head=True) for x, y in ends),
    ]


def _line(x1: int, y1: int, x2: int, y2: int, head: bool = False) -> dict[str, Any]:
    return {"x1": x1, "y1": y1, "x2": x2, "y2": y2, "head": head}


def _transfer(ctx: Context) -> str:
    """How KV goes from prefill to decode, in words."""
    prefill, decode = ctx.of("prefill"), ctx.of("decode")
    shared = sorted(prefill[0].connectors & decode[0].connectors) if prefill and decode else []
    return f"KV moves from prefill to decode by {', '.join(shared)}." if shared else ""
