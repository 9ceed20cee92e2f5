# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""KV transfer: names and keys of connectors, roles, ports, and what cannot go together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...module_utils._sizing_model import number as config_number
from .. import connectors as kinds
from ..findings import ERROR, INFO, WARNING
from ..ports import KV_CONTROL
from ..sizes import fraction, whole
from .context import Context, Engine, known
from .keys import unknown_keys
from .registry import GUIDES, Problem, rule

MOONCAKE_P2P = ("MooncakeConnectorV1", "MooncakeHybridConnector", "MooncakeLayerwiseConnector")
#: Connectors of vllm-ascend 0.26.0rc1 (distributed/kv_transfer/__init__.py) and of vLLM that people use beside them.
KNOWN_CONNECTORS = (
    *MOONCAKE_P2P,
    *kinds.STORES,
    kinds.SFA,
    kinds.MULTI,
    "UCMConnector",
    "LMCacheAscendConnector",
    "SimpleCPUOffloadConnector",
    "RecomputeCPUOffloadConnector",
    "OffloadingConnector",
    "NixlConnector",
    "SharedStorageConnector",
    "ExampleConnector",
    "P2pNcclConnector",
    "LMCacheConnectorV1",
    "LMCacheMPConnector",
    "DecodeBenchConnector",
    "MooncakeConnector",
)
#: Fields of vLLM's KVTransferConfig.
TRANSFER_KEYS = (
    "kv_connector",
    "engine_id",
    "kv_buffer_device",
    "kv_buffer_size",
    "kv_role",
    "kv_rank",
    "kv_parallel_size",
    "kv_ip",
    "kv_port",
    "kv_connector_extra_config",
    "kv_connector_module_path",
    "enable_permute_local_kv",
    "kv_load_failure_policy",
)
_MOONCAKE_KEYS = ("prefill", "decode", "use_ascend_direct", "tls_config", "ascend_local_comm_res_path")
_STORE_KEYS = (
    "backend",
    "use_layerwise",
    "layerwise_num_shared_buffers",
    "layerwise_prefetch_layers",
    "layerwise_independent_layers",
    "layerwise_max_transfer_blocks",
    "layerwise_max_transfer_bytes",
    "h2d_stagger_us",
    "load_async",
    "consumer_is_to_put",
    "consumer_is_to_load",
    "save_decode_cache",
    "discard_partial_chunks",
    "lookup_rpc_port",
    "mooncake_rpc_port",
    "prefill_pp_size",
    "prefill_pp_layer_partition",
    "prefill_tp_size",
    "decode_tp_size",
    "register_buffer",
    "use_ascend_direct",
)
#: What each connector reads of its kv_connector_extra_config; connectors that are not here are not checked.
EXTRA_KEYS: Mapping[str, tuple[str, ...]] = {
    kinds.MULTI: ("connectors", "use_layerwise"),  # the second is read by nobody, but upstream's deployments have it
    kinds.SFA: ("transfer_backend", "use_layerwise"),
    **dict.fromkeys(MOONCAKE_P2P, _MOONCAKE_KEYS),
    **dict.fromkeys(kinds.STORES, _STORE_KEYS),
}
#: Keys that stand in examples, and that no code of vllm-ascend reads.
DEAD_KEYS = ("use_ascend_direct",)
EXTRA = "kv_connector_extra_config"
#: What a KV pool can keep its blocks in (ascend_store/pool_scheduler.py).
BACKENDS = ("mooncake", "memcache", "yuanrong")


#: Names that are more alike are one name with a typing error.
MISSPELT = 0.9


def place(engine: Engine, part: Mapping[str, Any], *keys: str) -> str:
    """The variable in which the user states the first of these keys of a connector that is stated; of one inside a
    MultiConnector that which lists the connectors.
    """
    own = keys if part is engine.transfer else ("kv_connector_extra_config.connectors",)
    default = f"{engine.role}_kv_transfer_config"
    return engine.stated_in(*(f"kv-transfer-config.{key}" for key in own), default=default)


def extra_place(engine: Engine, part: Mapping[str, Any], key: str) -> str:
    """The same for a key of its extra configuration; where that is not stated, for the connector itself."""
    return place(engine, part, f"kv_connector_extra_config.{key}", "kv_connector")


def extra_of(part: Mapping[str, Any]) -> Mapping[str, Any]:
    value = part.get("kv_connector_extra_config")
    return value if isinstance(value, Mapping) else {}


def layerwise_store(engine: Engine) -> Mapping[str, Any] | None:
    """The extra configuration of a KV pool that works layer by layer."""
    part = engine.part(*kinds.STORES)
    return extra_of(part) if part is not None and extra_of(part).get("use_layerwise") else None


@rule(
    "PD-CONN-001", ERROR, "unknown connector", per="service", source="vllm-ascend distributed/kv_transfer/__init__.py"
)
def connector_known(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """vLLM looks the connector's name up and fails at start if there is none.

    Profile custom may name any; what is all but a known name is a warning there.
    """
    custom = ctx.profile == "custom"
    for part in engine.parts:
        name = str(part.get("kv_connector"))
        if part.get("kv_connector_module_path"):
            continue
        for key, near in unknown_keys([name], KNOWN_CONNECTORS, MISSPELT if custom else 0.5):
            if near or not custom:
                yield Problem(
                    key,
                    near or "a registered connector",
                    f"mend kv_connector in {place(engine, part, 'kv_connector')}",
                    severity=WARNING if custom else None,
                )


@rule(
    "PD-CONN-002",
    ERROR,
    "unknown key in kv_transfer_config",
    per="service",
    source="vLLM KVTransferConfig; each connector's own reads",
)
def transfer_keys(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """At the top vLLM refuses an unknown key; in kv_connector_extra_config it is ignored, and the default stays in
    force.
    """
    for part in engine.parts:
        name = str(part.get("kv_connector"))
        for key, near in unknown_keys(part, TRANSFER_KEYS):
            where = place(engine, part, key)
            if near and useless(ctx, engine, {"kv_connector": name, near: part[key]}):
                owner = f"{engine.role}_kv_port" if near == "kv_port" else "the plan"
                yield Problem(f"{name}: {key}", f"left out: {owner} decides {near}", f"remove it from {where}")
            else:
                yield Problem(f"{name}: {key}", near or "a field of KVTransferConfig", f"mend the key in {where}")
        extra = extra_of(part)
        for key, near in unknown_keys(extra, EXTRA_KEYS[name]) if name in EXTRA_KEYS else ():
            found, where = f"{name}: kv_connector_extra_config.{key}", extra_place(engine, part, key)
            if near in DEAD_KEYS:
                yield Problem(found, f"left out: nobody reads {near}", f"remove it from {where}")
            elif near and useless(ctx, engine, {"kv_connector": name, EXTRA: {near: extra[key]}}):
                yield Problem(found, f"left out: the plan decides {near}", f"remove it from {where}")
            else:
                right = near or "one of " + ", ".join(one for one in EXTRA_KEYS[name] if one not in DEAD_KEYS)
                yield Problem(found, right, f"mend the key in {where}")


def useless(ctx: Context, engine: Engine, config: Mapping[str, Any]) -> bool:
    """Whether the planner would refuse what a misspelt key of a connector was meant to be."""
    sized = engine.role != "engine"
    return ctx.profile != "custom" and bool(kinds.owned_fields(config, None, sized=sized))


@rule(
    "PD-CONN-003",
    ERROR,
    "SfaRemoteD2HConnector without memfabric",
    per="service",
    source="sfa_pd_rd2h/worker.py _resolve_kv_transfer_backend",
    versions=">=0.26",
)
def transfer_backend(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """transfer_backend must be present and memfabric: left out it is a ValueError, anything else a RuntimeError."""
    if ctx.told("kv-transfer-shape"):
        return  # it may be in what was left out
    for part in engine.parts:
        if part.get("kv_connector") == kinds.SFA and extra_of(part).get("transfer_backend") != "memfabric":
            found = extra_of(part).get("transfer_backend") or "left out"
            where = extra_place(engine, part, "transfer_backend")
            yield Problem(f"transfer_backend {found}", "memfabric", f"set it in {where}")


#: What kv_role may be at each role of the cluster, the usual one first.
RIGHT_ROLES = {"prefill": ["kv_producer", "kv_both"], "decode": ["kv_consumer", "kv_both"]}


def wrong_roles(engine: Engine) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Connectors whose kv_role does not fit the engine's role, and the right one."""
    for part in engine.parts:
        allowed = RIGHT_ROLES.get(engine.role)
        if allowed and part.get("kv_connector") in (kinds.SFA, "MooncakeConnectorV1", "MooncakeHybridConnector"):
            allowed = allowed[:1]
        if allowed and part.get("kv_role") not in allowed:
            yield part, allowed[0]


@rule(
    "PD-CONN-004",
    ERROR,
    "kv_role does not fit the role",
    per="service",
    source="sfa_pd_rd2h/connector.py SfaRemoteD2HConnector; mooncake_connector.py MooncakeConnectorWorker; "
    "vLLM KVTransferConfig",
)
def roles(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """Prefill produces, decode consumes; connectors inside a MultiConnector need their own kv_role.

    With kv_both MooncakeConnectorV1 and MooncakeHybridConnector neither send nor report what arrived.
    """
    for part, right in wrong_roles(engine):
        found = f"{part.get('kv_connector')} at {engine.role}: kv_role {part.get('kv_role')}"
        yield Problem(found, right, "leave kv_role to the plan")


@rule(
    "PD-CONN-007",
    ERROR,
    "the KV pool's backend is left out or does not fit",
    per="service",
    source="ascend_store/pool_scheduler.py KVPoolScheduler",
)
def backend_explicit(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """backend left out means mooncake, in silence: wrong with use_layerwise, else only a warning.

    Other names than mooncake, memcache and yuanrong are refused. Layers share buffers with memcache alone, whatever
    layerwise_num_shared_buffers says (a warning).
    """
    part = engine.part(*kinds.STORES)
    if part is None:
        return
    value, where = extra_of(part).get("backend"), extra_place(engine, part, "backend")
    if value is None:
        severity = None if layerwise_store(engine) is not None else WARNING
        yield Problem(
            "backend left out: mooncake",
            "backend: memcache (or mooncake, if meant)",
            f"state it in {where}",
            severity=severity,
        )
    elif str(value).lower() not in BACKENDS:
        near = dict(unknown_keys([str(value)], BACKENDS)).get(str(value))
        yield Problem(f"backend {value}", near or ", ".join(BACKENDS), f"mend backend in {where}")
    elif layerwise_store(engine) is not None and str(value).lower() != "memcache":
        yield Problem(
            f"use_layerwise with backend {value}: no layer shares its buffers",
            "backend: memcache",
            f"set backend in {where}",
            severity=WARNING,
        )


#: Numbers of a KV pool that works layer by layer, with the least that it takes.
LAYERWISE = {
    "layerwise_num_shared_buffers": 1,
    "layerwise_prefetch_layers": 1,
    "layerwise_max_transfer_blocks": 0,
    "layerwise_max_transfer_bytes": 0,
    "h2d_stagger_us": 0,
}


@rule(
    "PD-CONN-008",
    ERROR,
    "layerwise buffers are set wrong or not at all",
    per="service",
    source="ascend_store/layerwise_cache_layout.py build_layerwise_cache_layout",
)
def layerwise_buffers(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """layerwise_num_shared_buffers left out means one per layer, so no HBM is saved (a warning); below 1 or no number
    is refused.

    layerwise_independent_layers must be a list of existing layers, or all.
    """
    part, extra = engine.part(*kinds.STORES), layerwise_store(engine)
    if part is None or extra is None:
        return
    count = extra.get("layerwise_num_shared_buffers")
    if count is None:
        yield Problem(
            "layerwise_num_shared_buffers left out: no layer shares",
            "3, as in guide 1",
            f"state it in {extra_place(engine, part, 'layerwise_num_shared_buffers')}",
            severity=WARNING,
        )
    for name, least in LAYERWISE.items():
        value = extra.get(name)
        number = whole(value)
        if value is not None and (number is None or number < least):
            right = f"a number of {least} or more"
            yield Problem(f"{name} {value!r}", right, f"mend it in {extra_place(engine, part, name)}")
    mend = f"mend it in {extra_place(engine, part, 'layerwise_independent_layers')}"
    own = extra.get("layerwise_independent_layers")
    if own is None or str(own).strip().lower() == "all":
        return
    if not isinstance(own, list) or any(whole(layer) is None for layer in own):
        yield Problem(f"layerwise_independent_layers {own!r}", "a list of layers, or all", mend)
        return
    layers = config_number(ctx.model_config(engine.host), "num_hidden_layers")
    outside = [layer for layer in own if not -layers <= (whole(layer) or 0) < layers]
    if outside:
        yield Problem(f"layerwise_independent_layers {outside}", f"-{layers} to {layers - 1}", mend)


@rule(
    "PD-CONN-009",
    ERROR,
    "connectors or their settings do not go together, or were not tried together",
    per="service",
    source="vllm-ascend #7085, #15676; layerwise_and_sparse_kv_cache_offloading.md section 5",
)
def combinations(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """MooncakeLayerwiseConnector cannot be combined with layerwise buffer reuse, nor with a KV pool in a
    MultiConnector.

    A KV pool that works layer by layer is for a producer alone, and nobody has tried it with context parallelism (a
    warning); vllm-ascend checks neither. A consumer that neither puts nor loads leaves the pool alone (a warning, too:
    upstream's memcache deployment of DeepSeek-V4 has one).
    """
    pool = engine.part(*kinds.STORES)
    store = layerwise_store(engine)
    if store is not None and pool is not None:
        if pool.get("kv_role") != "kv_producer":
            idle = pool.get("kv_role") == "kv_consumer" and not any(
                store.get(name) for name in ("consumer_is_to_put", "consumer_is_to_load")
            )
            yield Problem(
                f"use_layerwise with kv_role {pool.get('kv_role')}",
                "kv_producer",
                "use_layerwise on prefill alone",
                severity=WARNING if idle else None,
            )
        if engine.pcp * engine.dcp > 1:
            yield Problem(
                f"use_layerwise with PCP {engine.pcp}, DCP {engine.dcp}",
                "1 each",
                f"set {engine.role}_parallel",
                severity=WARNING,
            )
    if pool is not None and "MooncakeLayerwiseConnector" in engine.connectors:
        yield Problem(
            "MooncakeLayerwiseConnector with a KV pool", "SfaRemoteD2HConnector or MooncakeConnectorV1", "choose one"
        )


@rule(
    "PD-CONN-010",
    ERROR,
    "layerwise prefill without eager mode",
    per="service",
    source="vllm-ascend main layerwise_and_sparse_kv_cache_offloading.md",
)
def layerwise_eager(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """Layer-by-layer transfer does not run inside captured graphs; nothing checks it. Guide 1 leaves --enforce-eager
    out.
    """
    if engine.role == "prefill" and layerwise_store(engine) is not None and not engine.eager:
        yield Problem("enforce-eager is off", "enforce-eager: true", "set it in prefill_vllm_args")


@rule(
    "PD-CONN-011",
    WARNING,
    "prefill drafts more than one token",
    per="service",
    source="pd_disaggregation_mooncake_multi_node.md:242-245",
)
def prefill_drafts(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """Upstream's documentation wants num_speculative_tokens 1 on prefill, which emits one token anyway. Both guides
    have 3.

    It was written for Mooncake; with SfaRemoteD2H it is only noted, and so is what a guide has.
    """
    if engine.role == "prefill" and engine.speculative_tokens > 1:
        guides = ctx.of_guide(engine, "speculative-config", "num_speculative_tokens")
        yield Problem(
            f"num_speculative_tokens {engine.speculative_tokens}{GUIDES if guides else ''}",
            "1",
            "set it in prefill_vllm_args",
            severity=INFO if guides or kinds.SFA in engine.connectors else None,
        )


@rule(
    "PD-CONN-014",
    ERROR,
    "engines share an engine_id",
    per="cluster",
    source="mooncake_connector.py _get_remote_metadata; guide 2",
)
def engine_ids(ctx: Context) -> Iterator[Problem]:
    """engine_id must differ between all engines ("Conflict engine id"). Left out, vLLM draws one, which is best.

    Outside of profile custom the planner refuses any (owned-kv-field).
    """
    if ctx.told("owned-kv-field"):
        return
    seen: dict[str, Engine] = {}
    for engine in ctx.heads:
        value = engine.transfer.get("engine_id")
        if value is None:
            continue
        if str(value) in seen:
            other = seen[str(value)]
            yield Problem(
                f"{other.name} and {engine.name} have engine_id {value}", "one each", "remove engine_id", engine.host
            )
        seen[str(value)] = engine


@rule(
    "PD-CONN-015",
    ERROR,
    "decode has no kv_port",
    per="service",
    source="sfa_pd_rd2h/scheduler.py SFAPDRD2HScheduler; vLLM default 14579",
)
def kv_port(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """Prefill finds decode's ranks at kv_port and above. Without one vLLM takes 14579 for every engine of the host."""
    if engine.transfer and kinds.needs_kv_ports(engine.transfer, engine.role):
        for part in engine.parts:
            name = str(part.get("kv_connector"))
            if (name == kinds.SFA or name in MOONCAKE_P2P) and part.get("kv_port") is None:
                where = f"{engine.role}_kv_port"
                if ctx.profile == "custom":  # the plan fills in none there
                    where = f"kv_port in {engine.stated_in('kv-transfer-config', default='pd_kv_transfer_config')}"
                yield Problem(f"{name} without kv_port", "a kv_port", f"set {where}")


@rule(
    "PD-CONN-016",
    INFO,
    "a key that nobody reads",
    per="service",
    source="vllm-ascend: use_ascend_direct is read by no file",
)
def dead_keys(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """use_ascend_direct stands in guide 2 and in upstream's examples, but no code of vllm-ascend reads it. What the
    profile has from its guide is not told.
    """
    for part in engine.parts:
        for key in (key for key in DEAD_KEYS if key in extra_of(part)):
            own = key if part is engine.transfer else "connectors"
            where = engine.stated_in(f"kv-transfer-config.{EXTRA}.{own}", default="")
            if where:
                yield Problem(key, "left out", f"may be removed from {where}")


@rule(
    "PD-CONN-017",
    ERROR,
    "a configuration is text instead of a mapping",
    per="engine",
    source="vLLM #19448; spark-vllm-docker #111",
)
def mappings(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """JSON written by hand loses its quotes in shell or YAML. Give a mapping; it is made into JSON once, at the end."""
    names = ("kv-transfer-config", "additional-config", "speculative-config", "compilation-config")
    for name in names:
        value = engine.args.get(name)
        if value is not None and not isinstance(value, Mapping) and not isinstance(value, int):
            yield Problem(
                f"{name} is {type(value).__name__}: {str(value)[:60]}", "a mapping", "write it as YAML mapping"
            )


@rule(
    "PD-CONN-019",
    WARNING,
    "the recompute scheduler is on elsewhere than at decode",
    per="service",
    source="guide 2, notes on parameters; vllm-ascend platform.py check_and_update_config",
)
def recompute_scheduler(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """recompute_scheduler_enable sends a request whose KV does not fit back to prefill: it belongs on decode only.

    vllm-ascend ignores it on a kv_producer, and refuses to start with it where kv_role is kv_both or where there is no
    connector (an error).
    """
    if not engine.scheduler_option("recompute_scheduler_enable"):
        return
    role = engine.transfer.get("kv_role")
    if role != "kv_consumer":
        yield Problem(
            f"recompute_scheduler_enable with kv_role {role or 'unset'}",
            "kv_consumer only",
            f"remove it from {engine.scheduler_place('recompute_scheduler_enable')}",
            severity=None if role == "kv_producer" else ERROR,
        )


@rule(
    "PD-CONN-020",
    ERROR,
    "prefill and decode speak different connectors",
    per="cluster",
    source="vLLM KVConnectorFactory",
)
def same_connector(ctx: Context) -> Iterator[Problem]:
    """Prefill and decode must have a transfer connector in common, or no KV ever arrives and requests hang."""
    if ctx.told("kv-transfer-shape"):
        return  # what is left out of a configuration may be the connector
    if ctx.of("prefill") and not any(one.connectors for one in ctx.heads):
        yield Problem(
            "neither prefill nor decode has a KV connector",
            "one for both",
            f"set pd_kv_transfer_config: profile {ctx.profile} brings none",
        )
        return
    for prefill, decode in ctx.pairs:
        if not prefill.connectors & decode.connectors:
            yield Problem(
                f"{prefill.name}: {', '.join(sorted(prefill.connectors)) or 'none'}; "
                f"{decode.name}: {', '.join(sorted(decode.connectors)) or 'none'}",
                "one in common",
                "set prefill_kv_transfer_config and decode_kv_transfer_config",
                decode.host,
            )


@rule(
    "PD-CONN-021",
    ERROR,
    "sizes do not go into 16 bits of ports",
    per="service",
    source="mooncake_connector.py MooncakeConnectorWorker; "
    "mooncake_layerwise_connector.py MooncakeLayerwiseConnectorWorker",
)
def kv_port_span(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """Ranks listen on kv_port + rank: DP x TP x PP x PCP ports in all, which must end below 65536. What the planner
    tells of ports that it gives (port-range) is not told again.
    """
    ranks = engine.ranks
    for part in engine.parts:
        base = part.get("kv_port")
        told = ctx.told("port-range", engine.host, f"{engine.name} ({KV_CONTROL}")
        if base is not None and int(known(base, "kv_port")) + ranks - 1 > 65535 and not told:
            yield Problem(f"kv_port {base} and {ranks} ranks", f"{65536 - ranks} or less", f"set {engine.role}_kv_port")


@rule(
    "PD-CONN-022",
    ERROR,
    "TLS of the connector lacks its files",
    per="service",
    source="mooncake_layerwise_connector.py MooncakeLayerwiseConnectorScheduler",
)
def connector_tls(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """With tls_config.ssl_enable the layerwise connector needs a key and a certificate; paths are those in the
    container.
    """
    for part in engine.parts:
        tls = extra_of(part).get("tls_config")
        if isinstance(tls, Mapping) and tls.get("ssl_enable"):
            gone = [name for name in ("ssl_keyfile", "ssl_certfile") if not tls.get(name)]
            if gone:
                yield Problem(
                    f"ssl_enable without {', '.join(gone)}", "both", "set them and mount the files (pd_extra_mounts)"
                )


#: Fields of kv_transfer_config that take one of a few words.
CHOICES = {"kv_role": ("kv_producer", "kv_consumer", "kv_both"), "kv_load_failure_policy": ("fail", "recompute")}


@rule(
    "PD-CONN-025",
    ERROR,
    "a field of kv_transfer_config has a value that vLLM refuses",
    per="service",
    source="vllm/config/kv_transfer.py KVTransferConfig",
)
def field_values(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """kv_role and kv_load_failure_policy are one of a few words, kv_rank, kv_parallel_size, kv_port and kv_buffer_size
    numbers.

    At prefill and decode PD-CONN-004 tells every wrong kv_role, and which is right there.
    """
    for part in engine.parts:
        for name, choices in CHOICES.items():
            if name == "kv_role" and engine.role in RIGHT_ROLES:
                continue
            if part.get(name) is not None and part[name] not in choices:
                yield Problem(f"{name} {part[name]!r}", " or ".join(choices), f"mend it in {place(engine, part, name)}")
        for name in ("kv_rank", "kv_parallel_size", "kv_port", "kv_buffer_size"):
            read = fraction if name == "kv_buffer_size" else whole
            if part.get(name) is not None and read(part[name]) is None:
                yield Problem(f"{name} {part[name]!r}", "a number", f"mend it in {place(engine, part, name)}")
