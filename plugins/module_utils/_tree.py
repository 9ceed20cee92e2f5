# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
from __future__ import annotations

"""Reading files of a host below a root folder, so that tests can show any host as a folder."""

import os
from typing import List, Optional

# No file that a probe reads as text is larger than this, in bytes; more is cut.
LIMIT = 16 << 20


def why(path: str, error: OSError) -> str:
    """`/proc/kpageflags: Permission denied`."""
    return "{0}: {1}".format(path, error.strerror or error)


class Tree:
    """The file system of a host as seen below `root`."""

    def __init__(self, root: str = "/") -> None:
        self.root = root.rstrip("/")

    def path(self, path: str) -> str:
        """Where the host's absolute `path` is on this machine."""
        return self.root + path if self.root else path

    def text(self, path: str, reasons: Optional[List[str]] = None) -> Optional[str]:
        """The content of a text file; None, with the cause appended to `reasons`, when it cannot be read."""
        try:
            with open(self.path(path), "rb") as stream:
                return stream.read(LIMIT).decode("utf-8", "replace")
        except OSError as error:
            if reasons is not None:
                reasons.append(why(path, error))
            return None

    def line(self, path: str) -> Optional[str]:
        """The stripped content of a one-line file such as those of sysfs, None when there is none."""
        text = self.text(path)
        return text.strip() or None if text is not None else None

    def number(self, path: str) -> Optional[int]:
        """The content of a one-line file as an integer, None when it is none (sysfs says EINVAL or -1 for unknown)."""
        try:
            return int(self.line(path) or "")
        except ValueError:
            return None

    def names(self, path: str, reasons: Optional[List[str]] = None) -> List[str]:
        """The sorted entries of a folder; empty, with the cause appended to `reasons`, when it cannot be read."""
        try:
            return sorted(os.listdir(self.path(path)))
        except OSError as error:
            if reasons is not None:
                reasons.append(why(path, error))
            return []

    def exists(self, path: str) -> bool:
        return os.path.exists(self.path(path))

    def link(self, path: str) -> Optional[str]:
        """The target of a symbolic link, None when it is none."""
        try:
            return os.readlink(self.path(path))
        except OSError:
            return None
