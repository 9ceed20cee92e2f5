# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Hosts and instances of a cluster, read from the inventory: who is there, with which chips, in which instance."""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.facts import HostFacts, Unknowns
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.layers import merge
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.profiles import Profile
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.settings import Report, Settings
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.topology import (
    SIZES,
    Instance,
    LayoutError,
    Member,
    lay_out,
    misstated,
    read_parallel,
    stand_in,
)

_CHIPS = {"A3": 16, "A2": 8}

ENTRY_PORTS = ("port", "kv_port", "data_parallel_rpc_port")
ENTRY_KEYS = ("name", "devices", "parallel", "vllm_args", "env", *ENTRY_PORTS)


@dataclass
class Host:
    """One server of the cluster."""

    name: str
    facts: HostFacts
    address: str
    nic: str
    chips: tuple[int, ...]  # all that a server of its generation has
    devices: tuple[int, ...]  # those that may be used
    misstated: bool = False  # the user's list of them is none
    roles: list[str] = field(default_factory=list)
    twins: list[str] = field(default_factory=list)  # other names of the same machine


def build_host(
    name: str, variables: Mapping[str, Any], settings: Settings, facts: HostFacts, unknowns: Unknowns, report: Report
) -> Host:
    """Address and NIC as stated, else as probed, else marked unknown."""
    serving = facts.serving
    address = settings.of_host(name, "pd_address") or serving.get("address")
    if address and not is_ipv4(address):
        report.add(
            "address-not-ipv4",
            f"pd_address {address} is not a numeric IPv4 address",
            "an IPv4 address of the serving interface (MemFabric takes no other)",
            "correct pd_address",
            name,
        )
    nic = settings.of_host(name, "pd_nic") or serving.get("name")
    chips = facts.chips or []
    whole = range(_CHIPS.get(facts.generation or "") or _CHIPS[settings.of_host(name, "pd_npu_generation")])
    if set(chips) <= set(whole):  # nobody has looked, or some are gone: PD-NPU-001 tells which
        chips = list(whole)
    stated = settings.of_host(name, "pd_devices")
    devices, right = (None, True) if stated is None else device_ids(stated, name, report)
    if "pd_devices" in variables and devices == []:
        chips = []  # said to have none: engines for the CPU
    return Host(
        name,
        facts,
        str(address) if address else unknowns.mark("serving address", name),
        str(nic) if nic else unknowns.mark("serving network interface", name),
        tuple(chips),
        tuple(chips if devices is None else devices),
        not right,
    )


def device_ids(values: Sequence[Any], host: str, report: Report) -> tuple[list[int], bool]:
    """The chips of a list, and whether it is right."""
    numbers = [int(value) for value in values if isinstance(value, (int, str)) and str(value).isdigit()]
    if len(numbers) != len(values) or len(set(numbers)) != len(numbers):
        report.add(
            "device-list",
            f"{list(values)} is no list of chips",
            "different physical chip ids, such as [0, 1, 2, 3]",
            "correct the devices",
            host,
        )
        return sorted(set(numbers)), False
    return numbers, True


def is_ipv4(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).version == 4
    except ValueError:
        return False


@dataclass
class Claim:
    """An instance before chips are handed out: hosts in inventory order, each with its ``ROLE_instances`` entry."""

    name: str
    role: str
    parts: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    misstated: bool = False  # what its hosts say of its chips, sizes or entries is wrong: no layout follows

    @property
    def hosts(self) -> list[str]:
        return [host for host, _entry in self.parts]

    def entry(self, host: str) -> Mapping[str, Any]:
        return next(entry for name, entry in self.parts if name == host)


def claims_of_role(
    role: str, names: Sequence[str], settings: Settings, profile: Profile, report: Report
) -> list[Claim]:
    """Hosts that share ``pd_instance`` belong together; so do entries of the same name on such hosts."""
    claims: dict[str, Claim] = {}
    origins: dict[str, tuple[str, ...]] = {}  # what each is called after
    for name in names:
        shared = settings.of_host(name, "pd_instance") or (role if role in profile.one_instance else name)
        listed = settings.of_host(name, f"{role}_instances") or []
        keyed: list[tuple[tuple[str, ...], Mapping[str, Any], bool]] = [((shared,), {}, True)]
        if listed:
            entries = [_usable_entry(entry, number, role, name, report) for number, entry in enumerate(listed, 1)]
            keyed = [((shared, str(entry["name"])), entry, right) for entry, right in entries]
        for words, entry, right in keyed:
            key = "-".join(words)
            full = role if key == role else f"{role}-{key}"
            claim = claims.setdefault(full, Claim(full, role))
            if _named_apart(full, words, origins.setdefault(full, words), name in claim.hosts, name, report):
                claim.parts.append((name, entry))
                claim.misstated |= not right
    return list(claims.values())


#: What Docker takes as a container's name; it also names a folder and stands in mounts, where a colon separates.
_NAME = re.compile(r"[A-Za-z0-9_.-]+")


def _named_apart(
    full: str, words: tuple[str, ...], first: tuple[str, ...], again: bool, host: str, report: Report
) -> bool:
    """Whether a host's part of an instance can go by that name, and nothing else does."""
    if not _NAME.fullmatch(full):
        report.add(
            "instance-name",
            f"instance {full} cannot name a container and a folder",
            "letters, digits, dots, dashes and underscores",
            "set pd_instance (default: the host's name in the inventory), or the entry's name",
            host,
        )
    elif again or words != first:
        report.add(
            "instance-name",
            f"two instances are called {full}: {' with entry '.join(first)}, and {' with entry '.join(words)}",
            "a name for each instance",
            "set another pd_instance or another name in ROLE_instances",
            host,
        )
        return False
    return True


def _usable_entry(entry: Any, number: int, role: str, host: str, report: Report) -> tuple[dict[str, Any], bool]:
    """What of an entry can be used, and whether that is all of it. ``number``: what it is called after at worst."""
    given = dict(entry) if isinstance(entry, Mapping) else {}
    name = given.get("name")
    wrong: dict[Any, tuple[str, str]] = {}  # key -> what is found, what would be right
    for key, value in given.items():
        if key not in ENTRY_KEYS:
            wrong[key] = f"unknown key {key}", f"one of {', '.join(ENTRY_KEYS)}"
        elif key in ("parallel", "vllm_args", "env") and not isinstance(value or {}, Mapping):
            wrong[key] = f"{key} of {name} is no mapping", "a mapping"
        elif key == "devices" and not isinstance(value or [], list):
            wrong[key] = f"devices of {name} is no list", "a list of chips"
        elif key in ENTRY_PORTS and not str(value or 1).isdecimal():
            wrong[key] = f"{key} of {name} is no port", "a whole number"
    usable = {key: value for key, value in given.items() if key not in wrong}
    if not name:  # an unknown key in it is its name, misspelt
        wrong = {key: it for key, it in wrong.items() if key in ENTRY_KEYS}
        wrong["name"] = f"has an entry without a name: {entry!r}", "a mapping with `name`"
    for found, right in wrong.values():
        report.add("instance-entry", f"{role}_instances: {found}", right, f"correct {role}_instances", host)
    return {**usable, "name": name or f"entry-{number}"}, not wrong


def place(
    claims: Sequence[Claim], hosts: Mapping[str, Host], settings: Settings, profile: Profile, report: Report
) -> list[Instance]:
    """Hand out chips and lay every instance out; of one that does not fit there is a stand-in."""
    parallel = {claim.name: _parallel_settings(claim, settings, profile, report) for claim in claims}
    ranks = {host: settings.of_host(host, "pd_data_parallel_size_local") for host in hosts}
    needed = {
        (claim.name, host): _chips_needed(parallel[claim.name], len(claim.parts), ranks[host])
        for claim in claims
        for host in claim.hosts
    }
    devices = _hand_out(claims, needed, hosts, report)
    instances = []
    for claim in claims:
        members = [Member(host, devices[claim.name, host], ranks[host]) for host in claim.hosts]
        limited = any(hosts[host].chips for host in claim.hosts)
        if not limited and profile.kv_transfer.get(claim.role):
            report.add(
                "device-list",
                f"{claim.name}: pd_devices of {', '.join(claim.hosts)} is empty, and KV moves from chip to chip",
                "the host's chips, or profile custom for engines that run on the CPU",
                "remove pd_devices",
                *claim.hosts,
            )
        mistakes = list(misstated(parallel[claim.name]))
        instance = stand_in(claim.name, claim.role, members)
        if not mistakes and not claim.misstated and not any(hosts[host].misstated for host in claim.hosts):
            try:
                sizes = read_parallel(parallel[claim.name], members)
                instance = lay_out(claim.name, claim.role, sizes, members, limited)
            except LayoutError as error:
                mistakes.append(error)
        instances.append(instance)
        for mistake in mistakes:
            report.add(
                "layout",
                f"{claim.name}: {str(mistake).removeprefix(claim.name + ': ')}{_held_by_others(claim, devices)}",
                mistake.right,
                f"correct {claim.role}_parallel, pd_instance or pd_devices",
                *claim.hosts,
            )
    return instances


def _held_by_others(claim: Claim, devices: Mapping[tuple[str, str], Sequence[int]]) -> str:
    """Which instances have chips of the same hosts, for a sum in which those are not counted."""
    others = [
        f"{name} holds {len(own)} of {host}"
        for (name, host), own in devices.items()
        if host in claim.hosts and name != claim.name and own
    ]
    return f" ({', '.join(others[:4])})" if others else ""


def _parallel_settings(claim: Claim, settings: Settings, profile: Profile, report: Report) -> dict[str, Any]:
    """The instance's sizes; its hosts must agree on them."""
    per_host = {
        host: merge(
            profile.parallel.get(claim.role),
            settings.of_host(host, f"{claim.role}_parallel"),
            entry.get("parallel"),
        )
        for host, entry in claim.parts
    }
    values = list(per_host.values())
    if any(value != values[0] for value in values[1:]):
        claim.misstated = True
        report.add(
            "instance-differs",
            f"{claim.name}: its hosts state different parallel sizes: "
            + "; ".join(f"{host} {value}" for host, value in per_host.items()),
            "the same sizes on every host of an instance",
            f"set {claim.role}_parallel in group_vars",
            *claim.hosts,
        )
    return values[0]


def _hand_out(
    claims: Sequence[Claim], needed: Mapping[tuple[str, str], int | None], hosts: Mapping[str, Host], report: Report
) -> dict[tuple[str, str], tuple[int, ...]]:
    """Chips per instance and host: as stated, else all that are free, or by the sizes where others wait."""
    free = {name: list(host.devices) for name, host in hosts.items()}
    given: dict[tuple[str, str], tuple[int, ...]] = {}
    waiting: dict[str, int] = {}
    for claim in claims:
        for host, entry in claim.parts:
            if entry.get("devices") is None:
                waiting[host] = waiting.get(host, 0) + 1
                continue
            wanted, right = device_ids(entry["devices"], host, report)
            missing = [chip for chip in wanted if chip not in free[host]]
            if missing and not hosts[host].misstated:
                report.add(
                    "device-list",
                    f"{claim.name} wants chips {missing}, which {host} does not have or another instance holds",
                    f"chips of {list(hosts[host].devices)}, each in one instance",
                    f"correct devices in {claim.role}_instances",
                    host,
                )
            claim.misstated |= bool(missing) or not right
            given[claim.name, host] = tuple(chip for chip in wanted if chip not in missing)
            free[host] = [chip for chip in free[host] if chip not in wanted]
    for claim in claims:
        for host, entry in claim.parts:
            if entry.get("devices") is not None:
                continue
            count = len(free[host]) if waiting[host] == 1 else needed[claim.name, host]
            if count is None:
                if not claim.misstated:
                    report.add(
                        "device-list",
                        f"{claim.name} shares {host} with other instances and neither its chips nor its sizes are "
                        "stated",
                        "devices, or tensor_parallel_size",
                        f"complete {claim.role}_instances or {claim.role}_parallel",
                        host,
                    )
                claim.misstated = True
                count = len(free[host]) // waiting[host]
            given[claim.name, host] = tuple(free[host][:count])
            free[host] = free[host][count:]
            waiting[host] -= 1
    return given


def _chips_needed(parallel: Mapping[str, Any], hosts: int, ranks: int | None) -> int | None:
    """Chips of one of the instance's hosts by the stated sizes, ``None`` if they do not say. ``ranks``: stated ones."""
    if parallel.get("tensor_parallel_size") is None:
        return None
    try:
        sizes = {name: int(parallel.get(name) or 1) for name in SIZES}
    except (TypeError, ValueError):
        return None
    del sizes["decode_context_parallel_size"]  # shares the chips of tensor parallelism
    total = sizes.pop("data_parallel_size")
    world = math.prod(sizes.values())
    if ranks is not None or total >= hosts:  # whole ranks, the first hosts taking what is over
        return world * (-(-total // hosts) if ranks is None else max(ranks, 0))
    return -(-world * total // hosts)
