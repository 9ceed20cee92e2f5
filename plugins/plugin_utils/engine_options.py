# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Options of one engine: the ones that the plan owns, and the user's layers around them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.layers import merge
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.options import OptionTable
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.sizes import SIZED, fraction, whole
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.topology import HYBRID, Engine, Instance

_PARALLEL = "{role}_parallel"

#: Options that follow from the plan -> the variable that decides them.
OWNED: Mapping[str, str] = {
    "model": "pd_model_path",
    "served-model-name": "pd_served_model_name",
    "host": "pd_http_host",
    "port": "{role}_port",
    "headless": "pd_instance (followers of an instance are headless)",
    "tensor-parallel-size": _PARALLEL,
    "pipeline-parallel-size": _PARALLEL,
    "prefill-context-parallel-size": _PARALLEL,
    "decode-context-parallel-size": _PARALLEL,
    "data-parallel-size": _PARALLEL,
    "data-parallel-hybrid-lb": f"{_PARALLEL}.data_parallel_mode",
    "data-parallel-external-lb": f"{_PARALLEL}.data_parallel_mode",
    "data-parallel-multi-port-external-lb": f"{_PARALLEL}.data_parallel_mode",
    "data-parallel-size-local": "pd_data_parallel_size_local",
    "data-parallel-rank": "pd_instance and the order of hosts",
    "data-parallel-start-rank": "pd_instance and the order of hosts",
    "data-parallel-address": "pd_address of the instance's first host",
    "data-parallel-rpc-port": "pd_data_parallel_rpc_port",
    "nnodes": "pd_instance (hosts that share it)",
    "node-rank": "pd_instance and the order of hosts",
    "master-addr": "pd_address of the instance's first host",
    "master-port": "pd_master_port",
    "device-ids": "pd_devices",
    "kv-transfer-config": "{role}_kv_transfer_config",
    "kv-cache-memory-bytes": "pd_kv_cache_memory_bytes",
    "config": "any other variable: the plan writes the file",
}

_OFFLOAD = "sparse_kv_offload_config"

#: Keys of ``additional-config.sparse_kv_offload_config`` that follow from the plan.
OWNED_OFFLOAD: Mapping[str, str] = {
    "enabled": "pd_profile",
    "topk_buffer_size": "pd_topk_buffer_size",
    "dram_size_per_dp_GB": "pd_dram_size_per_dp_gb",
}

#: Options that hold a mapping; compilation-config may also be a level.
MAPPINGS = ("additional-config", "compilation-config", "speculative-config")

#: A number of the parser's types in words, and what reads it.
_NUMBERS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "int": ("a whole number", lambda value: None if isinstance(value, float) else whole(value)),
    "float": ("a number", fraction),
}

#: Options that an engine without an HTTP server refuses (vllm/entrypoints/cli/serve.py ``run_headless``).
NEEDS_HTTP = ("api-server-count",)


def owned(options: Mapping[str, Any], role: str, offload: bool) -> list[tuple[str, str]]:
    """``(option, right variable)`` of options in a user's layer that the plan decides. Not even removing is allowed."""
    found = [(name, OWNED[name].format(role=role)) for name in options if name in OWNED]
    stated = _offload_config(options) if offload else {}
    return found + [
        (f"additional-config.{_OFFLOAD}.{key}", OWNED_OFFLOAD[key]) for key in stated if key in OWNED_OFFLOAD
    ]


def misshapen(options: Mapping[str, Any]) -> list[str]:
    """Options of a user's layer that must be mappings and are something else, such as JSON with a comma too many."""
    allowed = {"compilation-config": (Mapping, int)}
    return [
        name
        for name in MAPPINGS
        if options.get(name) is not None and not isinstance(options[name], allowed.get(name, Mapping))
    ]


def misshapen_inside(options: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Path and value of what vllm-ascend reads of additional-config as a mapping (all ``*_config``) and is none."""
    additional = options.get("additional-config")
    for key, value in additional.items() if isinstance(additional, Mapping) else ():
        if str(key).endswith("_config") and value is not None and not isinstance(value, Mapping):
            yield f"additional-config.{key}", value


def misstated(options: Mapping[str, Any], table: OptionTable) -> dict[str, tuple[str, str]]:
    """Switches that have a value, other options that have none or one of another kind -> what would be right, and how
    to mend it. Numbers that decide sizes are left to PD-ARG-003, which knows their limits.

    The parser of vLLM refuses both: ``--enable-expert-parallel yes`` is a stray word, ``--quantization`` wants one.
    ``False`` is no value either: an option that is no switch has no form with ``no-``.
    """
    result = {}
    for name, value in options.items():
        option = table.get(name)
        if option is None or value is None:
            continue
        switch = option.kind in ("boolean", "flag")
        if switch and not isinstance(value, bool):
            result[name] = ("true or false, without quotes", f"write {name}: true or {name}: false")
        elif not switch and isinstance(value, bool) and not (value and option.bare):
            result[name] = ("its value", f"write the value that {name} shall have; null leaves it out")
        elif option.kind == "value" and not option.json and name not in SIZED:
            right, read = _NUMBERS.get(option.type, ("one value", str))
            if isinstance(value, (list, Mapping)) or read(value) is None:
                result[name] = (right, f"correct {name}")
    return result


def without_owned(options: Mapping[str, Any], offload: bool) -> dict[str, Any]:
    """A layer without what the plan decides; what was left out is reported, see ``owned``."""
    result = {name: value for name, value in options.items() if name not in OWNED}
    stated = _offload_config(options) if offload else {}
    if stated:
        kept = {key: value for key, value in stated.items() if key not in OWNED_OFFLOAD}
        result["additional-config"] = {**result["additional-config"], _OFFLOAD: kept}
    return result


def _offload_config(options: Mapping[str, Any]) -> Mapping[str, Any]:
    additional = options.get("additional-config")
    config = additional.get(_OFFLOAD) if isinstance(additional, Mapping) else None
    return config if isinstance(config, Mapping) else {}


def parallel_options(
    instance: Instance, engine: Engine, address: str, rpc_port: int | None, master_port: int | None
) -> dict[str, Any]:
    """Sizes and ranks of one engine. ``rpc_port`` ``None``: all ranks in one engine, and nobody asked for one."""
    parallel = instance.parallel
    options: dict[str, Any] = {"tensor-parallel-size": parallel.tensor_parallel_size}
    for name in ("pipeline_parallel_size", "prefill_context_parallel_size", "decode_context_parallel_size"):
        value = getattr(parallel, name)
        if value > 1 or name in parallel.given:
            options[name.replace("_", "-")] = value
    if engine.nnodes > 1:
        options |= {
            "nnodes": engine.nnodes,
            "node-rank": engine.node_rank,
            "master-addr": address,
            "master-port": master_port,
        }
    if parallel.data_parallel_size == 1 and "data_parallel_size" not in parallel.given:
        return options
    options["data-parallel-size"] = parallel.data_parallel_size
    if engine.external:
        options["data-parallel-rank"] = engine.start_rank
    elif rpc_port is not None:
        options |= {
            "data-parallel-size-local": engine.local_ranks,
            "data-parallel-start-rank": engine.start_rank,
        }
    if parallel.data_parallel_mode == HYBRID and parallel.data_parallel_size > 1 and engine.nnodes == 1:
        # refused without the local size
        options |= {"data-parallel-size-local": engine.local_ranks, "data-parallel-hybrid-lb": True}
    if rpc_port is not None:
        options |= {"data-parallel-address": address, "data-parallel-rpc-port": rpc_port}
    return options


def engine_options(
    engine: Engine,
    model: str,
    http: Mapping[str, Any],
    served_model_name: str | list[str] | None,
    parallel: Mapping[str, Any],
    layers: Mapping[str, Any],
    derived: Mapping[str, Any],
) -> dict[str, Any]:
    """All options of an engine as meaning. ``derived`` (sizes, connector) lies on top of the user's layers."""
    head: dict[str, Any] = {"model": model}
    if engine.serves_http:
        head |= dict(http)
    else:
        head["headless"] = True
    head |= dict(parallel)
    if served_model_name:
        head["served-model-name"] = served_model_name
    user = layers if engine.serves_http else {k: v for k, v in layers.items() if k not in NEEDS_HTTP}
    return {**head, **merge(user, derived)}
