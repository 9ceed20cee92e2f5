# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""What a rule is, how it is registered, and how all of them are run so that none can hide or break another.

A rule is a generator over plan and facts that yields a ``Problem`` for each thing that is wrong. It asks the context
for what it needs; what is not known raises ``Missing``, which becomes a "not checked" finding, never a pass.
"""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..findings import ERROR, INFO, NOT_CHECKED, WARNING, Finding, in_order
from ..plan_rules import PLAN_RULES, WAIVABLE
from .context import Context, Missing, NotLaidOut

DOC = "docs/rules.md"

#: What to do where the plan itself is wrong, whatever the user wrote.
REPORT = "report it: the plan made this, not you"

#: What to do where the probe could not tell, with an error beside it that may be why, and without.
SEE = "under Hosts in preflight.html (in preflight.json, reasons) what its probe could not read"
WHY = f"see the host's errors here, and {SEE}"
WHY_ALONE = f"see {SEE}"

#: How the finding of a rule begins that crashed: no verdict, whatever its title says.
CRASHED = "the rule itself failed"

#: What is said of a value that the profile has from its guide, and how it is mended, as somebody has seen it work.
GUIDES = ", the guide's value"
IF_IT_FAILS = ", if it fails"

#: What is said of the container of a service that an earlier plan had.
LEFT_OVER = ", of a service that this plan does not have there"


def remove(container: str, host: str) -> str:
    """How to mend that such a container still runs."""
    return f"docker rm -f {container} on {host}, once it serves nobody; or give the service its old name"


#: What is found about waivers themselves.
WAIVERS: Mapping[str, str] = {
    "PD-WAIVE-001": "A waiver says why a finding does not matter here; whoever reads the report later must be able to "
    "judge that. Without a reason it waives nothing.",
    "PD-WAIVE-002": "A waiver for nothing hides nothing today and a real problem tomorrow: the id is misspelt, or what "
    "it was for is mended. Errors of the planner itself, such as layout, are not waived: nothing could be started.",
}

#: The unit that a rule is asked about: once, or once for each host, instance, engine, or container of engines. Hosts
#: of an instance may have other options, so rules about options are asked of containers.
SCOPES = ("cluster", "host", "instance", "service", "engine")


@dataclass(frozen=True)
class Problem:
    """What a rule yields. ``host`` and ``severity`` default to those of the unit asked about and of the rule."""

    found: str
    right: str = ""
    mend: str = ""
    host: str | None = None
    severity: str | None = None


@dataclass(frozen=True)
class Rule:
    """One rule; ``why`` is the long explanation for people."""

    id: str
    severity: str
    title: str
    per: str
    source: str
    versions: str
    why: str
    check: Callable[..., Iterator[Problem]]
    chips: bool = False

    @property
    def doc(self) -> str:
        return f"{DOC}#{self.id.lower()}"


RULES: dict[str, Rule] = {}

Check = Callable[..., Iterator[Problem]]


def rule(
    identifier: str, severity: str, title: str, *, per: str, source: str, versions: str = "", chips: bool = False
) -> Callable[[Check], Check]:
    """Register a check. ``versions`` is a range of vllm-ascend such as ``>=0.26``; outside of it the rule does not
    apply. ``chips``: it is about chips, so engines that run without (``pd_devices: []``) are none of its business.
    """

    def register(check: Check) -> Check:
        if identifier in RULES or not re.fullmatch(r"PD-[A-Z]+-\d{3}", identifier) or per not in SCOPES:
            raise ValueError(f"rule {identifier}: id taken or malformed, or no such scope: {per}")
        why = inspect.cleandoc(check.__doc__ or "")
        if not why:
            raise ValueError(f"rule {identifier} does not say why")
        RULES[identifier] = Rule(identifier, severity, title, per, source, versions, why, check, chips)
        return check

    return register


@dataclass(frozen=True)
class Verdict:
    """The findings of one run, and which rules found nothing."""

    findings: tuple[Finding, ...]
    passed: tuple[str, ...]
    skipped: tuple[str, ...]  # out of their version range

    @property
    def stops(self) -> bool:
        return any(finding.stops for finding in self.findings)


def judge(
    plan: Mapping[str, Any],
    facts: Mapping[str, Mapping[str, Any]] | None,
    rules: Mapping[str, Rule] | None = None,
) -> Verdict:
    """Run every rule, and take the planner's findings along.

    ``facts`` by host; ``None`` for the stage before any host is contacted. Waivers: ``pd_waived_rules``.
    """
    rules = RULES if rules is None else rules
    context = Context(plan, facts)
    waived: Mapping[str, str] = context.settings.get("pd_waived_rules") or {}
    findings: list[Finding] = []
    passed, skipped = [], []
    for one in rules.values():
        if not context.version_in(one.versions):
            skipped.append(one.id)
            continue
        own = list(dict.fromkeys(_ask(one, context)))  # two pairs of hosts may be told the same of one
        findings += own
        if not own:
            passed.append(one.id)
    # what the planner found stands in the same report
    findings += [Finding(**one) for one in plan.get("findings") or []]
    findings = [_waive(finding, waived) for finding in findings if not _follows(finding, plan)]
    wrong = {finding.host for finding in findings if finding.severity == ERROR}
    findings = [
        replace(one, mend=WHY_ALONE) if one.mend == WHY and not (wrong & {one.host, ""} if one.host else wrong) else one
        for one in findings
    ]
    findings += _bad_waivers(waived, rules, findings)
    return Verdict(tuple(in_order(findings)), tuple(passed), tuple(skipped))


def _ask(one: Rule, context: Context) -> Iterator[Finding]:
    """One rule over all its units; each unit that misses a fact or crashes is a finding of its own."""
    missing: dict[str, None] = {}
    for host, arguments in context.units(one.per, with_chips=one.chips):
        problems: list[Problem] = []
        try:
            problems.extend(one.check(context, *arguments))
        except Missing as error:
            if isinstance(error, NotLaidOut):
                yield _finding(one, NOT_CHECKED, host, f"{one.title}: {error}", mend="mend the layout")
            elif context.facts is not None:
                yield _finding(one, NOT_CHECKED, host, f"{one.title}: {error}", mend=WHY)
            else:
                missing[str(error)] = None
        except Exception as error:
            where = _where(error)
            problems = []  # what a rule yields before it crashes is not trusted
            yield _finding(
                one,
                WARNING if one.severity != ERROR else ERROR,
                host,
                f"{CRASHED}: {type(error).__name__}: {error}{where}",
                right="a verdict",
                mend=f"report it; to go on without, waive it: pd_waived_rules: {{{one.id}: REASON}}",
            )
        for problem in problems:  # also what was found before something was missing
            yield _finding(
                one,
                problem.severity or one.severity,
                host if problem.host is None else problem.host,
                problem.found,
                problem.right,
                problem.mend,
            )
    if missing:  # before hosts are contacted one line per rule is enough
        yield _finding(
            one, NOT_CHECKED, "", f"{one.title}: needs facts of the hosts", mend="run the preflight playbook"
        )


def _where(error: Exception) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f" (line {trace.tb_lineno} of {trace.tb_frame.f_code.co_name})"


def _finding(one: Rule, severity: str, host: str, found: str, right: str = "", mend: str = "") -> Finding:
    return Finding(one.id, severity, host, found, right, mend, one.source, one.doc)


def _follows(finding: Finding, plan: Mapping[str, Any]) -> bool:
    """Whether the plan is blamed where the planner itself has told what is wrong with the inventory."""
    told = [one["host"] for one in plan.get("findings") or [] if one["severity"] == ERROR]
    return finding.mend == REPORT and any(host in ("", finding.host) for host in told)


def _waive(finding: Finding, waived: Mapping[str, str]) -> Finding:
    reason = str(waived.get(finding.rule) or "").strip()
    if not reason or _of_the_plan(finding):
        return finding
    return Finding(**{**finding.as_dict(), "waived": reason})


def _of_the_plan(finding: Finding) -> bool:
    """Whether it is an error without whose mending there is no plan to go on with."""
    return finding.severity == ERROR and finding.rule in PLAN_RULES and finding.rule not in WAIVABLE


def _bad_waivers(
    waived: Mapping[str, str], rules: Mapping[str, Rule], findings: Iterable[Finding]
) -> Iterator[Finding]:
    """A waiver for nothing hides nothing today and a real problem tomorrow."""
    findings = list(findings)
    hit = {finding.rule for finding in findings if not _of_the_plan(finding)}
    kept = {finding.rule for finding in findings if _of_the_plan(finding)}
    for identifier, reason in waived.items():
        source, doc = "collection", f"{DOC}#waivers"
        if not str(reason or "").strip():
            yield Finding(
                "PD-WAIVE-001",
                ERROR,
                "",
                f"{identifier} is waived without a reason",
                "a reason",
                "say why",
                source,
                doc,
            )
        elif identifier not in hit:
            known = identifier in rules or identifier in PLAN_RULES
            near = [] if known else difflib.get_close_matches(identifier, [*rules, *PLAN_RULES], n=1, cutoff=0.7)
            why = "found nothing" if known else "there is no such rule"
            yield Finding(
                "PD-WAIVE-002",
                INFO,
                "",
                f"{identifier} is waived, but {'without mending it there is no plan' if identifier in kept else why}",
                near[0] if near else "no waiver",
                "mend or remove it",
                source,
                doc,
            )
