# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Network: the serving interface and address of each host, the variables that name them, and the way to the peers."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Any

from ...module_utils._nic_choice import FIT
from ..facts import is_unknown
from ..findings import ERROR, INFO, WARNING, as_counted
from .context import Context, Engine, Missing, known
from .registry import Problem, rule

INTERFACE_VARIABLES = ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "HCCL_SOCKET_IFNAME")


def leads_nowhere(ctx: Context, host: str) -> bool:
    """Whether no peer can reach the host's address, whatever the network is: PD-NIC-001 or the planner tells it."""
    value = (ctx.hosts.get(host) or {}).get("address")
    if value is None or is_unknown(value):
        return False
    try:
        address = ipaddress.IPv4Address(value)
    except ValueError:
        return True
    lonely = address.is_loopback and len(ctx.hosts) > 1  # everything on one host may talk over loopback
    return lonely or address.is_link_local or address.is_unspecified or address.is_multicast


def peers_of(ctx: Context, host: str) -> list[str]:
    """The other hosts, but for those of which a wrong address is told."""
    return [other for other in ctx.hosts if other != host and not leads_nowhere(ctx, other)]


def own_addresses(interface: Mapping[str, Any]) -> list[str]:
    return [str(one["address"]) for one in interface.get("addresses") or []]


@rule(
    "PD-NIC-001",
    ERROR,
    "a serving address is no address that peers can reach",
    per="host",
    source="vllm-ascend #2399, #4164; vLLM #18986; memfabric_transfer_engine.py _build_engine",
)
def address_is_usable(ctx: Context, host: str) -> Iterator[Problem]:
    """Peers connect to the serving address: loopback, link-local and wildcard lead nowhere.

    What is no numeric IPv4 address at all the planner tells (address-not-ipv4).
    """
    value = ctx.address(host)
    if leads_nowhere(ctx, host) and not ctx.told("address-not-ipv4", host):
        right, name = "an address of the serving NIC", ""
        if ctx.facts and (ctx.facts.get(host) or {}).get("nic"):
            fit = [_ipv4(one) for one in ctx.fact(host, "nic.interfaces") if one["name"] in fit_to_serve(ctx, host)]
            right, name = " or ".join(fit) or right, f": {fit[0]}" if len(fit) == 1 else ""
        yield Problem(f"{value} cannot be reached by peers", right, f"set pd_address{name}")


def _ipv4(interface: Mapping[str, Any]) -> str:
    return next(str(one["address"]) for one in interface["addresses"] if one["family"] == "ipv4")


def fit_to_serve(ctx: Context, host: str) -> list[str]:
    """Interfaces that could serve, of those that the probe did not take."""
    return [str(one["name"]) for one in ctx.fact(host, "nic.refused") if str(one["reason"]).startswith(FIT)]


@rule("PD-NIC-002", ERROR, "the serving interface cannot serve", per="host", source="vllm-ascend #2399; gpustack #2125")
def interface_is_up(ctx: Context, host: str) -> Iterator[Problem]:
    """The interface must exist on this host under this name, be up, have a carrier, and own the serving address.

    Names differ between hosts, so one global name is often wrong on some of them. What the probe refuses leaves a gap
    in the plan: of a wrong pd_nic no address follows, and of a wrong pd_address no interface. An address that no peer
    can reach at all is PD-NIC-001's, or the planner's.
    """
    name, address = (str(ctx.hosts[host].get(key)) for key in ("nic", "address"))
    interfaces = {str(one["name"]): one for one in ctx.fact(host, "nic.interfaces")}
    twins = ctx.hosts[host].get("twins")  # then the planner's same-machine: the address may be the other one's
    if twins and (is_unknown(name) or is_unknown(address)):
        return
    if is_unknown(name) or is_unknown(address):
        asked = "pd_address" if is_unknown(name) and not is_unknown(address) else "pd_nic"
        if asked == "pd_address" and leads_nowhere(ctx, host):
            return
        fit, reasons = fit_to_serve(ctx, host), ctx.reasons(host, "nic")
        values = [_ipv4(interfaces[one]) if asked == "pd_address" else one for one in fit]
        yield Problem(
            reasons[-1] if reasons else "no serving interface was found",  # its last word is why it chose none
            " or ".join(values) or "an interface that is up, with an IPv4 address that peers reach",
            f"set {asked}: {values[0]}" if len(values) == 1 else f"set {asked}",
        )
        return
    owner = next((n for n, one in interfaces.items() if address in own_addresses(one)), None)
    mend = f"set pd_nic: {owner}" if owner else "set pd_nic and pd_address of this host"
    found = interfaces.get(name)
    if found is None:
        yield Problem(f"{host} has no interface {name}", f"one of {', '.join(sorted(interfaces))}", mend)
        return
    if owner != name and not twins and (owner or not leads_nowhere(ctx, host)):
        where = f"belongs to {owner}" if owner else "belongs to no interface"
        yield Problem(f"{address} {where}, not to {name}", f"an address of {name}", mend)
        if owner:
            return
    if not found.get("admin_up", True) or str(found.get("state")).lower() in ("down", "lowerlayerdown"):
        yield Problem(f"{name} is {found.get('state') or 'down'}", "up", f"bring {name} up, or choose another NIC")
    elif found.get("carrier") is False:
        yield Problem(f"{name} has no carrier", "a carrier", "plug the cable, or choose another NIC")


@rule(
    "PD-NIC-003",
    ERROR,
    "VLLM_HOST_IP is not the serving address",
    per="engine",
    source="vLLM get_ip; vLLM #7815, PR #43095, PR #15071",
)
def host_ip(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """vLLM advertises VLLM_HOST_IP to its peers; without it the source address of a route to 8.8.8.8, or 0.0.0.0.

    HCCL_IF_IP is not asked. On an air-gapped or multi-homed host that is the wrong NIC. The guides do not set it.
    """
    address = ctx.address(engine.host)
    if engine.env.get("VLLM_HOST_IP") != address:
        found = engine.env.get("VLLM_HOST_IP") or "unset"
        yield Problem(f"VLLM_HOST_IP of {engine.name} is {found}", address, "leave VLLM_HOST_IP to the plan")


@rule(
    "PD-NIC-004",
    ERROR,
    "a communication variable names another interface or address",
    per="engine",
    chips=True,
    source="gpustack #2125; vllm-ascend #2399",
)
def interface_variables(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """HCCL_IF_IP and the SOCKET_IFNAME variables choose where HCCL, Gloo and TP listen: they must be this host's
    own.
    """
    nic, address = known(ctx.hosts[engine.host].get("nic"), f"serving NIC of {engine.host}"), ctx.address(engine.host)
    wanted = {**dict.fromkeys(INTERFACE_VARIABLES, nic), "HCCL_IF_IP": address}
    for name, right in wanted.items():
        value = engine.env.get(name)
        if value != right:
            yield Problem(f"{name} of {engine.name} is {value or 'unset'}", str(right), f"leave {name} to the plan")


@rule(
    "PD-NIC-005", WARNING, "a peer is reached over another interface", per="host", source="vLLM #7815; gpustack #2125"
)
def way_to_peers(ctx: Context, host: str) -> Iterator[Problem]:
    """The kernel sends packets to this peer through another interface or with another source address than the serving
    one.

    Answers then come from an address that the peer does not know, or take the slow network.
    """
    nic, address = known(ctx.hosts[host].get("nic"), f"serving NIC of {host}"), ctx.address(host)
    seen = ctx.fact(host, "nic.peers")
    own = {str(one["name"]): one for one in ctx.fact(host, "nic.interfaces")}
    if address not in own_addresses(own.get(str(nic)) or {}):
        return  # the interface or the address itself is wrong, which is another rule's finding
    for other in peers_of(ctx, host):
        way = seen.get(ctx.address(other))
        if way is None or way.get("local") or not way.get("interface"):
            continue
        if way["interface"] != nic or (way.get("source") and way["source"] != address):
            yield Problem(
                f"{other} is reached through {way['interface']} from {way.get('source')}",
                f"through {nic} from {address}",
                "add a route, or choose the NIC that the kernel uses (pd_nic)",
            )


@rule("PD-NIC-006", ERROR, "a peer cannot be reached, or not on all ports", per="host", source="vllm-ascend #2399")
def peers_answer(ctx: Context, host: str) -> Iterator[Problem]:
    """There is no route to the peer, or its ports do not answer at all.

    "Refused" is fine before a launch: the host answers. Silence means a firewall drops packets or the network is cut;
    so may "No route to host", with which firewalld turns connections away.
    """
    seen = ctx.fact(host, "nic.peers")
    for other in peers_of(ctx, host):
        address = ctx.address(other)
        way = seen.get(address)
        if way is None:
            raise Missing(f"the way from {host} to {other} was not looked at")
        if not way.get("interface") and not way.get("local"):
            yield Problem(f"{other} ({address}): {way.get('reason') or 'no route'}", "a route", "mend the network")
            continue
        answers = {str(port): str(answer) for port, answer in (way.get("tcp") or {}).items()}
        closed = sorted((port for port in answers if answers[port] not in ("ok", "refused")), key=as_counted)
        if closed:
            yield Problem(
                f"{other} ({address}) does not answer on {', '.join(closed)}: {answers[closed[0]]}",
                "an answer, if only a refusal",
                f"open these ports from {host} in the firewall of {other}",
                severity=WARNING,
            )


@rule(
    "PD-NIC-007",
    WARNING,
    "the path to a peer carries smaller packets than the interface",
    per="host",
    source="collection",
)
def path_mtu(ctx: Context, host: str) -> Iterator[Problem]:
    """Large packets to this peer are dropped or cut on the way: transfers hang or crawl although small pings work.

    Measured to the hosts 1, 2, 4, ... places further in the inventory, with packets of a few sizes; of the others the
    kernel's own figure counts.
    """
    interfaces = {one["name"]: one for one in ctx.fact(host, "nic.interfaces")}
    for other in peers_of(ctx, host):
        way = ctx.fact(host, "nic.peers").get(ctx.address(other)) or {}
        mtu = (interfaces.get(way.get("interface")) or {}).get("mtu")
        if mtu and way.get("path_mtu") and way["path_mtu"] < mtu and not way.get("local") and way["interface"] != "lo":
            below = way.get("path_mtu_below")
            size = f"is below {below}, at least {way['path_mtu']}" if below else f"is {way['path_mtu']}"
            yield Problem(
                f"path MTU to {other} {size}; that of {way['interface']} is {mtu}",
                "the same all along",
                "set one MTU on both hosts and the switch between them",
            )


def goes_around(entry: str, address: str) -> bool:
    """Whether httpx, which asks all that is asked inside the cluster, leaves the proxy out for an address because of
    this entry of no_proxy (httpx/_utils.py get_environment_proxies, URLPattern): ``*``, the address, or its end behind
    a dot. ``192.0.2.0/24`` is one address to it, and an entry with a port is for that port alone.
    """
    scheme, separator, rest = entry.rpartition("://")
    host = rest.partition("/")[0]
    if separator:
        return scheme in ("http", "all") and host == address
    return entry == "*" or host == address or (bool(host) and address.endswith("." + host.removeprefix(".")))


def unreadable(entry: str) -> bool:
    """Whether httpx takes a part of an IPv6 address for a port, and fails before its first request."""
    host = entry.partition("/")[0]
    port = host.partition(":")[2]
    if "://" in entry or not port or port.isdecimal():
        return False
    try:
        ipaddress.IPv6Address(entry)
    except ValueError:
        return True
    return False


def proxies_of(env: Mapping[str, Any]) -> dict[str, str]:
    """Variables about proxies as Python reads them: the name in lower case wins, and one that is empty is none."""
    names = sorted(env)  # capitals come first
    found = {name.lower(): str(env[name]) for name in names if name.lower().endswith("_proxy")}
    return {name: value for name, value in found.items() if value}


@rule(
    "PD-NIC-008",
    WARNING,
    "settings of an HTTP proxy stand between the hosts of the cluster",
    per="host",
    source="vllm-ascend #10226; VibeVoice #248; httpx _utils.py get_environment_proxies",
)
def http_proxy(ctx: Context, host: str) -> Iterator[Problem]:
    """With http_proxy set, the PD proxy's and decode's requests to cluster addresses go to that proxy: 502, or they
    hang.

    no_proxy must name every address of the cluster: networks such as 192.0.2.0/24 mean nothing to httpx, which asks.
    With ::1/128 or [::1] in no_proxy it fails, and with it the PD proxy and decode (an error). What counts is the
    environment of our containers; the proxy that the container engine itself pulls images through is not among it.
    """
    addresses = [ctx.address(one) for one in ctx.hosts]
    for service in ctx.services_on(host):
        if service.get("kind") not in ("engine", "proxy"):
            continue
        variables = proxies_of(service.get("env") or {})
        entries = [entry.strip() for entry in variables.get("no_proxy", "").split(",")]
        bad = [] if "*" in entries else [entry for entry in entries if unreadable(entry)]
        if bad:
            yield Problem(
                f"service {service['name']}: httpx cannot read {', '.join(bad)} in no_proxy",
                "single addresses, such as ::1",
                "mend no_proxy in pd_env, or where else it is set",
                severity=ERROR,
            )
        left = [address for address in addresses if not any(goes_around(entry, address) for entry in entries)]
        if left and variables.keys() & {"http_proxy", "all_proxy"}:
            yield Problem(
                f"service {service['name']} has an HTTP proxy, and no_proxy does not cover {', '.join(left)}",
                "no_proxy with every cluster address",
                "give the proxy in pd_env (no_proxy is completed), or extend no_proxy",
            )


@rule("PD-NIC-009", ERROR, "two hosts have the same address", per="cluster", source="collection")
def addresses_differ(ctx: Context) -> Iterator[Problem]:
    """Two inventory names for one address: the second engine would meet the first one's ports.

    Where the inventory alone says so, the planner tells it (same-machine).
    """
    seen: dict[str, str] = {}
    for host in ctx.hosts:
        address = ctx.address(host)
        if address in seen and host not in (ctx.hosts[seen[address]].get("twins") or ()):
            yield Problem(
                f"{seen[address]} and {host} both have {address}", "one each", "set pd_address per host", host
            )
        seen[address] = host


@rule("PD-NIC-010", WARNING, "the host's own name means loopback", per="host", source="vLLM get_ip; Gloo")
def own_name(ctx: Context, host: str) -> Iterator[Problem]:
    """/etc/hosts gives the host's own name a 127 address: whatever resolves the name binds where no peer arrives."""
    if ctx.fact(host, "host.hosts_file").get("own_name_on_loopback") and len(ctx.hosts) > 1:
        entry = ctx.fact(host, "host.hosts_file")
        yield Problem(
            f"{entry['own_name']} is {', '.join(entry['own_addresses'])} in /etc/hosts",
            ctx.address(host),
            "give the name the serving address in /etc/hosts",
            severity=INFO if _variables_set(ctx, host) else None,
        )


def _variables_set(ctx: Context, host: str) -> bool:
    """Where every engine is told its interface and address, the name is not asked."""
    return all(engine.env.get("VLLM_HOST_IP") and engine.env.get("GLOO_SOCKET_IFNAME") for engine in ctx.on(host))


@rule("PD-NIC-011", INFO, "a firewall is on", per="host", source="vllm-ascend #2399")
def firewall(ctx: Context, host: str) -> Iterator[Problem]:
    """A firewall that drops by default must admit the peers to every port of the plan and to MemFabric's 9000 and
    up.
    """
    found = ctx.fact(host, "host.firewall")
    active = sorted(name for name, state in (found.get("services") or {}).items() if state == "active")
    drops = [chain for chain in found.get("nft_input") or [] if chain.get("policy") == "drop"]
    if found.get("input_policy") == "DROP" or drops or "firewalld" in active or "ufw" in active:
        policy = "DROP" if drops else found.get("input_policy") or "active"
        ports = ", ".join(f"{p['first']}-{p['last']}" for p in ctx.ports_on(host) if p.get("fixed", True))
        yield Problem(
            f"{', '.join(active) or 'INPUT policy'} {policy}",
            f"peers admitted to {ports}",
            "open these ports between the hosts of the cluster",
        )
