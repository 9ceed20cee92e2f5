# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""KV connectors of vllm-ascend: which fields are derived, which ports they bind, which proxy they need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.profiles import LAYERWISE, STANDARD
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.topology import Parallel

MULTI = "MultiConnector"
SFA = "SfaRemoteD2HConnector"
STORES = ("AscendStoreConnector", "MooncakeConnectorStoreV1")  # the second is the older name of the first

#: Connectors that are told both sides' sizes ("prefill" and "decode" of mooncake_connector.py).
_SIZED = ("MooncakeConnectorV1", "MooncakeHybridConnector", "MooncakeLayerwiseConnector")
_LAYERWISE = (SFA, "MooncakeLayerwiseConnector")

#: First port above Mooncake's random band on a host: 20000 + 1000 per chip.
MOONCAKE_BAND_FIRST = 20000
MOONCAKE_BAND_PER_CHIP = 1000
SFA_FIRST_PORT = 20050

ROLE_TO_KV = {"prefill": "kv_producer", "decode": "kv_consumer", "engine": "kv_both"}

SIZE_FIELDS = ("dp_size", "tp_size", "pp_size")

#: Sizes that all instances of a role must have in common where the other side is told them once. Nobody reads the other
#: side's dp_size, and what is transferred says prefill's tp_size itself (mooncake_connector.py, ``remote_ptp_size``;
#: mooncake_layerwise_connector.py, ``trans_count``).
_COMMON_SIZES = {"prefill": ("pp_size",), "decode": ("tp_size", "pp_size")}


@dataclass(frozen=True)
class Sizes:
    """Parallel sizes of one side, as connectors want to know them."""

    dp: int
    tp: int
    pp: int = 1

    @classmethod
    def of(cls, parallel: Parallel) -> Sizes:
        return cls(parallel.data_parallel_size, parallel.tensor_parallel_size, parallel.pipeline_parallel_size)

    def fields(self) -> dict[str, int]:
        return dict(zip(SIZE_FIELDS, (self.dp, self.tp, self.pp), strict=True))

    def as_config(self) -> dict[str, int]:
        """The fields as they are told: pp_size only where it is not 1."""
        return {name: size for name, size in self.fields().items() if size > 1 or name != "pp_size"}


def walk(config: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The configuration itself and, in a MultiConnector, every connector inside."""
    yield config
    extra = config.get("kv_connector_extra_config") or {}
    for child in extra.get("connectors") or ():
        if isinstance(child, Mapping):
            yield from walk(child)


def names(config: Mapping[str, Any]) -> set[str]:
    return {str(part.get("kv_connector")) for part in walk(config)} - {MULTI, "None"}


def is_sized(name: str) -> bool:
    return name in _SIZED


def common_sizes(config: Mapping[str, Any], role: str) -> tuple[str, ...]:
    """Sizes in which instances of a role may not differ."""
    return _COMMON_SIZES.get(role, ()) if any(map(is_sized, names(config))) else ()


def port_is_derived(name: str) -> bool:
    """Connectors whose ``kv_port`` the plan decides; elsewhere the field is the user's."""
    return is_sized(name) or name == SFA


def uses_mooncake_transport(config: Mapping[str, Any]) -> bool:
    """Whether the engine's process binds Mooncake's random band."""
    return any(
        is_sized(str(part.get("kv_connector"))) or (part.get("kv_connector") in STORES and _backend(part) == "mooncake")
        for part in walk(config)
    )


def uses_memcache(config: Mapping[str, Any]) -> bool:
    return any(part.get("kv_connector") in STORES and _backend(part) == "memcache" for part in walk(config))


def uses_sfa(config: Mapping[str, Any]) -> bool:
    return SFA in names(config)


def proxy_flavour(config: Mapping[str, Any]) -> str:
    """The layerwise connectors let decode call the proxy's metaserver; the others want prefill called first."""
    return LAYERWISE if names(config) & set(_LAYERWISE) else STANDARD


def needs_kv_ports(config: Mapping[str, Any], role: str) -> bool:
    """Whether engines of the role have ``kv_port`` and the ports above to themselves: SfaRemoteD2H only on decode.

    Also where nobody listens: ranks tell each other apart by these numbers (mooncake_layerwise_connector.py,
    ``side_channel_path``).
    """
    found = names(config)
    return any(is_sized(name) for name in found) or (SFA in found and role == "decode")


def listens_on_kv_ports(config: Mapping[str, Any], role: str) -> bool:
    """Whether they listen there: who is asked for KV does, or, layer by layer, who is given it.

    ``KVCacheSendingThread`` of mooncake_connector.py, ``KVCacheRecvingLayerThread`` of mooncake_layerwise_connector.py.
    """
    listening = {"decode" if name in _LAYERWISE else "prefill" for name in names(config) if port_is_derived(name)}
    return role in listening


def stated_kv_port(config: Mapping[str, Any]) -> int | None:
    """The port in a configuration that the user wrote whole."""
    return next((int(part["kv_port"]) for part in walk(config) if str(part.get("kv_port", "")).isdigit()), None)


def _backend(part: Mapping[str, Any]) -> str:
    """AscendStore without ``backend`` means mooncake (ascend_store/pool_scheduler.py)."""
    return str((part.get("kv_connector_extra_config") or {}).get("backend", "mooncake")).lower()


def complete(
    config: Mapping[str, Any], role: str, kv_port: int | None, sizes: Mapping[str, Sizes] | None
) -> dict[str, Any]:
    """Fill in what the topology decides: role, port and both sides' sizes, in every connector inside.

    ``engine_id`` is left to vLLM, which draws a new one at each start: a reader keeps the addresses of a peer under its
    id (mooncake_connector.py, ``kv_caches_base_addr``) and would go on using a restarted peer's old ones.
    """
    name = str(config.get("kv_connector"))
    result: dict[str, Any] = {"kv_connector": name, "kv_role": ROLE_TO_KV[role]}
    if kv_port is not None and (is_sized(name) or (name == SFA and role == "decode")):
        result["kv_port"] = kv_port
    result |= config
    extra = dict(result.get("kv_connector_extra_config") or {})
    if name == MULTI:
        extra["connectors"] = [complete(child, role, kv_port, sizes) for child in extra.get("connectors") or ()]
    if is_sized(name) and sizes:
        extra.update({side: {**(extra.get(side) or {}), **own.as_config()} for side, own in sizes.items()})
    if extra:
        result.pop("kv_connector_extra_config", None)  # last, since it is the longest
        result["kv_connector_extra_config"] = extra
    return result


def misshapen(config: Mapping[str, Any]) -> Iterator[str]:
    """What of a user's configuration is not the mapping or list that it must be."""
    extra = config.get("kv_connector_extra_config")
    if extra is None:
        return
    if not isinstance(extra, Mapping):
        yield f"kv_connector_extra_config is {extra!r}"
        return
    for side in ("prefill", "decode"):
        if side in extra and not isinstance(extra[side], Mapping):
            yield f"{side} is {extra[side]!r}"
    children = extra.get("connectors") or []
    if not isinstance(children, list):
        yield f"connectors is {children!r}"
        return
    for child in children:
        if isinstance(child, Mapping):
            yield from misshapen(child)
        else:
            yield f"connectors holds {child!r}"


def well_shaped(config: Mapping[str, Any]) -> dict[str, Any]:
    """A user's configuration without what is misshapen, and a MultiConnector only with what it consists of."""
    result = dict(config)
    if not any(misshapen(config)):
        return result
    extra = result.pop("kv_connector_extra_config")
    children = extra.get("connectors") if isinstance(extra, Mapping) else None
    if result.get("kv_connector") == MULTI and not isinstance(children, list):
        return {}
    if isinstance(extra, Mapping):
        kept = {key: value for key, value in extra.items() if key not in ("prefill", "decode", "connectors")}
        kept |= {side: extra[side] for side in ("prefill", "decode") if isinstance(extra.get(side), Mapping)}
        whole = [well_shaped(child) for child in children or () if isinstance(child, Mapping)]
        if whole:
            kept["connectors"] = whole
        result["kv_connector_extra_config"] = kept
    return result


def owned_fields(config: Mapping[str, Any], connector: str | None, sized: bool) -> list[str]:
    """Fields in a user's configuration that are derived, with their path.

    ``connector``: the one that lies below where the user names none. ``sized``: both sides' sizes are derived, too.
    """
    name = str(config.get("kv_connector") or connector)
    found = [key for key in ("kv_port", "engine_id") if key in config and (key == "engine_id" or port_is_derived(name))]
    extra = config.get("kv_connector_extra_config") or {}
    for side in ("prefill", "decode") if sized and is_sized(name) else ():
        found += [f"{side}.{key}" for key in SIZE_FIELDS if key in (extra.get(side) or {})]
    for child in extra.get("connectors") or ():
        found += [f"{child.get('kv_connector')}.{field}" for field in owned_fields(child, None, sized)]
    return found
