# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Every mutation is made in a copy of the working tree, alone, and the test named for it has to fail."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .mutations import MUTATIONS, Mutation

ROOT = Path(__file__).resolve().parents[2]
LEAST = 20


def pytest_in(tree: Path, *tests: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-rf", "-p", "no:cacheprovider", *tests],
        cwd=tree,
        # Two mutations within one second could leave compiled code that looks current; and loading every installed
        # plugin takes longer than most of these tests.
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the working tree with the symlink tree and the collections of tools/setup."""
    copy = tmp_path_factory.mktemp("mutate") / "tree"
    listing = subprocess.run([str(ROOT / "tools/tree")], capture_output=True, text=True, check=True).stdout
    for name in filter(None, listing.split("\0")):
        target = copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target, follow_symlinks=False)
    namespace = copy / ".cache/dev/ansible_collections/vllm_ascend"
    namespace.mkdir(parents=True)
    (namespace / "pd_serving").symlink_to("../../../..")
    (copy / ".cache/collections").symlink_to(ROOT / ".cache/collections")
    return copy


def test_there_are_enough() -> None:
    assert len({mutation.name for mutation in MUTATIONS}) == len(MUTATIONS) >= LEAST


def test_named_tests_pass_without_mutation(tree: Path) -> None:
    result = pytest_in(tree, *sorted({mutation.caught_by for mutation in MUTATIONS}))
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_mutation_is_caught(tree: Path, mutation: Mutation) -> None:
    path = tree / mutation.file
    source = path.read_text()
    assert source.count(mutation.old) == 1, (
        f"the text to replace stands {source.count(mutation.old)} times in {mutation.file}"
    )
    path.write_text(source.replace(mutation.old, mutation.new))
    try:
        result = pytest_in(tree, mutation.caught_by)
    finally:
        path.write_text(source)
    # 1: tests ran and one failed. Anything else (2: could not be imported, 4: no such test) proves nothing.
    assert result.returncode == 1, result.stdout + result.stderr
    assert f"FAILED {mutation.caught_by}" in result.stdout
