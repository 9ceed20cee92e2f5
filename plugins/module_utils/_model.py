# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""The face `model`: what a model folder holds. Of the weights only headers are read; nothing is changed."""

from __future__ import annotations

import hashlib
import json
import re
import stat
from functools import partial
from typing import Any, Sequence

from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._parallel import Deadline, run_all
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._safetensors import expected_bytes
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._tree import LIMIT, Tree, why

# What sizing and the rules read of a model's config.json; all else stays on the host.
CONFIG_FIELDS = (
    "model_type",
    "hidden_size",
    "intermediate_size",
    "moe_intermediate_size",
    "num_hidden_layers",
    "num_nextn_predict_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "q_lora_rank",
    "kv_lora_rank",
    "qk_nope_head_dim",
    "qk_rope_head_dim",
    "v_head_dim",
    "index_topk",
    "index_n_heads",
    "index_head_dim",
    "index_topk_freq",
    "index_topk_pattern",
    "index_skip_topk_offset",
    "index_share_for_mtp_iteration",
    "indexer_types",
    "compress_ratios",
    "layer_types",
    "full_attention_interval",
    "sliding_window",
    "n_routed_experts",
    "num_experts",
    "num_local_experts",
    "moe_num_experts",
    "n_shared_experts",
    "num_experts_per_tok",
    "first_k_dense_replace",
    "max_position_embeddings",
    "rope_scaling",
    "rope_parameters",
    "vocab_size",
    "tie_word_embeddings",
)
# Multimodal models keep the language model's settings in a part of their own.
_TEXT_CONFIGS = ("text_config", "llm_config", "language_config", "thinker_config")
_TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "tiktoken.model",
    "vocab.json",
    "merges.txt",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "generation_config.json",
)
_LFS_POINTER = b"version https://git-lfs"
_LFS_POINTER_SIZE = 1024  # bytes; a pointer has about 130, a shard millions


def empty(reason: str | None = None) -> dict[str, Any]:
    """One model with nothing known."""
    return {
        "exists": False,
        "config": {},
        "architectures": [],
        "torch_dtype": None,
        "quantization": None,
        "tokenizer": [],
        "indexes": [],
        "shards": {
            "count": 0,
            "sizes": {},
            "missing": [],
            "bytes": 0,
            "declared_bytes": None,
            "lfs_pointers": [],
            "short": [],
            "unreadable": [],
        },
        "total_bytes": 0,
        "digests": {},
        "digest": None,
        "reasons": [reason] if reason else [],
    }


def gather(tree: Tree, deadline: Deadline, paths: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Every model folder by its path; each under the deadline by itself, since it may lie on a network file system."""
    outcomes = run_all({path: partial(model, tree, path) for path in paths}, deadline)
    return {path: outcomes[path].value or empty(f"{path}: {outcomes[path].reason}") for path in paths}


def model(tree: Tree, path: str) -> dict[str, Any]:
    """One model folder."""
    found = empty()
    reasons: list[str] = found["reasons"]
    names = tree.names(path, reasons)
    if reasons:
        return found
    sizes = {
        name: size for name, size in ((name, _size(tree, path + "/" + name)) for name in names) if size is not None
    }
    found["exists"] = True
    found["total_bytes"] = sum(sizes.values())
    found["tokenizer"] = [name for name in _TOKENIZER_FILES if name in sizes]

    whole = _json(tree, path + "/config.json", reasons)
    found["config"] = merged_config(whole)
    found["architectures"] = [str(name) for name in _list(whole.get("architectures"))]
    found["torch_dtype"] = _dtype(whole)
    found["quantization"] = _quantization(tree, path, sizes, whole, reasons)

    indexes = [name for name in sizes if name.endswith(".safetensors.index.json")]
    found["indexes"] = indexes
    found["shards"] = _shards(tree, path, sizes, indexes, reasons)
    small = {"config.json", *found["tokenizer"], *indexes, *_descriptions(sizes)} & set(sizes)
    found["digests"] = _digests(tree, path, sorted(small), reasons)
    found["digest"] = _digest(found["digests"], sizes) if set(found["digests"]) == small else None
    return found


def _size(tree: Tree, path: str) -> int | None:
    try:
        status = tree.path(path).stat()
    except OSError:  # a link to nowhere, as an interrupted download leaves it
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _json(tree: Tree, path: str, reasons: list[str]) -> dict[str, Any]:
    text = tree.text(path, reasons)
    if text is None:
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        reasons.append("{}: {}".format(path, f"cut at {LIMIT} bytes" if len(text) >= LIMIT else error))
        return {}
    if not isinstance(value, dict):
        reasons.append(f"{path}: not a mapping")
        return {}
    return value


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def text_config(config: dict[str, Any]) -> dict[str, Any]:
    """The language model's own part of a config, the whole when there is none (as vLLM's hf_text_config)."""
    for name in _TEXT_CONFIGS:
        if isinstance(config.get(name), dict):
            return text_config(config[name])
    return config


def merged_config(config: dict[str, Any]) -> dict[str, Any]:
    """The fields that matter for sizing: the nested language model's where there is one, else the top level's."""
    text = text_config(config)
    return {
        name: text.get(name, config.get(name)) for name in CONFIG_FIELDS if text.get(name, config.get(name)) is not None
    }


def _dtype(config: dict[str, Any]) -> str | None:
    for part in (text_config(config), config):
        for name in ("torch_dtype", "dtype"):  # transformers 4.56 renamed it
            if isinstance(part.get(name), str):
                return str(part[name])
    return None


def _descriptions(sizes: dict[str, int]) -> list[str]:
    return sorted(name for name in sizes if re.fullmatch(r"quant_model_description.*\.json", name))


def _quantization(
    tree: Tree, path: str, sizes: dict[str, int], config: dict[str, Any], reasons: list[str]
) -> dict[str, Any] | None:
    """From msModelSlim's quant_model_description*.json (as vllm-ascend does) or config.json; None: not quantised."""
    declared = text_config(config).get("quantization_config", config.get("quantization_config"))
    method = declared.get("quant_method") if isinstance(declared, dict) else None
    files = _descriptions(sizes)
    settings: dict[str, Any] = {}
    layers: dict[str, int] = {}
    for name in files:
        for key, value in _json(tree, path + "/" + name, reasons).items():
            if not isinstance(value, (str, int, float, bool)):
                continue
            if "." not in key:  # tensors are named like `model.layers.0.mlp.weight`, settings are single words
                settings[key] = value
            elif isinstance(value, str) and len(layers) < 64:
                layers[value] = layers.get(value, 0) + 1
    if not files and not method:
        return None
    return {"files": files, "method": method, "settings": settings, "tensors": layers}


def _shards(tree: Tree, path: str, sizes: dict[str, int], indexes: list[str], reasons: list[str]) -> dict[str, Any]:
    """Weight files: those that the indexes name, else every *.safetensors or *.bin and what their names tell of."""
    expected: set[str] = set()
    declared: int | None = None
    for name in indexes:
        index = _json(tree, path + "/" + name, reasons)
        weight_map = index.get("weight_map")
        metadata = index.get("metadata")
        if isinstance(weight_map, dict):
            expected.update(str(file) for file in weight_map.values())
        if isinstance(metadata, dict) and isinstance(metadata.get("total_size"), int):
            declared = (declared or 0) + metadata["total_size"]
    present = {name for name in sizes if name.endswith(".safetensors")} or {n for n in sizes if n.endswith(".bin")}
    if not expected:
        expected = {part for name in present for part in _parts(name)}
        if not expected:
            reasons.append(f"{path}: no weights")
    missing = sorted(expected - set(sizes))
    pointers = [
        name
        for name in sorted(expected & set(sizes))
        if sizes[name] < _LFS_POINTER_SIZE and _is_pointer(tree, path, name)
    ]
    short, unreadable = _broken(tree, path, sizes, sorted(expected & set(sizes) - set(pointers)))
    if missing:
        reasons.append(f"{path}: {len(missing)} of {len(expected)} weight files are missing")
    if pointers:
        reasons.append(f"{path}: {len(pointers)} weight files are Git LFS pointers, not weights")
    if short:
        reasons.append(f"{path}: {len(short)} weight files are cut short")
    if unreadable:
        reasons.append(f"{path}: {len(unreadable)} weight files cannot be read")
    return {
        "count": len(expected),
        "sizes": {name: sizes[name] for name in sorted(expected) if name in sizes},
        "missing": missing,
        "bytes": sum(sizes[name] for name in expected if name in sizes),
        "declared_bytes": declared,
        "lfs_pointers": pointers,
        "short": short,
        "unreadable": unreadable,
    }


def _parts(name: str) -> list[str]:
    """All files of which this one says that it is a part: `model-00001-of-00003.safetensors` names three."""
    split = re.fullmatch(r"(.*-)([0-9]{1,5})-of-([0-9]{1,5})(\.\w+)", name)
    if not split or not int(split.group(3)):
        return [name]
    start, own, count, end = split.groups()
    return [f"{start}{number:0{len(own)}}-of-{count}{end}" for number in range(1, int(count) + 1)]


def _broken(
    tree: Tree, path: str, sizes: dict[str, int], names: Sequence[str]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Safetensors files that end before their data does, and those that do not say where it ends: a download that
    allocates its file before it fills it leaves zeros.
    """
    short: list[dict[str, Any]] = []
    unreadable: list[dict[str, Any]] = []
    for name in names:
        if not name.endswith(".safetensors"):
            continue
        file = {"name": name, "size_bytes": sizes[name]}
        try:
            with tree.path(path + "/" + name).open("rb") as stream:
                expected = expected_bytes(stream)
        except OSError as error:
            unreadable.append({**file, "reason": error.strerror or str(error)})
            continue
        if expected is None:
            unreadable.append({**file, "reason": "no header of a safetensors file"})
        elif sizes[name] < expected:
            short.append({**file, "expected_bytes": expected})
    return short, unreadable


def _is_pointer(tree: Tree, path: str, name: str) -> bool:
    try:
        with tree.path(path + "/" + name).open("rb") as stream:
            return stream.read(len(_LFS_POINTER)) == _LFS_POINTER
    except OSError:
        return False


def _digests(tree: Tree, path: str, names: Sequence[str], reasons: list[str]) -> dict[str, str]:
    """SHA-256 of the content of each of the small files."""
    found = {}
    for name in names:
        summary = hashlib.sha256()
        try:
            with tree.path(path + "/" + name).open("rb") as stream:
                for part in iter(lambda: stream.read(1 << 20), b""):
                    summary.update(part)
        except OSError as error:
            reasons.append(why(path + "/" + name, error))
            continue
        found[name] = summary.hexdigest()
    return found


def _digest(digests: dict[str, str], sizes: dict[str, int]) -> str:
    """SHA-256 over the digests of the small files and over name and size of the weights.

    Equal digests on two hosts mean the same model as far as that can be told without reading hundreds of gigabytes.
    """
    weights = {name: size for name, size in sizes.items() if name.endswith((".safetensors", ".bin"))}
    summary = json.dumps([sorted(digests.items()), sorted(weights.items())])
    return hashlib.sha256(summary.encode()).hexdigest()
