# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""The report as one HTML file that needs nothing else: verdict, findings, topology, memory, hosts, ports.

This module turns plan, facts and findings into what is drawn; ``data/report.html.j2`` only draws it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ..module_utils._sizing_gate import GIB
from .findings import ERROR, NOT_CHECKED, WARNING, Finding, printable
from .report import Row, as_findings, conclusion, counted, counts, heading, rows, runs
from .report_json import reasons
from .report_memory import Budget, chip_bars, host_bars
from .report_topology import links, picture
from .rules import about
from .rules.context import Context
from .rules.formulas import numbers
from .rules.memory import gib

_DATA = Path(__file__).parent / "data"
#: More bars than this, and those that are alike are drawn once.
MOST_BARS = 16
#: Ports of more hosts than this are folded up.
MOST_UNFOLDED = 8
#: Addresses shown of one way of talking, before the rest is only counted.
MOST_ADDRESSES = 4


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
    number = counts(ordered)
    return {
        "made_at": made_at,
        "profile": ctx.profile,
        "model": plan.get("model") or {},
        "versions": plan.get("versions") or {},
        # The colour of the verdict: what was not looked at is not well.
        "verdict": next((css(name) for name in (ERROR, NOT_CHECKED, WARNING) if number[name]), "ok"),
        "conclusion": conclusion(ordered),
        "tally": [{"css": css(name), "text": counted(n, name)} for name, n in number.items() if n],
        "findings": [_finding(row, ctx) for row in rows(ordered)],
        "picture": picture(ctx, ordered),
        "links": [_link(one) for one in links(ctx)],
        "chip_bars": drawn(chip_bars(ctx)),
        "host_bars": drawn(host_bars(ctx)),
        "hosts": [_host(ctx, host) for host in ctx.hosts],
        "ports": [
            {"host": host, "rows": sorted(ctx.ports_on(host), key=lambda port: int(port["first"]))}
            for host in ctx.hosts
            if ctx.ports_on(host)
        ],
        "unfolded": len(ctx.hosts) <= MOST_UNFOLDED,
        "probed": facts is not None and bool(facts),
    }


def css(severity: str) -> str:
    return severity.replace(" ", "-")


def _finding(row: Row, ctx: Context) -> dict[str, Any]:
    """A row of the table; of rules that were not checked only which those are."""
    one = None if row.severity == NOT_CHECKED else about(row.finding.rule)
    return {
        **row.finding.as_dict(),
        "severity": row.severity,
        "css": css(row.severity),
        "rule": row.rule,
        "more": row.more,
        "unchecked": [(name, told.title if (told := about(name)) else "") for name in row.rules] if not one else [],
        "hosts": row.place,
        "all_hosts": ", ".join(runs(row.hosts)),
        "title": heading(row.title) if row.title else "",
        "why": one.why.split("\n\n") if one else [],
        "numbers": "\n".join(numbers(one.id, ctx, row.hosts)) if one else "",
        "source": one.source if one else row.finding.source,
        "versions": one.versions if one else "",
    }


# ---- memory ----


def drawn(bars: Sequence[Budget]) -> list[dict[str, Any]]:
    """Bars with widths in percent and words; where there are many, those that look alike once, with all names."""
    kept: dict[Any, dict[str, Any]] = {}
    for number, one in enumerate(bars):
        look = number if len(bars) <= MOST_BARS else str({**one, "name": _kind(one), "host": ""})
        if look in kept:
            kept[look]["others"].append(_where(one))
        else:
            kept[look] = _drawn(one)
    return list(kept.values())


def _kind(one: Budget) -> str:
    """What a bar is of, whoever has it."""
    return str(one["name"]).partition(", ")[2]


def _where(one: Budget) -> str:
    return one["host"] if one["name"] == one["host"] else f"{one['name']} on {one['host']}"


def _drawn(one: Budget) -> dict[str, Any]:
    total, over = one["total_bytes"], one["over_bytes"]
    free = {"label": "free", "kind": "free", "bytes": one["free_bytes"]}
    parts = [part for part in (*one["parts"], free) if part["bytes"]]
    scale = max(1, total + over)
    return {
        "title": _where(one),
        "others": [],
        "unknown": printable(one["unknown"]),
        "total": gib(total),
        "used": gib(total + over - one["free_bytes"]),
        "over": f"{gib(over)} too much" if over else "",
        "limit": round(100 * total / scale, 2),
        "parts": [
            {**part, "text": gib(part["bytes"]), "percent": round(100 * part["bytes"] / scale, 2)} for part in parts
        ],
    }


# ---- hosts and who talks to whom ----


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
        "unreachable": printable(str(face.get("unreachable") or "")),
        "reasons": [(name, printable(str(why))) for name, all_ in reasons(face).items() for why in all_],
    }


def _link(link: Mapping[str, Any]) -> dict[str, Any]:
    at = link["at"]
    more = f" and {len(at) - MOST_ADDRESSES} more" if len(at) > MOST_ADDRESSES else ""
    return {**link, "at": ", ".join(at[:MOST_ADDRESSES]) + more}
