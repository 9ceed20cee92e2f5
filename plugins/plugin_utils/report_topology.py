# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Who talks to whom: as a list for everyone, and as boxes and arrows of a picture."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from .findings import SEVERITIES, Finding
from .profiles import LAYERWISE
from .rules.context import Context, Engine

#: More hosts of a role than this are counted, not drawn.
MOST_DRAWN = 12
#: More arrows than this between two columns are bundled.
MOST_ARROWS = 16
#: Box sizes in user units of the SVG.
BOX_WIDTH, BOX_HEIGHT, GAP, COLUMN, LEFT, TOP = 230, 101, 18, 330, 10, 34
#: Heads of the columns.
HEADS = {"prefill": "prefill: reads prompts", "decode": "decode: writes answers"}

Box = dict[str, Any]
Link = dict[str, Any]


# ---- as a list ----


def links(ctx: Context) -> list[Link]:
    """``from``, ``to``, ``at`` (addresses, empty where nobody asks at one) and ``what``."""
    return list(_links(ctx))


def _link(from_: str, to: str, at: Iterable[Any], what: str) -> Link:
    return {"from": from_, "to": to, "at": list(dict.fromkeys(map(str, at))), "what": what}


def _links(ctx: Context) -> Iterator[Link]:
    proxy = ctx.plan.get("proxy")
    if proxy:
        yield _link("clients", "PD proxy", [proxy.get("url")], "requests and answers, HTTP")
    for role in ("prefill", "decode", "engine"):
        at = _urls(ctx.of(role))
        if at:
            what = "prompts to read" if role == "prefill" else "prompts, and answers back"
            yield _link("PD proxy" if proxy else "clients", role, at, f"{what}, HTTP")
    if proxy and proxy.get("flavour") == LAYERWISE and ctx.of("decode"):
        yield _link("decode", "PD proxy", [proxy.get("url")], "asks for its prompts to be prefilled, HTTP")
    shared = _transfer(ctx)
    if shared:
        way = "HCCS" if ctx.of("decode")[0].uses_memfabric else "RoCE"
        yield _link("prefill", "decode", [], f"KV cache by {', '.join(shared)} over the chips' own network ({way})")
    for name in ctx.instances:
        engines = ctx.of_instance(name)
        hosts = list(dict.fromkeys(engine.host for engine in engines))
        if len(hosts) > 1:
            port = engines[0].args.get("data-parallel-rpc-port") or engines[0].args.get("master-port")
            at = [f"{ctx.hosts.get(hosts[0], {}).get('address')}:{port}"] if port else []
            yield _link(", ".join(hosts[1:]), hosts[0], at, f"one instance, {name}: rendezvous, then HCCL")
    meta = _meta(ctx)
    users = sorted({engine.role for engine in ctx.engines if engine.uses_memcache})
    if meta and users:
        yield _link(", ".join(users), "MetaService", [_meta_at(ctx, meta)], "where in MemCache which KV cache is")


def _urls(engines: Sequence[Engine]) -> list[str]:
    return [str(url) for engine in engines if (url := (engine.data.get("http") or {}).get("url"))]


def _transfer(ctx: Context) -> list[str]:
    """Connectors by which KV goes from prefill to decode."""
    prefill, decode = ctx.of("prefill"), ctx.of("decode")
    return sorted(prefill[0].connectors & decode[0].connectors) if prefill and decode else []


def _meta(ctx: Context) -> Mapping[str, Any] | None:
    return next((service for service in ctx.services if service.get("kind") == "meta"), None)


def _meta_at(ctx: Context, meta: Mapping[str, Any]) -> str:
    port = next(iter(meta.get("ports") or []), None)
    return f"{ctx.hosts.get(meta['host'], {}).get('address')}:{port}"


# ---- as a picture ----


def picture(ctx: Context, findings: Sequence[Finding]) -> dict[str, Any]:
    """Columns of boxes: clients, proxy, prefill, decode (or clients and engines), and arrows."""
    marks = _marks(findings)
    columns: dict[str, list[Box]] = {"clients": [_box("clients", ["requests over HTTP"])]}
    proxy, meta = ctx.plan.get("proxy"), _meta(ctx)
    if proxy:
        lines = [str(proxy.get("url")), f"{proxy.get('flavour')} proxy", f"on {proxy['host']}"]
        columns["proxy"] = [_box("PD proxy", lines, proxy["host"], marks)]
    if meta:
        lines = [_meta_at(ctx, meta), "directory of MemCache", f"on {meta['host']}"]
        columns.setdefault("proxy", []).append(_box("MetaService", lines, meta["host"], marks))
    for role in ("prefill", "decode", "engine"):
        hosts = list(dict.fromkeys(engine.host for engine in ctx.of(role)))
        boxes = [_engine_box(ctx, role, host, marks) for host in hosts[:MOST_DRAWN]]
        if rest := hosts[MOST_DRAWN:]:
            boxes.append({**_box(f"and {len(rest)} more hosts", []), "mark": _worst(rest, marks), "http": True})
        if boxes:
            columns[role] = boxes
    heights = {name: len(boxes) * (BOX_HEIGHT + GAP) for name, boxes in columns.items()}
    height = TOP + max(heights.values())
    for number, (name, boxes) in enumerate(columns.items()):
        y = TOP + (height - TOP - heights[name]) / 2
        for row, box in enumerate(boxes):
            box |= {"x": LEFT + number * COLUMN, "y": round(y + row * (BOX_HEIGHT + GAP)), "w": BOX_WIDTH}
            box["h"] = BOX_HEIGHT
    arrows = [one for left, right in pairwise(columns) for one in _arrows(_ends(columns[left]), _ends(columns[right]))]
    labels = [
        {"x": LEFT + number * COLUMN + BOX_WIDTH + 50, "y": 18, "text": "KV" if left == "prefill" else "HTTP"}
        for number, (left, _right) in enumerate(pairwise(columns))
    ]
    if proxy and "prefill" in columns and "decode" in columns:
        arrows += _around(columns["proxy"][0], _ends(columns["decode"]), height)
        both = "HTTP, and back: what to prefill" if proxy.get("flavour") == LAYERWISE else "HTTP"
        labels.append({"x": columns["prefill"][0]["x"] + BOX_WIDTH / 2, "y": height + 6, "text": both})
        height += 14
    return {
        "width": LEFT * 2 + (len(columns) - 1) * COLUMN + BOX_WIDTH,
        "height": height,
        "heads": [{"x": LEFT + n * COLUMN, "text": HEADS.get(name, name)} for n, name in enumerate(columns)],
        "labels": labels,
        "boxes": [box for boxes in columns.values() for box in boxes],
        "arrows": arrows,
    }


def _marks(findings: Sequence[Finding]) -> dict[str, str]:
    """The worst that was found on each host."""
    marks: dict[str, str] = {}
    for finding in findings:
        if finding.host and not finding.waived:
            marks.setdefault(finding.host, finding.severity.replace(" ", "-"))
    return marks


def _worst(hosts: Sequence[str], marks: Mapping[str, str]) -> str:
    found = {marks[host] for host in hosts if host in marks}
    return next((name for name in (one.replace(" ", "-") for one in SEVERITIES) if name in found), "none")


def _engine_box(ctx: Context, role: str, host: str, marks: Mapping[str, str]) -> Box:
    engines = [engine for engine in ctx.on(host) if engine.role == role]
    first = engines[0]
    sizes = " ".join(
        f"{name}{size}"
        for name, size in (("TP", first.tp), ("DP", first.dp), ("PP", first.pp), ("PCP", first.pcp), ("DCP", first.dcp))
        if size > 1
    )
    ports = sorted({str(port) for one in engines if (port := (one.data.get("http") or {}).get("port"))})
    leader = next((one.host for one in ctx.of_instance(str(first.data["instance"])) if _urls([one])), "")
    where = f"{ctx.hosts[host].get('address')}{':' if ports else ''}{', '.join(ports)}"
    number = "1 engine" if len(engines) == 1 else f"{len(engines)} engines"
    chips = sum(len(engine.data.get("devices") or ()) for engine in engines)
    extra = "KV cache in host memory" if first.offloads else "KV cache in MemCache" if first.uses_memcache else ""
    if not ports and leader and leader != host:
        extra = f"one instance with {leader}"
    lines = [where, f"{number}, {chips} chips", sizes or "TP1", extra]
    return {**_box(f"{role} {host}", lines, host, marks), "http": bool(ports) or not leader}


def _box(title: str, lines: Sequence[str], host: str = "", marks: Mapping[str, str] | None = None) -> Box:
    shown = [line for line in lines if line]
    return {"title": title, "lines": shown, "host": host, "mark": (marks or {}).get(host, "none"), "http": True}


def _ends(boxes: Sequence[Box]) -> list[Box]:
    """Those of a column at which arrows begin or end: not the MetaService, nor hosts that follow another one."""
    return [box for box in boxes if box["http"] and box["title"] != "MetaService"] or list(boxes)


def _arrows(left: Sequence[Box], right: Sequence[Box]) -> list[dict[str, Any]]:
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


def _around(start: Box, ends: Sequence[Box], bottom: int) -> list[dict[str, Any]]:
    """Below all other boxes to those two columns on, beside the other arrows at both ends."""
    y, x, bus = start["y"] + start["h"] * 4 // 5, start["x"] + start["w"] + 24, ends[0]["x"] - 24
    heights = [box["y"] + box["h"] * 4 // 5 for box in ends]
    return [
        _line(start["x"] + start["w"], y, x, y),
        _line(x, y, x, bottom - 8),
        _line(x, bottom - 8, bus, bottom - 8),
        _line(bus, bottom - 8, bus, min(heights)),
        *(_line(bus, one, box["x"] - 6, one, head=True) for box, one in zip(ends, heights, strict=True)),
    ]


def _line(x1: int, y1: int, x2: int, y2: int, head: bool = False) -> dict[str, Any]:
    return {"x1": x1, "y1": y1, "x2": x2, "y2": y2, "head": head}
