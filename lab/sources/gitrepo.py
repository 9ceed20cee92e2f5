# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Trees of files and bare git repositories whose commit ids depend on nothing but their content."""

from __future__ import annotations

import os
import subprocess
import tarfile
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

EPOCH = 1787356800  # 2026-08-22 00:00 UTC, the day of the upstream branch tips; each commit is a day later
IDENTITY = "Lab Depot <depot@lab.invalid>"


class Entry(NamedTuple):
    """A file of a tree; mode is git's: 100644, 100755, or 160000 for a submodule (content = commit id)."""

    content: bytes
    mode: str = "100644"


Tree = dict[str, Entry]  # path inside the tree -> entry


def folder_tree(folder: Path, prefix: str = "") -> Tree:
    """Every file below `folder`; compiled Python is left out."""
    tree: Tree = {}
    for file in sorted(folder.rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            mode = "100755" if os.access(file, os.X_OK) and file.stat().st_mode & 0o111 else "100644"
            tree[prefix + file.relative_to(folder).as_posix()] = Entry(file.read_bytes(), mode)
    return tree


def sdist_tree(archive: Path, paths: Iterable[str]) -> Tree:
    """The files of a source distribution that lie at or below one of `paths`."""
    wanted = tuple(paths)
    tree: Tree = {}
    with tarfile.open(archive) as tar:
        for member in tar:
            path = member.name.partition("/")[2]
            if member.isfile() and any(path == want or path.startswith(f"{want}/") for want in wanted):
                content = tar.extractfile(member)
                assert content is not None  # isfile() was asked
                tree[path] = Entry(content.read())
    return tree


def wheel_tree(archive: Path, folder: str, prefix: str) -> Tree:
    """The files of a wheel below `folder`, under the name `prefix`."""
    with zipfile.ZipFile(archive) as wheel:
        names = [name for name in wheel.namelist() if name.startswith(folder) and not name.endswith("/")]
        return {prefix + name.removeprefix(folder): Entry(wheel.read(name)) for name in names}


@dataclass
class Commit:
    """One commit: the whole tree, and the branches and tags that end up on it."""

    message: str
    tree: Tree
    branches: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)


def write_bare(path: Path, *lines: list[Commit], head: str = "main") -> dict[str, str]:
    """Make a bare repository of several lines of commits, each growing from the one before in its list.

    Returns the commit id of every branch and tag.
    """
    path.mkdir(parents=True)
    _git(path, "init", "-q", "--bare", f"--initial-branch={head}", ".")
    stream = bytearray()
    mark, day = 0, 0
    for line in lines:
        parent = None
        for commit in line:
            mark, day = mark + 1, day + 1
            when = f"{IDENTITY} {EPOCH + 86400 * day} +0000"
            stream += f"commit refs/import/{mark}\nmark :{mark}\nauthor {when}\ncommitter {when}\n".encode()
            stream += _data(commit.message.encode())
            stream += f"from :{parent}\n".encode() if parent else b""
            stream += b"deleteall\n"
            for name, entry in sorted(commit.tree.items()):
                if entry.mode == "160000":
                    stream += f"M 160000 {entry.content.decode()} {name}\n".encode()
                else:
                    stream += f"M {entry.mode} inline {name}\n".encode() + _data(entry.content)
            stream += b"\n"
            for ref in [f"refs/heads/{b}" for b in commit.branches] + [f"refs/tags/{t}" for t in commit.tags]:
                stream += f"reset {ref}\nfrom :{mark}\n\n".encode()
            parent = mark
    subprocess.run(["git", "-C", path, "fast-import", "--quiet", "--force"], input=bytes(stream), check=True)
    for number in range(1, mark + 1):
        _git(path, "update-ref", "-d", f"refs/import/{number}")
    _git(path, "config", "uploadpack.allowAnySHA1InWant", "true")  # as the public forges do: fetch by commit id
    shown = _git(path, "for-each-ref", "--format=%(refname:lstrip=2) %(objectname)")
    return dict(entry.split() for entry in shown.splitlines())


def _data(content: bytes) -> bytes:
    return f"data {len(content)}\n".encode() + content + b"\n"


def _git(path: Path, *args: str) -> str:
    return subprocess.run(["git", "-C", path, *args], check=True, capture_output=True, text=True).stdout
