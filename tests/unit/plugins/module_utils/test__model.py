# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""The face `model` from folders as they are found in the field: whole, half downloaded, odd."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils import _model, _safetensors, _sizing
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._parallel import Deadline
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._tree import Tree
from hypothesis import given
from hypothesis import strategies as st

CONFIGS = sorted((Path(__file__).parents[2] / "data" / "models").glob("*.json"))


def shard(size: int) -> bytes:
    """A safetensors file of that size in bytes, with one tensor."""
    header = json.dumps({"__metadata__": {}, "a": {"data_offsets": [0, size - 108]}}).ljust(100).encode()
    return len(header).to_bytes(8, "little") + header + b"\1" * (size - 108)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small whole model: two shards of 3000 and 2000 bytes."""
    files: dict[str, Any] = {
        "config.json": {
            "architectures": ["DeepseekV32ForCausalLM"],
            "num_hidden_layers": 61,
            "torch_dtype": "bfloat16",
        },
        "model.safetensors.index.json": {
            "metadata": {"total_size": 4900},
            "weight_map": {"a": "model-1-of-2.safetensors", "b": "model-2-of-2.safetensors"},
        },
        "quant_model_description.json": {
            "model_quant_type": "W8A8_DYNAMIC",
            "group_size": 0,
            "optional": {},
            "model.layers.0.q.weight": "W8A8_DYNAMIC",
            "model.norm.weight": "FLOAT",
        },
        "tokenizer_config.json": {},
    }
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content))
    (tmp_path / "model-1-of-2.safetensors").write_bytes(shard(3000))
    (tmp_path / "model-2-of-2.safetensors").write_bytes(shard(2000))
    (tmp_path / "tokenizer.json").write_text("{}")
    return tmp_path


def look(folder: Path) -> dict[str, Any]:
    found = _model.gather(Tree(), Deadline(10), [str(folder)])[str(folder)]
    assert set(found) == set(_model.empty())
    return found


def test_whole(folder: Path) -> None:
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.iterdir()}
    found = look(folder)
    assert found["reasons"] == []
    assert found["config"] == {"num_hidden_layers": 61}
    assert (found["architectures"], found["torch_dtype"]) == (["DeepseekV32ForCausalLM"], "bfloat16")
    assert found["quantization"] == {
        "files": ["quant_model_description.json"],
        "method": None,
        "settings": {"model_quant_type": "W8A8_DYNAMIC", "group_size": 0},
        "tensors": {"W8A8_DYNAMIC": 1, "FLOAT": 1},
    }
    assert found["tokenizer"] == ["tokenizer.json", "tokenizer_config.json"]
    assert found["shards"] == {
        "count": 2,
        "sizes": {"model-1-of-2.safetensors": 3000, "model-2-of-2.safetensors": 2000},
        "missing": [],
        "bytes": 5000,
        "declared_bytes": 4900,
        "lfs_pointers": [],
        "short": [],
        "unreadable": [],
    }
    assert found["total_bytes"] == sum(path.stat().st_size for path in folder.iterdir())
    assert {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.iterdir()} == before


def test_missing_shard(folder: Path) -> None:
    (folder / "model-2-of-2.safetensors").unlink()
    found = look(folder)
    assert found["shards"]["missing"] == ["model-2-of-2.safetensors"]
    assert found["shards"]["bytes"] == 3000
    assert found["reasons"] == [f"{folder}: 1 of 2 weight files are missing"]


def test_a_link_to_nowhere_is_a_missing_shard(folder: Path) -> None:
    shard = folder / "model-2-of-2.safetensors"
    shard.unlink()
    shard.symlink_to(folder / "blobs" / "gone")
    assert look(folder)["shards"]["missing"] == [shard.name]


def test_lfs_pointer(folder: Path) -> None:
    shard = folder / "model-1-of-2.safetensors"
    shard.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 4\n")
    assert look(folder)["shards"]["lfs_pointers"] == [shard.name]


@pytest.mark.parametrize("kept", [0, 4, 50, 1999])
def test_a_half_downloaded_shard(folder: Path, kept: int) -> None:
    (folder / "model-2-of-2.safetensors").write_bytes(shard(2000)[:kept])
    found = look(folder)
    assert [(entry["name"], entry["size_bytes"]) for entry in found["shards"]["short"]] == [
        ("model-2-of-2.safetensors", kept)
    ]
    assert found["reasons"] == [f"{folder}: 1 weight files are cut short"]


@pytest.mark.parametrize("content", [bytes(2000), b"\xff" * 2000, (4).to_bytes(8, "little") + b"None" + bytes(2000)])
def test_a_shard_without_a_header(folder: Path, content: bytes) -> None:
    """As a download leaves it that allocates its file before it fills it."""
    (folder / "model-2-of-2.safetensors").write_bytes(content)
    found = look(folder)
    assert found["shards"]["unreadable"] == [
        {
            "name": "model-2-of-2.safetensors",
            "size_bytes": len(content),
            "reason": "no header of a safetensors file",
        }
    ]
    assert (found["shards"]["short"], found["reasons"]) == ([], [f"{folder}: 1 weight files cannot be read"])


def test_a_shard_that_may_not_be_opened(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(stream: Any) -> int:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(_model, "expected_bytes", refused)
    assert [(one["name"], one["reason"]) for one in look(folder)["shards"]["unreadable"]] == [
        ("model-1-of-2.safetensors", "Input/output error"),
        ("model-2-of-2.safetensors", "Input/output error"),
    ]


def test_weights_of_other_formats_have_no_header(folder: Path) -> None:
    (folder / "model.safetensors.index.json").unlink()
    for name in ("model-1-of-2", "model-2-of-2"):
        (folder / f"{name}.safetensors").unlink()
        (folder / f"{name}.bin").write_bytes(bytes(2000))
    found = look(folder)
    assert (found["shards"]["count"], found["shards"]["unreadable"], found["reasons"]) == (2, [], [])


@given(st.binary(max_size=200) | st.binary(max_size=90).map(lambda header: len(header).to_bytes(8, "little") + header))
def test_any_bytes_have_an_expected_size_or_none(content: bytes) -> None:
    expected = _safetensors.expected_bytes(io.BytesIO(content))
    assert expected is None or expected >= 8


def test_no_index(folder: Path) -> None:
    (folder / "model.safetensors.index.json").unlink()
    found = look(folder)
    assert (found["shards"]["count"], found["shards"]["declared_bytes"], found["reasons"]) == (2, None, [])


def test_a_part_that_no_index_names_is_missing_all_the_same(folder: Path) -> None:
    (folder / "model.safetensors.index.json").unlink()
    (folder / "model-1-of-2.safetensors").rename(folder / "model-00001-of-00003.safetensors")
    (folder / "model-2-of-2.safetensors").rename(folder / "model-00003-of-00003.safetensors")
    shards = look(folder)["shards"]
    assert (shards["count"], shards["missing"]) == (3, ["model-00002-of-00003.safetensors"])


def test_no_weights(folder: Path) -> None:
    for name in ("model.safetensors.index.json", "model-1-of-2.safetensors", "model-2-of-2.safetensors"):
        (folder / name).unlink()
    assert look(folder)["reasons"] == [f"{folder}: no weights"]


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "config.json").write_text('{"num_hidden_layers": 62}'),
        lambda folder: (folder / "tokenizer.json").write_text("{ }"),
        lambda folder: (folder / "model-1-of-2.safetensors").write_bytes(shard(3001)),
        lambda folder: (folder / "quant_model_description.json").unlink(),
        lambda folder: (folder / "tokenizer.json").rename(folder / "tokenizer.model"),
    ],
)
def test_the_digest_shows_every_change(folder: Path, change: Any) -> None:
    before = look(folder)["digest"]
    assert before == look(folder)["digest"]
    change(folder)
    assert look(folder)["digest"] != before


def test_the_digest_passes_over_notes_of_users(folder: Path) -> None:
    before = look(folder)["digest"]
    (folder / "README.md").write_text("ours")
    assert look(folder)["digest"] == before


@pytest.mark.parametrize("content", ["", "[]", "{", '"x"', "\0", "[" * 100_000])
def test_broken_config(folder: Path, content: str) -> None:
    (folder / "config.json").write_text(content)
    found = look(folder)
    assert found["config"] == {}
    assert found["reasons"][0].startswith(f"{folder}/config.json: ")


def test_absent_folder() -> None:
    assert look(Path("/nonexistent/model")) == _model.empty("/nonexistent/model: No such file or directory")


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_published_configs_lose_nothing_that_sizing_reads(path: Path) -> None:
    config = json.loads(path.read_text())
    merged = _model.merged_config(config)
    assert set(config) - set(merged) <= {"architectures", "torch_dtype", "index_share_for_mtp_iteration"}
    assert all(merged[name] == config[name] for name in merged)


class Reads(dict[str, Any]):
    """Remembers what it was asked for."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config)
        self.names: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        self.names.add(name)
        return super().get(name, default)


def test_every_field_that_sizing_asks_for_is_probed() -> None:
    """Also those that no published model of these has, such as index_topk_pattern."""
    config = Reads(json.loads((CONFIGS[0].parent / "GLM-5.2-W8A8.json").read_text()))
    _sizing.SizingInput.from_model(config, num_speculative_tokens=1)
    assert len(config.names) > 15
    nested = {name for name in config.names if name.endswith("_config")}
    assert config.names - nested <= set(_model.CONFIG_FIELDS)


@pytest.mark.parametrize("name", ["text_config", "llm_config", "thinker_config"])
def test_the_language_models_part_wins(name: str) -> None:
    config = {"num_hidden_layers": 27, "vocab_size": 7, name: {"num_hidden_layers": 61, "torch_dtype": "bfloat16"}}
    assert _model.merged_config(config) == {"num_hidden_layers": 61, "vocab_size": 7}


def test_parts_within_parts() -> None:
    config = {"thinker_config": {"text_config": {"num_hidden_layers": 48, "dtype": "float16"}}}
    assert _model.merged_config(config) == {"num_hidden_layers": 48}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "text_config",
                    "num_hidden_layers",
                    "quantization_config",
                    "weight_map",
                    "metadata",
                    "total_size",
                    "a.b",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
)


@given(config=JSON, index=JSON, description=JSON)
def test_any_json_gives_data_or_a_reason(
    tmp_path_factory: pytest.TempPathFactory, config: Any, index: Any, description: Any
) -> None:
    folder = tmp_path_factory.mktemp("model")
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "quant_model_description.json").write_text(json.dumps(description))
    found = _model.model(Tree(), str(folder))
    assert found["exists"]
    assert isinstance(found["reasons"], list)
    json.dumps(found)
