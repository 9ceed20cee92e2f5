# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""What the depot offers: sources, packages and base images, remade by lab/sources and lab/image when inputs change."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from lab.engine import client_environment
from lab.layout import CHECKOUT, DEPOT, SOURCE, STAMPS
from lab.shell import digest, run, step

#: The options of `vllm serve`, which the planner and the simulated engine both read: the vllm trees hold copies.
OPTIONS = sorted((CHECKOUT / "plugins" / "plugin_utils" / "data").glob("vllm-serve-*.json"))


def make_sources() -> None:
    """Git repositories, pip index and plain files."""
    maker = SOURCE / "sources" / "make.py"
    _renew("sources", [maker, str(DEPOT)], digest(SOURCE / "sources", SOURCE / "engine", *OPTIONS), {})


def build_images() -> None:
    """Base images, pushed to the depot's registry."""
    made_from = digest(SOURCE / "image", STAMPS / "sources")
    _renew("image", [SOURCE / "image" / "build.py"], made_from, client_environment())


def _renew(what: str, command: list[str | Path], made_from: str, env: Mapping[str, str]) -> None:
    """Run a maker unless what it would make was made from the same inputs already."""
    stamp = STAMPS / what
    if not Path(command[0]).exists() or (stamp.exists() and stamp.read_text() == made_from):
        return
    with step(f"depot: {what}"):
        DEPOT.mkdir(parents=True, exist_ok=True)
        run(sys.executable, *command, env=env)
    STAMPS.mkdir(parents=True, exist_ok=True)
    stamp.write_text(made_from)
