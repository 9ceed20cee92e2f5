# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Why? The long explanation of a rule, with this cluster's numbers in the formulas that it judges by."""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..findings import Finding, printable
from ..plan_rules import PLAN_RULES
from .context import Context
from .formulas import numbers
from .registry import RULES, WAIVERS

#: Longer lines of text are hard to read, however wide the terminal.
WIDTH = 100


class NoSuchRule(ValueError):
    """An id that is none; the message has the nearest that are."""


@dataclass(frozen=True)
class About:
    """What is to be told of an id, whoever finds it: a rule, the planner, or the look at the waivers."""

    id: str
    title: str  # empty: has none
    severity: str  # empty: depends
    why: str
    source: str
    versions: str = ""
    doc: str = ""


def about(identifier: str) -> About | None:
    """None: no such id."""
    if one := RULES.get(identifier):
        return About(one.id, one.title, one.severity, one.why, one.source, one.versions, one.doc)
    if identifier in WAIVERS:
        return About(identifier, "", "", WAIVERS[identifier], "collection", doc="docs/rules.md#waivers")
    if identifier in PLAN_RULES:
        return About(identifier, "", "", PLAN_RULES[identifier], "collection, while it plans", doc="docs/rules.md")
    return None


def named(identifier: str) -> About:
    """The same, however the id is spelt. Raises ``NoSuchRule``."""
    names = {name.lower(): name for name in (*RULES, *PLAN_RULES, *WAIVERS)}
    one = about(names.get(identifier.strip().lower(), ""))
    if one is None:
        near = difflib.get_close_matches(identifier.lower(), list(names), n=3, cutoff=0.4)
        raise NoSuchRule(
            f"There is no rule {identifier}. "
            + (f"Near: {', '.join(names[each] for each in near)}." if near else f"There are {len(names)}.")
        )
    return one


def explain(
    identifier: str,
    plan: Mapping[str, Any] | None,
    facts: Mapping[str, Any] | None,
    findings: list[Finding],
    width: int = WIDTH,
) -> str:
    """Text for people, also for what the planner itself finds; for an id that is none, the nearest that are.

    Sentences are wrapped, formulas keep their lines."""
    try:
        one = named(identifier)
    except NoSuchRule as error:
        return str(error)
    lines = [f"{one.id}  {one.title}  [{one.severity}]" if one.title else one.id, ""]
    for paragraph in one.why.split("\n\n"):
        lines += [*textwrap.wrap(paragraph, min(width, WIDTH), break_long_words=False, break_on_hyphens=False), ""]
    lines += [f"Source: {'this collection' if one.source == 'collection' else one.source}"]
    lines += [f"Applies to vllm-ascend {one.versions}"] if one.versions else []
    lines += [f"Documentation: {one.doc}", "", "In this cluster:"]
    ctx = Context(plan or {}, facts)
    own = [
        replace(finding, found=finding.found.removeprefix(f"{one.title}: "))
        for finding in findings
        if finding.rule == one.id
    ]
    if not ctx.version_in(one.versions):
        return "\n".join([*lines, f"  not applied: it has vllm-ascend {ctx.vllm_ascend}"])
    nothing = "nothing found" if ctx.hosts else "no host is planned: name an inventory with -i"
    lines += [_line(finding, width) for finding in own] or [f"  {nothing}"]
    filled = numbers(one.id, ctx) if plan else []
    return "\n".join([*lines, *(["", "With its numbers:", *(f"  {line}" for line in filled)] if filled else [])])


def _line(finding: Finding, width: int) -> str:
    where = f"{finding.host}: " if finding.host else ""
    parts = {f"{finding.severity}: {where}": finding.found}
    parts |= {"  right: ": finding.right, "  mend:  ": finding.mend, "  waived: ": finding.waived}
    lines = [
        line
        for label, text in parts.items()
        if text
        for line in textwrap.wrap(
            f"{label}{text}", width, initial_indent="  ", subsequent_indent=" " * 6, break_long_words=False
        )
    ]
    return printable("\n".join(lines))
