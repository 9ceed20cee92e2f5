# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""All rules. Importing an area registers its rules; :func:`judge` runs them, :func:`explain` tells about one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..findings import Finding
from . import (
    arguments,
    connector_sizes,
    connectors,
    container,
    env,
    host,
    memcache,
    memory,
    model,
    nic,
    npu,
    parity,
    pings,
    ports,
    proxy,
    sparse_kv,
    versions,
)
from .explain import NoSuchRule, about, explain, named
from .registry import RULES, Problem, Rule, Verdict, judge

# Part of an id -> where its rules stand.
AREAS = {
    "PORT": (ports,),
    "NIC": (nic,),
    "NPU": (npu, pings),
    "HOST": (host,),
    "MEM": (memory,),
    "SPARSE": (sparse_kv,),
    "CONN": (connectors, connector_sizes),
    "MMC": (memcache,),
    "PROXY": (proxy,),
    "PARITY": (parity,),
    "VER": (versions,),
    "MODEL": (model,),
    "ARG": (arguments,),
    "ENV": (env, container),
}


def evaluate(plan: Mapping[str, Any], facts: Mapping[str, Mapping[str, Any]] | None) -> list[Finding]:
    """All findings in the order of a report, the planner's among them, waivers applied.

    No facts: the stage before any host is contacted.
    """
    return list(judge(plan, facts or None).findings)


__all__ = [
    "AREAS",
    "RULES",
    "NoSuchRule",
    "Problem",
    "Rule",
    "Verdict",
    "about",
    "evaluate",
    "explain",
    "judge",
    "named",
]
