# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Model folders as a host has them under /data/models: real configs, weights as sparse files of the true size."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.layout import SOURCE
from lab.shell import digest, remove

CONFIGS = SOURCE / "hosts" / "models"  # one config.json's content per model, named after it
GB = 10**9


@dataclass(frozen=True)
class Model:
    """A published checkpoint: how many bytes in how many files."""

    name: str
    size: int
    shards: int
    quantisation: str | None  # of its linear layers, as msmodelslim's description names it


MODELS = (
    Model("DeepSeek-V3.2-W8A8", 690 * GB, 173, "W8A8_DYNAMIC"),
    Model("DeepSeek-V3.1-W8A8", 688 * GB, 172, "W8A8_DYNAMIC"),
    Model("GLM-5.1-W8A8", 757 * GB, 190, "W8A8_DYNAMIC"),
    Model("GLM-5.2-W8A8", 757 * GB, 190, "W8A8_DYNAMIC"),
    Model("Qwen3-235B-A22B", 470 * GB, 118, None),
)


def make(folder: Path, stamp: Path) -> None:
    """All models below a folder; the stamp beside it tells whether they are still made the same way."""
    recipe = digest(Path(__file__), CONFIGS)
    if stamp.exists() and stamp.read_text() == recipe:
        return
    for model in MODELS:
        remove(folder / model.name)
        _make(model, folder / model.name)
    stamp.write_text(recipe)


def _make(model: Model, folder: Path) -> None:
    folder.mkdir(parents=True)
    config = json.loads((CONFIGS / f"{model.name}.json").read_text())
    _json(folder / "config.json", config)
    names = list(_tensors(config))
    weight_map = {}
    for number in range(model.shards):
        file = f"model-{number + 1:05d}-of-{model.shards:05d}.safetensors"
        mine = names[number * len(names) // model.shards : (number + 1) * len(names) // model.shards]
        weight_map.update(dict.fromkeys(mine, file))
        share = (number + 1) * model.size // model.shards - number * model.size // model.shards
        _shard(folder / file, mine, share)
    index = {"metadata": {"total_size": model.size}, "weight_map": weight_map}
    _json(folder / "model.safetensors.index.json", index)
    if model.quantisation:
        kinds = {name: "FLOAT" if _kept_as_float(name) else model.quantisation for name in names}
        _json(folder / "quant_model_description.json", {"model_quant_type": model.quantisation, **kinds})
    _json(folder / "generation_config.json", {"do_sample": True, "temperature": 0.6, "top_p": 0.95})
    _json(folder / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 131072})
    _json(folder / "tokenizer.json", _byte_tokenizer())


def _tensors(config: dict[str, Any]) -> Iterator[str]:
    """Names of a mixture-of-experts model's weights, one projection per expert."""
    text = config.get("text_config", config)
    yield "model.embed_tokens.weight"
    for layer in range(text["num_hidden_layers"] + text.get("num_nextn_predict_layers", 0)):
        prefix = f"model.layers.{layer}"
        yield f"{prefix}.input_layernorm.weight"
        for projection in ("q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj"):
            yield f"{prefix}.self_attn.{projection}.weight"
        for expert in range(0, text.get("n_routed_experts") or text.get("num_experts") or 1, 16):
            yield f"{prefix}.mlp.experts.{expert}.down_proj.weight"
    yield "model.norm.weight"
    yield "lm_head.weight"


def _kept_as_float(name: str) -> bool:
    return any(part in name for part in ("norm", "embed", "lm_head", "kv_b_proj"))


def _shard(path: Path, names: list[str], size: int) -> None:
    """A file with a true safetensors header and a hole of `size` bytes where its data would be."""
    tensors = {}
    for place, name in enumerate(names):
        begin, end = place * size // len(names), (place + 1) * size // len(names)
        tensors[name] = {"dtype": "I8", "shape": [end - begin], "data_offsets": [begin, end]}
    header = json.dumps(tensors).encode()
    header += b" " * (-len(header) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + size)


def _byte_tokenizer() -> dict[str, Any]:
    """One token per byte, in the format of the tokenizers library."""
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]  # bytes that byte-level BPE shows as themselves
    others = [byte for byte in range(256) if byte not in visible]
    letters = {byte: chr(byte) for byte in visible} | {byte: chr(256 + place) for place, byte in enumerate(others)}
    return {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "vocab": {letters[byte]: byte for byte in range(256)}, "merges": []},
    }


def _json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n")
