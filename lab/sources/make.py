# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Make what the depot serves: python3 make.py OUTDIR.

OUTDIR/git/<owner>/<repo>.git  bare repositories
OUTDIR/pip/simple/             PEP 503 index with its files
OUTDIR/files/dnf/              stand-in packages of the image's distribution
OUTDIR/cache/                  downloads, a virtual environment, and what the last run was made from

Each of the first three is made anew in one piece, and only when what it is made from has changed.
"""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import io
import os
import shutil
import sys
import tarfile
import tomllib
from collections.abc import Callable
from pathlib import Path

import registry
import repos

HERE = Path(__file__).parent


def digest(*roots: Path) -> str:
    """Digest of the content, the names and the executable bits of files and folders."""
    total = hashlib.sha256()
    for root in roots:
        for file in sorted(root.rglob("*")) if root.is_dir() else [root]:
            if file.is_file() and "__pycache__" not in file.parts:
                total.update(f"{file.relative_to(root.parent)}\0{os.access(file, os.X_OK)}\0".encode())
                total.update(hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()


def renew(target: Path, stamp: Path, inputs: str, make: Callable[[Path], None]) -> None:
    """Make `target` in a folder beside it and swap it in, unless it was made from the same inputs."""
    if target.is_dir() and stamp.exists() and stamp.read_text() == inputs:
        return
    fresh, old = target.with_name(f"{target.name}.new"), target.with_name(f"{target.name}.old")
    for leftover in (fresh, old):
        shutil.rmtree(leftover, ignore_errors=True)
    fresh.mkdir(parents=True)
    make(fresh)
    if target.exists():
        target.rename(old)
    fresh.rename(target)
    shutil.rmtree(old, ignore_errors=True)
    stamp.write_text(inputs)
    print(f"depot: {target.name} made anew")


def make_files(folder: Path) -> None:
    """One .tar.gz per stand-in distribution package, the same bytes every time."""
    (folder / "dnf").mkdir()
    for package in sorted((HERE / "dnf").iterdir()):
        raw = io.BytesIO()
        with tarfile.open(fileobj=raw, mode="w") as tar:
            for path in sorted(package.rglob("*")):
                info = tar.gettarinfo(path, path.relative_to(package).as_posix())
                info.uid = info.gid = info.mtime = 0
                info.uname = info.gname = "root"
                with path.open("rb") if info.isreg() else io.BytesIO() as content:
                    tar.addfile(info, content)
        (folder / "dnf" / f"{package.name}.tar.gz").write_bytes(gzip.compress(raw.getvalue(), mtime=0))


def main(out: Path) -> None:
    cache = out / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        packages = tomllib.loads((HERE / "packages.toml").read_text())
        python = registry.make_tools(cache / "venv")
        registry.fetch_sdists(python, packages["sdist"], cache / "sdists")
        standins = [HERE / "trees" / spec["tree"] for spec in packages["standin"] if "tree" in spec]
        wheels_from = digest(HERE / "packages.toml", HERE / "registry.py", *standins)
        renew(
            out / "pip",
            cache / "pip.stamp",
            wheels_from,
            lambda folder: registry.make_index(python, packages, cache / "wheels", folder / "simple"),
        )
        trees_from = wheels_from + digest(*repos.INPUTS)
        renew(
            out / "git",
            cache / "git.stamp",
            trees_from,
            lambda folder: repos.write_all(cache / "sdists", cache / "wheels", folder),
        )
        renew(out / "files", cache / "files.stamp", digest(HERE / "dnf", HERE / "make.py"), make_files)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]).resolve())
