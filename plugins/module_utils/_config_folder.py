# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""A folder that holds exactly the wanted files: what differs, and how it is put right.

The digest names the content, so that a container can carry it as a label and be recreated when it changes.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

# Files below this folder of a config folder are secrets: never shown, not even in a diff.
SECRETS = "secrets/"


class File(NamedTuple):
    """One wanted file."""

    content: str
    mode: int  # permission bits


class Change(NamedTuple):
    """One difference between what is and what shall be. `before` and `after` are None where there is no file."""

    path: str
    before: File | None
    after: File | None


def parse_files(files: dict[str, Any]) -> dict[str, File]:
    """Wanted files from plain data: relative path -> {content, mode}; ValueError names what cannot be."""
    wanted = {}
    for path, file in files.items():
        if path != str(Path(path)) or Path(path).is_absolute() or ".." in Path(path).parts or path == ".":
            raise ValueError(f"[{path}] is not a plain relative path")
        mode = int(str(file.get("mode", "0644")), 8)
        if not 0 <= mode <= 0o777:
            raise ValueError("[{}] is not the mode of a file ({})".format(file["mode"], path))
        wanted[path] = File(str(file["content"]), mode)
    return wanted


def digest(wanted: dict[str, File]) -> str:
    """A name for the content: equal for equal paths, modes and contents, 16 hexadecimal digits."""
    text = json.dumps(sorted((path, file.mode, file.content) for path, file in wanted.items()))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def read(folder: str) -> dict[str, File]:
    """The files below `folder`, none where it does not exist."""
    root = Path(folder)
    return {
        str(path.relative_to(root)): File(
            path.read_bytes().decode("utf-8", "replace"), stat.S_IMODE(path.stat().st_mode)
        )
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def compare(found: dict[str, File], wanted: dict[str, File]) -> list[Change]:
    """What has to change, in the order of the paths."""
    paths = sorted(set(found) | set(wanted))
    return [Change(p, found.get(p), wanted.get(p)) for p in paths if found.get(p) != wanted.get(p)]


def apply(folder: str, changes: list[Change], mode: int) -> None:
    """Make the changes. A reader sees each file either as it was or as it shall be."""
    root = Path(folder)
    provide([folder], mode)
    for change in changes:
        path = root / change.path
        if change.after is None:
            path.unlink()
        else:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _replace(path, change.after)
    for place in sorted((p for p in root.rglob("*") if p.is_dir()), reverse=True):
        if not any(place.iterdir()):
            place.rmdir()


def _replace(path: Path, file: File) -> None:
    handle, name = tempfile.mkstemp(dir=str(path.parent), prefix=".new-")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(file.content.encode())
        Path(name).chmod(file.mode)
        Path(name).replace(path)
    except OSError:
        Path(name).unlink()
        raise


def lacking(folders: list[str], mode: int) -> list[str]:
    """Those of these folders that are not there, or have other permissions."""
    return [f for f in folders if not Path(f).is_dir() or stat.S_IMODE(Path(f).stat().st_mode) != mode]


def provide(folders: list[str], mode: int) -> None:
    """Make these folders, or give them these permissions; what is in them is left alone."""
    for folder in folders:
        Path(folder).mkdir(parents=True, exist_ok=True)
        Path(folder).chmod(mode)


def diff(folder: str, changes: list[Change]) -> list[dict[str, str]]:
    """The changes as Ansible shows them with --diff."""
    return [
        {
            "before_header": str(Path(folder, change.path)) + _mode(change.before),
            "after_header": str(Path(folder, change.path)) + _mode(change.after),
            "before": _shown(change.path, change.before),
            "after": _shown(change.path, change.after),
        }
        for change in changes
    ]


def _mode(file: File | None) -> str:
    return " (absent)" if file is None else f" (mode {file.mode:04o})"


def _shown(path: str, file: File | None) -> str:
    if file is None:
        return ""
    return "(a secret, not shown)\n" if path.startswith(SECRETS) else file.content
