# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Small readers and writers of text that several faces need."""

from __future__ import annotations

import re
from typing import Iterable


def key_values(text: str, separator: str = "=") -> dict[str, str]:
    """`key=value` lines; comments, blank lines and quotes around values are dropped."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        key, mark, value = line.strip().partition(separator)
        if mark and key.strip() and not key.startswith("#"):
            found[key.strip()] = value.strip().strip("\"'")
    return found


def parse_ranges(text: str) -> list[tuple[int, int]]:
    """`8080,9148-9150` as [(8080, 8080), (9148, 9150)]; parts that are no range are passed over."""
    found = []
    for part in re.split(r"[,\s]+", text):
        match = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", part)
        if match:
            found.append((int(match.group(1)), int(match.group(2) or match.group(1))))
    return found


def format_ranges(numbers: Iterable[int]) -> str:
    """[0, 1, 2, 5] as `0-2,5`."""
    parts: list[list[int]] = []
    for number in sorted(set(numbers)):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)


def mask_credentials(value: str) -> str:
    """`http://user:secret@proxy:3128` as `http://***@proxy:3128`."""
    return re.sub(r"(\w+://)[^/@\s]+@", r"\1***@", value)
