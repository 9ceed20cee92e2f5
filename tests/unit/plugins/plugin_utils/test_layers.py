# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Layers of settings."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.layers import merge


@pytest.mark.parametrize(
    ("layers", "result"),
    [
        ([{"a": 1}, {"b": 2}], {"a": 1, "b": 2}),
        ([{"a": 1}, {"a": 2}], {"a": 2}),
        ([{"a": {"x": 1, "y": 2}}, {"a": {"y": 3}}], {"a": {"x": 1, "y": 3}}),
        ([{"a": {"x": 1, "y": 2}}, {"a": {"y": None}}], {"a": {"x": 1}}),
        ([{"a": 1}, {"a": None}], {}),
        ([{"a": 1}, {"a": None}, {"a": 3}], {"a": 3}),
        ([{"a": None}], {}),
        ([{"a": 1}, {"a": {"x": None, "y": 1}}], {"a": {"y": 1}}),
        ([{"a": [1, 2]}, {"a": [3]}], {"a": [3]}),
        ([{"a": 1}, None], {"a": 1}),
        ([{"a": False}, {"a": 0}], {"a": 0}),
    ],
)
def test_merge(layers: list[dict[str, Any] | None], result: dict[str, Any]) -> None:
    assert merge(*layers) == result


def test_nothing_is_shared_with_the_layers() -> None:
    below: dict[str, Any] = {"a": {"x": 1}}
    result = merge(below)
    result["a"]["x"] = 2
    assert below == {"a": {"x": 1}}
