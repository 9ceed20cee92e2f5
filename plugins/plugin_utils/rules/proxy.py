# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""The PD proxy: where it listens, what it fronts, and how the service is asked for its health."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Any

from .. import connectors
from ..findings import ERROR, INFO, WARNING, as_counted
from ..profiles import LAYERWISE
from .context import Context, Engine, known
from .nic import own_addresses
from .registry import REPORT, Problem, rule

COMPLETION_PATHS = ("/v1/completions", "/v1/chat/completions", "/generate", "/inference")
SCRIPT = "examples/disaggregated_prefill_v1/load_balance_proxy"


def proxy_of(ctx: Context) -> Mapping[str, Any] | None:
    value = ctx.plan.get("proxy")
    return value if isinstance(value, Mapping) else None


def backends(ctx: Context, role: str) -> list[tuple[str, int]]:
    """(address, port) of every engine of a role that serves HTTP: no headless follower, every external rank."""
    return sorted(
        (ctx.address(engine.host), int(known(engine.args.get("port"), f"port of {engine.name}")))
        for engine in ctx.of(role)
        if engine.data.get("serves_http", True)
    )


@rule(
    "PD-PROXY-001",
    ERROR,
    "the proxy's address is a wildcard",
    per="cluster",
    source=f"{SCRIPT}_layerwise_server_example.py parse_args",
)
def not_wildcard(ctx: Context) -> Iterator[Problem]:
    """Decode calls back http://HOST:PORT/v1/metaserver with the address that the proxy was given.

    The layerwise proxy refuses 0.0.0.0 and ::; with others decode would call itself.
    """
    proxy = proxy_of(ctx)
    if proxy is None or proxy.get("flavour") != LAYERWISE:
        return
    if str(known(proxy.get("address"), "address of the proxy")) in ("0.0.0.0", "::", "*", ""):
        yield Problem(
            f"address {proxy['address']}", f"the address of {proxy['host']}", "remove proxy_address", proxy["host"]
        )


@rule(
    "PD-PROXY-002",
    ERROR,
    "the proxy's address is loopback, decode is elsewhere",
    per="cluster",
    source="sfa_pd_rd2h/scheduler.py _access_metaserver",
)
def not_loopback(ctx: Context) -> Iterator[Problem]:
    """localhost is the proxy's default and is not refused: decode then retries its callback for ever, and clients
    hang.
    """
    proxy = proxy_of(ctx)
    if proxy is None:
        return
    address = str(known(proxy.get("address"), "address of the proxy"))
    try:
        loopback = ipaddress.ip_address(address).is_loopback
    except ValueError:
        loopback = address == "localhost"
    remote = sorted({engine.host for engine in ctx.of("decode")} - {proxy["host"]}, key=as_counted)
    if loopback and remote:
        yield Problem(
            f"address {address}, decode on {', '.join(remote)}",
            f"the address of {proxy['host']}",
            "remove proxy_address",
            proxy["host"],
        )


@rule(
    "PD-PROXY-003",
    ERROR,
    "the proxy's backends are not the engines",
    per="cluster",
    source=f"{SCRIPT}_layerwise_server_example.py parse_args",
)
def backends_true(ctx: Context) -> Iterator[Problem]:
    """Every engine that serves HTTP is a backend, and nothing else: no headless follower, every external rank."""
    proxy = proxy_of(ctx)
    if proxy is None:
        return
    for role in ("prefill", "decode"):
        listed = sorted((str(one["host"]), int(one["port"])) for one in proxy.get(role) or [])
        right = backends(ctx, role)
        if listed != right:
            shown = ", ".join(f"{host}:{port}" for host, port in listed) or "none"
            yield Problem(
                f"{role}: {shown}", ", ".join(f"{host}:{port}" for host, port in right), REPORT, proxy["host"]
            )


@rule("PD-PROXY-004", ERROR, "the proxy does not fit the connector", per="cluster", source=f"{SCRIPT}_*_example.py")
def flavour(ctx: Context) -> Iterator[Problem]:
    """SfaRemoteD2H and MooncakeLayerwise need the layerwise proxy, which decode calls; the others prefill first."""
    proxy = proxy_of(ctx)
    decode = ctx.of("decode")
    if proxy is None or not decode or not decode[0].transfer or ctx.profile == "custom":
        return
    right = connectors.proxy_flavour(decode[0].transfer)
    if proxy.get("flavour") != right:
        yield Problem(
            f"{proxy.get('flavour')} proxy for {', '.join(decode[0].connectors)}", right, REPORT, proxy["host"]
        )


@rule(
    "PD-PROXY-005",
    ERROR,
    "the proxy's address is not its host's",
    per="cluster",
    source=f"{SCRIPT}_layerwise_server_example.py",
)
def own_address(ctx: Context) -> Iterator[Problem]:
    """The proxy binds the address that decode calls, so it must be one of the host that it runs on."""
    proxy = proxy_of(ctx)
    if proxy is None:
        return
    address, host = str(known(proxy.get("address"), "address of the proxy")), str(proxy["host"])
    if address in ("0.0.0.0", "::", "localhost") or address.startswith("127.") or address == ctx.address(host):
        return
    own = [one for nic in ctx.fact(host, "nic.interfaces") for one in own_addresses(nic)]
    if address not in own:
        yield Problem(f"{address} is no address of {host}", ctx.address(host), "remove proxy_address", host)


@rule(
    "PD-PROXY-006",
    ERROR,
    "decode's health is asked with a completion",
    per="cluster",
    source="attention/sfa_kv_offload.py; sparse_kv_offload_manager.py offload_new_kv",
)
def health_by_get(ctx: Context) -> Iterator[Problem]:
    """A completion sent straight to decode makes it prefill, which raises in the worker and ends it. Ask GET
    /health.
    """
    risky = {engine.service.get("name") for engine in ctx.of("decode") if engine.offloads}
    ports = {str(engine.args.get("port")) for engine in ctx.of("decode") if engine.offloads}
    for service in ctx.services:
        url = str((service.get("ready") or {}).get("url") or "")
        if service["name"] in risky and any(url.endswith(path) for path in COMPLETION_PATHS):
            yield Problem(f"ready check of {service['name']}: {url}", "/health", REPORT, str(service["host"]))
    verify = str((ctx.plan.get("verify") or {}).get("url") or "")
    hosts = {ctx.address(engine.host) for engine in ctx.of("decode") if engine.offloads}
    if any(f"//{host}:{port}" in verify for host in hosts for port in ports):
        yield Problem(f"verification asks {verify}", "the proxy", REPORT)


@rule(
    "PD-PROXY-007",
    WARNING,
    "the verification would miss known faults",
    per="cluster",
    source="vllm-ascend #16111, #15927, #13140",
)
def verification(ctx: Context) -> Iterator[Problem]:
    """Some faults show at the second request, some hang without end: at least two completions, each with a time
    limit.
    """
    verify = ctx.plan.get("verify") or {}
    if proxy_of(ctx) is None:
        return
    if len(verify.get("requests") or []) < 2:
        yield Problem(f"{len(verify.get('requests') or [])} requests", "two or more", REPORT)
    if not verify.get("timeout_s"):
        yield Problem("no time limit", "a time limit", "set pd_verify_timeout_s")


@rule(
    "PD-PROXY-008", INFO, "the proxy has neither authentication nor TLS", per="cluster", source=f"{SCRIPT}_*_example.py"
)
def open_door(ctx: Context) -> Iterator[Problem]:
    """Whoever reaches the port can send requests, and reach /v1/metaserver on the same port. Keep it inside, or put a
    gateway in front.
    """
    proxy = proxy_of(ctx)
    if proxy is not None:
        yield Problem(
            f"port {proxy.get('port')} of {proxy['host']} is open to all",
            "a closed network",
            "close that network, or put a gateway in front",
            proxy["host"],
        )


@rule(
    "PD-PROXY-009",
    WARNING,
    "more clients are expected than are served at once",
    per="cluster",
    source="guide 2, notes on parameters",
)
def concurrency(ctx: Context) -> Iterator[Problem]:
    """max-num-seqs x data parallel size is what decode works on at once; further requests wait, and that counts into
    TTFT.
    """
    expected = int(
        ctx.settings.get("pd_expected_concurrency") or (ctx.plan.get("verify") or {}).get("concurrency") or 0
    )
    served = sum(e.max_num_seqs * e.dp for e in ctx.heads if e.role in ("decode", "engine"))
    if expected > served > 0:
        yield Problem(
            f"{expected} expected, {served} served", f"{expected} or more", "raise max-num-seqs or add decode instances"
        )


@rule(
    "PD-PROXY-010",
    ERROR,
    "an engine listens where nobody looks for it",
    per="engine",
    source=f"{SCRIPT}_*_example.py; vllm/entrypoints/openai/api_server.py setup_server",
)
def bound_where_asked(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """The proxy and the verification ask every engine at the serving address of its host, also on the same host.

    A name is not looked up.
    """
    bind = str((engine.data.get("http") or {}).get("host") or "0.0.0.0")
    if not engine.data.get("serves_http", True) or bind in ("0.0.0.0", "::"):
        return
    address = ctx.address(engine.host)
    try:
        bound = str(ipaddress.ip_address(bind))
    except ValueError:
        bound = address if bind != "localhost" else bind
    if bound != address:
        yield Problem(
            f"{engine.name} binds {bind}, and is asked at {address}", f"0.0.0.0 or {address}", "set pd_http_host"
        )
