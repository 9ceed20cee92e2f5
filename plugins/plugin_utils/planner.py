# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""The planner: inventory, groups and facts in, the whole plan out. Pure; contacts nobody and reads no clock.

Shape of the result: docs/architecture.md, "The plan".
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils import connectors
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.cluster import (
    Host,
    build_host,
    claims_of_role,
    is_ipv4,
    place,
)
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.containers import ENGINE_MOUNTS, SBIN_MOUNT
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.draft import Draft
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.engine_plan import EnginePlanner, UserLayers
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.facts import (
    HostFacts,
    Unknowns,
    find_unknowns,
    is_unknown,
    mark,
)
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.findings import ERROR, INFO, WARNING
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.layers import merge
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.memcache import MetaAddress
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.port_plan import Allocation
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.ports import EPHEMERAL
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.profiles import PROFILES
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.service_plan import ServicePlanner
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.settings import Report, Settings, some
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.sizes import SIZED_BY, OffloadSizes, offload_sizes
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.topology import Instance
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.variables import (
    CLUSTER,
    OF_ROLES,
    TRANSFER_DIR,
    UNPREFIXED,
    VARIABLES,
)

SCHEMA = 1

#: How Ansible reaches a host, where that is said of the host, and what holds where it is not.
WAY = {"ansible_host": "", "ansible_connection": "ssh", "ansible_port": "22", "ansible_ssh_common_args": ""}

Inventory = Mapping[str, Mapping[str, Any]]


def plan(
    inventory: Inventory,
    groups: Mapping[str, Sequence[str]],
    facts: Mapping[str, Mapping[str, Any]] | None = None,
    failed: Mapping[str, Mapping[str, str]] | None = None,
) -> dict[str, Any]:
    """The plan of a cluster. ``inventory``: host -> its variables, templated; ``groups``: group -> hosts in order;
    ``failed``: host -> variables that cannot be templated, and why.
    """
    draft = _read(Settings(inventory, Report(), failed or {}), inventory, groups, facts or {})
    layers = UserLayers(draft)
    _place(draft)
    _connect(draft)
    draft.ports = Allocation(
        draft.instances, draft.claims, draft.hosts, draft.settings, draft.profile, draft.kv, draft.report
    ).run(draft.meta, draft.proxy_host)
    draft.sizes = _sizes(draft, layers)
    _check_model_path(draft)
    maker = EnginePlanner(draft, layers)
    engines = [maker.record(engine) for engine in draft.engines]
    service_planner = ServicePlanner(draft)
    proxy = service_planner.proxy(engines)
    services = service_planner.services(engines, proxy)
    draft.settings.check_partner("pd_image_archive", "pd_image_source", "archive")
    if draft.profile_value("pd_build"):
        draft.settings.check_builds()
        draft.settings.check_partner("pd_registry", "pd_image_share", "registry")
    _note_gather(draft)
    return {
        "schema": SCHEMA,
        "profile": draft.profile.name,
        "versions": {"vllm": draft.vllm_version, "vllm_ascend": draft.profile_value("pd_vllm_ascend_version")},
        "model": {"path": draft.model_path, "name": draft.model_name},
        "settings": _settings(draft, inventory),
        "sizing": {name: sizes.sizing for name, sizes in draft.sizes.items() if sizes.sizing},
        "instances": [_instance(instance) for instance in draft.instances],
        "engines": engines,
        "services": services,
        "images": service_planner.images,
        "hosts": _hosts(draft, services),
        "ports": [entry.as_dict() for entry in draft.ports.book.ranges()],
        "proxy": proxy,
        "verify": _verify(draft, engines, proxy),
        "probe": _probe(draft, inventory),
        "unknowns": draft.unknowns.as_list(),
        "findings": [finding.as_dict() for finding in draft.report.findings()],
    }


# ---- reading ----


def _read(
    settings: Settings,
    inventory: Inventory,
    groups: Mapping[str, Sequence[str]],
    facts: Mapping[str, Mapping[str, Any]],
) -> Draft:
    """Profile, hosts and what is the same for all of them."""
    report, unknowns = settings.report, Unknowns()
    profile = PROFILES[settings.cluster("pd_profile")]
    group_names = _group_names(settings, report)
    wanted = profile.roles if "engine" in profile.roles else (*profile.roles, "proxy")
    members: dict[str, list[str]] = {"proxy": []}
    for role in wanted:
        name = group_names[role]
        members[role] = [host for host in groups.get(name, ()) if host in inventory]
        if not members[role]:
            _no_hosts(role, name, groups, group_names, report)
    if len(members["proxy"]) > 1:
        report.add(
            "one-proxy",
            f"group {group_names['proxy']!r} has {len(members['proxy'])} hosts",
            "one: the proxies keep their load figures to themselves",
            "leave one host in the group",
        )
    names = list(dict.fromkeys(host for role in wanted for host in members[role]))
    settings.limit_to(names)
    settings.check_names()
    settings.check_values(profile.roles)
    _left_out(names, groups, [group_names[role] for role in wanted], report)
    hosts = {
        name: build_host(name, inventory[name], settings, HostFacts(facts.get(name)), unknowns, report)
        for name in names
    }
    _find_twins(hosts, inventory, settings, report)
    for role in wanted:
        for name in members[role]:
            hosts[name].roles.append(role)
    front = settings.cluster("proxy_address")
    if front and ":" in front:
        report.add(
            "address-not-ipv4",
            f"proxy_address {front} is an IPv6 address, and would stand in URLs as if it ended in a port",
            "an IPv4 address of the proxy's host, or a name",
            "correct proxy_address, or remove it",
        )
    return Draft(settings, profile, report, unknowns, members, hosts, _model_path(settings, report, unknowns))


def _group_names(settings: Settings, report: Report) -> dict[str, str]:
    """Role -> group; a role that is not named keeps its own name."""
    own = VARIABLES["pd_groups"].default
    named = settings.cluster("pd_groups")
    for role in map(str, named):
        if role not in own:
            near = difflib.get_close_matches(role, own, n=1)
            report.add(
                "unknown-group-role",
                f"pd_groups: there is no role {role}",
                f"one of {', '.join(own)}",
                f"write {near[0]}" if near else f"remove {role}",
            )
    return {role: str(named.get(role) or role) for role in own}


def _no_hosts(
    role: str, name: str, groups: Mapping[str, Sequence[str]], named: Mapping[str, str], report: Report
) -> None:
    """Report a role's group without hosts, and the group that seems to be meant."""
    others = [group for group in groups if groups[group] and group not in (*named.values(), "all", "ungrouped")]
    near = next((found[0] for word in (name, role) if (found := difflib.get_close_matches(word, others, n=1))), None)
    report.add(
        "no-hosts",
        f"group {name!r} has no hosts" + (f"; there is a group {near!r} with {some(groups[near])}" if near else ""),
        f"at least one host for {role}",
        f"call the group {name}, or set pd_groups: {{{role}: {near}}}"
        if near
        else f"fill the group, or name another in pd_groups.{role}",
    )


def _left_out(names: Sequence[str], groups: Mapping[str, Sequence[str]], known: Sequence[str], report: Report) -> None:
    """Tell which hosts of the inventory get nothing, and of a group that is called almost like one of the profile's."""
    planned = set(names)
    others = [host for host in groups.get("all", ()) if host not in planned]
    if not names or not others:
        return
    report.add("left-out", f"nothing runs on {some(others)}: in none of the profile's groups", severity=INFO)
    for group, hosts in groups.items():
        near = difflib.get_close_matches(group, known, n=1, cutoff=0.8)
        if near and group not in known and not planned.intersection(hosts) and hosts:
            report.add(
                "left-out", f"group {group!r} with {some(hosts)}", near[0], f"call it {near[0]}", severity=WARNING
            )


def _find_twins(hosts: Mapping[str, Host], inventory: Inventory, settings: Settings, report: Report) -> None:
    """Tell which names of the inventory are one machine: what one is given the other takes away."""
    first: dict[tuple[str, ...], str] = {}
    for name, host in hosts.items():
        way = tuple(str(inventory[name].get(variable) or default) for variable, default in WAY.items())
        evidence = {"ansible_host": way, "pd_address": (str(settings.of_host(name, "pd_address") or ""),)}
        if way[0] == "" or way[1] == "local":
            del evidence["ansible_host"]
        twins: dict[str, list[str]] = {}
        for variable, value in evidence.items():
            if value[0] and (twin := first.setdefault((variable, *value), name)) != name:
                twins.setdefault(twin, []).append(f"{variable} {value[0]}")
        for twin, alike in twins.items():
            hosts[twin].twins.append(name)
            host.twins.append(twin)
            variables = " and ".join(one.split()[0] for one in alike)
            report.add(
                "same-machine",
                f"{twin} and {name} are one machine: both have {' and '.join(alike)}",
                "one name for each machine; a host may be in several groups",
                f"correct {variables} of one of them, or list {twin} in the groups of {name} instead of it",
                name,
            )


def _model_path(settings: Settings, report: Report, unknowns: Unknowns) -> str:
    path = settings.cluster("pd_model_path")
    if path is None:
        if settings.hosts and not settings.fails("pd_model_path"):  # without hosts nobody could have set it
            unprefixed = settings.mentions(UNPREFIXED)
            report.add(
                "model-path",
                "pd_model_path is not set" + (f", but {UNPREFIXED} is" if unprefixed else ""),
                "the model's folder on the hosts",
                "set pd_model_path" + (f": nothing reads {UNPREFIXED}" if unprefixed else ""),
            )
        return unknowns.mark("model path", "the inventory")
    return str(path)


def _place(draft: Draft) -> None:
    claims = [
        claim
        for role in draft.profile.roles
        for claim in claims_of_role(role, draft.members[role], draft.settings, draft.profile, draft.report)
    ]
    draft.claims = {claim.name: claim for claim in claims}
    draft.instances = place(claims, draft.hosts, draft.settings, draft.profile, draft.report)


# ---- connectors and MemCache ----


def _connect(draft: Draft) -> None:
    draft.kv = {
        (role, host): _kv_settings(draft, role, host) for role in draft.profile.roles for host in draft.members[role]
    }
    _check_sides(draft)
    draft.meta = _meta(draft)


def _kv_settings(draft: Draft, role: str, host: str) -> dict[str, Any]:
    """The KV transfer configuration before ports and sizes are filled in; empty: no connector."""
    below = draft.profile.kv_transfer.get(role, {})
    stated = draft.kv_layers(role, host)
    misshapen = [(variable, wrong) for variable, layer in stated for wrong in connectors.misshapen(layer)]
    for variable, wrong in misshapen:
        draft.report.add(
            "kv-transfer-shape",
            f"{variable}: {wrong}",
            "a mapping, as vLLM's --kv-transfer-config takes it",
            f"correct {variable}",
            host,
        )
    stated = [(variable, connectors.well_shaped(layer)) for variable, layer in stated]
    merged = merge(below, *(layer for _variable, layer in stated))  # a null removes what lies below
    connector = merged.get("kv_connector")
    for variable, layer in stated if draft.profile.name != "custom" else ():
        for name in connectors.owned_fields(layer, connector, sized=role != "engine"):
            draft.report.add(
                "owned-kv-field",
                f"{variable} sets {name}, which follows from the plan",
                _derived_from(name, role),
                f"remove {name}",
                host,
            )
    return merged


def _derived_from(field: str, role: str) -> str:
    """What a field of a connector follows from; sizes of a side from that side's, whoever is told them."""
    *_path, side, name = ["", *field.split(".")]
    if name == "kv_port":
        return f"{role}_kv_port"
    return "nothing: vLLM draws one at each start" if name == "engine_id" else f"{side}_parallel and the inventory"


def _check_sides(draft: Draft) -> None:
    """A connector is told one size of the other side, so instances of a role must agree where that size is used."""
    if draft.profile.name == "custom":
        return
    first: dict[str, Instance] = {}
    for instance in filter(lambda one: one.laid_out, draft.instances):
        other = first.setdefault(instance.role, instance)
        common = connectors.common_sizes(draft.kv[instance.role, instance.hosts[0]], instance.role)
        own, wanted = (connectors.Sizes.of(one.parallel).fields() for one in (instance, other))
        if differing := [size for size in common if own[size] != wanted[size]]:
            draft.report.add(
                "sizes-differ",
                f"{instance.name} has {_words(own, differing)}, but {other.name} {_words(wanted, differing)}",
                f"one {' and one '.join(differing)} in all instances of {instance.role}: the other side is told one",
                f"correct {instance.role}_parallel",
            )


def _words(sizes: Mapping[str, int], names: Sequence[str]) -> str:
    return ", ".join(f"{name} {sizes[name]}" for name in names)


def _meta(draft: Draft) -> MetaAddress | None:
    """MetaService on one host; on loopback only if nobody else needs it."""
    users = list(dict.fromkeys(engine.host for engine in draft.memcache_engines))
    if not users:
        return None
    host = draft.settings.cluster("memcache_meta_host") or users[0]
    if host not in draft.hosts:
        draft.report.add(
            "meta-host",
            f"memcache_meta_host {host!r} is no host of the cluster",
            f"one of {', '.join(users[:4])}",
            "correct memcache_meta_host",
        )
        host = users[0]
    return MetaAddress(
        host,
        "127.0.0.1" if users == [host] else draft.hosts[host].address,
        draft.settings.cluster("memcache_meta_port"),
        draft.settings.cluster("memcache_config_store_port"),
        draft.settings.cluster("memcache_metrics_port"),
    )


# ---- sizes ----


def _sizes(draft: Draft, layers: UserLayers) -> dict[str, OffloadSizes]:
    result = {}
    for instance in draft.instances:
        head = instance.engines[0]

        def unknown(what: str, host: str = head.host, probed: bool = instance.laid_out) -> str:
            return draft.unknowns.mark(what, host) if probed else mark(what, host)  # no probe helps without a layout

        result[instance.name] = offload_sizes(
            instance,
            layers.options(head.role, head.host, instance.name),
            draft.kv[head.role, head.host],
            [draft.hosts[name].facts for name in instance.hosts] if instance.laid_out else [],
            draft.model_path,
            offloads=draft.profile.sparse_kv_offload and head.role == "decode",
            topk_buffer_size=draft.settings.of_host(head.host, "pd_topk_buffer_size"),
            dram_gib=draft.settings.of_host(head.host, "pd_dram_size_per_dp_gb"),
            kv_cache_memory_bytes=draft.settings.of_host(head.host, "pd_kv_cache_memory_bytes"),
            memcache_dram=draft.settings.of_host(head.host, "memcache_dram_size"),
            gate=draft.settings.cluster("pd_dram_gate"),
            unknown=unknown,
        )
    return result


def _check_model_path(draft: Draft) -> None:
    """Without a folder no probe reads the model's config, so a size that follows from it is never known."""
    path = draft.model_path
    if path.startswith("/") or is_unknown(path):
        return
    marks = {mark(what, instance.engines[0].host): what for what in SIZED_BY for instance in draft.instances}
    gaps = [marks[one] for sizes in draft.sizes.values() for one in find_unknowns(vars(sizes)) if one in marks]
    stated = " and ".join(dict.fromkeys(SIZED_BY[what] for what in gaps))
    draft.report.add(
        "model-path",
        f"pd_model_path {path!r} is no folder: "
        + (f"no size follows from the model ({stated})" if gaps else "every engine would download it"),
        "the absolute path of the folder that holds the weights on every host",
        f"download the model and set pd_model_path to its folder{f', or state {stated}' if gaps else ''}",
        severity=ERROR if gaps else WARNING,
    )


def _note_gather(draft: Draft) -> None:
    if draft.gathers("decode"):
        draft.report.add(
            "gather-without-graphs",
            "pd_small_packet_gather works outside captured graphs only: decode runs with enforce-eager, "
            "without its compilation-config",
            severity=INFO,
        )


# ---- records ----


def _instance(instance: Instance) -> dict[str, Any]:
    return {
        "name": instance.name,
        "role": instance.role,
        "hosts": instance.hosts,
        "parallel": instance.parallel.as_dict() if instance.laid_out else None,
        "engines": [engine.name for engine in instance.engines],
    }


def _hosts(draft: Draft, services: Sequence[dict[str, Any]]) -> dict[str, Any]:
    base, logs = draft.settings.cluster("pd_base_dir"), draft.settings.cluster("pd_log_dir")
    own: dict[str, list[dict[str, Any]]] = {name: [] for name in draft.hosts}
    for service in services:
        own[service["host"]].append(service)
    return {
        name: {
            "address": host.address,
            "nic": host.nic,
            "roles": host.roles,
            "services": [service["name"] for service in own[name]],
            "images": list(dict.fromkeys(service["image"] for service in own[name])),
            "folders": [base, logs, *(f"{logs}/{s['name']}" for s in own[name] if s["kind"] != "proxy")],
            "reserved_ports": draft.ports.book.reserved(
                name, host.facts.reserved_ports, host.facts.ephemeral_ports or EPHEMERAL
            ),
            "twins": host.twins,
            "chips": len(host.chips),
            "devices": list(host.devices),
        }
        for name, host in draft.hosts.items()
    }


def _verify(draft: Draft, engines: Sequence[dict[str, Any]], proxy: Mapping[str, Any] | None) -> dict[str, Any]:
    """Two completions, the second with the first one's prefix: the first may start what only the second uses."""
    first = next((engine["http"]["url"] for engine in engines if engine["serves_http"]), None)
    prompt = "The capital of France is"
    bodies = [
        {"model": draft.model_name, "prompt": text, "max_tokens": 16, "temperature": 0}
        for text in (prompt, f"{prompt} Paris. The capital of Germany is")
    ]
    return {
        "url": proxy["url"] if proxy else first,
        "requests": [{"path": "/v1/completions", "body": body} for body in bodies],
        "timeout_s": draft.settings.cluster("pd_verify_timeout_s"),
    }


def _measured(names: Sequence[str]) -> dict[str, set[str]]:
    """Host to the hosts that it measures the path MTU to: those 1, 2, 4, ... places further in the inventory.

    Of 64 hosts these are 6. A port, cable or switch that drops large packets lies on the way of several of them, and
    one echo to each pair would be 4,000.
    """
    count = len(names)
    steps = [1 << power for power in range((count - 1).bit_length())]
    return {name: {names[(place + step) % count] for step in steps} for place, name in enumerate(names)}


def _probe(draft: Draft, inventory: Inventory) -> dict[str, Any]:
    """Arguments of ``host_probe`` per host. An SSH address is good enough to find the way to a peer."""
    settings = draft.settings
    ports: dict[str, list[int]] = {}
    for entry in draft.ports.book.ranges():
        if entry.fixed and not entry.bind.startswith("127."):
            ports.setdefault(entry.host, []).append(entry.first)
    peers = {}
    for name in draft.hosts:
        candidates = (settings.of_host(name, "pd_address"), inventory[name].get("ansible_host"))
        address = next((str(found) for found in candidates if found and is_ipv4(str(found))), None)
        if address:
            peers[name] = {"address": address, "ports": sorted(ports.get(name, ()))}
    measured = _measured(list(draft.hosts))
    model = [draft.model_path] if draft.model_path.startswith("/") else []
    paths = [mount.source for mount in (*ENGINE_MOUNTS, SBIN_MOUNT)]
    return {
        name: {
            "peers": [{**peer, "ping": other in measured[name]} for other, peer in peers.items() if other != name],
            "nic": settings.of_host(name, "pd_nic"),
            "address": settings.of_host(name, "pd_address"),
            "paths": paths + [str(spec).partition(":")[0] for spec in settings.of_host(name, "pd_extra_mounts")],
            "disk_paths": [
                settings.cluster("pd_log_dir"),
                "/var/lib/docker",
                str(inventory[name].get("container_transfer_dir") or TRANSFER_DIR),
                *model,
            ],
            "model_paths": model,
        }
        for name in draft.hosts
    }


def _settings(draft: Draft, inventory: Inventory) -> dict[str, Any]:
    """Every cluster-wide value as it is resolved, and what the first host states of the roles' own variables."""
    values = {name: draft.settings.cluster(name) for name, variable in VARIABLES.items() if variable.scope == CLUSTER}
    from_profile = ("pd_vllm_version", "pd_vllm_ascend_version", "pd_build", "pd_container_privileged")
    values |= {name: draft.profile_value(name) for name in from_profile}
    values |= {"pd_served_model_name": draft.model_name, "proxy_port": draft.ports.proxy}
    for own in (inventory[host] for host in reversed(draft.settings.hosts)):
        values |= {name: own[name] for name in OF_ROLES if name in own}
    return values
