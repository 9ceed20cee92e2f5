# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""What the build scripts of all layers share, run by bash with git and without a container."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

LIB = Path(__file__).resolve().parents[4] / "roles/container/files/build-lib"
URL = "https://builder:open-sesame@git.invalid/group/thing.git"


@pytest.fixture
def build(tmp_path: Path) -> Path:
    """The folder that is /build in a builder; its git finds the repository of URL on this machine."""
    folder, repository = tmp_path / "build", tmp_path / "thing"
    folder.mkdir()
    shutil.copy(LIB, folder / "lib")
    (folder / "env").write_text(
        f"GIT_CONFIG_COUNT=1\nGIT_CONFIG_KEY_0=url.{repository.as_uri()}.insteadOf\nGIT_CONFIG_VALUE_0={URL}\n"
        "GIT_AUTHOR_NAME=x\nGIT_AUTHOR_EMAIL=x@x.invalid\nGIT_COMMITTER_NAME=x\nGIT_COMMITTER_EMAIL=x@x.invalid\n"
    )
    (folder / "environment-scripts").write_text("")
    (folder / "sources").write_text(f"thing {URL} main\n")
    git("init", "--quiet", "--initial-branch=main", str(repository), cwd=tmp_path)
    git(
        "-c",
        "user.name=x",
        "-c",
        "user.email=x@x.invalid",
        "commit",
        "--quiet",
        "--allow-empty",
        "-m",
        "first",
        cwd=repository,
    )
    git("-c", "user.name=x", "-c", "user.email=x@x.invalid", "tag", "-a", "-m", "v1", "v1", cwd=repository)
    return folder


def git(*words: str, cwd: Path) -> str:
    return subprocess.run(["git", *words], cwd=cwd, capture_output=True, text=True, check=True).stdout.strip()


def bash(build: Path, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A build script of this text."""
    (build / "build").write_text(f'source "$(dirname "$0")/lib" "$@"\n{script}\n')
    argv = ["bash", str(build / "build"), *arguments]
    return subprocess.run(argv, cwd=build.parent, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("ref", ["main", "v1"])
def test_branch_and_annotated_tag_become_the_same_commit(build: Path, ref: str) -> None:
    (build / "sources").write_text(f"thing {URL} {ref}\n")
    commit = git("rev-parse", "HEAD", cwd=build.parent / "thing")
    assert bash(build, "", "resolve").stdout == f"thing={commit}\n"


def test_a_reference_that_is_not_there_is_named(build: Path) -> None:
    (build / "sources").write_text(f"thing {URL} no-such\n")
    done = bash(build, "", "resolve")
    assert done.returncode != 0
    assert "has neither a branch nor a tag [no-such]" in done.stderr


def test_a_password_in_an_address_does_not_stay_in_the_checkout(build: Path) -> None:
    commit = git("rev-parse", "HEAD", cwd=build.parent / "thing")
    checkout = build.parent / "checkout"
    done = bash(build, f"checkout thing {checkout}", "tag", f"thing={commit}")
    assert done.returncode == 0, done.stderr
    assert git("rev-parse", "HEAD", cwd=checkout) == commit
    assert git("config", "remote.origin.url", cwd=checkout) == "https://git.invalid/group/thing.git"
    assert all("open-sesame" not in file.read_text(errors="replace") for file in checkout.rglob("*") if file.is_file())


@pytest.mark.parametrize(
    ("installed", "refused"), [(None, "has no"), ("1.2.0", "is 1.2.0 in"), ("1.2.1", ""), ("no link", "")]
)
def test_what_is_preinstalled_must_be_whole(build: Path, installed: str | None, refused: str) -> None:
    root = build.parent / "installed"
    if installed:
        (root / installed).mkdir(parents=True)
        (root / "set_env.sh").write_text("")
    if installed and installed != "no link":
        (root / "latest").symlink_to(installed)
    python = build.parent / "bin" / "python3"
    python.parent.mkdir()
    python.write_text("#!/bin/sh\necho 1.2.1\n")
    python.chmod(0o755)
    done = bash(build, f"PATH={python.parent}:$PATH\nstep look\ntake_preinstalled thing {root}\necho taken", "tag")
    assert ("taken" in done.stdout) == (not refused)
    assert refused in done.stderr
    assert ("==> failed: look" in done.stdout) == bool(refused)
