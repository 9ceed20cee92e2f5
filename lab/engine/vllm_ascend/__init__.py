# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Simulated vLLM-Ascend: the platform checks, worker stages and KV connectors that the lab's engine runs.

VERSION says which release this tree stands for; whoever wraps the package into a release branch writes it.
"""

from __future__ import annotations

from pathlib import Path

__version__ = (Path(__file__).parent / "VERSION").read_text(encoding="ascii").strip()


def release() -> tuple[int, int, int]:
    """The numbers of the release without its suffix: 0.26.0rc1 gives (0, 26, 0)."""
    major, minor, patch = __version__.split("rc")[0].split(".")[:3]
    return int(major), int(minor), int(patch)
