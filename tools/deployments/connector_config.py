# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Connector configurations: what of them is derived or moves, and which of them mean the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils import connectors


def in_mooncake_band(port: int, npus: int) -> bool:
    first = connectors.MOONCAKE_BAND_FIRST
    return first <= port < first + connectors.MOONCAKE_BAND_PER_CHIP * npus


def strip_derived(config: Mapping[str, Any], kv_role: str, sized: bool) -> dict[str, Any]:
    """A connector's configuration without port, id, role and sizes, in every connector inside."""
    name = str(config.get("kv_connector"))
    derived = {"engine_id", *(["kv_port"] if connectors.port_is_derived(name) else [])}
    result = {k: v for k, v in config.items() if k not in derived}
    if result.get("kv_role") == kv_role:
        del result["kv_role"]
    extra = dict(config.get("kv_connector_extra_config") or {})
    if sized and connectors.is_sized(name):
        for side in ("prefill", "decode"):
            rest = {k: v for k, v in (extra.pop(side, None) or {}).items() if k not in connectors.SIZE_FIELDS}
            if rest:
                extra[side] = rest
    if "connectors" in extra:
        extra["connectors"] = [strip_derived(child, kv_role, sized) for child in extra["connectors"]]
    result.pop("kv_connector_extra_config", None)
    return {**result, "kv_connector_extra_config": extra} if extra else result


def out_of_band(config: Mapping[str, Any], npus: int) -> dict[str, Any]:
    """A configuration that the user writes whole, its control ports moved beyond Mooncake's random band."""
    result = {key: value for key, value in config.items() if key != "engine_id"}
    port = result.get("kv_port")
    if connectors.is_sized(str(config.get("kv_connector"))) and port is not None and in_mooncake_band(int(port), npus):
        result["kv_port"] = int(port) + connectors.MOONCAKE_BAND_PER_CHIP * npus
    extra = result.get("kv_connector_extra_config")
    if extra and "connectors" in extra:
        children = [out_of_band(child, npus) for child in extra["connectors"]]
        result["kv_connector_extra_config"] = {**extra, "connectors": children}
    return result


def comparable_kv(config: Mapping[str, Any]) -> dict[str, Any]:
    """A connector's configuration without ports and ids, its numbers as numbers."""
    result = {k: v for k, v in config.items() if k not in ("kv_port", "engine_id")}
    extra = dict(result.pop("kv_connector_extra_config", None) or {})
    for side in ("prefill", "decode"):
        if isinstance(extra.get(side), Mapping):
            sizes = {k: int(v) if k in connectors.SIZE_FIELDS else v for k, v in extra[side].items()}
            extra[side] = {k: v for k, v in sizes.items() if (k, v) != ("pp_size", 1)}
    if "connectors" in extra:
        extra["connectors"] = [comparable_kv(child) for child in extra["connectors"]]
    return {**result, "kv_connector_extra_config": extra} if extra else result
