# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Sizing against worked numbers, upstream's own golden ratios, and its exact boundaries."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils import _sizing
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._sizing import GIB, SizingInput, size
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._sizing_model import (
    EXPERTS,
    expert_weight_share,
    experts_of,
    longest_length,
)
from hypothesis import given, settings
from hypothesis import strategies as st

MODELS = Path(__file__).parents[2] / "data" / "models"


def model(name: str) -> dict:
    return json.loads((MODELS / f"{name}.json").read_text())


def decode(name: str = "DeepSeek-V3.2-W8A8", **overrides: object) -> SizingInput:
    """Decode as guide 1 runs it, with offload."""
    values = {
        "max_model_len": 132096,
        "max_num_seqs": 4,
        "max_num_batched_tokens": 120,
        "num_speculative_tokens": 3,
        "tensor_parallel_size": 16,
        "gpu_memory_utilization": 0.95,
        "sparse_kv_offload": True,
    }
    return SizingInput.from_model(model(name), **{**values, **overrides})


# ---- worked numbers of DeepSeek-V3.2 and GLM-5.1, block size 128 ----


@pytest.mark.parametrize(
    ("name", "length", "seqs", "blocks", "dram"),
    [
        ("DeepSeek-V3.2-W8A8", 132096, 1, 1033, 10),
        ("DeepSeek-V3.2-W8A8", 132096, 2, 2065, 18),
        ("DeepSeek-V3.2-W8A8", 132096, 4, 4129, 36),
        ("DeepSeek-V3.2-W8A8", 132096, 8, 8257, 71),
        ("DeepSeek-V3.2-W8A8", 132096, 16, 16513, 141),
        ("GLM-5.1-W8A8", 131072, 1, 1025, 12),
        ("GLM-5.1-W8A8", 131072, 4, 4097, 45),
        ("GLM-5.1-W8A8", 1048576, 1, 8193, 90),
        ("GLM-5.1-W8A8", 1048576, 4, 32769, 356),
    ],
)
def test_worked_table(name: str, length: int, seqs: int, blocks: int, dram: int) -> None:
    result = size(decode(name, max_model_len=length, max_num_seqs=seqs))
    assert (result.blocks, result.recommended.dram_size_per_dp_GB) == (blocks, dram)
    assert result.host_need_bytes == blocks * 128 * result.kv_layers * 1152
    assert result.bounds.capacity_gib == math.ceil((result.host_need_bytes + result.align_bytes) / GIB)


def test_guide_1_to_the_byte() -> None:
    result = size(decode())
    assert result.host_bytes_per_token == 71424
    assert result.device_bytes_per_token == 15872
    assert result.pool_bytes_per_token == 87296
    assert result.host_need_bytes == 37_748_441_088
    assert result.device_need_bytes == 8_388_542_464
    assert result.align_bytes == 62 * 3 * 2 * 2**20
    assert result.hot_rows == 16
    assert result.hot_buffer_bytes == 62 * 72 * 2**20
    assert result.recommended.topk_buffer_size == 4096
    assert result.recommended.kv_cache_memory_bytes == 8_388_542_464
    assert result.full_length_requests_fit == 4


@pytest.mark.parametrize(("rows", "batched"), [(16, 120), (12, 12)])
def test_hot_rows_are_capped_by_batched_tokens(rows: int, batched: int) -> None:
    assert size(decode(max_num_batched_tokens=batched)).hot_rows == rows


# ---- golden ratios of upstream's unit test, and GLM-5.2 as it is published ----

GOLDEN = {
    "num_hidden_layers": 4,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "index_head_dim": 128,
    "index_topk": 2048,
}


@pytest.mark.parametrize(
    ("types", "li_c8", "ratio"),
    [
        (None, False, 4.5),
        (None, True, 1152 / 130),
        (("full", "shared", "shared", "shared"), False, 18.0),
        (("full", "shared", "shared", "shared"), True, 35.44615384615385),
    ],
)
def test_golden_ratios(types: tuple[str, ...] | None, li_c8: bool, ratio: float) -> None:
    inp = SizingInput(**GOLDEN, indexer_types=types, li_c8=li_c8, sparse_kv_offload=True, max_model_len=128)
    assert size(inp).host_device_ratio == ratio


def test_glm_5_2_shares_indexers_but_the_draft_layer_keeps_its_own() -> None:
    result = size(decode("GLM-5.2-W8A8"))
    assert (result.kv_layers, result.indexer_layers) == (79, 22)
    assert result.host_device_ratio == 79 * 1152 / (22 * 256)


def test_shared_marks_count_only_where_topk_is_skipped() -> None:
    """With the default frequency of 1 upstream builds every indexer, whatever the checkpoint says."""
    config = {**model("GLM-5.2-W8A8"), "index_topk_freq": 1}
    assert SizingInput.from_model(config, num_speculative_tokens=1).indexer_layers == 79


def test_index_pattern_replaces_the_frequency() -> None:
    config = {**model("GLM-5.2-W8A8"), "index_topk_pattern": "F" * 77 + "S"}
    assert SizingInput.from_model(config).indexer_layers == 77


# ---- gates ----


@pytest.mark.parametrize(
    ("available_gib", "li_c8", "name", "passes_128"),
    [
        (28, False, "DeepSeek-V3.2-W8A8", True),
        (29, False, "DeepSeek-V3.2-W8A8", False),
        (14, True, "DeepSeek-V3.2-W8A8", True),
        (15, True, "DeepSeek-V3.2-W8A8", False),
        (8, False, "GLM-5.2-W8A8", False),
    ],
)
def test_available_gate_of_the_default_128(available_gib: int, li_c8: bool, name: str, passes_128: bool) -> None:
    """The gate follows free HBM, not the workload: the documented default fails where the indexer is small."""
    inp = decode(name, li_c8=li_c8, available_kv_bytes=available_gib * GIB, dram_size_per_dp_gib=128)
    assert size(inp).gate_passes is passes_128


def test_planned_gate_takes_the_smallest_limit() -> None:
    def planned(**overrides: object) -> _sizing.Sizing:
        return size(decode(gate=_sizing.GATE_PLANNED, **overrides))

    assert planned(available_kv_bytes=20 * GIB).planned_limit == "workload"
    assert planned(available_kv_bytes=4 * GIB).planned_limit == "npu"
    capped = planned(available_kv_bytes=20 * GIB, dram_size_per_dp_gib=20)
    assert (capped.planned_limit, capped.gate_passes, capped.full_length_requests_fit) == ("dram", True, 2)
    assert planned(available_kv_bytes=20 * GIB, dram_size_per_dp_gib=5).gate_passes is False
    assert planned(available_kv_bytes=20 * GIB).bounds.gate_gib is None


def test_dram_follows_the_gate_where_nothing_is_pinned() -> None:
    result = size(decode(available_kv_bytes=12 * GIB))
    assert result.bounds.gate_exact_gib == 54
    assert result.recommended.dram_size_per_dp_GB == 55  # with alignment


# ---- budgets and hosts ----


def test_hbm_budget_adds_up() -> None:
    result = size(decode(hbm_bytes=64 * GIB, weight_bytes=690 * 10**9))
    budget = result.hbm
    assert budget is not None and budget.weights_bytes == 690 * 10**9 // 16
    assert budget.kv_available_bytes == (
        budget.usable_bytes - budget.weights_bytes - budget.runtime_bytes - budget.hot_buffer_bytes
    )
    assert budget.fits is True
    assert size(decode("GLM-5.1-W8A8", hbm_bytes=64 * GIB, weight_bytes=10**9, max_model_len=1048576)).hbm.fits is False


@pytest.mark.parametrize("name", EXPERTS)
def test_experts_count_by_whatever_name(name: str) -> None:
    """Qwen3-MoE, ERNIE, DeepSeek, and MiniMax-M2 or Mixtral, whose experts are as wide as intermediate_size."""
    config = {"num_hidden_layers": 62, "hidden_size": 3072, "intermediate_size": 1536, "num_attention_heads": 48}
    assert expert_weight_share(config) == 0
    assert 0.9 < expert_weight_share({**config, name: 256}) < 1
    assert experts_of({**config, name: [64, 32]}) == 64


def test_experts_are_split_over_all_chips_and_the_rest_over_tensor_parallel() -> None:
    inp = decode(weight_bytes=690 * 10**9, tensor_parallel_size=4, data_parallel_size=4)
    weights = _sizing.weights_per_chip_bytes(inp)
    assert 690e9 / 16 < weights < 690e9 / 4
    assert 0.95 < inp.expert_weight_share < 0.99


def test_host_memory_bounds_dram_per_rank_and_sequences() -> None:
    inp = decode(host_available_bytes=232 * GIB, data_parallel_size=2, data_parallel_size_local=2)
    result = size(inp)
    assert result.bounds.host_limit_gib == 100
    most = result.recommended.max_num_seqs
    assert size(replace(inp, max_num_seqs=most)).bounds.capacity_gib <= 100
    assert size(replace(inp, max_num_seqs=most + 1)).bounds.capacity_gib > 100
    assert result.dram_total_host_gib == 72


def test_memcache_is_per_rank() -> None:
    """Guide 1: 10 GiB for each of 16 ranks are 160 GiB of the host."""
    prefill = decode(sparse_kv_offload=False, memcache=True, memcache_dram_gib=10)
    result = size(prefill)
    assert (result.memcache_ranks, result.memcache_dram_host_gib) == (16, 160)
    wanted = size(replace(prefill, memcache_dram_gib=None)).memcache_dram_gib_per_rank
    assert wanted * 16 * GIB >= 4 * 132096 * 87296 > (wanted - 1) * 16 * GIB


def test_layerwise_reuse_multiplies_prefills_budget() -> None:
    assert _sizing.layerwise_reuse_factor(61, 3, (0,)) == 61 / 4
    assert _sizing.layerwise_reuse_factor(61, None, (0,)) == 1.0
    assert _sizing.layerwise_reuse_factor(61, 3, (0, -1, 60)) == 61 / 5
    assert _sizing.layerwise_reuse_factor(4, 3, (0,)) == 1.0


# ---- other models ----


def test_dense_mla_has_no_host_pool() -> None:
    result = size(decode("DeepSeek-V3.1-W8A8", max_model_len=136000, hbm_bytes=64 * GIB, weight_bytes=690 * 10**9))
    assert (result.attention, result.offloads, result.host_need_bytes) == ("mla", False, 0)
    assert result.device_bytes_per_token == 62 * 1152
    assert result.recommended.dram_size_per_dp_GB is None
    assert any("index_topk" in note for note in result.notes)
    assert result.available_kv_source == "estimate" and result.tokens_fit > 0


def test_context_parallel_ranks_share_a_sequence() -> None:
    base = decode("DeepSeek-V3.1-W8A8", sparse_kv_offload=False, max_num_seqs=1, max_model_len=136000)
    shared = replace(base, prefill_context_parallel_size=2, decode_context_parallel_size=8)
    assert size(base).blocks == 1064  # 1063 and the null block
    assert size(shared).blocks == 68


@pytest.mark.parametrize(("tensor", "heads"), [(1, 4), (2, 2), (4, 1), (8, 1)])
def test_grouped_query_heads_are_split_then_replicated(tensor: int, heads: int) -> None:
    inp = SizingInput.from_model(model("Qwen3-235B-A22B"), tensor_parallel_size=tensor, max_model_len=4096)
    result = size(inp)
    assert result.attention == "gqa"
    assert result.device_bytes_per_token == 94 * 2 * heads * 128 * 2
    assert result.pool_bytes_per_token == 94 * 2 * 4 * 128 * 2


def test_compressed_and_unknown_models_say_so() -> None:
    assert (
        "compress_ratios"
        in size(SizingInput.from_model({**model("DeepSeek-V3.2-W8A8"), "compress_ratios": [1]})).notes[0]
    )
    assert size(SizingInput.from_model({"num_hidden_layers": 2})).attention == "unknown"


def test_odd_models_and_sizes_are_refused_or_noted() -> None:
    headless = {**model("DeepSeek-V3.2-W8A8"), "index_head_dim": None}
    assert size(SizingInput.from_model(headless, sparse_kv_offload=True)).attention == "unknown"
    shared = SizingInput(**GOLDEN, indexer_types=("shared",) * 4, sparse_kv_offload=True, max_model_len=128)
    assert size(shared).offloads is False
    with pytest.raises(ValueError, match="tensor_parallel_size must be 1"):
        SizingInput(tensor_parallel_size=0)


@pytest.mark.parametrize(
    ("config", "length"),
    [
        ({"max_position_embeddings": 40960}, 40960),
        # DeepSeek states the length after scaling, Qwen before: yarn counts from the original one
        (
            {
                "max_position_embeddings": 163840,
                "rope_scaling": {"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096},
            },
            163840,
        ),
        (
            {
                "max_position_embeddings": 40960,
                "rope_parameters": {
                    "rope_type": "yarn",
                    "factor": 4.0,
                    "original_max_position_embeddings": 32768,
                },
            },
            131072,
        ),
        ({"max_position_embeddings": 8192, "rope_scaling": {"rope_type": "linear", "factor": 2}}, 16384),
        ({"max_position_embeddings": 131072, "rope_scaling": {"rope_type": "llama3", "factor": 8}}, 131072),
        ({}, None),
    ],
)
def test_a_model_says_how_long_it_is(config: dict, length: int | None) -> None:
    assert longest_length(config) == length


def test_what_is_not_stated_is_what_vllm_takes() -> None:
    """256 requests of the model's own length, not one of none."""
    inp = SizingInput.from_model(model("DeepSeek-V3.2-W8A8"), sparse_kv_offload=True)
    assert (inp.max_num_seqs, inp.max_model_len, inp.max_num_batched_tokens) == (256, 163840, 2048)
    assert (inp.gpu_memory_utilization, inp.block_size) == (0.92, 128)
    assert size(inp).blocks == 256 * 1280 + 1


def test_only_the_gate_of_the_release_candidate_allocates_what_nobody_needs() -> None:
    need = 4129 * 128 * 71424 + 62 * 3 * 2 * 2**20
    assert size(decode(dram_size_per_dp_gib=512)).host_pool_bytes == 512 * GIB
    planned = {"gate": _sizing.GATE_PLANNED, "dram_size_per_dp_gib": 512}
    assert size(decode(**planned)).host_pool_bytes == need
    assert size(decode(**planned, pin_kv_cache=False)).host_pool_bytes == need  # free HBM is not known
    assert size(decode(gate=_sizing.GATE_PLANNED, dram_size_per_dp_gib=20)).host_pool_bytes <= 20 * GIB


def test_nested_text_config_and_auto() -> None:
    nested = SizingInput.from_model({"text_config": model("DeepSeek-V3.2-W8A8")}, dram_size_per_dp_gib="auto")
    assert nested.kv_lora_rank == 512 and nested.dram_size_per_dp_gib is None
    with pytest.raises(TypeError, match="dram_gib"):
        SizingInput.from_model({}, dram_gib=3)


def test_as_dict_is_json() -> None:
    result = size(decode(hbm_bytes=64 * GIB, weight_bytes=690 * 10**9)).as_dict()
    assert json.loads(json.dumps(result)) == result


# ---- properties ----

layouts = st.sampled_from(["DeepSeek-V3.2-W8A8", "GLM-5.1-W8A8", "GLM-5.2-W8A8"])
inputs = st.builds(
    decode,
    layouts,
    li_c8=st.booleans(),
    max_num_seqs=st.integers(1, 64),
    max_model_len=st.integers(1, 1 << 20),
    block_size=st.sampled_from([64, 128]),
    num_speculative_tokens=st.integers(0, 4),
    max_num_batched_tokens=st.integers(1, 4096),
)


@given(inputs)
@settings(max_examples=300)
def test_recommendation_passes_and_one_gib_less_fails(inp: SizingInput) -> None:
    """The recommended pair passes upstream's gate, makes every block, and no smaller pool holds them with alignment."""
    result = size(inp)
    dram = result.recommended.dram_size_per_dp_GB
    assert result.gate_passes is True
    assert size(replace(inp, dram_size_per_dp_gib=dram)).full_length_requests_fit >= inp.max_num_seqs
    assert result.host_need_bytes + result.align_bytes > (dram - 1) * GIB
    exact = result.bounds.gate_exact_gib
    assert _sizing.gate_passes(result.gate_needed_bytes, exact)
    assert not _sizing.gate_passes(result.gate_needed_bytes, exact - 1)
    planned = replace(inp, gate=_sizing.GATE_PLANNED, dram_size_per_dp_gib=dram)
    assert size(planned).full_length_requests_fit >= inp.max_num_seqs
    assert size(replace(planned, dram_size_per_dp_gib=max(1, dram - 1))).planned_limit == "dram" or dram == 1


@given(inputs, st.integers(1, 1 << 36))
@settings(max_examples=300)
def test_exact_gate_boundary_for_any_free_hbm(inp: SizingInput, available: int) -> None:
    result = size(replace(inp, available_kv_bytes=available))
    least = result.bounds.gate_exact_gib
    assert size(replace(inp, available_kv_bytes=available, dram_size_per_dp_gib=max(1, least))).gate_passes is True
    if least > 1:
        assert size(replace(inp, available_kv_bytes=available, dram_size_per_dp_gib=least - 1)).gate_passes is False


@given(inputs, st.sampled_from(["max_num_seqs", "max_model_len", "num_speculative_tokens"]), st.integers(1, 1000))
@settings(max_examples=300)
def test_more_work_never_needs_less(inp: SizingInput, field: str, more: int) -> None:
    small, large = size(inp), size(replace(inp, **{field: getattr(inp, field) + more}))
    for name in ("blocks", "host_need_bytes", "device_need_bytes", "hot_buffer_bytes", "dram_size_per_dp_gib"):
        assert getattr(large, name) >= getattr(small, name)


@given(inputs, st.integers(1, 1500), st.integers(10**9, 700 * 10**9))
@settings(max_examples=100)
def test_most_sequences_is_a_boundary(inp: SizingInput, host_gib: int, weights: int) -> None:
    inp = replace(inp, host_available_bytes=host_gib * GIB, hbm_bytes=64 * GIB, weight_bytes=weights)

    def fits(seqs: int) -> bool:
        result = size(replace(inp, max_num_seqs=seqs))
        return result.hbm.fits and result.bounds.capacity_gib <= result.bounds.host_limit_gib

    most = size(inp).recommended.max_num_seqs
    assert most == 0 or fits(most)
    assert most == 1024 or not fits(most + 1)


# ---- odd input ----

ODD = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.lists(st.integers(), max_size=2)
)
NAMES = sorted({*model("DeepSeek-V3.2-W8A8"), "layer_types", "indexer_types", "index_topk_pattern", "rope_scaling"})


@given(st.dictionaries(st.sampled_from(NAMES), ODD | st.fixed_dictionaries({"type": st.just("yarn"), "factor": ODD})))
@settings(max_examples=300)
def test_whatever_stands_in_config_json_is_no_crash(odd: dict[str, object]) -> None:
    size(SizingInput.from_model({**model("DeepSeek-V3.2-W8A8"), **odd}, max_num_seqs=4, sparse_kv_offload=True))


def test_absurd_sizes_end() -> None:
    """Here upstream's floating point numbers do not move by single bytes any more."""
    for name in ("DeepSeek-V3.2-W8A8", "GLM-5.2-W8A8"):
        inp = decode(name, max_num_seqs=10**18)
        pinned = _sizing.pinned_kv_cache_bytes(inp)
        assert pinned >= _sizing.blocks_needed(inp) * _sizing.device_page_bytes(inp)


@given(st.integers(1, 300), st.integers(2, 2000))
def test_the_pinned_size_is_the_least(seqs: int, blocks: int) -> None:
    inp = decode("GLM-5.2-W8A8", max_num_seqs=seqs, max_model_len=128 * blocks)
    need, host, device = _sizing.blocks_needed(inp), _sizing.host_page_bytes(inp), _sizing.device_page_bytes(inp)

    def made(value: int) -> int:
        return int(value + _sizing.gate_needed_bytes(host, device, value)) // (host + device)

    pinned = _sizing.pinned_kv_cache_bytes(inp)
    assert made(pinned) >= need
    assert pinned == need * device or made(pinned - 1) < need
