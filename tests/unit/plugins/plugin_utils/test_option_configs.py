# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Configurations inside options: what vLLM takes is taken, in its spellings, and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.option_configs import option_configs
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.options import option_table, versions
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.profiles import PROFILES

ROOT = Path(__file__).resolve().parents[4]


def wrong(option: str, value: Any, version: str = "0.26.0") -> list[str]:
    """Keys that are not known, and those whose value is no choice."""
    found = option_configs(version).entries(option, value)
    return [".".join(entry.path) for entry in found if not entry.known or not entry.is_choice]


@pytest.mark.parametrize("version", versions())
def test_every_known_version_has_its_configurations(version: str) -> None:
    configs, table = option_configs(version), option_table(version)
    names = [name for name, _value in configs.stated({name: {} for name in _names(table)})]
    assert configs.version == version
    assert {"speculative-config", "compilation-config", "eplb-config", "kernel-config", "pooler-config"} <= set(names)
    # the plan writes kv-transfer-config; what stands in additional-config is vllm-ascend's
    free = {"kv-transfer-config", "additional-config", "generation-config", "override-generation-config", "config"}
    free |= {"model-loader-extra-config"}
    assert {name for name in _names(table) if name.endswith("config")} - free <= set(names)


def _names(table: Any) -> list[str]:
    data = json.loads((ROOT / f"plugins/plugin_utils/data/vllm-serve-{table.version}.json").read_text(encoding="utf-8"))
    return [flag.removeprefix("--") for option in data["options"] for flag in option.get("flags", ())[:1]]


@pytest.mark.parametrize(
    ("option", "value", "mistakes"),
    [
        ("speculative-config", {"method": "mtp", "num_speculative_tokens": 3}, []),
        ("speculative-config", {"method": "deepseek_mtp"}, []),
        ("speculative-config", {"method": "MTP"}, ["method"]),  # Literal: case counts
        ("speculative-config", {"metod": "mtp", "method": "mtpp"}, ["metod", "method"]),
        ("speculative-config", {"attention_backend": "flash_attn"}, []),
        ("speculative-config", {"attention_backend": "Auto"}, []),
        ("speculative-config", {"attention_backend": "flash"}, ["attention_backend"]),
        ("speculative-config", {"draft_load_config": {"load_form": "dummy"}}, ["draft_load_config.load_form"]),
        ("speculative-config", {"quantization": "any"}, []),  # a text: PD-ARG-008 judges it
        ("compilation-config", {"cudagraph_mode": "full_decode_only", "cudagraph_capture_sizes": [4, 8]}, []),
        ("compilation-config", {"cudagraph_mode": 2, "mode": "vllm_compile"}, []),
        ("compilation-config", {"cudagraph_mode": 3, "mode": 7}, ["cudagraph_mode", "mode"]),
        ("compilation-config", {"cudagraph_mod": "FULL"}, ["cudagraph_mod"]),
        ("compilation-config", {"cudagraph_mode": None}, []),
        ("compilation-config", {"local_cache_dir": "/x"}, ["local_cache_dir"]),  # vLLM sets it, nobody else may
        ("compilation-config", {"inductor_compile_config": {"anything": 1}}, []),
        ("compilation-config", {"pass_config": {"enable_sp": True, "sp": 1}}, ["pass_config.sp"]),
        ("compilation-config", {"dynamic_shapes_config": {"type": "BACKED"}}, ["dynamic_shapes_config.type"]),
        ("kernel-config", {"moe_backend": "Deep-GEMM"}, []),
        ("kernel-config", {"moe_backend": "deep"}, ["moe_backend"]),
        ("kv-events-config", {"publisher": "zmq", "topic": "x"}, []),
        ("kv-events-config", {"publisher": False}, ["publisher"]),
        ("quantization-config", {"linear": "fp8_per_token", "moe": {"weigth": "mxfp8"}}, ["moe.weigth"]),
        ("weight-transfer-config", {"backend": "hccl"}, []),
        ("speculative-config", "mtp", []),  # no mapping: the rule says so
    ],
)
def test_what_vllm_takes(option: str, value: Any, mistakes: list[str]) -> None:
    assert wrong(option, value) == mistakes


def test_versions_differ() -> None:
    assert wrong("compilation-config", {"pass_config": {"fuse_minimax_qk_norm": True}}, "0.22.1") == []
    assert wrong("compilation-config", {"pass_config": {"fuse_minimax_qk_norm": True}}) != []
    assert wrong("speculative-config", {"use_heterogeneous_vocab": True}, "0.22.1") == ["use_heterogeneous_vocab"]


@pytest.mark.parametrize("version", versions())
def test_profiles_hold_nothing_that_vllm_refuses(version: str) -> None:
    for profile in PROFILES.values():
        for options in profile.vllm_args.values():
            for name, value in option_configs(version).stated(options):
                assert wrong(name, value, version) == [], (profile, name)


@pytest.mark.parametrize(
    "path", sorted((ROOT / "tests/fixtures/deployments").glob("*.json")), ids=lambda path: path.stem
)
def test_upstreams_deployments_hold_nothing_that_vllm_refuses(path: Path) -> None:
    """Every ``--OPTION JSON`` in them."""
    found = 0
    for words in _lists(json.loads(path.read_text(encoding="utf-8"))):
        for flag, text in pairwise(words):
            name, _negated = option_table("0.26.0").resolve(str(flag))
            for option, value in option_configs("0.26.0").stated(option_table("0.26.0").normalise({name: text})):
                found += 1
                assert wrong(option, value) == [], (option, value)
    assert found


def _lists(data: Any) -> list[list[Any]]:
    inner = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
    return [*([data] if isinstance(data, list) else []), *(found for one in inner for found in _lists(one))]


#: Sources in the way of vLLM's: aliases across modules, choices in choices, enumerations by name and by value.
SOURCES = {
    "vllm/words.py": 'Few = Literal["a", "b"]\nMany = Literal[Few, "c"]',
    "vllm/config/one.py": """
from vllm.words import Many as Words
class Mode(enum.IntEnum):
    OFF = 0
    ON = 1
class Kind(str, enum.Enum):
    LEFT = "left"
@config
class Inner:
    deep: int = 0
@config(config=ConfigDict(arbitrary_types_allowed=True))
class One:
    words: Words | None = None
    open: Words | str = "a"
    mode: Mode = Mode.ON
    kind: Kind = Kind.LEFT
    inner: "Inner | dict[str, Any] | None" = None
    shared: ClassVar[int] = 1
    made: str = field(default=None, init=False)
    @field_validator("mode", mode="before")
    def read(cls, value):
        return None if value.lower() == "auto" else Mode[value.upper()]
class Plain:
    no_field: int
""",
    "vllm/engine/arg_utils.py": """
from vllm.config.one import Inner, One, Plain
class EngineArgs:
    model: str = ""
    kv_transfer_config: Inner | None = None
    one_config: One = None
    spec_config: dict[str, Any] | None = None
    plain: Plain = None
    def create_spec_config(self) -> Inner | None: ...
""",
}


def test_the_tool_reads_sources(tmp_path: Path) -> None:
    for name, text in SOURCES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    command = [sys.executable, str(ROOT / "tools" / "vllm_configs"), "1.0", str(tmp_path)]
    assert json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout) == {
        "vllm": "1.0",
        "options": {"one-config": "One", "spec-config": "Inner"},
        "classes": {
            "Inner": {"deep": None},
            "One": {
                "words": ["a", "b", "c"],
                "open": None,
                "mode": {"any_case": ["OFF", "ON", 0, 1, "auto"]},
                "kind": ["left"],
                "inner": "Inner",
            },
        },
    }
