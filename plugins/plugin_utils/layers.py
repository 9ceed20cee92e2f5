# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Layers of settings: later ones lie on earlier ones, mappings merge, ``None`` removes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any


def merge(*layers: Mapping[str, Any] | None) -> dict[str, Any]:
    """Lay mappings over each other, weakest first. Nothing given is changed or shared with the result's mappings."""
    result: dict[str, Any] = {}
    for layer in layers:
        for key, value in (layer or {}).items():
            if value is None:
                result.pop(key, None)
            elif isinstance(value, Mapping):
                below = result.get(key)
                result[key] = merge(below if isinstance(below, Mapping) else None, value)
            else:
                result[key] = value
    return result


def stated_in(layers: Iterable[tuple[str, Mapping[str, Any]]]) -> dict[str, str]:
    """Path such as ``additional-config.refresh`` -> the last of these named layers, weakest first, that states it."""
    return {path: name for name, layer in layers for path in _paths(layer)}


def _paths(layer: Mapping[str, Any], above: str = "") -> Iterator[str]:
    for key, value in layer.items():
        yield f"{above}{key}"
        if isinstance(value, Mapping):
            yield from _paths(value, f"{above}{key}.")
