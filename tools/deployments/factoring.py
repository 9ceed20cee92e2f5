# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""What mappings have in common, and what is left of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_MISSING = object()


def common(values: Sequence[Mapping[str, Any]], deep: bool = True) -> dict[str, Any]:
    """Entries that all mappings have alike; ``deep``: also the common part of mappings inside."""
    if not values:
        return {}
    result: dict[str, Any] = {}
    for key, value in values[0].items():
        others = [other.get(key, _MISSING) for other in values[1:]]
        if all(other == value and type(other) is type(value) for other in others):
            result[key] = value
        elif deep and isinstance(value, Mapping) and all(isinstance(other, Mapping) for other in others):
            inner = common([value, *others])
            if inner:
                result[key] = inner
    return result


def remainder(value: Mapping[str, Any], below: Mapping[str, Any]) -> dict[str, Any]:
    """What must lie on ``below`` to give ``value``. Nothing of ``below`` may be unwanted."""
    result: dict[str, Any] = {}
    for key, own in value.items():
        under = below.get(key, _MISSING)
        if isinstance(own, Mapping) and isinstance(under, Mapping):
            rest = remainder(own, under)
            if rest:
                result[key] = rest
        elif own != under or type(own) is not type(under):
            result[key] = own
    return result


def all_equal(values: Iterable[Any]) -> bool:
    items = list(values)
    return all(item == items[0] for item in items)
