# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""What is sent to targets compiles on every Python from 3.8 on, and imports nothing but the standard library."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from .conftest import COLLECTION, ROOT

UTILS = sorted((ROOT / "plugins/module_utils").glob("*.py"))
SENT = [*UTILS, *sorted((ROOT / "plugins/modules").glob("*.py"))]


def pythons() -> dict[str, str]:
    """One interpreter for each version from 3.8 on: version -> path."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    candidates = [
        *map(str, pyenv.glob("versions/*/bin/python3")),
        *(f"python3.{minor}" for minor in range(8, 15)),
        "python3",
    ]
    found = {}
    for candidate in candidates:
        try:
            answer = subprocess.run(
                [candidate, "-c", "import sys; print(*sys.version_info[:2], sys.executable)"],
                capture_output=True,
                text=True,
                check=True,
            ).stdout.split()
        except (OSError, subprocess.CalledProcessError):
            continue  # not installed, or a pyenv shim of a version that is not active
        if (int(answer[0]), int(answer[1])) >= (3, 8):
            found[".".join(answer[:2])] = answer[2]
    return found


@pytest.mark.parametrize(("version", "python"), sorted(pythons().items()))
def test_compiles_and_imports(version: str, python: str) -> None:
    package = f"ansible_collections.{COLLECTION}.plugins.module_utils"
    script = [
        "import importlib, sys",
        *(f"compile(open({str(path)!r}).read(), {path.name!r}, 'exec')" for path in SENT),
        *(f"importlib.import_module('{package}.{path.stem}')" for path in UTILS if path.stem != "__init__"),
    ]
    result = subprocess.run(
        [python, "-c", "\n".join(script)],
        env={"PYTHONPATH": str(ROOT / ".cache/dev"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, ""), version
