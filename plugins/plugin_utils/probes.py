# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""What probes returned, as the planner takes it; and which chips to ping once all addresses are known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..module_utils._run import last_line
from .rules.context import Context
from .rules.pings import wanted


def facts_of(result: Mapping[str, Any], pinged: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Facts from the task result of ``host_probe``, the pings of a later ``hccn_info`` among them.

    A host that could not be asked keeps the reason.
    """
    if "facts" not in result:
        return {"unreachable": _why_not(result)}
    facts = {**result["facts"], "timing": result.get("timing")}
    if pinged and "hccn" in pinged and isinstance(facts.get("hccn"), Mapping):
        facts["hccn"] = {**facts["hccn"], "pings": pinged["hccn"]["pings"]}
    return facts


def _why_not(result: Mapping[str, Any]) -> str:
    """Why a host gave no facts. Of a module that did not run, older ansible-core says only to look at its output, which
    over SSH is all in stdout.
    """
    message = " ".join(str(result.get("msg") or "no answer").split())
    output = str(result.get("module_stdout") or result.get("module_stderr") or "")
    return f"{message}: {last_line(output)}" if output.strip() and "stdout/stderr" in message else message


def pings(plan: Mapping[str, Any], facts: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, list[str]]]:
    """Host to ``{hccs: [...], roce: [...]}``: addresses of chips to ping from its own chips in turn."""
    return wanted(Context(plan, facts))
