# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Entry for `python3 CHECKOUT/lab`: makes the folder importable as the package `lab`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent)

from lab.cli import main  # noqa: E402  (the path has to be set first)

sys.exit(main())
