# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""What tests of target code share: interpreters, sample outputs, hosts shown as folders, tools shown as scripts."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

# On a busy machine a call may take any time; what is tested is what it says.
settings.register_profile("busy", deadline=None)
settings.load_profile("busy")

DATA = Path(__file__).parents[1] / "data"

# Every Python that the collection supports on targets.
TARGET_MINORS = range(8, 14)


def _works(python: Path, minor: int) -> bool:
    """Asked, not judged by its name: a pyenv shim may stand for a version that is not active."""
    probe = f"import sys; raise SystemExit(sys.version_info[:2] != (3, {minor}))"
    return subprocess.run([python, "-c", probe], capture_output=True, check=False).returncode == 0


@pytest.fixture(scope="session")
def interpreters() -> dict[int, Path]:
    """Path of a Python 3.x by x, of those on PATH or kept by pyenv."""
    found: dict[int, Path] = {}
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    for minor in TARGET_MINORS:
        on_path = shutil.which(f"python3.{minor}")
        places = [Path(on_path)] if on_path else []
        places += sorted(root.glob(f"versions/3.{minor}.*/bin/python"))
        working = next((place for place in places if _works(place, minor)), None)
        if working:
            found[minor] = working
    return found


@pytest.fixture
def sample() -> Callable[[str], str]:
    """The text of a file below tests/unit/data."""
    return lambda name: (DATA / name).read_text()


@pytest.fixture
def host(tmp_path: Path) -> Callable[[dict[str, str]], Path]:
    """Show a host as a folder: {path: content}; `-> target` as content makes a link, a path ending in / a folder."""

    def build(files: dict[str, str]) -> Path:
        root = tmp_path / "host"
        for name, content in files.items():
            place = root / name.lstrip("/")
            if name.endswith("/"):
                place.mkdir(parents=True, exist_ok=True)
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            if content.startswith("-> "):
                place.symlink_to(content[3:])
            else:
                place.write_text(content)
        return root

    return build


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    """Put a bash script of that name before everything else in PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def write(name: str, script: str) -> Path:
        place = folder / name
        place.write_text(f"#!/bin/bash\n{script}\n")
        place.chmod(0o755)
        return place

    return write


@pytest.fixture(scope="session")
def collection_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for PYTHONPATH under which this checkout is found by its collection name, and nothing else is."""
    root = tmp_path_factory.mktemp("collections")
    parent = root / "ansible_collections" / "vllm_ascend"
    parent.mkdir(parents=True)
    (parent / "pd_serving").symlink_to(Path(__file__).parents[3])
    return root
