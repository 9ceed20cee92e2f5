# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Memory sizes of an instance: what the user states, or what ``auto`` takes from the sizing function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._sizing import Sizing, SizingInput, size
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils import connectors
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.facts import HostFacts
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.settings import AUTO
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.topology import Instance


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
    memcache = connectors.uses_memcache(kv_config)
    config = next((known for seen in facts if (known := seen.model_config(model_path))), None)
    sizing: Sizing | None = None
    if config is not None:
        memory = [seen.available_memory_bytes for seen in facts]
        hbm = [seen.hbm_bytes for seen in facts]
        sizing = size(
            _input(
                config,
                instance,
                options,
                kv_config,
                weight_bytes=next((total for seen in facts if (total := seen.model_bytes(model_path))), None),
                hbm_bytes=min((known for known in hbm if known), default=None),
                host_available_bytes=min((known for known in memory if known), default=None),
                sparse_kv_offload=offloads,
                gate=gate,
                memcache=memcache,
                topk_buffer_size=topk_buffer_size if offloads else None,
                dram_size_per_dp_gib=dram_gib if offloads else None,
                kv_cache_memory_bytes=kv_cache_memory_bytes,
            )
        )
    result: dict[str, Any] = {}
    bytes_: Any = None if kv_cache_memory_bytes == AUTO else kv_cache_memory_bytes
    if offloads:
        recommended = sizing.recommended if sizing else None
        result = {
            "enabled": True,
            "topk_buffer_size": _auto(
                topk_buffer_size, recommended and recommended.topk_buffer_size, "topk_buffer_size", unknown
            ),
            "dram_size_per_dp_GB": _auto(
                dram_gib, recommended and recommended.dram_size_per_dp_GB, "dram_size_per_dp_GB", unknown
            ),
        }
        # Pinned with dram: else upstream's gate compares dram with whatever HBM happens to be free (worker.py:627).
        bytes_ = _auto(
            kv_cache_memory_bytes, recommended and recommended.kv_cache_memory_bytes, "kv-cache-memory-bytes", unknown
        )
    dram = ""
    if memcache:
        per_rank = sizing.recommended.memcache_dram_gib_per_rank if sizing else None
        dram = _auto(memcache_dram, f"{per_rank}G" if per_rank else None, "memcache dram.size", unknown)
    return OffloadSizes(result, bytes_, str(dram), sizing.as_dict() if sizing else None)


def _auto(stated: Any, recommended: Any, what: str, unknown: Callable[[str], str]) -> Any:
    if stated != AUTO:
        return stated
    return recommended if recommended is not None else unknown(what)


def _input(
    config: Mapping[str, Any],
    instance: Instance,
    options: Mapping[str, Any],
    kv_config: Mapping[str, Any],
    **measured: Any,
) -> SizingInput:
    """What the sizing function wants, from the instance's sizes and options."""
    parallel = instance.parallel
    speculative = options.get("speculative-config")
    additional = options.get("additional-config")
    tokens = speculative.get("num_speculative_tokens") if isinstance(speculative, Mapping) else None
    stated = {
        "block_size": options.get("block-size"),
        "max_model_len": options.get("max-model-len"),
        "max_num_seqs": options.get("max-num-seqs"),
        "max_num_batched_tokens": options.get("max-num-batched-tokens"),
        "gpu_memory_utilization": options.get("gpu-memory-utilization"),
    }
    store = next((part for part in connectors.walk(kv_config) if part.get("kv_connector") in connectors.STORES), {})
    extra = store.get("kv_connector_extra_config") or {}
    layerwise = (
        {"layerwise_num_shared_buffers": extra.get("layerwise_num_shared_buffers")}
        if extra.get("use_layerwise")
        else {}
    )
    independent = extra.get("layerwise_independent_layers")
    if layerwise and isinstance(independent, list):
        layerwise["layerwise_independent_layers"] = tuple(independent)
    return SizingInput.from_model(
        config,
        tensor_parallel_size=parallel.tensor_parallel_size,
        pipeline_parallel_size=parallel.pipeline_parallel_size,
        prefill_context_parallel_size=parallel.prefill_context_parallel_size,
        decode_context_parallel_size=parallel.decode_context_parallel_size,
        data_parallel_size=parallel.data_parallel_size,
        data_parallel_size_local=max(engine.local_ranks for engine in instance.engines),
        num_speculative_tokens=int(tokens or 0),
        li_c8=bool(additional.get("enable_sparse_li_c8")) if isinstance(additional, Mapping) else False,
        **{name: value for name, value in stated.items() if isinstance(value, (int, float))},
        **layerwise,
        **measured,
    )
