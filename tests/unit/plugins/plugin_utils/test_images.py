# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
from __future__ import annotations

import pytest
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.images import image_references

IMAGES = {"decode": {"base": "b:1", "layers": ["vllm", "memfabric"]}, "prefill": {"base": "b:1", "layers": []}}


@pytest.mark.parametrize(
    ("build", "tags", "references"),
    [
        (True, {"vllm": "1", "memfabric": "2"}, {"decode": "vllm-ascend-pd/memfabric:2", "prefill": "b:1"}),
        (True, {"vllm": "1"}, {"decode": "vllm-ascend-pd/decode:current", "prefill": "b:1"}),
        (False, {}, {"decode": "b:1", "prefill": "b:1"}),
    ],
)
def test_image_references(build: bool, tags: dict[str, str], references: dict[str, str]) -> None:
    assert image_references(IMAGES, build, tags) == references
