# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Reading files of a host below a root folder, so that tests can show any host as a folder."""

from __future__ import annotations

import os
import re
from pathlib import Path

# No file that a probe reads as text is larger than this, in bytes; more is cut.
LIMIT = 16 << 20


def why(path: str, error: OSError) -> str:
    """`/proc/kpageflags: Permission denied`."""
    return f"{path}: {error.strerror or error}"


class Tree:
    """The file system of a host as seen below `root`."""

    def __init__(self, root: str = "/") -> None:
        self.root = Path(root)

    def path(self, path: str) -> Path:
        """Where the host's absolute `path` is on this machine."""
        return self.root / path.lstrip("/")

    def text(self, path: str, reasons: list[str] | None = None) -> str | None:
        """The content of a text file; None, with the cause appended to `reasons`, when it cannot be read."""
        parts: list[bytes] = []
        try:
            with self.path(path).open("rb") as stream:
                # In pieces: files of /proc/sys refuse a read that asks for megabytes at once.
                while not parts or (parts[-1] and len(parts) << 16 < LIMIT):
                    parts.append(stream.read(1 << 16))
        except OSError as error:
            if reasons is not None:
                reasons.append(why(path, error))
            return None
        return b"".join(parts).decode("utf-8", "replace")

    def line(self, path: str) -> str | None:
        """The stripped content of a one-line file such as those of sysfs, None when there is none."""
        return (self.text(path) or "").strip() or None

    def number(self, path: str) -> int | None:
        """The content of a one-line file as an integer, None when it is none (sysfs says EINVAL or -1 for unknown)."""
        try:
            return int(self.line(path) or "")
        except ValueError:
            return None

    def names(self, path: str, reasons: list[str] | None = None) -> list[str]:
        """The sorted entries of a folder; empty, with the cause appended to `reasons`, when it cannot be read."""
        try:
            return sorted(entry.name for entry in self.path(path).iterdir())
        except OSError as error:
            if reasons is not None:
                reasons.append(why(path, error))
            return []

    def exists(self, path: str) -> bool:
        try:
            return self.path(path).exists()
        except OSError:  # not allowed to look
            return False

    def link(self, path: str) -> str | None:
        """The target of a symbolic link, None when it is none."""
        try:
            return os.readlink(self.path(path))
        except OSError:
            return None


def device_nodes(tree: Tree) -> list[int]:
    """Numbers n of the /dev/davinci<n> that exist: the physical ids of the chips this host (or container) may use."""
    matches = (re.fullmatch(r"davinci([0-9]{1,4})", name) for name in tree.names("/dev"))
    return sorted(int(match.group(1)) for match in matches if match)
