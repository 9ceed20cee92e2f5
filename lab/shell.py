# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Running commands, telling progress, and one kind of error that is shown without a traceback."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


class LabError(Exception):
    """Something the user can mend; its text says how."""


def run(*argv: str | Path, env: Mapping[str, str] | None = None, stdin: str | None = None) -> str:
    """Run a command and return its output; a failure is a LabError with the last lines of what it said."""
    done = subprocess.run(
        [str(arg) for arg in argv],
        env={**os.environ, **(env or {})},
        input=stdin or "",
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        said = "\n".join((done.stdout + done.stderr).splitlines()[-25:])
        raise LabError(f"failed ({done.returncode}): {' '.join(str(arg) for arg in argv)}\n{said}")
    return done.stdout


def succeeds(*argv: str | Path) -> bool:
    """Whether a command ends with status 0; its output is not wanted."""
    done = subprocess.run([str(arg) for arg in argv], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return done.returncode == 0


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@contextmanager
def step(what: str) -> Iterator[None]:
    """Tell what is being done, and afterwards how long it took."""
    start = time.monotonic()
    say(f"  {what} ...")
    yield
    say(f"  {what}: {time.monotonic() - start:.1f} s")


def digest(*parts: str | Path) -> str:
    """Short hash over texts and the files below paths (names and contents), for 'has this changed?'."""
    total = hashlib.sha256()
    for part in parts:
        if isinstance(part, str):
            total.update(part.encode() + b"\0")
            continue
        for path in sorted(_files(part)):
            total.update(str(path.relative_to(part.parent)).encode() + b"\0")
            total.update(str(path.readlink()).encode() if path.is_symlink() else path.read_bytes())
            total.update(b"x" if os.access(path, os.X_OK) else b"-")
    return total.hexdigest()[:16]


def _files(path: Path) -> Iterable[Path]:
    if path.is_dir() and not path.is_symlink():
        return (p for p in path.rglob("*") if (p.is_file() or p.is_symlink()) and "__pycache__" not in p.parts)
    return [path] if path.exists() else []


def remove(path: Path) -> None:
    """Remove a folder or file if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
