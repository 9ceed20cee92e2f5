# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Which hosts' chips must reach each other over HCCS or RoCE, which of them ping, and what the pings have shown."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from ...module_utils._text import format_ranges
from .. import connectors
from ..findings import ERROR, WARNING, as_counted
from .context import Context, Missing
from .npu import chip_values, needs_roce
from .registry import Problem, rule

#: Ways between chips of two hosts -> the field of a chip's facts that holds its address there. RoCE first: it says
#: which hosts of an instance ping, and over HCCS the same ones can.
METHODS = {"roce": "ip", "hccs": "vnic"}
#: Hosts that one host pings over one way: its chips ping them in turn, and a ping takes some tenths of a second.
MOST = 4


def neighbours(ctx: Context, host: str, method: str) -> list[str]:
    """Hosts whose chips those of this host must reach, and be reached by: a ping tells both.

    Sparse offload: decode reads out of prefill's HBM over HCCS. Mooncake and instances over hosts: RoCE.
    """
    own = ctx.on(host)
    found = set[str]()
    if method == "roce":
        instances = {engine.data["instance"] for engine in own}
        found |= {engine.host for instance in instances for engine in ctx.of_instance(instance)}
    for role, other in (("prefill", "decode"), ("decode", "prefill")):
        mine, theirs = [engine for engine in own if engine.role == role], ctx.of(other)
        if method == "roce":
            talks = any(engine.uses_mooncake for engine in mine)
        else:
            readers = mine if role == "decode" else theirs
            talks = bool(mine) and any(connectors.SFA in engine.connectors for engine in readers)
        if talks:
            found |= {engine.host for engine in theirs}
    return sorted(found - {host}, key=as_counted)


def addresses(ctx: Context, host: str, method: str) -> list[str]:
    """Addresses of the host's planned chips on one of the ways between hosts, as far as they are known."""
    try:
        return [str(found) for found in chip_values(ctx, host, METHODS[method]).values() if found]
    except Missing:
        return []


def wanted(ctx: Context) -> dict[str, dict[str, list[str]]]:
    """Host to ``{hccs: [...], roce: [...]}``: addresses to ping from its chips in turn.

    A host that pings another pings chip n from chip n, so every chip of both takes part, but not each pair of chips.
    """
    pings: dict[str, dict[str, list[str]]] = {host: {method: [] for method in METHODS} for host in ctx.hosts}
    asking: set[str] = set()
    for method in METHODS:
        known = {host: own for host in ctx.hosts if (own := addresses(ctx, host, method))}
        near = {host: [one for one in neighbours(ctx, host, method) if one in known] for host in known}
        chosen = askers(near, asking)
        asking |= set(chosen)
        for host, peers in chosen.items():
            chips = len(known[host])
            pings[host][method] = [known[peer][n % len(known[peer])] for peer in peers for n in range(chips)]
    return pings


def askers(near: Mapping[str, Sequence[str]], asking: Collection[str] = ()) -> dict[str, list[str]]:
    """Who pings whom, so that every host with a neighbour pings one or is pinged by one. Each host that pings is a
    step more, so these are few, and of `asking` where they can be: those ping already over another way.
    """
    chosen: dict[str, list[str]] = {}
    left = {host: None for host, peers in near.items() if peers}  # a set that keeps the order of the inventory
    while left:
        may = {host: MOST - len(chosen.get(host, ())) for host in near}
        free = {host: [peer for peer in peers if peer in left][: may[host]] for host, peers in near.items()}
        host = max(free, key=lambda one: (len(free[one]), one in asking, one in left))
        if not free[host]:  # who is left has neighbours that all take part already
            host = next(iter(left))
            free[host] = [near[host][0]]
        chosen[host] = chosen.get(host, []) + free[host]
        for done in (host, *free[host]):
            left.pop(done, None)
    return chosen


@rule("PD-NPU-011", ERROR, "chips cannot ping their peers", per="host", source="hccn_tool -hccs_ping, -ping")
def pings(ctx: Context, host: str) -> Iterator[Problem]:
    """A chip of this host got no answer from a peer's chip over HCCS or RoCE, though IP may work between the hosts.

    Some hosts ping up to four others each that their engines must reach, chip by chip, so that every chip of the
    cluster takes part in a ping.
    """
    near = {method: found for method in METHODS if (found := neighbours(ctx, host, method))}
    if not near:
        return
    lost = [ping for ping in ctx.fact(host, "hccn.pings") if ping.get("ok") is False]
    for method in near:
        own = [ping for ping in lost if ping["method"] == method]
        if own:
            addresses_lost = [str(ping["address"]) for ping in own]
            mend = "check switch, VLAN and gateway"
            if method == "hccs":
                mend = "check that both hosts are in one SuperPod"
                if one_pod(ctx, [host, *near[method]]):
                    mend = "look at the link of these chips on both hosts: hccn_tool -i N -link -g"
            rest = f" and {len(own) - 2} more" if len(own) > 2 else ""
            yield Problem(
                f"no {method.upper()} answer to chips {format_ranges([ping['phy_id'] for ping in own])} from "
                f"{', '.join(addresses_lost[:2])}{rest}: {own[0].get('reason')}",
                "an answer",
                mend,
                severity=None if method == "hccs" or needs_roce(ctx, host) else WARNING,
            )
    if lost:
        return
    for method, peers in near.items():
        if not any(_made(ctx, one, other, method) for peer in peers for one, other in ((host, peer), (peer, host))):
            raise Missing(f"chips of {host} and of {', '.join(peers)} did not ping each other over {method.upper()}")


def one_pod(ctx: Context, hosts: Collection[str]) -> bool:
    """Whether the probes have found all these hosts in one SuperPod."""
    try:
        return len({ctx.fact(host, "npu.superpod_id") for host in hosts}) == 1
    except Missing:
        return False


def _made(ctx: Context, host: str, peer: str, method: str) -> bool:
    """Whether the host has pinged a chip of the peer, with any outcome that is known."""
    try:
        made = ctx.fact(host, "hccn.pings")
    except Missing:
        return False
    known = set(addresses(ctx, peer, method))
    return any(ping["method"] == method and ping.get("ok") is not None and ping["address"] in known for ping in made)
