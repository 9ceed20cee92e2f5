# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""One problem that a check found, whoever found it: planner, rule, or probe."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any
from unicodedata import category

ERROR = "error"
WARNING = "warning"
INFO = "info"
NOT_CHECKED = "not checked"

#: Order of a report: what stops a launch first.
SEVERITIES = (ERROR, WARNING, NOT_CHECKED, INFO)


@dataclass(frozen=True)
class Finding:
    """``rule`` is the stable id; ``host`` is empty where the whole cluster is meant."""

    rule: str
    severity: str
    host: str
    found: str
    right: str = ""
    mend: str = ""
    source: str = ""
    doc: str = ""  # where the rule is explained, relative to the collection
    waived: str = ""  # the user's reason; a waived finding stops nothing but stays in the report

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def stops(self) -> bool:
        """Whether nothing may be launched."""
        return self.severity == ERROR and not self.waived


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """As a report shows them: by severity, waived ones last, then by rule and host."""
    return sorted(
        findings, key=lambda f: (bool(f.waived), SEVERITIES.index(f.severity), f.rule, as_counted(f.host), f.found)
    )


def as_counted(host: str) -> list[str | int]:
    """A host's name for sorting as people count: p2 before p10."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"([0-9]+)", host)]


def printable(text: str) -> str:
    """Text of hosts as it may be shown: what would steer a terminal or cannot be written stands escaped."""
    return "".join(
        one
        if one.isprintable() or one in "\n\t" or category(one) == "Zs"
        else one.encode("unicode_escape").decode("ascii")
        for one in text
    )
