# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""A plan in the making: what the parts of the planner share, each filled in once and in this order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils import connectors
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.cluster import Claim, Host
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.facts import Unknowns
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.memcache import MetaAddress
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.options import OptionTable, option_table
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.port_plan import PortPlan
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.profiles import Profile
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.settings import Report, Settings, profile_default
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.sizes import OffloadSizes
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.topology import Engine, Instance


@dataclass
class Draft:
    """Settings and hosts first, then instances, connectors, ports and sizes."""

    settings: Settings
    profile: Profile
    report: Report
    unknowns: Unknowns
    members: Mapping[str, list[str]]  # role, and "proxy" -> hosts
    hosts: Mapping[str, Host]
    model_path: str
    claims: Mapping[str, Claim] = field(default_factory=dict)
    instances: list[Instance] = field(default_factory=list)
    kv: Mapping[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)  # role, host -> before completion
    meta: MetaAddress | None = None
    ports: PortPlan = field(default_factory=PortPlan)
    sizes: Mapping[str, OffloadSizes] = field(default_factory=dict)  # by instance

    # ---- settings that the profile has a word in ----

    def profile_value(self, name: str) -> Any:
        return self.settings.cluster(name, profile_default(self.profile, name))

    @cached_property
    def vllm_version(self) -> str:
        return str(self.profile_value("pd_vllm_version"))

    @cached_property
    def table(self) -> OptionTable:
        return option_table(self.vllm_version)

    @cached_property
    def privileged(self) -> bool:
        return bool(self.profile_value("pd_container_privileged"))

    @cached_property
    def served_names(self) -> list[str]:
        """What ``--served-model-name`` gets; empty leaves vLLM's own, the model path."""
        stated = self.settings.cluster("pd_served_model_name")
        if stated:
            return str(stated).split()
        return [self.model_path.rstrip("/").rsplit("/", 1)[-1].lower()] if self.profile.guided else []

    @property
    def model_name(self) -> str:
        """The name that clients use."""
        return self.served_names[0] if self.served_names else self.model_path

    @property
    def proxy_host(self) -> str | None:
        return self.members["proxy"][0] if self.members["proxy"] else None

    def gathers(self, role: str) -> bool:
        """Whether engines of the role use the small-packet gather."""
        return (
            role == "decode"
            and self.profile.sparse_kv_offload
            and bool(self.settings.cluster("pd_small_packet_gather"))
        )

    def kv_layers(self, role: str, host: str) -> list[tuple[str, Mapping[str, Any]]]:
        """What the user says of a role's connector, weakest first, and where."""
        names = ("pd_kv_transfer_config", f"{role}_kv_transfer_config")
        layers = ((name, self.settings.of_host(host, name)) for name in names)
        return [(name, layer) for name, layer in layers if layer]

    # ---- views of what is placed ----

    @cached_property
    def engines(self) -> list[Engine]:
        return [engine for instance in self.instances for engine in instance.engines]

    @cached_property
    def by_instance(self) -> dict[str, Instance]:
        return {instance.name: instance for instance in self.instances}

    @cached_property
    def engines_on(self) -> dict[str, list[Engine]]:
        result: dict[str, list[Engine]] = {}
        for engine in self.engines:
            result.setdefault(engine.host, []).append(engine)
        return result

    @cached_property
    def memcache_engines(self) -> list[Engine]:
        """Engines that keep KV in MemCache."""
        users = {place for place, config in self.kv.items() if connectors.uses_memcache(config)}
        return [engine for engine in self.engines if (engine.role, engine.host) in users]

    @cached_property
    def memcache_instances(self) -> frozenset[str]:
        return frozenset(engine.instance for engine in self.memcache_engines)
