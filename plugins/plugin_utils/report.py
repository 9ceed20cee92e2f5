# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""A verdict for people in a terminal and for machines. Pure: no clock, no files."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .findings import ERROR, NOT_CHECKED, SEVERITIES, WARNING, Finding, in_order
from .rules import RULES

SCHEMA = 1
#: Hosts named in one line before the rest is only counted.
MOST_HOSTS = 4


@dataclass(frozen=True)
class Row:
    """One line of a report: a finding on all its hosts, or one reason for which rules could not be checked."""

    severity: str
    rules: tuple[str, ...]
    hosts: tuple[str, ...]  # empty: the whole cluster
    title: str
    finding: Finding

    @property
    def rule(self) -> str:
        return self.rules[0] if len(self.rules) == 1 else f"{len(self.rules)} rules"

    @property
    def place(self) -> str:
        if not self.hosts:
            return "cluster"
        shown = ", ".join(self.hosts[:MOST_HOSTS])
        return shown if len(self.hosts) <= MOST_HOSTS else f"{shown} and {len(self.hosts) - MOST_HOSTS} more"


def as_findings(findings: Iterable[Finding | Mapping[str, Any]]) -> list[Finding]:
    """Findings from themselves or from their JSON form, in the order of a report."""
    return in_order(one if isinstance(one, Finding) else Finding(**one) for one in findings)


def counts(findings: Sequence[Finding]) -> dict[str, int]:
    """How many of each severity; waived ones apart."""
    result = dict.fromkeys(SEVERITIES, 0)
    for finding in findings:
        if not finding.waived:
            result[finding.severity] += 1
    return {**result, "waived": sum(1 for finding in findings if finding.waived)}


def counted(number: int, word: str) -> str:
    """``1 error``, ``2 errors``; what has no plural stays."""
    return f"{number} {word}{'s' if number != 1 and word in (ERROR, WARNING) else ''}"


def conclusion(findings: Sequence[Finding]) -> str:
    """One sentence."""
    number = counts(findings)
    if number[ERROR]:
        verb = "is" if number[ERROR] == 1 else "are"
        return f"Not ready: nothing is started until {counted(number[ERROR], ERROR)} {verb} mended or waived."
    if number[NOT_CHECKED]:
        return f"No error found, but {number[NOT_CHECKED]} checks could not be made."
    if number[WARNING]:
        return f"Ready to launch, with {counted(number[WARNING], WARNING)}."
    return "Ready to launch."


def rows(findings: Iterable[Finding]) -> list[Row]:
    """What a person reads: equal findings of several hosts once, unchecked rules by their reason."""
    groups: dict[tuple[Any, ...], list[Finding]] = {}
    for finding in findings:
        if finding.severity == NOT_CHECKED and not finding.waived:
            groups.setdefault((NOT_CHECKED, _reason(finding)), []).append(finding)
        else:
            groups.setdefault((replace(finding, host=""),), []).append(finding)
    return [_row(members) for members in groups.values()]


def heading(title: str) -> str:
    """A rule's title as the beginning of a line; names such as topk_buffer_size stay as they are written."""
    plain = title.split(" ")[0].removesuffix("'s").isalpha()
    return title[0].upper() + title[1:] if plain else title


def _title(finding: Finding) -> str:
    one = RULES.get(finding.rule)
    return one.title if one else ""


def _reason(finding: Finding) -> str:
    return finding.found.removeprefix(f"{_title(finding)}: ")


def _row(members: Sequence[Finding]) -> Row:
    first = members[0]
    unchecked = first.severity == NOT_CHECKED and not first.waived
    identifiers = tuple(dict.fromkeys(finding.rule for finding in members))
    shown = replace(first, found=_reason(first)) if unchecked else first
    return Row(
        severity="waived" if first.waived else first.severity,
        rules=identifiers,
        hosts=tuple(dict.fromkeys(finding.host for finding in members if finding.host)),
        title="" if len(identifiers) > 1 else _title(first),
        finding=shown,
    )


# ---- terminal ----


def terminal(findings: Iterable[Finding | Mapping[str, Any]], width: int = 120) -> str:
    """One table sorted by severity, with what to do, and the conclusion under it."""
    ordered = as_findings(findings)
    table = [(row.severity, row.rule, row.place, _text(row)) for row in rows(ordered)]
    head = ("SEVERITY", "RULE", "HOST")
    columns = [max(len(line[n]) for line in [*table, (*head, [])]) for n in range(3)]
    columns[2] = min(columns[2], max(10, width // 5))
    room = max(40, width - sum(columns) - 6)
    lines = []
    if table:
        lines += [
            _line(head, columns, "WHAT IS WRONG, AND WHAT TO DO"),
            _line(["-" * w for w in columns], columns, "-" * room),
        ]
    for one in table:
        lines += _wrapped(one, columns, room)
    number = counts(ordered)
    summary = ", ".join(counted(number[name], name) for name in (*SEVERITIES, "waived") if number[name])
    return "\n".join([*lines, "", *([f"{summary}."] if summary else []), conclusion(ordered)])


def _text(row: Row) -> list[str]:
    finding = row.finding
    title = f"{heading(row.title)}: " if row.title else ""
    text = [f"{title}{finding.found}"]
    text += [f"right: {finding.right}"] if finding.right else []
    text += [f"mend: {finding.mend}"] if finding.mend else []
    text += [f"waived: {finding.waived}"] if finding.waived else []
    return [*text, "not checked: " + ", ".join(row.rules)] if len(row.rules) > 1 else text


def _wrapped(row: tuple[str, str, str, list[str]], columns: Sequence[int], room: int) -> list[str]:
    host = textwrap.wrap(row[2], columns[2]) or [""]
    text = [
        line
        for number, part in enumerate(row[3])
        for line in textwrap.wrap(
            part, room, subsequent_indent="  " if number else "", break_long_words=False, break_on_hyphens=False
        )
    ]
    lines = []
    for number in range(max(len(host), len(text))):
        cells = [row[0] if not number else "", row[1] if not number else "", host[number] if number < len(host) else ""]
        lines.append(_line(cells, columns, text[number] if number < len(text) else ""))
    return lines


def _line(cells: Sequence[str], columns: Sequence[int], last: str) -> str:
    return "  ".join([*(cell.ljust(width) for cell, width in zip(cells, columns, strict=True)), last]).rstrip()


# ---- machines ----


def as_json(
    plan: Mapping[str, Any],
    findings: Iterable[Finding | Mapping[str, Any]],
    passed: Sequence[str] = (),
    facts: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """Stable keys, plain types. ``reasons``: by host and face what could not be read, and why.

    ``probes``: per host where its probe's time went (seconds, by face and by tool)."""
    ordered = as_findings(findings)
    return {
        "schema": SCHEMA,
        "profile": plan.get("profile"),
        "versions": plan.get("versions"),
        "model": plan.get("model"),
        "ready": not any(finding.stops for finding in ordered),
        "conclusion": conclusion(ordered),
        "counts": counts(ordered),
        "findings": [finding.as_dict() for finding in ordered],
        "passed": list(passed),
        "hosts": plan.get("hosts") or {},
        "ports": plan.get("ports") or [],
        "reasons": {host: why for host, seen in (facts or {}).items() if (why := _reasons(seen))},
        "probes": {host: seen["timing"] for host, seen in (facts or {}).items() if seen.get("timing")},
    }


def _reasons(seen: Mapping[str, Any]) -> dict[str, list[str]]:
    """What the probe of a host could not read, by face; each model folder is one."""
    models = seen.get("model")
    faces = {**seen, **(models if isinstance(models, Mapping) else {})}
    return {
        name: list(face["reasons"]) for name, face in faces.items() if isinstance(face, Mapping) and face.get("reasons")
    }
