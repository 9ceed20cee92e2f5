# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Which interface should carry the service, and why each other one should not. Pure.

A wrong interface does not fail at start: it gives hangs or wrong tokens (vllm-ascend #2399, #7711; vLLM #7815).
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Mapping, NamedTuple, Sequence

#: How the reason begins of an interface that could serve as well.
FIT = "fit, "


class Choice(NamedTuple):
    """serving: {name, address, reason} or None; refused: [{name, reason}]; cause: why serving is None."""

    serving: dict[str, str] | None
    refused: list[dict[str, str]]
    cause: str | None


def choose(
    interfaces: Sequence[Mapping[str, Any]],
    peers: Mapping[str, Mapping[str, Any]],
    default: str | None,
    nic: str | None = None,
    address: str | None = None,
) -> Choice:
    """Prefer what was asked for; then the interface that the kernel uses to the peers; then the default route's.

    `peers` maps addresses to {interface, source, local}; `default` is the interface of the default route.
    """
    by_name = {str(interface["name"]): interface for interface in interfaces}
    unusable = {name: _unusable(interface) for name, interface in by_name.items()}
    unfit = {name: unusable[name] or _unfit(interface, by_name) for name, interface in by_name.items()}
    ways = [peer for peer in peers.values() if peer["interface"] and not peer["local"]]
    votes = Counter(str(peer["interface"]) for peer in ways)

    if address or nic:
        name, cause = _asked_for(by_name, nic, address)
        reason = "asked for"
        if name and unusable[name]:
            cause, name = f"{name} was asked for, but cannot serve: {unusable[name]}", None
    else:
        name, reason, cause = _found(by_name, unfit, votes, default)
    if name is None:
        others = {other: why or FIT + "but nothing tells that it should serve" for other, why in unfit.items()}
        return Choice(None, _refusals(others), cause)
    chosen = address or _address(by_name[name], [str(peer["source"]) for peer in ways if peer["interface"] == name])
    others = {other: why or f"{FIT}but {name} is preferred: {reason}" for other, why in unfit.items() if other != name}
    return Choice({"name": name, "address": chosen, "reason": reason}, _refusals(others), None)


def _refusals(reasons: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "reason": reason} for name, reason in sorted(reasons.items())]


def _ipv4(interface: Mapping[str, Any]) -> list[str]:
    return [str(item["address"]) for item in interface["addresses"] if item["family"] == "ipv4"]


def _routable(addresses: Sequence[str]) -> list[str]:
    return [address for address in addresses if not address.startswith(("169.254.", "127.", "0."))]


def _address(interface: Mapping[str, Any], sources: Sequence[str]) -> str:
    """The address that the kernel itself puts on packets to the peers, else the interface's first."""
    own = _routable(_ipv4(interface))
    used = Counter(source for source in sources if source in own)
    return used.most_common(1)[0][0] if used else own[0]


def _unusable(interface: Mapping[str, Any]) -> str | None:
    """Why an interface cannot serve, whoever asks for it."""
    addresses = _ipv4(interface)
    if interface["kind"] == "loopback":
        return "loopback: no other host reaches it"
    if not interface["admin_up"] or interface["state"] in ("down", "notpresent", "lowerlayerdown"):
        return "down (state {})".format(interface["state"])
    if interface["carrier"] is False:
        return "no carrier"
    if not addresses:
        return "only IPv6 addresses, MemFabric needs IPv4" if interface["addresses"] else "no address"
    if not _routable(addresses):
        return f"only a link-local address ({addresses[0]})"
    return None


def _unfit(interface: Mapping[str, Any], by_name: Mapping[str, Mapping[str, Any]]) -> str | None:
    """Why an interface is not taken unless it is asked for."""
    kind = interface["kind"]
    if kind == "docker":
        return "belongs to the container engine"
    if kind == "tun":
        return "tunnel (VPN)"
    if interface["master"]:
        return "member of {}".format(interface["master"])
    if kind == "bridge" and not any(
        by_name[member]["kind"] in ("physical", "bond", "team", "vlan")
        for member in interface["members"]
        if member in by_name
    ):
        return "bridge without a physical port: only virtual machines or containers reach it"
    return None


def _asked_for(
    by_name: Mapping[str, Mapping[str, Any]], nic: str | None, address: str | None
) -> tuple[str | None, str | None]:
    if nic and nic not in by_name:
        return None, "{} was asked for, but there is no such interface (there are {})".format(
            nic, ", ".join(sorted(by_name))
        )
    if address and not _routable([address]):
        return None, f"{address} was asked for, but no other host reaches it"
    if address:
        holders = [name for name, interface in by_name.items() if address in _ipv4(interface)]
        if not holders or (nic and nic not in holders):
            where = "no interface" if not holders else f"{holders[0]}, not {nic},"
            return None, f"{address} was asked for, but {where} has it"
        return nic or holders[0], None
    return nic, None


def _found(
    by_name: Mapping[str, Mapping[str, Any]],
    unfit: Mapping[str, str | None],
    votes: Counter[str],
    default: str | None,
) -> tuple[str | None, str, str | None]:
    reached = sum(votes.values())
    for name, count in votes.most_common():
        if name in unfit and unfit[name] is None:
            return name, f"the kernel reaches {count} of {reached} peers through it", None
    if default and default in unfit and unfit[default] is None:
        return default, "it carries the default route", None
    fit = [name for name in by_name if unfit[name] is None]
    if len(fit) == 1:
        return fit[0], "the only interface that is fit", None
    if fit:
        return (
            None,
            "",
            "{} are fit, and neither peers nor a default route tell which serves: set pd_nic".format(", ".join(fit)),
        )
    return None, "", "no interface is fit to serve"
