# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""How large a safetensors file ought to be, from its header: tells a file that was only half downloaded.

Format: eight bytes little-endian length of the header, the header as JSON, the data; the header names for each
tensor where its data ends, counted from the header's end.
"""

from __future__ import annotations

import json
from typing import BinaryIO

_LENGTH = 8
_LONGEST_HEADER = 100 << 20  # bytes; the limit of the safetensors library


def expected_bytes(stream: BinaryIO) -> int | None:
    """Size in bytes that the file must have at least; None when it has no readable header."""
    start = stream.read(_LENGTH)
    if len(start) < _LENGTH:
        return _LENGTH
    length = int.from_bytes(start, "little")
    if not 0 < length <= _LONGEST_HEADER:
        return None
    header = stream.read(length)
    if len(header) < length:
        return _LENGTH + length
    try:
        tensors = json.loads(header.decode("utf-8"))
        ends = [tensor["data_offsets"][1] for name, tensor in tensors.items() if name != "__metadata__"]
        return _LENGTH + length + int(max(ends, default=0))
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError, OverflowError):
        return None
