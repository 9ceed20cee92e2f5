# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Ports: every port of every service of a host, against each other, the kernel, and what transports pick at random."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...module_utils._text import format_ranges
from .. import connectors
from ..facts import is_unknown
from ..findings import ERROR, WARNING, as_counted
from ..ports import (
    EPHEMERAL,
    KV_CONTROL,
    KV_NUMBER,
    LAST_PORT,
    MEMFABRIC_FIRST_PORT,
    MEMFABRIC_STORE_PORT,
    OFFLOAD_STORE,
    set_by,
)
from .context import Context, Engine, Missing, covers, known, targets
from .registry import LEFT_OVER, REPORT, Problem, remove, rule

KV_PORT_DOC = "vllm-ascend docs/source/tutorials/features/pd_disaggregation_mooncake_multi_node.md"


def variables(ctx: Context, *ports: Mapping[str, Any]) -> list[str]:
    """The variables behind ports."""
    roles = {engine.name: engine.role for engine in ctx.engines}
    return [name for port in ports for name in set_by(str(port["purpose"]), roles.get(port["owner"]))]


def set_another(ctx: Context, *ports: Mapping[str, Any], to: str = "") -> str:
    """Advice that names the variables behind the ports."""
    names = variables(ctx, *ports)
    if not names:
        return f"set another port for {ports[0]['owner']} ({ports[0]['purpose']}){to}"
    return f"set another {' or '.join(dict.fromkeys(names))}{to}"


#: Whoever stops these loses the way to the host, or everything that runs on it.
SYSTEM = ("sshd", "init", "systemd", "dockerd", "containerd", "isulad", "podman", "kubelet", "rpcbind")


def free_port(ctx: Context, host: str, port: Mapping[str, Any], start: int) -> int | None:
    """The first place from ``start`` on for a port, or range, that no other of the plan, listener or kernel takes, and
    that is offered to no other.
    """
    key = (host, str(port["owner"]), str(port["purpose"]), int(port["first"]))
    if key in ctx.offers:
        return ctx.offers[key][0]
    try:
        taken = [(int(one["port"]), int(one["port"])) for one in ctx.fact(host, "host.listeners") if one.get("port")]
    except Missing:
        taken = []
    taken += [EPHEMERAL, *((int(one["first"]), int(one["last"])) for one in ctx.ports_on(host) if one is not port)]
    taken += [offer for (where, *_rest), offer in ctx.offers.items() if where == host]
    width, place = int(port["last"]) - int(port["first"]), max(start, 1024)
    while beyond := [last for first, last in taken if first <= place + width and place <= last]:
        place = max(beyond) + 1
    if place + width > LAST_PORT:
        return None
    ctx.offers[key] = (place, place + width)
    return place


def overlap(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    return int(a["first"]) <= int(b["last"]) and int(b["first"]) <= int(a["last"])


def same_address(a: Any, b: Any) -> bool:
    """Whether two sockets of the same port clash: one of them binds everything, or both the same address."""
    wildcard = (None, "", "::", "*")  # what listens on :: takes IPv4 too, as the kernel has it by default
    if a in wildcard or b in wildcard or a == b:
        return True
    return "0.0.0.0" in (a, b) and (is_unknown(a) or is_unknown(b) or ":" not in str(a) + str(b))


def span(port: Mapping[str, Any]) -> str:
    return str(port["first"]) if port["first"] == port["last"] else f"{port['first']}-{port['last']}"


def text(port: Mapping[str, Any]) -> str:
    return f"{port['owner']} ({port['purpose']}, {span(port)})"


def fixed_ports(ctx: Context, host: str) -> list[Mapping[str, Any]]:
    """Ports that are set, not picked, and that somebody binds."""
    return [port for port in ctx.ports_on(host) if port.get("fixed", True) and port["purpose"] != KV_NUMBER]


def mooncake_band(ctx: Context, host: str) -> tuple[int, int]:
    """The random band of Mooncake's AscendDirect transport on a host."""
    chips = int(ctx.hosts[host].get("chips") or 16)
    first = connectors.MOONCAKE_BAND_FIRST
    return first, first + connectors.MOONCAKE_BAND_PER_CHIP * chips - 1


@rule(
    "PD-PORT-001",
    ERROR,
    "two services of a host want the same port",
    per="host",
    source="vllm-ascend #4725, #8938, #405; gpustack #4312; srt-slurm #243; Mooncake #3540",
)
def own_ports_differ(ctx: Context, host: str) -> Iterator[Problem]:
    """Every port of every service of a host is compared with every other, ranges included.

    The second service to start fails with "Address already in use", often after its weights are loaded.
    KV transfer takes a whole range: one port for each rank from kv_port upwards. Where both bind one address each, and
    not the same, it goes well as long as they keep to that: a warning.
    """
    ports = sorted(fixed_ports(ctx, host), key=lambda port: int(port["first"]))
    for index, one in enumerate(ports):
        for other in ports[index + 1 :]:
            if int(other["first"]) > int(one["last"]):
                break
            if one["purpose"] == other["purpose"] == OFFLOAD_STORE:
                continue  # two engines that offload: PD-PORT-008
            apart = "" if same_address(one.get("bind"), other.get("bind")) else ", on different addresses"
            place = free_port(ctx, host, other, int(one["last"]) + 1)
            yield Problem(
                f"{text(one)} and {text(other)} overlap{apart}",
                f"{other['owner']} at {place}" if place else f"{other['owner']} above {one['last']}",
                set_another(ctx, other, one),
                severity=WARNING if apart else None,
            )


@rule(
    "PD-PORT-002",
    ERROR,
    "a port lies in the band from which Mooncake picks at random",
    per="host",
    source=f"vllm-ascend #6455; {KV_PORT_DOC}",
)
def outside_mooncake_band(ctx: Context, host: str) -> Iterator[Problem]:
    """Mooncake's AscendDirect transport listens on random ports in 20000 to 20000 + 1000 x chips.

    A fixed port there works most of the time and fails now and then with "ZMQError: Address already in use".
    With 16 chips per host the first safe port is 36000. Both guides have their Mooncake ports inside the band.
    The port where ranks meet (vLLM's own default, 29550, lies in the band) is bound before the engine's own Mooncake
    picks, so with no other Mooncake on the host it is only a warning.
    """
    users = [engine for engine in ctx.on(host) if engine.uses_mooncake]
    if not users:
        return
    first, last = mooncake_band(ctx, host)
    for port in fixed_ports(ctx, host):
        if overlap(port, {"first": first, "last": last}):
            yield Problem(
                f"{text(port)} lies in {first}-{last}",
                f"{last + 1} or above, or below {first}",
                set_another(ctx, port, to=f": {last + 1} or above"),
                severity=WARNING if "rendezvous" in port["purpose"] and len(users) == 1 else None,
            )


@rule(
    "PD-PORT-003",
    ERROR,
    "a port is out of range",
    per="host",
    source="vllm-ascend sfa_pd_rd2h/scheduler.py SFAPDRD2HScheduler",
)
def within_range(ctx: Context, host: str) -> Iterator[Problem]:
    """Ports go up to 65535, and KV transfer needs kv_port + data parallel size x tensor parallel size of them.

    Ports below 1024 are those of system services.
    """
    for port in ctx.ports_on(host):
        if int(port["first"]) < 1024 or int(port["last"]) > LAST_PORT:
            width = int(port["last"]) - int(port["first"])
            place = free_port(ctx, host, port, int(port["first"]) + 8000) if int(port["first"]) < 1024 else None
            yield Problem(
                f"{text(port)} leaves 1024-{LAST_PORT}",
                f"1024 to {LAST_PORT - width}" + (f", such as {place}" if place else ""),
                set_another(ctx, port),
            )


@rule(
    "PD-PORT-004", ERROR, "a port is taken by another process", per="host", source="vllm-ascend #11968; gpustack #4312"
)
def not_listened_on(ctx: Context, host: str) -> Iterator[Problem]:
    """Something on the host already listens on a port of the plan.

    Containers of services that this plan has on the host do not count: they are made anew. Those of an earlier plan do,
    such as one from before a host or an instance was renamed: it keeps running beside the new one.
    """
    listeners = [
        one
        for one in ctx.fact(host, "host.listeners")
        if one.get("port") and not ctx.is_own(host, one.get("container"))
    ]
    left_over: dict[str, set[int]] = {}
    for port in fixed_ports(ctx, host):
        if int(port["first"]) < 1024:
            continue  # PD-PORT-003: it has to move anyway
        for one in listeners:
            inside = int(port["first"]) <= int(one["port"]) <= int(port["last"])
            if inside and one.get("protocol", "tcp") == "tcp" and same_address(port.get("bind"), one.get("address")):
                owner = str(one.get("container") or one.get("process") or "a process that could not be seen")
                if ctx.left_over(host, one.get("container")):
                    left_over.setdefault(owner, set()).add(int(one["port"]))
                    continue
                pid = f", pid {one['pid']}" if one.get("pid") else ""
                system = not one.get("container") and owner.startswith(SYSTEM)
                movable = bool(variables(ctx, port))
                stop = ("" if movable else "have it listen elsewhere") if system else f"stop {owner}"
                place = free_port(ctx, host, port, int(port["first"])) if movable else None
                yield Problem(
                    f"port {one['port']} of {port['owner']} ({port['purpose']}) is held by {owner}{pid}",
                    str(place or "a free port"),
                    ", or ".join(filter(None, (set_another(ctx, port) if movable else "", stop))),
                )
    for owner, taken in sorted(left_over.items()):
        held = f"ports {format_ranges(sorted(taken))} are" if len(taken) > 1 else f"port {min(taken)} is"
        yield Problem(f"{held} held by {owner}{LEFT_OVER}", "free ports", remove(owner, host))


@rule(
    "PD-PORT-005",
    WARNING,
    "a port may be handed out by the kernel before its service starts",
    per="host",
    source=f"vllm-ascend #16205; {KV_PORT_DOC}",
)
def reserved_from_ephemeral(ctx: Context, host: str) -> Iterator[Problem]:
    """A port inside net.ipv4.ip_local_port_range can become the local end of any outgoing connection.

    The service then cannot bind it, now and then. Ports listed in net.ipv4.ip_local_reserved_ports are left alone;
    the plan reserves its own.
    """
    low, high = ctx.fact(host, "host.ephemeral_ports")
    ranges = [tuple(map(int, one)) for one in ctx.fact(host, "host.reserved_ports")]
    for one in ctx.hosts[host].get("reserved_ports") or []:
        bounds = str(one).split("-")
        ranges.append((int(bounds[0]), int(bounds[-1])))
    for port in fixed_ports(ctx, host):
        first, last = max(int(port["first"]), low), min(int(port["last"]), high)
        open_port = next((n for n in range(first, last + 1) if not any(a <= n <= b for a, b in ranges)), None)
        if open_port is not None:
            yield Problem(
                f"{text(port)}: {open_port} lies in the ephemeral range {low}-{high} and is not reserved",
                "reserved in net.ipv4.ip_local_reserved_ports",
                f"reserve {span(port)}, or set a port below {low}",
            )


@rule(
    "PD-PORT-006",
    ERROR,
    "a port lies where MemFabric picks its own",
    per="host",
    source="memfabric_hybrid 1.2 MF_CONFIG_STORE_PORT_START",
)
def outside_memfabric_block(ctx: Context, host: str) -> Iterator[Problem]:
    """Every MemFabric process of a host takes a control port from 9000 upwards: 16 ranks take 9000 to 9015 and more.

    Upstream's own example puts the proxy on 9000.
    """
    ranks = sum(len(engine.devices) for engine in ctx.on(host) if engine.uses_memfabric)
    if not ranks:
        return
    block = {"first": MEMFABRIC_FIRST_PORT, "last": MEMFABRIC_FIRST_PORT + 2 * ranks - 1}
    for port in fixed_ports(ctx, host):
        if overlap(port, block):
            yield Problem(
                f"{text(port)} lies in {span(block)}, which {ranks} MemFabric ranks fill",
                f"{block['last'] + 1} or above, or below {MEMFABRIC_FIRST_PORT}",
                set_another(ctx, port),
            )


@rule(
    "PD-PORT-007",
    ERROR,
    "engines of a host share HCCL's base port, or have none",
    per="host",
    chips=True,
    source="vllm-ascend #4725, #405, #11968, #16205",
)
def hccl_base_ports(ctx: Context, host: str) -> Iterator[Problem]:
    """HCCL listens from HCCL_IF_BASE_PORT upwards, one port per chip; unset it is 60000 for every engine (EJ0003,
    EI0019).

    Two engines on one host need different bases, far enough apart.
    """
    bases: dict[str, list[Engine]] = {}
    for engine in ctx.on(host):
        bases.setdefault(str(engine.env.get("HCCL_IF_BASE_PORT", "unset")), []).append(engine)
    for base, engines in bases.items():
        if len(engines) > 1:
            yield Problem(
                f"{', '.join(engine.name for engine in engines)} have HCCL_IF_BASE_PORT {base}",
                "one base per engine, 100 apart",
                "leave HCCL_IF_BASE_PORT to the plan (the first is pd_hccl_if_base_port)",
            )
        elif base == "unset":
            yield Problem(
                f"{engines[0].name} has no HCCL_IF_BASE_PORT, so HCCL takes 60000 and up",
                "a base of its own, reserved",
                "leave HCCL_IF_BASE_PORT to the plan",
                severity=WARNING,
            )


@rule(
    "PD-PORT-008",
    ERROR,
    "two sparse-offload engines of a host would share one loopback store",
    per="host",
    source="memfabric_hybrid 1.2 SHARED scene, tcp://127.0.0.1:8500 + device // world size",
    versions=">=0.26",
)
def one_offload_engine(ctx: Context, host: str) -> Iterator[Problem]:
    """Rank 0 of each data-parallel group opens a store on 127.0.0.1:8500 + device // world size.

    Two engines that each see a device 0 meet on 8500. Data parallelism inside one engine counts on: 8500, 8501 and
    so on.
    """
    engines = [engine for engine in ctx.on(host) if engine.offloads]
    if len(engines) > 1:
        yield Problem(
            f"{len(engines)} engines with sparse KV offload: {', '.join(engine.name for engine in engines)}",
            "one per host",
            "data_parallel_mode: internal in decode_parallel, or one decode instance per host",
        )
    groups = sum(engine.local_ranks for engine in engines)
    ports = fixed_ports(ctx, host)
    if not groups or any(port["purpose"] == OFFLOAD_STORE for port in ports):
        return  # stores that the plan knows of are compared with every other port anyway
    store = {"first": MEMFABRIC_STORE_PORT, "last": MEMFABRIC_STORE_PORT + groups - 1}
    for port in ports:
        if overlap(port, store) and same_address(port.get("bind"), "127.0.0.1"):
            yield Problem(
                f"{text(port)} lies on the offload store's {span(store)}",
                f"{store['last'] + 1} or above, or below {MEMFABRIC_STORE_PORT}",
                set_another(ctx, port),
            )


@rule("PD-PORT-009", ERROR, "VLLM_PORT clashes", per="host", source="gpustack #4312; srt-slurm #243")
def vllm_port(ctx: Context, host: str) -> Iterator[Problem]:
    """VLLM_PORT is the base of vLLM's internal ports, not its HTTP port: it must differ from every port of the plan and
    between engines. Unset, vLLM picks free ones.
    """
    seen: dict[str, str] = {}
    for engine in ctx.on(host):
        value = engine.env.get("VLLM_PORT")
        if value is None:
            continue
        mend = f"remove VLLM_PORT from {engine.role}_env or pd_env"
        if not str(value).isdigit():
            yield Problem(f"VLLM_PORT of {engine.name} is {value!r}", "a port, or unset", mend)
            continue
        base = {"first": int(value), "last": int(value)}
        for port in fixed_ports(ctx, host):
            if overlap(base, port):
                yield Problem(f"VLLM_PORT {value} of {engine.name} is taken by {text(port)}", "unset", mend)
        if str(value) in seen:
            yield Problem(
                f"{seen[str(value)]} and {engine.name} both have VLLM_PORT {value}", "unset, or one each", mend
            )
        seen[str(value)] = engine.name


@rule("PD-PORT-010", ERROR, "a rendezvous port is left to chance", per="instance", source="vllm-ascend #16237")
def rendezvous_pinned(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """Engines of one instance on several hosts find each other at a port that all must know.

    A random pick is bound later than it is chosen, and another process can take it in between.
    """
    engines = ctx.of_instance(str(engine.data["instance"]))
    if len(engines) < 2:
        return
    option = "data-parallel-rpc-port" if engine.dp > 1 else "master-port"
    if engine.dp == 1 and engine.args.get("nnodes") is None:
        return
    values = {one.args.get(option) for one in engines}
    if len(values) != 1 or None in values:
        yield Problem(
            f"engines of {engine.data['instance']} have {option} {sorted(map(str, values))}",
            "one port, the same for all",
            "set pd_data_parallel_rpc_port or pd_master_port",
        )


@rule(
    "PD-PORT-011",
    ERROR,
    "KV pools of a host share a lookup port",
    per="host",
    source="vllm-ascend ascend_store/pool_scheduler.py, lookup_rpc_port_{n}_dp_rank{r}",
)
def lookup_ports(ctx: Context, host: str) -> Iterator[Problem]:
    """The KV pool's lookup socket is a file named after lookup_rpc_port and the data-parallel rank, in the folder of
    VLLM_RPC_BASE_PATH (/tmp).

    Every container has a /tmp of its own. Where that folder is one of the host's instead, two instances with the same
    number, 0 where it is left out, read each other's answers.
    """
    seen: dict[str, Engine] = {}
    for engine in ctx.on(host):
        part = engine.part(*connectors.STORES)
        if part is None or not covers(targets(engine), str(engine.env.get("VLLM_RPC_BASE_PATH") or "/tmp")):
            continue
        extra = part.get("kv_connector_extra_config") or {}
        number = str(extra.get("lookup_rpc_port", extra.get("mooncake_rpc_port", 0)))
        other = seen.setdefault(number, engine)
        if other.data["instance"] != engine.data["instance"]:
            yield Problem(
                f"{other.name} and {engine.name} both have lookup_rpc_port {number} in a folder of the host",
                "a folder of each container",
                "leave the mount out of pd_extra_mounts, or unset VLLM_RPC_BASE_PATH",
            )


@rule(
    "PD-PORT-012",
    WARNING,
    "Mooncake engines of a host start at the same time",
    per="host",
    source="vllm-ascend #8938",
)
def mooncake_together(ctx: Context, host: str) -> Iterator[Problem]:
    """Instances that start together on one host can draw the same random port of Mooncake's band and one of them
    fails.
    """
    instances = sorted({str(one.data["instance"]) for one in ctx.on(host) if one.uses_mooncake}, key=as_counted)
    if len(instances) > 1:
        yield Problem(
            f"{', '.join(instances)} draw ports from the same band",
            "start one after the other",
            "if one fails with 'Address already in use', start it again",
        )


@rule("PD-PORT-013", ERROR, "the plan lacks a port", per="engine", source="collection")
def has_ports(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """A port that is bound but not in the plan's table is checked by nobody: HTTP, and one KV port for each rank.

    What lies beyond 65535 is no port, and told as port-range; a kv_port that is missing is PD-CONN-015's.
    """
    owned = [port for port in ctx.ports_on(engine.host) if port["owner"] == engine.name]

    def listed(first: int, last: int) -> bool:
        return any(int(port["first"]) <= first and last <= int(port["last"]) for port in owned)

    if engine.data.get("serves_http", True):
        port = int(known(engine.args.get("port"), f"HTTP port of {engine.name}"))
        if port <= LAST_PORT and not listed(port, port):
            yield Problem(f"HTTP port {port} of {engine.name} is not in the port table", "listed", REPORT)
    if engine.transfer and connectors.needs_kv_ports(engine.transfer, engine.role):
        bases = [int(part["kv_port"]) for part in engine.parts if part.get("kv_port") is not None]
        for base in (one for one in bases if one <= LAST_PORT):
            transfer = [port for port in owned if str(port["purpose"]).startswith(KV_CONTROL)]
            # an external rank starts at base + rank x tensor parallel size, so at or above the base
            if not any(int(port["last"]) >= base for port in transfer):
                where = engine.stated_in("kv-transfer-config", default="") if ctx.profile == "custom" else ""
                mend = f"state one kv_port for all connectors in {where}" if where else REPORT
                yield Problem(f"kv_port {base} of {engine.name} is not in the port table", "listed", mend)
