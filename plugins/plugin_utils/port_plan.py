# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Which port every engine, proxy and MetaService gets. What the user states stays; the rest moves out of the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils import connectors
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.cluster import Claim, Host
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.findings import INFO
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.memcache import (
    HCOM_PROTOCOLS,
    MetaAddress,
    hcom_place,
)
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.ports import (
    HCCL,
    HCCL_SPAN,
    HCCL_STEP,
    HCOM,
    KV_CONTROL,
    KV_NUMBER,
    LAST_PORT,
    MEMFABRIC_FIRST_PORT,
    MEMFABRIC_STORE_PORT,
    OFFLOAD_STORE,
    PortBook,
    PortRange,
    set_by,
)
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.profiles import Profile
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.settings import Report, Settings
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.topology import Engine, Instance

RPC_PORT = 13389


KvConfigs = Mapping[tuple[str, str], Mapping[str, Any]]


@dataclass
class PortPlan:
    """Ports by engine or instance name."""

    book: PortBook = field(default_factory=PortBook)
    http: dict[str, int] = field(default_factory=dict)  # engine
    kv: dict[str, int] = field(default_factory=dict)  # instance -> base
    rpc: dict[str, int] = field(default_factory=dict)  # instance
    master: dict[str, int] = field(default_factory=dict)  # instance
    hccl: dict[str, int] = field(default_factory=dict)  # engine
    proxy: int | None = None


@dataclass
class Allocation:
    """Hands out all ports of a cluster."""

    instances: Sequence[Instance]
    claims: Mapping[str, Claim]
    hosts: Mapping[str, Host]
    settings: Settings
    profile: Profile
    kv_configs: KvConfigs
    report: Report
    plan: PortPlan = field(default_factory=PortPlan)
    counted: dict[tuple[str, str], int] = field(default_factory=dict)  # engines that have a port from a host's variable
    moved: set[tuple[str, str]] = field(default_factory=set)  # host, variable: told already

    @property
    def book(self) -> PortBook:
        return self.plan.book

    def run(self, meta: MetaAddress | None, proxy_host: str | None) -> PortPlan:
        """Stated ports are noted before the others look for room."""
        self._random_ranges()
        if meta is not None:
            self._meta(meta)
            self._hcom()
        if proxy_host is not None:
            self._proxy(proxy_host)  # clients know it, so it moves for no engine
        for stated in (True, False):
            for kind in (self._http, self._rpc, self._master, self._kv):
                for instance in self.instances:
                    kind(instance, stated)
        self._hccl()
        return self.plan

    def _note(self, host: str, first: int, last: int, owner: str, purpose: str, bind: str, fixed: bool = True) -> None:
        if last > LAST_PORT:
            roles = {engine.name: engine.role for instance in self.instances for engine in instance.engines}
            self.report.add(
                "port-range",
                f"{owner} ({purpose}) would reach port {last}",
                f"from {LAST_PORT - (last - first)} or below",
                f"lower {' or '.join(set_by(purpose, roles.get(owner))) or 'the first port'}",
                host,
            )
        self.book.note(PortRange(host, first, min(last, LAST_PORT), owner, purpose, bind, fixed))

    def _room(
        self, variable: str, default: int, spans: Sequence[tuple[str, int, int]], kind: str, role: str, step: int = 1
    ) -> int:
        """The default, or the next free base; told unless it is the role's own further engines that count up."""
        base = self.book.find(default, spans, step)
        if base == default:
            return base
        for host, offset, length in spans:
            first = default + offset
            for entry in self.book.on(host):
                own = entry.purpose.startswith(kind) and (kind == HCCL or entry.owner.startswith(role))
                if own or first > entry.last or entry.first > first + length - 1 or (host, variable) in self.moved:
                    continue
                self.moved.add((host, variable))
                ports = str(entry.first) if entry.first == entry.last else f"{entry.first}-{entry.last}"
                self.report.add(
                    "port-moved",
                    f"{kind} of {role} is at {base} instead of {default}: {ports} is taken by {entry.purpose}",
                    "",
                    f"set {variable} to say where it is",
                    host,
                    severity=INFO,
                )
        return base

    def _random_ranges(self) -> None:
        """Ranges in which engines bind where they like, so nothing of ours may stand there."""
        for instance in self.instances:
            for engine in instance.engines:
                config = self.kv_configs[(engine.role, engine.host)]
                ranks = max(len(engine.devices), 1)
                if connectors.uses_mooncake_transport(config):
                    band = connectors.MOONCAKE_BAND_PER_CHIP * max(len(self.hosts[engine.host].chips), 1)
                    first = connectors.MOONCAKE_BAND_FIRST
                    self._note(
                        engine.host,
                        first,
                        first + band - 1,
                        engine.name,
                        "Mooncake transfer (random)",
                        "0.0.0.0",
                        False,
                    )
                if connectors.uses_sfa(config):
                    first = MEMFABRIC_FIRST_PORT
                    self._note(
                        engine.host,
                        first,
                        first + 2 * ranks - 1,
                        engine.name,
                        "MemFabric (from here on)",
                        "0.0.0.0",
                        False,
                    )
                if self.profile.sparse_kv_offload and engine.role == "decode":
                    first = MEMFABRIC_STORE_PORT
                    self._note(
                        engine.host,
                        first,
                        first + engine.local_ranks - 1,
                        engine.name,
                        OFFLOAD_STORE,
                        "127.0.0.1",
                    )

    def _meta(self, meta: MetaAddress) -> None:
        for port, purpose in (
            (meta.service_port, "MemCache meta service"),
            (meta.config_store_port, "MemCache config store"),
            (meta.metrics_port, "MemCache health and metrics"),
        ):
            self._note(meta.host, port, port, "memcache-meta", purpose, meta.address)

    def _hcom(self) -> None:
        """Where MemCache's ranks are met over the network: the URL's port + the rank's number in the whole pool
        (MemFabric, host_hcom_transport_manager.cpp). Ranks are numbered as they come, so a host may get any of them.
        """
        users = [
            engine
            for instance in self.instances
            for engine in instance.engines
            if connectors.uses_memcache(self.kv_configs[engine.role, engine.host])
        ]
        ranks = sum(len(engine.devices) for engine in users)
        for host, owner in {engine.host: engine.name for engine in reversed(users)}.items():
            place = hcom_place(self.settings.of_host(host, "memcache_hcom_url"))
            if place and ranks and self.settings.of_host(host, "memcache_protocol") in HCOM_PROTOCOLS:
                address, first = place
                self._note(host, first, first + ranks - 1, owner, HCOM, address)

    def _proxy(self, host: str) -> None:
        port = self.settings.cluster("proxy_port")
        if port is None:
            port = self._room("proxy_port", self.profile.ports["proxy"], [(host, 0, 1)], "PD proxy", "proxy")
        self.plan.proxy = port
        self._note(host, port, port, "proxy", "PD proxy", self.hosts[host].address)

    def _own(self, instance: Instance, host: str, name: str) -> int | None:
        """What the instance's entry in ROLE_instances says of one of its ports."""
        value = self.claims[instance.name].entry(host).get(name)
        return None if value is None else int(value)

    def _http(self, instance: Instance, stated: bool) -> None:
        """One port per engine that serves HTTP; on a host they count up from the role's base."""
        by_host: dict[str, list[Engine]] = {}
        for engine in instance.engines:
            if engine.serves_http:
                by_host.setdefault(engine.host, []).append(engine)
        name = f"{instance.role}_port"
        for host, engines in by_host.items():
            own = self._own(instance, host, "port")
            if (own is not None or self.settings.is_set(host, name)) != stated:
                continue
            if own is not None:
                base = own
            elif stated:
                before = self.counted.get((host, name), 0)
                self.counted[host, name] = before + len(engines)
                base = self.settings.of_host(host, name) + before
            else:
                default = self.profile.ports[instance.role]
                base = self._room(name, default, [(host, 0, len(engines))], "HTTP", instance.role)
            bind = self.settings.of_host(host, "pd_http_host")
            for offset, engine in enumerate(engines):
                self.plan.http[engine.name] = base + offset
                self._note(host, base + offset, base + offset, engine.name, "HTTP", bind)

    def _rpc(self, instance: Instance, stated: bool) -> None:
        """Rendezvous of data-parallel ranks on the first host. Where one engine has them all vLLM needs none."""
        parallel, head = instance.parallel, instance.engines[0]
        if parallel.data_parallel_size == 1 and "data_parallel_size" not in parallel.given:
            return
        asked = self._own(instance, head.host, "data_parallel_rpc_port")
        if asked is None:
            asked = self.settings.of_host(head.host, "pd_data_parallel_rpc_port")
        if (asked is not None) != stated:
            return
        if asked is None and self.profile.rpc_port is None and len(instance.engines) == 1 and not head.external:
            return
        if parallel.data_parallel_size == 1:  # passed on because it is stated; one rank meets nobody and binds nothing
            self.plan.rpc[instance.name] = (self.profile.rpc_port or RPC_PORT) if asked is None else asked
            return
        port = self._rendezvous(head.host, asked, self.profile.rpc_port or RPC_PORT)
        self.plan.rpc[instance.name] = port
        self._note(head.host, port, port, head.name, "data-parallel rendezvous", self.hosts[head.host].address)

    def _master(self, instance: Instance, stated: bool) -> None:
        """Rendezvous of hosts that share a rank."""
        head = instance.engines[0]
        if head.nnodes == 1 or stated != self.settings.is_set(head.host, "pd_master_port"):
            return
        asked = self.settings.of_host(head.host, "pd_master_port")
        port = self._rendezvous(head.host, asked if stated else None, asked)
        self.plan.master[instance.name] = port
        # torch's TCPStore takes no address to listen on.
        self._note(head.host, port, port, head.name, "rendezvous of hosts", "0.0.0.0")

    def _rendezvous(self, host: str, stated: int | None, default: int) -> int:
        """A stated port, or the next free one where another instance of the host has it already."""
        if stated is not None and not self.book.is_taken(host, stated):
            return stated
        return self.book.find(default if stated is None else stated, [(host, 0, 1)])

    def _kv(self, instance: Instance, stated: bool) -> None:
        """Control ports of the connector: one per chip, counted over all ranks and, where hosts share a rank, on from
        host to host (mooncake_connector.py, device_index)."""
        if self.profile.name == "custom":
            if stated:
                self._kv_of_the_user(instance)
            return
        head = instance.engines[0]
        config = self.kv_configs[(head.role, head.host)]
        if not connectors.needs_kv_ports(config, instance.role):
            return
        own = self._own(instance, head.host, "kv_port")
        base = self.settings.of_host(head.host, f"{instance.role}_kv_port") if own is None else own
        if (base is not None) != stated:
            return
        others = [e for h in instance.hosts for e in self.book.on(h) if e.purpose in (KV_CONTROL, KV_NUMBER)]
        taken = any(e.owner.startswith(instance.role) for e in others)
        spans = [(engine.host, *_share(engine, instance)) for engine in instance.engines]
        if base is None:
            chips = max(len(self.hosts[e.host].chips) for e in instance.engines)
            band_end = connectors.MOONCAKE_BAND_FIRST + connectors.MOONCAKE_BAND_PER_CHIP * chips
            mooncake = connectors.uses_mooncake_transport(config)
            default = band_end if mooncake else connectors.SFA_FIRST_PORT
            base = self._room(f"{instance.role}_kv_port", default, spans, KV_CONTROL, instance.role)
        elif taken and own is None:  # stated once for the role: further instances of a host follow the first
            base = self.book.find(base, spans)
        self.plan.kv[instance.name] = base
        for engine in instance.engines:
            self._note_kv(engine, instance, base)

    def _kv_of_the_user(self, instance: Instance) -> None:
        """In profile custom the user's configuration has the port, if it has one. Hosts of an instance may differ."""
        for engine in instance.engines:
            config = self.kv_configs[engine.role, engine.host]
            base = connectors.stated_kv_port(config)
            if base is not None and connectors.needs_kv_ports(config, engine.role):
                self._note_kv(engine, instance, base)

    def _note_kv(self, engine: Engine, instance: Instance, base: int) -> None:
        listens = connectors.listens_on_kv_ports(self.kv_configs[engine.role, engine.host], engine.role)
        offset, length = _share(engine, instance)
        first, purpose, address = base + offset, KV_CONTROL if listens else KV_NUMBER, self.hosts[engine.host].address
        self._note(engine.host, first, first + length - 1, engine.name, purpose, address)

    def _hccl(self) -> None:
        for instance in self.instances:
            for engine in instance.engines:
                host = engine.host
                if not self.hosts[host].chips:
                    continue
                base = self.settings.of_host(host, "pd_hccl_if_base_port")
                spans = [(host, 0, HCCL_SPAN)]
                port = self._room("pd_hccl_if_base_port", base, spans, HCCL, engine.role, HCCL_STEP)
                self.plan.hccl[engine.name] = port
                self._note(host, port, port + HCCL_SPAN - 1, engine.name, HCCL, self.hosts[host].address)


def _share(engine: Engine, instance: Instance) -> tuple[int, int]:
    """How many chips of the instance come before this engine's, and how many it has."""
    world = instance.parallel.world_size
    if engine.nnodes == 1:
        return engine.start_rank * world, engine.local_ranks * world
    here = world * instance.parallel.data_parallel_size // engine.nnodes
    return engine.node_rank * here, here
