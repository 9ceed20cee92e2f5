# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""What stands in every file, and what must not stand in any."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from .conftest import ROOT

HEADER = (
    "# Copyright (c) 2026 vllm_ascend.pd_serving contributors\n"
    "# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)\n"
)
SHEBANG = re.compile(r"\A#!.*\n")  # which may stand where in plugins/ is ansible-test's business
# Registries are whatever the user's tools are set up for; absolute paths are somebody's machine.
FORBIDDEN = re.compile(r"(pypi|pythonhosted|npmjs|debian)\.org|/(work|farm)/|/root/\.pyenv")


def files() -> dict[Path, str]:
    listing = subprocess.run([str(ROOT / "tools/tree")], capture_output=True, text=True, check=True).stdout
    result = {}
    for name in listing.split("\0"):
        path = ROOT / name
        if name and path.is_file() and not path.is_symlink():
            try:
                result[Path(name)] = path.read_text()
            except UnicodeDecodeError:
                continue  # a picture or an archive
    return result


def test_python_files_say_whose_they_are() -> None:
    # Stand-ins of other projects' source trees are built like those, not like ours.
    ours = {path: text for path, text in files().items() if path.suffix == ".py" and "trees" not in path.parts and text}
    assert [str(path) for path, text in ours.items() if not SHEBANG.sub("", text).startswith(HEADER)] == []


def test_no_registry_and_no_path_of_a_machine() -> None:
    found = [
        f"{path}:{number}: {line.strip()[:120]}"
        for path, text in files().items()
        for number, line in enumerate(text.splitlines(), 1)
        if FORBIDDEN.search(line)
    ]
    assert found == []
