# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Ports of a cluster: who takes which on which host, clashes avoided where the user left the choice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

EPHEMERAL = (32768, 60999)  # Linux' default net.ipv4.ip_local_port_range
LAST_PORT = 65535

#: HCCL takes a few ports from HCCL_IF_BASE_PORT on, one per chip of a host at most.
HCCL_SPAN = 32
HCCL_STEP = 100

# What the port table calls them. Rules and tests tell ports apart by it.
HCCL = "HCCL"
KV_CONTROL = "KV transfer control"
KV_NUMBER = f"{KV_CONTROL} (its number only, not bound)"  # where ranks only tell each other apart by it
OFFLOAD_STORE = "MemFabric store of the offload pool"
HCOM = "MemCache hcom"

#: Loopback store of the offload pool: 8500 + device // world size, so one port per data-parallel rank of a host.
MEMFABRIC_STORE_PORT = 8500
#: Workers of a MemFabric connector choose from here upwards (MF_CONFIG_STORE_PORT_START of memfabric_hybrid 1.2).
MEMFABRIC_FIRST_PORT = 9000

#: How the purpose of a port begins -> the variable that states it.
SET_BY = {
    "HTTP": "{role}_port",
    KV_CONTROL: "{role}_kv_port",
    "data-parallel rendezvous": "pd_data_parallel_rpc_port",
    "rendezvous of hosts": "pd_master_port",
    "HCCL": "pd_hccl_if_base_port",
    "PD proxy": "proxy_port",
    "MemCache meta service": "memcache_meta_port",
    "MemCache config store": "memcache_config_store_port",
    "MemCache health": "memcache_metrics_port",
    HCOM: "memcache_hcom_url",
}


def set_by(purpose: str, role: str | None) -> list[str]:
    """The variables that state a port of an engine of this role, or of no engine."""
    names = [name for begins, name in SET_BY.items() if purpose.startswith(begins)]
    return [name.format(role=role) for name in names if role or "{role}" not in name]


@dataclass(frozen=True)
class PortRange:
    """Ports ``first`` to ``last`` of one owner. ``fixed`` false: the owner picks some of them at random."""

    host: str
    first: int
    last: int
    owner: str
    purpose: str
    bind: str
    fixed: bool = True

    def as_dict(self) -> dict[str, Any]:
        return dict(vars(self))


class PortBook:
    """Remembers what is taken. Random ranges are noted but block only those that may still move."""

    def __init__(self) -> None:
        self._by_host: dict[str, list[PortRange]] = defaultdict(list)

    def note(self, entry: PortRange) -> None:
        """Take a range that cannot move. Whom it runs into is a rule's finding (PD-PORT-001)."""
        self._by_host[entry.host].append(entry)

    def is_taken(self, host: str, port: int) -> bool:
        """By somebody who needs this very port; a random range may spare it."""
        return any(taken.fixed and taken.first <= port <= taken.last for taken in self._by_host[host])

    def find(self, base: int, spans: Iterable[tuple[str, int, int]], step: int = 1) -> int:
        """Lowest base from ``base`` on at which all ``(host, offset, length)`` are free; ``base`` itself if none is."""
        wanted = list(spans)
        candidate = base
        while candidate <= LAST_PORT:
            blocking = [
                taken.last
                for host, offset, length in wanted
                for taken in self._by_host[host]
                if candidate + offset <= taken.last and taken.first <= candidate + offset + length - 1
            ]
            if not blocking:
                return candidate
            candidate += step
        return base

    def on(self, host: str) -> list[PortRange]:
        return self._by_host[host]

    def ranges(self) -> list[PortRange]:
        return [entry for host in self._by_host for entry in self._by_host[host]]

    def reserved(
        self, host: str, already: Sequence[tuple[int, int]] = (), ephemeral: tuple[int, int] = EPHEMERAL
    ) -> list[str]:
        """Fixed ports inside the ephemeral range and those reserved already, in the kernel's own form, merged."""
        first, last = ephemeral
        inside = [
            (max(entry.first, first), min(entry.last, last))
            for entry in self._by_host[host]
            if entry.fixed and entry.first <= last and entry.last >= first
        ]
        merged: list[list[int]] = []
        for low, high in sorted([*inside, *already]):
            if merged and low <= merged[-1][1] + 1:
                merged[-1][1] = max(merged[-1][1], high)
            else:
                merged.append([low, high])
        return [f"{low}-{high}" if low != high else str(low) for low, high in merged]
