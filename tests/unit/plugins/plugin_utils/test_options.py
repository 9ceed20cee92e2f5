# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Options: every spelling means the same, and the file says what vLLM will read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.options import (
    OptionError,
    OptionTable,
    is_known,
    option_table,
    versions,
)

TABLE = option_table("0.26.0")


@pytest.mark.parametrize(
    ("argv", "meaning"),
    [
        (["m"], {"model": "m"}),
        (["--model", "m"], {"model": "m"}),
        (["--max-num-seqs", "4"], {"max-num-seqs": 4}),
        (["--max_num_seqs", "4"], {"max-num-seqs": 4}),
        (["--max-num_seqs=4"], {"max-num-seqs": 4}),
        (["-tp", "8"], {"tensor-parallel-size": 8}),
        (["-dp", "2", "-dpr", "1"], {"data-parallel-size": 2, "data-parallel-start-rank": 1}),
        (["--enable-prefix-caching"], {"enable-prefix-caching": True}),
        (["--no-enable-prefix-caching"], {"enable-prefix-caching": False}),
        (["--no_enable_prefix_caching"], {"enable-prefix-caching": False}),
        (["--enforce-eager", "--no-enforce-eager"], {"enforce-eager": False}),
        (["--headless"], {"headless": True}),
        (["--gpu-memory-utilization", "0.90"], {"gpu-memory-utilization": 0.9}),
        (["--max-model-len", "128k"], {"max-model-len": "128k"}),
        (["--max-model-len", "132096"], {"max-model-len": 132096}),
        (["--kv-transfer-config", '{"kv_port": "30000"}'], {"kv-transfer-config": {"kv_port": "30000"}}),
        (["--compilation_config", '{"a": [1, 2]}'], {"compilation-config": {"a": [1, 2]}}),
        (["-cc.mode", "3"], {"compilation-config": {"mode": 3}}),
        (
            ["--speculative-config.method", "mtp", "--speculative-config.num_speculative_tokens=3"],
            {"speculative-config": {"method": "mtp", "num_speculative_tokens": 3}},
        ),
        (["-O3"], {"optimization-level": 3}),
        (["-O", "2"], {"optimization-level": 2}),
        (["-O=1"], {"optimization-level": 1}),
        (["--served-model-name", "a", "b", "--seed", "1"], {"served-model-name": ["a", "b"], "seed": 1}),
        (["--max-num-batched-tokens", "32", "--max-num-batched-tokens", "64"], {"max-num-batched-tokens": 64}),
        (["--tokenizer-mode", "deepseek_v32"], {"tokenizer-mode": "deepseek_v32"}),
        (["--middleware", "a", "--middleware", "b"], {"middleware": ["a", "b"]}),
        (["--hf-token", "--seed", "1"], {"hf-token": True, "seed": 1}),
        (["--hf-token", "secret"], {"hf-token": "secret"}),
        (["--seed", "-1"], {"seed": -1}),
        (["--no-such-switch", "--seed", "1"], {"no-such-switch": True, "seed": 1}),
        (
            ["m", "--later-list", "a", "b", "--later-value", "3"],
            {"model": "m", "later-list": ["a", "b"], "later-value": 3},
        ),
    ],
)
def test_parse(argv: list[str], meaning: dict[str, Any]) -> None:
    assert TABLE.parse(argv) == meaning


def test_an_option_without_its_value_is_refused() -> None:
    with pytest.raises(OptionError, match="--seed"):
        TABLE.parse(["m", "--seed"])


def test_optimisation_level_of_a_version_without_that_option() -> None:
    table = OptionTable(
        "0", [{"flags": ["--compilation-config", "-cc"], "action": "StoreAction", "type": "parse_dataclass"}]
    )
    assert table.parse(["-O3"]) == {"compilation-config": {"mode": 3}}


@pytest.mark.parametrize(
    ("written", "meaning"),
    [
        ({"enable_prefix_caching": False}, {"enable-prefix-caching": False}),
        ({"no-enable-prefix-caching": True}, {"enable-prefix-caching": False}),
        ({"no-enable-prefix-caching": False}, {"enable-prefix-caching": True}),
        ({"tp": 8}, {"tensor-parallel-size": 8}),
        ({"speculative-config": '{"method": "mtp"}'}, {"speculative-config": {"method": "mtp"}}),
        ({"max-num-seqs": "4"}, {"max-num-seqs": 4}),
        (
            {"sc": {"num-speculative-tokens": 3}, "-cc": {"cudagraph-mode": "FULL"}},
            {"speculative-config": {"num_speculative_tokens": 3}, "compilation-config": {"cudagraph-mode": "FULL"}},
        ),
        ({"enforce-eager": None}, {"enforce-eager": None}),
    ],
)
def test_normalise(written: dict[str, Any], meaning: dict[str, Any]) -> None:
    assert TABLE.normalise(written) == meaning


@pytest.mark.parametrize(
    ("meaning", "config"),
    [
        ({"enable-prefix-caching": False}, {"no-enable-prefix-caching": True}),
        ({"enable-prefix-caching": True}, {"enable-prefix-caching": True}),
        ({"headless": False}, {}),  # a switch without a no- form is left out
        ({"seed": None}, {}),  # null would become the word None
        ({"middleware": []}, {}),
        ({"additional-config": {"a": False, "b": []}}, {"additional-config": {"a": False, "b": []}}),
        ({"allowed-origins": ["*"]}, {"allowed-origins": '["*"]'}),  # spread over words vLLM could not read it as JSON
        ({"middleware": ["a"]}, {"middleware": "a"}),
        ({"served-model-name": ["a", "b"]}, {"served-model-name": ["a", "b"]}),
    ],
)
def test_config_file(meaning: dict[str, Any], config: dict[str, Any]) -> None:
    assert TABLE.config_file(meaning) == config


def vllm_reads(config: dict[str, Any]) -> list[str]:
    """The argument list that vLLM 0.22.1 and 0.26.0 make of a config file (utils/argparse_utils.py)."""
    argv: list[str] = []
    for key, value in config.items():
        if isinstance(value, bool):
            argv += [f"--{key}"] if value else []
        elif isinstance(value, list):
            argv += [f"--{key}", *map(str, value)] if value else []
        elif isinstance(value, dict):
            argv += [f"--{key}", json.dumps(value)]
        else:
            argv += [f"--{key}", str(value)]
    return argv


@pytest.mark.parametrize(
    "meaning",
    [
        {"model": "m", "enable-prefix-caching": False, "trust-remote-code": True, "seed": 0},
        {"model": "m", "allowed-origins": ["*"], "served-model-name": ["a", "b"]},
        {"model": "m", "speculative-config": {"method": "mtp", "x": None, "y": False, "z": []}},
        {"model": "m", "gpu-memory-utilization": 0.9, "quantization": "ascend", "max-model-len": 132096},
    ],
)
def test_file_and_command_line_mean_the_same(meaning: dict[str, Any]) -> None:
    assert TABLE.parse(vllm_reads(TABLE.config_file(meaning))) == meaning
    assert TABLE.parse(TABLE.argv(meaning)) == meaning


@pytest.mark.parametrize(
    ("written", "twice"),
    [
        ({"max_num_seqs": 4, "seed": 1, "max-num-seqs": 4}, [["max_num_seqs", "max-num-seqs"]]),
        ({"enforce-eager": True, "no-enforce-eager": None}, [["enforce-eager", "no-enforce-eager"]]),
        ({"tp": 8, "-tp": 8, "tensor_parallel_size": 8}, [["tp", "-tp", "tensor_parallel_size"]]),
        (
            {"sc": '{"num-speculative-tokens": 3, "num_speculative_tokens": 2}'},
            [["speculative-config.num-speculative-tokens", "speculative-config.num_speculative_tokens"]],
        ),
        ({"speculative-config": {"method": "mtp"}, "seed": 1, "max-model-len": None}, []),
        ({"compilation-config": {"cudagraph-mode": 1, "cudagraph_mode": 1}}, []),  # one of them is no key: PD-ARG-006
    ],
)
def test_one_option_in_two_spellings(written: dict[str, Any], twice: list[list[str]]) -> None:
    assert TABLE.twice(written) == twice


def test_nearest_name() -> None:
    assert TABLE.nearest("max-num-seq") == "max-num-seqs"
    assert TABLE.nearest("zzzzzzzzzzzz") is None


@pytest.mark.parametrize(
    ("wanted", "chosen"),
    [("0.22.1", "0.22.1"), ("0.23.0", "0.22.1"), ("0.26.0rc1", "0.26.0"), ("0.30.1", "0.27.1"), ("0.9.0", "0.22.1")],
)
def test_the_table_of_the_nearest_older_version_serves(wanted: str, chosen: str) -> None:
    assert versions() == ("0.22.1", "0.26.0", "0.27.1")
    assert option_table(wanted).version == chosen
    assert is_known(wanted) is (wanted in ("0.22.1", "0.26.0rc1"))
