# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""What is said of findings wherever they are shown, and the table in a terminal. Pure: no clock, no files."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .findings import ERROR, NOT_CHECKED, SEVERITIES, WARNING, Finding, as_counted, in_order, printable
from .rules import RULES
from .rules.registry import CRASHED

#: Hosts, or runs of hosts such as d1 to d32, that stand in the column for them before the rest is only counted.
MOST_HOSTS = 4


@dataclass(frozen=True)
class Row:
    """One line of a report: a finding on all its hosts, or one reason for which rules could not be checked."""

    severity: str
    rules: tuple[str, ...]
    hosts: tuple[str, ...]  # empty: the whole cluster
    title: str  # empty where the finding is not what the title says: not checked, or the rule crashed
    finding: Finding
    more: tuple[str, ...] = ()  # what else was found there, with the same right and mend

    @property
    def rule(self) -> str:
        return self.rules[0] if len(self.rules) == 1 else f"{len(self.rules)} rules"

    @property
    def place(self) -> str:
        if not self.hosts:
            return "cluster"
        shown = runs(self.hosts)
        rest = f" and {len(shown) - MOST_HOSTS} more" if len(shown) > MOST_HOSTS else ""
        return ", ".join(shown[:MOST_HOSTS]) + rest


def runs(hosts: Sequence[str]) -> list[str]:
    """Hosts that only count up as one: ``d1, d2, d3, x`` -> ``d1 to d3, x``."""
    found: list[list[str]] = []
    for host in hosts:
        if found and _next(found[-1][-1]) == host:
            found[-1].append(host)
        else:
            found.append([host])
    return [part for run in found for part in ([f"{run[0]} to {run[-1]}"] if len(run) > 2 else run)]


def _next(host: str) -> str:
    match = re.search(r"[0-9]+$", host)
    return f"{host[: match.start()]}{int(match[0]) + 1:0{len(match[0])}}" if match else ""


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
    return f"{number} {word}{'s' if number != 1 and word in (ERROR, WARNING, 'check') else ''}"


def conclusion(findings: Sequence[Finding]) -> str:
    """One sentence."""
    number = counts(findings)
    if number[ERROR]:
        verb = "is" if number[ERROR] == 1 else "are"
        return f"Not ready: nothing is started until {counted(number[ERROR], ERROR)} {verb} mended or waived."
    waived = counted(sum(1 for one in findings if one.waived and one.severity == ERROR), ERROR)
    but = "" if waived.startswith("0 ") else f" ({waived} waived)"
    if number[NOT_CHECKED]:
        return f"No error found{but}, but {counted(number[NOT_CHECKED], 'check')} could not be made."
    if number[WARNING]:
        return f"Ready to launch, with {counted(number[WARNING], WARNING)}{but}."
    return f"Ready to launch{but}."


def rows(findings: Iterable[Finding]) -> list[Row]:
    """What a person reads: a rule's findings on one host or on several once, unchecked rules by their reason."""
    groups: dict[tuple[Any, ...], list[Finding]] = {}
    for finding in findings:
        if _unchecked(finding):
            fact, rest = _fact(_reason(finding))  # one face of a probe brings many facts
            groups.setdefault((NOT_CHECKED, fact.partition(".")[0], rest), []).append(finding)
        else:
            groups.setdefault((replace(finding, host=""),), []).append(finding)
    merged: dict[tuple[Any, ...], list[Finding]] = {}
    for key, members in groups.items():
        about = {finding.host for finding in members} - {""}
        if _unchecked(members[0]) and len(about) == 1:  # of another host the same reason has another name in it
            key = (*key[:2], _anonymous(key[2], *about))
        merged.setdefault(key, []).extend(members)
    return _folded(_row(members, str(key[-1])) for key, members in merged.items())


def _folded(made: Iterable[Row]) -> list[Row]:
    """Rows of one rule that say the same of the same hosts, but for what was found, as one."""
    kept: dict[Any, Row] = {}
    for row in made:
        key = replace(row, finding=replace(row.finding, host="", found="")) if row.severity != NOT_CHECKED else row
        if key in kept:
            kept[key] = replace(kept[key], more=(*kept[key].more, row.finding.found))
        else:
            kept[key] = row
    return list(kept.values())


def _unchecked(finding: Finding) -> bool:
    return finding.severity == NOT_CHECKED and not finding.waived


def heading(title: str) -> str:
    """A rule's title as the beginning of a line; names such as topk_buffer_size stay as they are written."""
    plain = title.split(" ")[0].removesuffix("'s").isalpha()
    return title[0].upper() + title[1:] if plain else title


def _title(finding: Finding) -> str:
    one = RULES.get(finding.rule)
    return one.title if one else ""


def _reason(finding: Finding) -> str:
    return finding.found.removeprefix(f"{_title(finding)}: ")


def _anonymous(reason: str, host: str) -> str:
    return re.sub(rf"(?<![\w.-]){re.escape(host)}(?![\w-])", "each of them", reason)


def _fact(reason: str) -> tuple[str, str]:
    """``host.arch of p1 is not known`` in two; whatever else is said is the rest."""
    match = re.match(r"\w+(\.\w+)+(?= of .* is not known)", reason)
    return (match[0], reason[match.end() :]) if match else ("", reason)


def _row(members: Sequence[Finding], alike: str) -> Row:
    """``alike``: what their reasons have in common, where they are rules that could not be checked."""
    first = members[0]
    unchecked = _unchecked(first)
    hosts = sorted({finding.host for finding in members if finding.host}, key=as_counted)
    found = first.found
    if unchecked:
        facts = ", ".join(dict.fromkeys(_fact(_reason(one))[0] for one in members))
        found = facts + (alike if len(hosts) > 1 else _fact(_reason(first))[1])
    return Row(
        severity="waived" if first.waived else first.severity,
        rules=tuple(dict.fromkeys(finding.rule for finding in members)),
        hosts=tuple(map(printable, hosts)),
        title="" if unchecked or found.startswith(CRASHED) else _title(first),
        finding=replace(
            first,
            **{
                name: printable(text)
                for name, text in {**first.as_dict(), "found": found}.items()
                if name in ("found", "right", "mend", "waived")
            },
        ),
    )


# ---- terminal ----


def terminal(findings: Iterable[Finding | Mapping[str, Any]], width: int = 120) -> str:
    """One table sorted by severity, with what to do, and the conclusion under it."""
    ordered = as_findings(findings)
    table = [(row.severity, row.rule, row.place, _text(row)) for row in rows(ordered)]
    head = ("SEVERITY", "RULE", "HOST")
    columns = [max(map(cells, column)) for column in zip(head, *(line[:3] for line in table), strict=True)]
    columns[2] = min(columns[2], max(10, min(width // 5, width - 36 - sum(columns[:2]))))
    room = max(30, width - sum(columns) - 6)
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
    text = [f"{title}{finding.found}", *(f"also: {found}" for found in row.more)]
    text += [f"right: {finding.right}"] if finding.right else []
    text += [f"mend: {finding.mend}"] if finding.mend else []
    text += [f"waived: {finding.waived}"] if finding.waived else []
    if row.severity == NOT_CHECKED:
        only = f"{row.rules[0]}: {_title(finding)}" if len(row.rules) == 1 else ", ".join(row.rules)
        text.append(f"not checked: {only}")
    if len(runs(row.hosts)) > MOST_HOSTS:
        text.append(f"hosts: {', '.join(runs(row.hosts))}")
    return text


def _wrapped(row: tuple[str, str, str, list[str]], columns: Sequence[int], room: int) -> list[str]:
    host = wrap(row[2], columns[2], cut=True)
    text = [line for number, part in enumerate(row[3]) for line in wrap(part, room, "  " if number else "")]
    lines = []
    for number in range(max(len(host), len(text))):
        first = [row[0] if not number else "", row[1] if not number else "", host[number] if number < len(host) else ""]
        lines.append(_line(first, columns, text[number] if number < len(text) else ""))
    return lines


def _line(first: Sequence[str], columns: Sequence[int], last: str) -> str:
    padded = (one + " " * (width - cells(one)) for one, width in zip(first, columns, strict=True))
    return "  ".join([*padded, last]).rstrip()


def cells(text: str) -> int:
    """Columns of a terminal that a text takes: Chinese characters take two, accents on their own none."""
    return sum(2 if _wide(one) else 0 if unicodedata.combining(one) else 1 for one in text)


def _wide(character: str) -> bool:
    return unicodedata.east_asian_width(character) in "WF"


def wrap(text: str, width: int, indent: str = "", cut: bool = False) -> list[str]:
    """Lines of at most ``width`` cells, later ones indented; words stay whole (paths are copied) unless ``cut``."""
    lines = [""]
    for space, piece in _pieces(text, width if cut else 0):
        start = lines[-1] + " " * (space and lines[-1] not in ("", indent))
        if start.strip() and cells(start + piece) > width:
            lines.append(indent + piece)
        else:
            lines[-1] = start + piece
    return lines


def _pieces(text: str, most: int) -> Iterator[tuple[bool, str]]:
    """(whether a space stands before, text) of all between which a line may end: words and Chinese characters."""
    for word in text.split():
        found = re.findall(r"[\u1100-\uffff\U00010000-\U0003ffff]|[\0-\u10ff]+", word)
        if most:
            found = [part[at : at + most] for part in found for at in range(0, len(part), most)]
        for number, part in enumerate(found):
            yield not number, part
