# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""From options and connector to the sizing function: numbers in every spelling, and what MemCache's layers share."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.planner import plan
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.sizes import (
    layerwise_buffers,
    sizing_input,
    whole,
)

from .clusters import MODEL_CONFIG, cluster, engine, facts_of


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (128, 128),
        ("128", 128),
        (4.0, 4),
        ("128k", 128000),
        ("1.5k", 1500),
        ("64K", 65536),
        ("1G", 1 << 30),
        ("-1", -1),
        (4.5, None),
        ("1.5K", None),
        ("four", None),
        (True, None),
        (None, None),
        (float("inf"), None),
        (float("nan"), None),
        ("9" * 400, None),
    ],
)
def test_whole_numbers_as_vllm_reads_them(value: Any, number: int | None) -> None:
    assert whole(value) == number


def pool(**extra: Any) -> dict[str, Any]:
    return {
        "kv_connector": "AscendStoreConnector",
        "kv_connector_extra_config": {"backend": "memcache", "use_layerwise": True, **extra},
    }


@pytest.mark.parametrize(
    ("extra", "shared"),
    [
        ({"layerwise_num_shared_buffers": 3}, (3, (0,))),
        ({"layerwise_num_shared_buffers": "3", "layerwise_independent_layers": [0, -1]}, (3, (0, -1))),
        ({}, None),
        ({"layerwise_num_shared_buffers": 3, "layerwise_independent_layers": "All"}, None),
        ({"layerwise_num_shared_buffers": 3, "layerwise_independent_layers": ["x"]}, None),
        ({"layerwise_num_shared_buffers": 3, "use_layerwise": False}, None),
        ({"layerwise_num_shared_buffers": 3, "backend": "mooncake"}, None),
    ],
)
def test_layers_share_buffers_with_memcache_alone(extra: dict[str, Any], shared: Any) -> None:
    found = layerwise_buffers(
        {"kv_connector": "MultiConnector", "kv_connector_extra_config": {"connectors": [pool(**extra)]}}
    )
    assert (tuple(found.values()) or None) == shared


def test_draft_models_of_their_own_have_no_layer_in_the_pool() -> None:
    def layers(method: str) -> int:
        options = {"speculative-config": {"method": method, "num_speculative_tokens": 3}}
        return sizing_input(MODEL_CONFIG, options, {}, {}).kv_layers

    assert [layers(method) for method in ("mtp", "deepseek_mtp", "ngram")] == [62, 62, 61]


def test_a_null_takes_away_what_the_profile_says() -> None:
    """Without max-model-len the model's own length holds, and the pool is made for that."""
    facts = {"p1": facts_of("10.0.1.10"), "d1": facts_of("10.0.1.11")}
    for seen in facts.values():
        for model in seen["model"].values():
            model["config"] = {**model["config"], "max_position_embeddings": 163840}
    made = plan(*cluster(pd_vllm_args={"max-model-len": None}), facts)
    options = engine(made, "decode-d1-0")["vllm_args"]
    assert "max-model-len" not in options
    assert options["additional-config"]["sparse_kv_offload_config"]["dram_size_per_dp_GB"] == 44
    assert made["sizing"]["decode-d1"]["blocks"] == 4 * 1280 + 1
