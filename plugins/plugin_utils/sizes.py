# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Memory sizes of an instance: what the user states, or what ``auto`` takes from the sizing function."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._sizing import Sizing, size
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._sizing_input import SizingInput
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils import connectors
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.facts import HostFacts
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.settings import AUTO
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.topology import Instance

#: Options of ``vllm serve`` that decide sizes, with the least that vLLM takes; those that are left out have vLLM's own
#: values in ``SizingInput``. max-model-len -1 and auto mean "as much as fits".
LEAST = {"max-num-seqs": 1, "max-num-batched-tokens": 1, "max-model-len": -1, "block-size": 1}
#: Options that decide sizes.
SIZED = ("gpu-memory-utilization", *LEAST)
#: Nobody means more, and floating point numbers end somewhere.
MOST = 1 << 63
#: Those that vLLM's parser also takes in forms such as 128k; to the others that is no number.
_SHORT = ("max-num-batched-tokens", "max-model-len")
_MULTIPLES = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def whole(value: Any) -> int | None:
    """A whole number as vLLM reads it, so that ``128k`` and ``64K`` are 128000 and 65536; ``None`` if it is none."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    match = re.fullmatch(r"(-?\d{1,30}(?:\.\d+)?)([kmgtKMGT]?)", str(value).strip())
    if match is None or ("." in match.group(1) and match.group(2) not in tuple("kmgt")):
        return None
    return int(float(match.group(1)) * _MULTIPLES[match.group(2)]) if match.group(2) else int(match.group(1))


def fraction(value: Any) -> float | None:
    """A number such as a share of memory; ``None`` if it is none."""
    try:
        return None if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return None


def is_auto(value: Any) -> bool:
    """Whether max-model-len says "as much as fits" in a word."""
    return str(value).strip().lower() == "auto"


def wrong_numbers(options: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Path and value of each option that decides sizes and is no number that vLLM takes: no size follows from it."""
    share = options.get("gpu-memory-utilization")
    if share is not None and not 0 < (fraction(share) or 0) <= 1:
        yield ("gpu-memory-utilization",), share
    for name, least in LEAST.items():
        value = options.get(name)
        if value is None or (name == "max-model-len" and is_auto(value)):
            continue
        number = None if isinstance(value, float) else whole(value)
        if not number or not least <= number < MOST or (name not in _SHORT and not str(value).strip().isdecimal()):
            yield (name,), value
    speculative = options.get("speculative-config")
    tokens = speculative.get("num_speculative_tokens") if isinstance(speculative, Mapping) else None
    if tokens is not None and (whole(tokens) or 0) < 1:
        yield ("speculative-config", "num_speculative_tokens"), tokens


def layerwise_buffers(kv_config: Mapping[str, Any]) -> dict[str, Any]:
    """How prefill's layers share KV buffers. They do with MemCache alone (layerwise_cache_layout.py)."""
    for part in connectors.walk(kv_config):
        extra = part.get("kv_connector_extra_config") or {}
        pool = part.get("kv_connector") in connectors.STORES and connectors.uses_memcache(part)
        if not pool or not extra.get("use_layerwise"):
            continue
        shared, independent = (
            whole(extra.get("layerwise_num_shared_buffers")),
            extra.get("layerwise_independent_layers"),
        )
        if shared is None or shared < 1 or str(independent).lower() == "all":
            return {}  # every layer has its own
        own = [whole(layer) for layer in independent] if isinstance(independent, list) else [0]
        if None in own:
            return {}
        return {"layerwise_num_shared_buffers": shared, "layerwise_independent_layers": tuple(own)}
    return {}


def sizing_input(
    config: Mapping[str, Any],
    options: Mapping[str, Any],
    kv_config: Mapping[str, Any],
    parallel: Mapping[str, int],
    **measured: Any,
) -> SizingInput:
    """What the sizing function wants of an instance, from the model's config, its options and its parallel sizes."""
    speculative, additional = options.get("speculative-config"), options.get("additional-config")
    speculative = speculative if isinstance(speculative, Mapping) else {}
    additional = additional if isinstance(additional, Mapping) else {}
    offload = additional.get("sparse_kv_offload_config")
    stated: dict[str, Any] = {name.replace("-", "_"): whole(options.get(name)) for name in LEAST}
    stated["gpu_memory_utilization"] = fraction(options.get("gpu-memory-utilization"))
    stated = {name: value for name, value in stated.items() if value is not None and value > 0}
    if "mtp" not in str(speculative.get("method", "mtp")):
        stated["mtp_layers"] = 0  # drafts with something else than the model's own layer
    return SizingInput.from_model(
        config,
        num_speculative_tokens=whole(speculative.get("num_speculative_tokens")) or 0,
        li_c8=bool(additional.get("enable_sparse_li_c8")),
        keep_device_kv_cache=isinstance(offload, Mapping) and bool(offload.get("keep_device_kv_cache")),
        memcache=connectors.uses_memcache(kv_config),
        **parallel,
        **stated,
        **layerwise_buffers(kv_config),
        **measured,
    )


#: What follows from the model's config where it is ``auto`` -> the variable that states it.
SIZED_BY: Mapping[str, str] = {
    "topk_buffer_size": "pd_topk_buffer_size",
    "dram_size_per_dp_GB": "pd_dram_size_per_dp_gb",
    "kv-cache-memory-bytes": "pd_kv_cache_memory_bytes",
    "memcache dram.size": "memcache_dram_size",
}


@dataclass(frozen=True)
class OffloadSizes:
    """Values that go into options and files; marks of the unknown where a probe must look first."""

    offload_config: dict[str, Any] = field(default_factory=dict)
    kv_cache_memory_bytes: Any = None
    memcache_dram: str = ""
    sizing: dict[str, Any] | None = None


def offload_sizes(
    instance: Instance,
    options: Mapping[str, Any],
    kv_config: Mapping[str, Any],
    facts: Sequence[HostFacts],
    model_path: str,
    *,
    offloads: bool,
    topk_buffer_size: int | str,
    dram_gib: int | str,
    kv_cache_memory_bytes: int | str,
    memcache_dram: str,
    gate: str,
    unknown: Callable[[str], str],
) -> OffloadSizes:
    """Sizes of one instance. The first host that has seen the model speaks for all; the smallest memory decides."""
    config = next((known for seen in facts if (known := seen.model_config(model_path))), None)
    sizing: Sizing | None = None
    if config is not None and not any(wrong_numbers(options)):
        memory = [seen.available_memory_bytes for seen in facts]
        hbm = [seen.hbm_bytes for seen in facts]
        sizing = size(
            sizing_input(
                config,
                options,
                kv_config,
                _parallel(instance),
                weight_bytes=next((total for seen in facts if (total := seen.model_bytes(model_path))), None),
                hbm_bytes=min((known for known in hbm if known), default=None),
                host_available_bytes=min((known for known in memory if known), default=None),
                sparse_kv_offload=offloads,
                gate=gate,
                topk_buffer_size=topk_buffer_size if offloads else None,
                dram_size_per_dp_gib=dram_gib if offloads else None,
                kv_cache_memory_bytes=kv_cache_memory_bytes,
            )
        )
    recommended = sizing.recommended if sizing else None
    result: dict[str, Any] = {}
    pinned: Any = None if kv_cache_memory_bytes == AUTO else kv_cache_memory_bytes
    if offloads:
        result = {
            "enabled": True,
            "topk_buffer_size": _auto(
                topk_buffer_size, recommended and recommended.topk_buffer_size, "topk_buffer_size", unknown
            ),
            "dram_size_per_dp_GB": _auto(
                dram_gib, recommended and recommended.dram_size_per_dp_GB, "dram_size_per_dp_GB", unknown
            ),
        }
        # Pinned with dram: else upstream's gate compares dram with whatever HBM happens to be free (worker.py).
        pinned = _auto(
            kv_cache_memory_bytes, recommended and recommended.kv_cache_memory_bytes, "kv-cache-memory-bytes", unknown
        )
    dram = ""
    if connectors.uses_memcache(kv_config):
        per_rank = recommended.memcache_dram_gib_per_rank if recommended else None
        dram = _auto(memcache_dram, f"{per_rank}G" if per_rank else None, "memcache dram.size", unknown)
    return OffloadSizes(result, pinned, str(dram), sizing.as_dict() if sizing else None)


def _auto(stated: Any, recommended: Any, what: str, unknown: Callable[[str], str]) -> Any:
    if stated != AUTO:
        return stated
    return recommended if recommended is not None else unknown(what)


def _parallel(instance: Instance) -> dict[str, int]:
    parallel = instance.parallel
    return {
        "tensor_parallel_size": parallel.tensor_parallel_size,
        "pipeline_parallel_size": parallel.pipeline_parallel_size,
        "prefill_context_parallel_size": parallel.prefill_context_parallel_size,
        "decode_context_parallel_size": parallel.decode_context_parallel_size,
        "data_parallel_size": parallel.data_parallel_size,
        "data_parallel_size_local": max(engine.local_ranks for engine in instance.engines),
    }
