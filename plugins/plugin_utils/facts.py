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
