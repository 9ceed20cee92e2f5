# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""What the checks of the repository as a whole share."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COLLECTION = "vllm_ascend.pd_serving"
BIN = Path(sys.executable).parent


def run(*argv: str, cwd: Path = ROOT, env: Mapping[str, str] | None = None) -> str:
    """Standard output of a tool of the virtual environment; its whole output where it fails."""
    result = subprocess.run(
        [str(BIN / argv[0]), *argv[1:]],
        cwd=cwd,
        env={**os.environ, "ANSIBLE_NOCOLOR": "1", **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode != 0:
        raise AssertionError(f"{' '.join(argv)} ended with {result.returncode}\n{result.stdout}\n{result.stderr}")
    return result.stdout
