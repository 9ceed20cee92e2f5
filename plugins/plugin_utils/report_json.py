# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""The report for machines: everything that the page shows, under stable keys that docs/preflight.md lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .findings import Finding
from .report import as_findings, conclusion, counts
from .report_memory import chip_bars, host_bars
from .report_topology import links
from .rules import about
from .rules.context import Context
from .rules.formulas import numbers

SCHEMA = 1
#: What of an engine tells where it is and what it has; its options and environment stand in the plan.
OF_ENGINE = ("name", "instance", "role", "host", "serves_http", "http", "devices")


def as_json(
    plan: Mapping[str, Any],
    findings: Iterable[Finding | Mapping[str, Any]],
    passed: Sequence[str] = (),
    facts: Mapping[str, Mapping[str, Any]] | None = None,
    skipped: Sequence[str] = (),
) -> dict[str, Any]:
    """Plain types. ``passed``: rules that found nothing; ``skipped``: those that are for other versions."""
    ordered = as_findings(findings)
    ctx = Context(plan, facts or None)
    return {
        "schema": SCHEMA,
        "profile": plan.get("profile"),
        "versions": plan.get("versions"),
        "model": plan.get("model"),
        "ready": not any(finding.stops for finding in ordered),
        "conclusion": conclusion(ordered),
        "counts": counts(ordered),
        "findings": [finding.as_dict() for finding in ordered],
        "explained": explained(ordered, ctx),
        "passed": list(passed),
        "skipped": list(skipped),
        "hosts": plan.get("hosts") or {},
        "engines": [{key: one.get(key) for key in OF_ENGINE} for one in plan.get("engines") or []],
        "links": links(ctx),
        "memory": {"chips": chip_bars(ctx), "hosts": host_bars(ctx)},
        "ports": plan.get("ports") or [],
        "reasons": {host: why for host, seen in (facts or {}).items() if (why := reasons(seen))},
        "probes": {host: seen["timing"] for host, seen in (facts or {}).items() if seen.get("timing")},
    }


def explained(findings: Sequence[Finding], ctx: Context) -> dict[str, dict[str, Any]]:
    """By id, for all that was found: why it matters, the formulas with this cluster's numbers, the source."""
    hosts: dict[str, set[str]] = {}
    for finding in findings:
        hosts.setdefault(finding.rule, set()).update([finding.host] if finding.host else ctx.hosts)
    return {
        one.id: {
            "title": one.title,
            "why": one.why,
            "numbers": numbers(one.id, ctx, own),
            "source": one.source,
            "versions": one.versions,
            "doc": one.doc,
        }
        for identifier, own in hosts.items()
        if (one := about(identifier))
    }


def reasons(seen: Mapping[str, Any]) -> dict[str, list[str]]:
    """What the probe of a host could not read, by face; each model folder is one."""
    models = seen.get("model")
    faces = {**seen, **(models if isinstance(models, Mapping) else {})}
    return {
        name: list(face["reasons"]) for name, face in faces.items() if isinstance(face, Mapping) and face.get("reasons")
    }
