# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Simulated vLLM engine of the lab: vLLM's command line, start-up order, ports and API without a model.

VERSION says which vLLM this tree stands for; whoever wraps the package into a release branch writes it.
"""

from __future__ import annotations

from pathlib import Path

__version__ = (Path(__file__).parent / "VERSION").read_text(encoding="ascii").strip()
