# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""What probes saw of a host, and a mark for what nobody has seen yet."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_UNKNOWN = re.compile(r"<unknown: [^<>]* of [^<>]*>")


def mark(what: str, host: str) -> str:
    """What stands in the plan for a value that nobody has seen yet."""
    return f"<unknown: {what} of {host}>"


class Unknowns:
    """Hands out marks for values that need a probe, and remembers them."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], None] = {}

    def mark(self, what: str, host: str) -> str:
        self._seen[(what, host)] = None
        return mark(what, host)

    def as_list(self) -> list[dict[str, str]]:
        return [{"what": what, "host": host} for what, host in self._seen]


def is_unknown(value: Any) -> bool:
    return isinstance(value, str) and _UNKNOWN.search(value) is not None


def find_unknowns(value: Any) -> Iterator[str]:
    """Every mark inside a part of the plan."""
    if isinstance(value, str):
        yield from _UNKNOWN.findall(value)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from find_unknowns(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from find_unknowns(item)


# ---- what facts look like ----

#: As ``host_probe`` returns them, as far as planner, rules and report count on it: a type; a mapping by key, ``*`` for
#: any other; a list of one shape; a tuple of just these. What is left out may be anything.
SHAPE: Mapping[str, Any] = {
    "npu": {
        "chips": [
            {
                **dict.fromkeys(("phy_id", "npu", "chip", "hbm_used_mib", "hbm_total_mib"), int),
                "name": str,
                "health": str,
                "processes": [{"pid": int, "name": str, "hbm_mib": int}],
            }
        ],
        "device_nodes": [int],
        "holders": {"*": [str]},
        "superpod_id": int,
        **dict.fromkeys(("generation", "driver_version", "firmware_version", "install_path", "npu_smi_path"), str),
        "ascend_install_info": str,
        "reasons": [str],
    },
    "nic": {
        "interfaces": [
            {
                "name": str,
                "state": str,
                "kind": str,
                "mtu": int,
                "speed_mbps": int,
                "carrier": bool,
                "addresses": [{"address": str, "family": str}],
            }
        ],
        "serving": {"name": str, "address": str},
        "peers": {"*": {"interface": str, "source": str, "gateway": str, "path_mtu": int, "tcp": {"*": str}}},
        "reasons": [str],
    },
    "hccn": {
        "chips": [{"phy_id": int, "link": str, "net_health": str, "ip": str, "vnic": str, "tls": bool}],
        "hccn_conf": {"exists": bool, "size_bytes": int, "lines": [str]},
        "pings": [{"phy_id": int, "method": str, "address": str, "ok": bool}],
        "reasons": [str],
    },
    "host": {
        "python": str,
        "python_requests": bool,
        "memory": {
            **dict.fromkeys(("total_bytes", "free_bytes", "available_bytes"), int),
            "hugepages": {"size_bytes": int, "total": int, "free": int},
        },
        "contiguous": {"free_bytes": int},
        "shm": {"total_bytes": int, "free_bytes": int},
        "cpu": {"count": int, "features": [str], "sve": bool, "bf16": bool},
        "disks": {"*": {"total_bytes": int, "free_bytes": int, "at": str}},
        "ulimits": {"*": {"*": int}},
        "ephemeral_ports": (int, int),
        "reserved_ports": [(int, int)],
        "listeners": [{"address": str, "port": int, "protocol": str, "pid": int, "process": str, "container": str}],
        "clock": {"epoch_s": float, "offset_s": float},
        "engine": {
            "name": str,
            "version": str,
            "api_version": str,
            "root_dir": str,
            "insecure_registries": [str],
            "runtimes": [str],
        },
        "firewall": {"services": {"*": str}, "nft_input": [{"policy": str}]},
        "proxies": {"*": {"*": str}},
        "hosts_file": {"own_name": str, "own_addresses": [str], "localhost_addresses": [str]},
        "paths": {"*": {"exists": bool}},
        "containers": [{"name": str, "state": str}],
        "reasons": [str],
    },
    "model": {
        "*": {
            "exists": bool,
            "config": {},
            "quantization": {"files": [str], "settings": {}, "tensors": {}},
            "shards": {"count": int, "bytes": int, "declared_bytes": int, "missing": [str], "lfs_pointers": [str]},
            "tokenizer": [str],
            "digests": {},
            "reasons": [str],
        }
    },
}


def well_formed(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Facts of one host without what has another type than the probe gives it, so that nobody else need look.

    That is unknown then, and stands among the reasons of its face.
    """
    result: dict[str, Any] = {}
    for name, face in facts.items() if isinstance(facts, Mapping) else ():
        wrong: list[str] = []
        result[name] = _fitted(face, SHAPE.get(name), name, wrong)
        looked_at = result[name] if isinstance(result[name], dict) else {}
        for one in looked_at.values() if name == "model" else [looked_at]:
            if wrong and isinstance(one, dict):
                told = [f"{path} is nothing that a probe gives" for path in dict.fromkeys(wrong)]
                one["reasons"] = [*(one.get("reasons") or ()), *told]
    return result


def _fitted(value: Any, shape: Any, path: str, wrong: list[str]) -> Any:
    """The value where it has the shape, without those parts that have not; ``None`` where nothing is left."""
    if value is None or shape is None:
        return value
    if isinstance(shape, Mapping) and isinstance(value, Mapping):
        return {key: _fitted(one, shape.get(key, shape.get("*")), f"{path}.{key}", wrong) for key, one in value.items()}
    if isinstance(shape, (list, tuple)) and isinstance(value, (list, tuple)):
        shapes = shape if isinstance(shape, tuple) else shape * len(value)
        items = [_fitted(one, of, path, wrong) for one, of in zip(value, shapes, strict=False)]
        if isinstance(shape, list):
            fields = dict.fromkeys(shape[0]) if isinstance(shape[0], Mapping) else None
            return [one if fields is None else {**fields, **one} for one in items if one is not None]
        if len(value) == len(shape) and None not in items:
            return items
    elif isinstance(value, bool):  # an int to Python
        if shape is bool:
            return value
    elif isinstance(shape, type) and isinstance(value, (int, float) if shape is float else shape):
        return value
    wrong.append(path)
    return None


class HostFacts:
    """Facts of one host as ``host_probe`` returns them; everything is ``None`` where it was not seen."""

    def __init__(self, data: Mapping[str, Any] | None) -> None:
        self.data: Mapping[str, Any] = data or {}

    def _face(self, name: str) -> Mapping[str, Any]:
        face = self.data.get(name)
        return face if isinstance(face, Mapping) else {}

    @property
    def unreachable(self) -> str | None:
        reason = self.data.get("unreachable")
        return str(reason) if reason else None

    @property
    def serving(self) -> Mapping[str, Any]:
        return self._face("nic").get("serving") or {}

    @property
    def chips(self) -> list[int] | None:
        npu = self._face("npu")
        nodes = npu.get("device_nodes") or [chip.get("phy_id") for chip in npu.get("chips") or ()]
        return sorted(int(node) for node in nodes if node is not None) or None

    @property
    def generation(self) -> str | None:
        """``A3`` or ``A2``, by the chips' name."""
        return self._face("npu").get("generation")

    @property
    def hbm_bytes(self) -> int | None:
        """The smallest chip's."""
        totals = [chip.get("hbm_total_mib") for chip in self._face("npu").get("chips") or ()]
        known = [int(total) for total in totals if total]
        return min(known) * (1 << 20) if known else None

    @property
    def npu_smi_path(self) -> str | None:
        return self._face("npu").get("npu_smi_path")

    @property
    def available_memory_bytes(self) -> int | None:
        return (self._face("host").get("memory") or {}).get("available_bytes")

    @property
    def ephemeral_ports(self) -> tuple[int, int] | None:
        found = self._face("host").get("ephemeral_ports")
        return (int(found[0]), int(found[1])) if found else None

    @property
    def reserved_ports(self) -> list[tuple[int, int]]:
        return [(int(low), int(high)) for low, high in self._face("host").get("reserved_ports") or ()]

    def has_path(self, path: str) -> bool | None:
        seen = (self._face("host").get("paths") or {}).get(path)
        return bool(seen.get("exists")) if isinstance(seen, Mapping) else None

    def model_config(self, path: str) -> Mapping[str, Any] | None:
        seen = self._face("model").get(path)
        config = seen.get("config") if isinstance(seen, Mapping) else None
        return config or None

    def model_bytes(self, path: str) -> int | None:
        seen = self._face("model").get(path)
        shards = seen.get("shards") if isinstance(seen, Mapping) else None
        return (shards or {}).get("bytes") or None
