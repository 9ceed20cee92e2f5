# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""The planner: inventory, groups and facts in, the whole plan out. Pure; contacts nobody and reads no clock.

Shape of the result: docs/architecture.md, "The plan".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils import connectors, environment, memcache
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.cluster import (
    Claim,
    Host,
    build_host,
    claims_of_role,
    place,
)
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.containers import (
    CANN_SCRIPTS,
    CONFIG_DIR,
    DRIVER_MOUNTS,
    ENGINE_MOUNTS,
    MEMCACHE_SCRIPT,
    MEMFABRIC_SCRIPT,
    SBIN_MOUNT,
    Mount,
    container,
    device_paths,
    present,
)
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.engine_options import (
    engine_options,
    owned,
    parallel_options,
    without_owned,
)
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.facts import HostFacts, Unknowns
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.findings import INFO, WARNING
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.layers import merge
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.options import OptionTable, option_table
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.port_plan import PortPlan, allocate
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.profiles import PROFILES, PROXY_SCRIPTS, Profile
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.settings import Report, Settings, profile_default
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.sizes import OffloadSizes, offload_sizes
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.topology import Engine, Instance
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.variables import VARIABLES

SCHEMA = 1

#: Cluster-wide values that rules and report want to see.
_SETTINGS = tuple(name for name, variable in VARIABLES.items() if variable.scope == "cluster")


def plan(
    inventory: Mapping[str, Mapping[str, Any]],
    groups: Mapping[str, Sequence[str]],
    facts: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """The plan of a cluster. ``inventory``: host -> its variables, templated; ``groups``: group -> hosts in order."""
    return _Planner(inventory, groups, facts or {}).run()


class _Planner:
    """State of one planning run, in the order in which it is filled."""

    def __init__(
        self,
        inventory: Mapping[str, Mapping[str, Any]],
        groups: Mapping[str, Sequence[str]],
        facts: Mapping[str, Mapping[str, Any]],
    ) -> None:
        self.inventory = inventory
        self.report = Report()
        self.unknowns = Unknowns()
        self.settings = Settings(inventory, self.report)
        profile_name = self.settings.cluster("pd_profile")
        self.profile: Profile = PROFILES[profile_name]
        group_names = merge(VARIABLES["pd_groups"].default, self.settings.cluster("pd_groups"))
        self.members: dict[str, list[str]] = {
            role: [host for host in groups.get(group_names.get(role, role), ()) if host in inventory]
            for role in (*self.profile.roles, "proxy")
        }
        if "engine" in self.profile.roles:
            self.members["proxy"] = []
        for role in self.profile.roles:
            if not self.members[role]:
                self.report.add(
                    "no-hosts",
                    f"group {group_names.get(role, role)!r} has no hosts",
                    f"at least one host for {role}",
                    f"fill the group, or name another in pd_groups.{role}",
                )
        names = list(dict.fromkeys(host for role in self.members.values() for host in role))
        self.settings.limit_to(names)
        self.settings.check_names()
        self.facts = {name: HostFacts(facts.get(name)) for name in names}
        self.hosts: dict[str, Host] = {
            name: build_host(name, inventory[name], self.settings, self.facts[name], self.unknowns, self.report)
            for name in names
        }
        for role, members in self.members.items():
            for name in members:
                self.hosts[name].roles.append(role)
        self.vllm_version = self._profile_value("pd_vllm_version")
        self.table: OptionTable = option_table(self.vllm_version)
        self.model_path = self._model_path()
        self._layers: dict[tuple[str, str], dict[str, Any]] = {}

    # ---- simple values ----

    def _profile_value(self, name: str) -> Any:
        return self.settings.cluster(name, profile_default(self.profile, name))

    def _model_path(self) -> str:
        path = self.settings.cluster("pd_model_path")
        if path is None:
            self.report.add(
                "model-path", "pd_model_path is not set", "the model's folder on the hosts", "set pd_model_path"
            )
            return self.unknowns.mark("model path", "the inventory")
        if not path.startswith("/"):
            self.report.add(
                "model-path",
                f"pd_model_path {path!r} is no folder: every engine would download it",
                "a folder that holds the weights on every host",
                "download the model and set pd_model_path to its folder",
                severity=WARNING,
            )
        return path

    def _served_names(self) -> str | list[str] | None:
        """What ``--served-model-name`` gets; ``None`` leaves vLLM's own, the model path."""
        stated = self.settings.cluster("pd_served_model_name")
        if stated:
            words = str(stated).split()
            return words[0] if len(words) == 1 else words
        return self.model_path.rstrip("/").rsplit("/", 1)[-1].lower() if self.profile.guided else None

    @property
    def model_name(self) -> str:
        """The name that clients use."""
        names = self._served_names()
        return (names if isinstance(names, str) else names[0]) if names else self.model_path

    # ---- the run ----

    def run(self) -> dict[str, Any]:
        claims = [
            claim
            for role in self.profile.roles
            for claim in claims_of_role(role, self.members[role], self.settings, self.report)
        ]
        self.claims: dict[str, Claim] = {claim.name: claim for claim in claims}
        self.instances: list[Instance] = place(claims, self.hosts, self.settings, self.profile, self.report)
        self.engines: list[Engine] = [engine for instance in self.instances for engine in instance.engines]
        self.by_instance: dict[str, Instance] = {instance.name: instance for instance in self.instances}
        self.kv_raw = {
            (role, host): self._kv_settings(role, host) for role in self.profile.roles for host in self.members[role]
        }
        self.sides = self._sides()
        self.meta_host = self._meta_host()
        self.proxy_host = self.members["proxy"][0] if self.members["proxy"] else None
        self._check_proxy()
        self.ports: PortPlan = allocate(
            self.instances,
            self.hosts,
            self.settings,
            self.profile,
            self.kv_raw,
            self.meta_host,
            self.proxy_host,
            self.report,
        )
        self.meta = self._meta_address()
        self.sizes: dict[str, OffloadSizes] = self._offload_sizes()
        engines = [self._engine(engine) for engine in self.engines]
        self._check_offload()
        services = self._services(engines)
        return {
            "schema": SCHEMA,
            "profile": self.profile.name,
            "versions": {"vllm": self.vllm_version, "vllm_ascend": self._profile_value("pd_vllm_ascend_version")},
            "model": {"path": self.model_path, "name": self.model_name},
            "settings": self._settings_dict(),
            "sizing": {name: sizes.sizing for name, sizes in self.sizes.items() if sizes.sizing},
            "instances": [self._instance(instance) for instance in self.instances],
            "engines": engines,
            "services": services,
            "images": self._images(),
            "hosts": self._hosts(services),
            "ports": [entry.as_dict() for entry in self.ports.book.ranges()],
            "proxy": self._proxy(engines),
            "verify": self._verify(engines),
            "probe": self._probe(),
            "unknowns": self.unknowns.as_list(),
            "findings": [finding.as_dict() for finding in self.report.findings()],
        }

    # ---- connectors ----

    def _kv_settings(self, role: str, host: str) -> dict[str, Any]:
        """The KV transfer configuration before ports and sizes are filled in; empty: no connector."""
        user = merge(
            self.settings.of_host(host, "pd_kv_transfer_config"),
            self.settings.of_host(host, f"{role}_kv_transfer_config"),
        )
        if self.profile.name != "custom":
            below = self.profile.kv_transfer.get(role, {}).get("kv_connector")
            for field in connectors.owned_fields(user, below):
                self.report.add(
                    "owned-kv-field",
                    f"{role}_kv_transfer_config sets {field}, which follows from the plan",
                    {"kv_port": f"{role}_kv_port"}.get(field.rsplit(".", 1)[-1], f"{role}_parallel and the inventory"),
                    f"remove {field}",
                    host,
                )
        return merge(self.profile.kv_transfer.get(role), user)

    def _sides(self) -> dict[str, connectors.Sizes]:
        """Sizes of prefill and decode for connectors, which know one of each."""
        sides: dict[str, connectors.Sizes] = {}
        for instance in self.instances:
            parallel = instance.parallel
            own = connectors.Sizes(
                parallel.data_parallel_size, parallel.tensor_parallel_size, parallel.pipeline_parallel_size
            )
            if sides.setdefault(instance.role, own) != own and self.profile.name != "custom":
                self.report.add(
                    "sizes-differ",
                    f"{instance.name} has {own.as_config()}, but the first {instance.role} instance "
                    f"{sides[instance.role].as_config()}",
                    "equal sizes in all instances of a role: a connector is told one of each",
                    f"correct {instance.role}_parallel",
                )
        return sides

    def _kv_config(self, engine: Engine) -> dict[str, Any] | None:
        raw = self.kv_raw[(engine.role, engine.host)]
        if not raw:
            return None
        if self.profile.name == "custom":
            return connectors.complete(raw, engine.role, None, None)
        sides = self.sides if len(self.sides) == 2 else None
        return connectors.complete(raw, engine.role, self.ports.kv.get(engine.instance), sides)

    # ---- MemCache ----

    def _memcache_hosts(self) -> list[str]:
        return list(
            dict.fromkeys(
                engine.host
                for engine in self.engines
                if connectors.uses_memcache(self.kv_raw[(engine.role, engine.host)])
            )
        )

    def _meta_host(self) -> str | None:
        users = self._memcache_hosts()
        if not users:
            return None
        stated = self.settings.cluster("memcache_meta_host")
        if stated and stated not in self.hosts:
            self.report.add(
                "meta-host",
                f"memcache_meta_host {stated!r} is no host of the cluster",
                f"one of {', '.join(users[:4])}",
                "correct memcache_meta_host",
            )
            stated = None
        return stated or users[0]

    def _meta_address(self) -> memcache.MetaAddress | None:
        if self.meta_host is None:
            return None
        alone = self._memcache_hosts() == [self.meta_host]
        return memcache.MetaAddress(
            self.meta_host,
            "127.0.0.1" if alone else self.hosts[self.meta_host].address,
            self.settings.cluster("memcache_meta_port"),
            self.settings.cluster("memcache_config_store_port"),
            self.settings.cluster("memcache_metrics_port"),
        )

    def _memcache_files(self, engine: Engine) -> dict[str, Any]:
        if self.meta is None or not connectors.uses_memcache(self.kv_raw[(engine.role, engine.host)]):
            return {}
        ranks = sum(
            len(other.devices)
            for other in self.engines
            if connectors.uses_memcache(self.kv_raw[(other.role, other.host)])
        )
        content = memcache.local_conf(
            self.meta,
            ranks,
            self.settings.of_host(engine.host, "memcache_protocol"),
            self.sizes[engine.instance].memcache_dram,
        )
        return {memcache.LOCAL_FILE: {"format": "properties", "content": content}}

    # ---- engines ----

    def _user_layers(self, role: str, host: str, claim: Claim) -> dict[str, Any]:
        """The profile's and the user's options for engines of an instance on a host, without what the plan owns."""
        key = (claim.name, host)
        if key not in self._layers:
            layers: list[Mapping[str, Any]] = [self.profile.vllm_args.get(role, {})]
            for name, layer in (
                ("pd_vllm_args", self.settings.of_host(host, "pd_vllm_args")),
                (f"{role}_vllm_args", self.settings.of_host(host, f"{role}_vllm_args")),
                ("pd_instance_vllm_args", self.settings.of_host(host, "pd_instance_vllm_args")),
                (f"{role}_instances.vllm_args", claim.entry(host).get("vllm_args") or {}),
                ("pd_host_vllm_args", self.settings.of_host(host, "pd_host_vllm_args")),
            ):
                meaning = self.table.normalise(layer)
                self._check_options(name, meaning, role, host)
                layers.append(without_owned(meaning, self.profile.sparse_kv_offload))
            self._layers[key] = merge(*layers)
        return self._layers[key]

    def _check_options(self, layer: str, options: Mapping[str, Any], role: str, host: str) -> None:
        for name, right in owned(options, role, self.profile.sparse_kv_offload):
            self.report.add(
                "owned-option", f"{layer} sets {name}, which follows from the plan", right, f"use {right} instead", host
            )
        for name, value in options.items():
            option = self.table.get(name)
            if option is None and name not in ("model",):
                near = self.table.nearest(name)
                self.report.add(
                    "unknown-option",
                    f"{layer}: vLLM {self.vllm_version} has no option {name}",
                    near or "",
                    f"write {near}" if near else "remove it",
                    host,
                )
            elif option is not None and option.choices and not _is_choice(value, option.choices):
                self.report.add(
                    "option-choice",
                    f"{layer}: {name} is {value!r}",
                    f"one of {', '.join(map(str, option.choices))}",
                    f"correct {name}",
                    host,
                )

    def _derived_options(self, engine: Engine) -> dict[str, Any]:
        """Options that come from sizes and connector, on top of everything the user says."""
        derived: dict[str, Any] = {}
        sizes = self.sizes[engine.instance]
        if sizes.kv_cache_memory_bytes is not None:
            derived["kv-cache-memory-bytes"] = sizes.kv_cache_memory_bytes
        config = self._kv_config(engine)
        if config:
            derived["kv-transfer-config"] = config
        if sizes.offload_config:
            derived["additional-config"] = {"sparse_kv_offload_config": sizes.offload_config}
        if self._gathers(engine.role):
            # The fork gathers outside captured graphs only and falls back to single copies inside them.
            derived |= {"enforce-eager": True, "compilation-config": None}
        return derived

    def _gathers(self, role: str) -> bool:
        return (
            role == "decode"
            and self.profile.sparse_kv_offload
            and bool(self.settings.cluster("pd_small_packet_gather"))
        )

    def _options(self, engine: Engine) -> dict[str, Any]:
        instance = self.by_instance[engine.instance]
        head = self.hosts[instance.engines[0].host].address
        return engine_options(
            engine,
            self.model_path,
            {"host": self.settings.of_host(engine.host, "pd_http_host"), "port": self.ports.http.get(engine.name)},
            self._served_names(),
            parallel_options(
                instance, engine, head, self.ports.rpc.get(instance.name), self.ports.master.get(instance.name)
            ),
            self._user_layers(engine.role, engine.host, self.claims[engine.instance]),
            self._derived_options(engine),
        )

    def _environment(self, engine: Engine) -> dict[str, str]:
        host = self.hosts[engine.host]
        claim = self.claims[engine.instance]
        env = dict(self.profile.env.get(engine.role, {}))
        if self.profile.guided:
            env["PYTHONHASHSEED"] = "0"  # block hashes must agree between hosts (vllm-ascend kv_pool.md)
            env["VLLM_ENGINE_READY_TIMEOUT_S"] = str(self.settings.cluster("pd_ready_timeout_s"))
        if self._gathers(engine.role):
            env |= {
                "VLLM_ASCEND_ENABLE_CPU_GATHER_H2D": "1",
                "VLLM_ASCEND_CPU_GATHER_THREADS": "4",
                "VLLM_ASCEND_CPU_GATHER_BUFFER_BYTES": "8388608",
            }
        user = self._user_environment(engine.role, engine.host, claim)
        env = {name: environment.text(value) for name, value in merge(env, user).items()}
        interface = environment.interface(host.address, host.nic, self.ports.hccl.get(engine.name))
        if not host.chips:
            interface = {name: value for name, value in interface.items() if not name.startswith("HCCL_")}
        result = {**interface, **env}
        visible = self._visible_devices(engine)
        if visible:
            result["ASCEND_RT_VISIBLE_DEVICES"] = visible
        if self._memcache_files(engine):
            result["MMC_LOCAL_CONFIG_PATH"] = f"{CONFIG_DIR}/{memcache.LOCAL_FILE}"
        environment.complete_no_proxy(result, [other.address for other in self.hosts.values()])
        return result

    def _user_environment(self, role: str, host: str, claim: Claim) -> dict[str, Any]:
        layers = []
        for name, layer in (
            ("pd_env", self.settings.of_host(host, "pd_env")),
            (f"{role}_env", self.settings.of_host(host, f"{role}_env")),
            ("pd_instance_env", self.settings.of_host(host, "pd_instance_env")),
            (f"{role}_instances.env", claim.entry(host).get("env") or {}),
            ("pd_host_env", self.settings.of_host(host, "pd_host_env")),
        ):
            refused = environment.refusals(layer)
            for variable, found, right in refused:
                self.report.add("environment", f"{name}: {found}", right, f"remove {variable} from {name}", host)
            bad = {variable for variable, _, _ in refused}
            layers.append({key: value for key, value in layer.items() if key not in bad})
        return merge(*layers)

    def _container_devices(self, engine: Engine) -> tuple[int, ...]:
        """Chips whose nodes the engine's container gets: all of its instance on this host."""
        instance = self.by_instance[engine.instance]
        return tuple(chip for other in instance.engines if other.host == engine.host for chip in other.devices)

    def _visible_devices(self, engine: Engine) -> str | None:
        """``ASCEND_RT_VISIBLE_DEVICES``; ``None`` where the engine takes the first chips that it sees anyway.

        A privileged container sees every chip under its physical id; any other sees its own, counted from 0.
        """
        own = self._container_devices(engine)
        seen = self.hosts[engine.host].chips if self.privileged else own
        shares = sum(1 for other in self.engines if other.host == engine.host) > 1
        if not engine.devices or (engine.devices == tuple(seen[: len(engine.devices)]) and not shares):
            return None
        ids = engine.devices if self.privileged else [own.index(chip) for chip in engine.devices]
        return ",".join(map(str, ids))

    @property
    def privileged(self) -> bool:
        return bool(self._profile_value("pd_container_privileged"))

    def _engine(self, engine: Engine) -> dict[str, Any]:
        options = self._options(engine)
        port = self.ports.http.get(engine.name)
        bind = self.settings.of_host(engine.host, "pd_http_host")
        return {
            "name": engine.name,
            "instance": engine.instance,
            "role": engine.role,
            "host": engine.host,
            "service": engine.instance,
            "serves_http": engine.serves_http,
            "http": {
                "host": bind,
                "port": port,
                "url": f"http://{self.hosts[engine.host].address}:{port}" if engine.serves_http else None,
            },
            "devices": list(engine.devices),
            "node_rank": engine.node_rank,
            "data_parallel_rank": engine.data_parallel_rank,
            "data_parallel_start_rank": engine.start_rank,
            "data_parallel_size_local": engine.local_ranks,
            "vllm_args": options,
            "config": self.table.config_file(options),
            "argv": ["vllm", "serve", "--config", f"{CONFIG_DIR}/{engine.name}.yaml"],
            "env": self._environment(engine),
        }

    # ---- sizes ----

    def _offload_sizes(self) -> dict[str, OffloadSizes]:
        result = {}
        for instance in self.instances:
            head = instance.engines[0]
            facts = [self.facts[engine.host] for engine in instance.engines]
            result[instance.name] = offload_sizes(
                instance,
                self._user_layers(head.role, head.host, self.claims[instance.name]),
                self.kv_raw[(head.role, head.host)],
                facts,
                self.model_path,
                offloads=self.profile.sparse_kv_offload and head.role == "decode",
                topk_buffer_size=self.settings.of_host(head.host, "pd_topk_buffer_size"),
                dram_gib=self.settings.of_host(head.host, "pd_dram_size_per_dp_gb"),
                kv_cache_memory_bytes=self.settings.of_host(head.host, "pd_kv_cache_memory_bytes"),
                memcache_dram=self.settings.of_host(head.host, "memcache_dram_size"),
                unknown=lambda what, host=head.host: self.unknowns.mark(what, host),
            )
        return result

    def _check_offload(self) -> None:
        if not self.profile.sparse_kv_offload:
            return
        per_host: dict[str, list[str]] = {}
        for engine in self.engines:
            if engine.role == "decode":
                per_host.setdefault(engine.host, []).append(engine.name)
        for host, names in per_host.items():
            if len(names) > 1:
                self.report.add(
                    "offload-one-engine",
                    f"{len(names)} decode engines with sparse KV offload on one host ({', '.join(names)}): "
                    "each would open MemFabric's store on loopback port 8500",
                    "one engine per host, with internal data parallelism",
                    "set decode_parallel.data_parallel_mode to internal, and one decode instance per host",
                    host,
                )
        if self._gathers("decode"):
            self.report.add(
                "gather-without-graphs",
                "pd_small_packet_gather works outside captured graphs only: decode runs with enforce-eager, "
                "without its compilation-config",
                severity=INFO,
            )

    # ---- services ----

    def _services(self, engines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        services = []
        if self.meta is not None:
            services.append(self._meta_service(self.meta))
        groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for engine in engines:
            groups.setdefault((engine["host"], engine["instance"]), []).append(engine)
        services += [self._engine_service(host, instance, group) for (host, instance), group in groups.items()]
        if self.proxy_host is not None:
            services.append(self._proxy_service(self.proxy_host, engines))
        return services

    def _service(self, name: str, kind: str, role: str, host: str, **parts: Any) -> dict[str, Any]:
        """What every service has in common."""
        mounts = [
            f"{self.settings.cluster('pd_base_dir')}/{name}:{CONFIG_DIR}:ro",
            *parts.pop("mounts"),
        ]
        body = container(
            privileged=kind == "engine" and self.privileged,
            devices=parts.pop("devices", ()),
            mounts=mounts,
            retries=self.settings.cluster("pd_restart_retries"),
            stop_timeout=self.settings.cluster("pd_stop_grace_s"),
            log_size=self.settings.cluster("pd_log_max_size"),
            log_files=self.settings.cluster("pd_log_max_files"),
        )
        return {
            "name": name,
            "kind": kind,
            "role": role,
            "host": host,
            "image": self._image_of(role, host),
            "container": body,
            "sources": self._sources(role, host, kind),
            **parts,
        }

    def _log_mount(self, service: str, target: str) -> str:
        return f"{self.settings.cluster('pd_log_dir')}/{service}:{target}"

    def _driver_mounts(self, host: str) -> list[str]:
        """The driver, for processes that load CANN without using chips: whatever of it the host has."""
        if not self.hosts[host].chips:
            return []
        return present([Mount(m.source, optional=True) for m in DRIVER_MOUNTS], self.facts[host])

    def _engine_mounts(self, host: str, service: str) -> list[str]:
        mounts: list[str] = []
        if self.hosts[host].chips:
            tool = self.facts[host].npu_smi_path or self.unknowns.mark("path of npu-smi", host)
            extra = [SBIN_MOUNT] if self.settings.cluster("pd_mount_sbin") else []
            mounts = present([*ENGINE_MOUNTS, Mount(tool), *extra], self.facts[host])
            mounts.append(self._log_mount(service, "/root/ascend/log"))
        model = self.settings.cluster("pd_model_mount") or self.model_path
        if model.startswith("/"):
            mounts.append(f"{model}:{model}:ro")
        return [*mounts, *self.settings.of_host(host, "pd_extra_mounts")]

    def _engine_service(self, host: str, instance: str, engines: Sequence[dict[str, Any]]) -> dict[str, Any]:
        common = dict(
            item for item in engines[0]["env"].items() if all(item in engine["env"].items() for engine in engines)
        )
        own = {
            engine["name"]: {key: value for key, value in engine["env"].items() if key not in common}
            for engine in engines
        }
        first = next(engine for engine in self.engines if engine.name == engines[0]["name"])
        files = {f"{engine['name']}.yaml": {"format": "yaml", "content": engine["config"]} for engine in engines}
        chips = [chip for engine in engines for chip in engine["devices"]]
        urls = [f"{_loopback(engine)}/health" for engine in engines if engine["serves_http"]]
        for engine in engines:
            engine["env"] = own[engine["name"]]
        return self._service(
            instance,
            "engine",
            engines[0]["role"],
            host,
            devices=device_paths(self.hosts[host].chips if self.privileged else chips),
            mounts=self._engine_mounts(host, instance),
            prepend=dict(self.settings.of_host(host, "pd_prepend_paths")),
            env=common,
            files={**files, **self._memcache_files(first)},
            commands=[
                {"name": engine["name"], "argv": engine["argv"], "env": own[engine["name"]]} for engine in engines
            ],
            ready={"kind": "http", "url": urls[0], "urls": urls, "expect": "status"} if urls else {"kind": "running"},
            ports=sorted(
                entry.first
                for entry in self.ports.book.ranges()
                if entry.host == host and entry.owner in own and entry.fixed
            ),
        )

    def _meta_service(self, meta: memcache.MetaAddress) -> dict[str, Any]:
        role = next(e.role for e in self.engines if connectors.uses_memcache(self.kv_raw[(e.role, e.host)]))
        service = self._service(
            "memcache-meta",
            "meta",
            "memcache",
            meta.host,
            mounts=[*self._driver_mounts(meta.host), self._log_mount("memcache-meta", "/var/log/memcache_hybrid")],
            prepend={},
            env={"MMC_META_CONFIG_PATH": f"{CONFIG_DIR}/{memcache.META_FILE}"},
            files={memcache.META_FILE: {"format": "properties", "content": memcache.meta_conf(meta)}},
            commands=[{"name": "memcache-meta", "argv": list(memcache.META_COMMAND), "env": {}}],
            ready={
                "kind": "http",
                "url": f"{meta.metrics_url}/health",
                "urls": [f"{meta.metrics_url}/health"],
                # errors come with status 200, so the body decides
                "expect": "json",
                "key": "service_ready",
                "value": True,
            },
            ports=[meta.service_port, meta.config_store_port, meta.metrics_port],
        )
        service["image"] = role
        return service

    def _proxy_service(self, host: str, engines: Sequence[dict[str, Any]]) -> dict[str, Any]:
        proxy = self._proxy(engines)
        assert proxy is not None
        script = (
            f"{self.settings.cluster('pd_sources_dir')}/vllm-ascend/examples/disaggregated_prefill_v1/{proxy['script']}"
        )
        argv = ["python", script, "--host", proxy["address"], "--port", str(proxy["port"])]
        for side, option in (("prefill", "prefiller"), ("decode", "decoder")):
            argv += [f"--{option}-hosts", *(backend["host"] for backend in proxy[side])]
            argv += [f"--{option}-ports", *(str(backend["port"]) for backend in proxy[side])]
        url = f"{proxy['url']}/healthcheck"
        env: dict[str, str] = {}
        return self._service(
            "proxy",
            "proxy",
            "proxy",
            host,
            mounts=self._driver_mounts(host),
            prepend={},
            env=env,
            files={},
            commands=[{"name": "proxy", "argv": argv, "env": {}}],
            ready={"kind": "http", "url": url, "urls": [url], "expect": "json", "key": "status", "value": "ok"},
            ports=[proxy["port"]],
        )

    def _sources(self, role: str, host: str, kind: str) -> list[str]:
        """``set_env.sh`` files for the launcher: CANN's, and those of the layers that the image has."""
        stated = self.settings.cluster("pd_environment_scripts")
        if stated is not None:
            return [str(path) for path in stated]
        layers = self._images()[self._image_of(role, host) if kind != "meta" else self._meta_image()]["layers"]
        scripts = list(CANN_SCRIPTS)
        if "memfabric" in layers and kind != "proxy":
            scripts.append(MEMFABRIC_SCRIPT)
        if "memcache" in layers and kind != "proxy":
            scripts.append(MEMCACHE_SCRIPT)
        return scripts

    # ---- images ----

    def _meta_image(self) -> str:
        return next(e.role for e in self.engines if connectors.uses_memcache(self.kv_raw[(e.role, e.host)]))

    def _image_of(self, role: str, host: str) -> str:
        """Key of ``images``: engines have their role's; the proxy takes one that its host has anyway."""
        if role in self.profile.roles:
            return role
        present_roles = [name for name in self.hosts[host].roles if name in self.profile.roles]
        return present_roles[0] if present_roles else self.profile.roles[-1]

    def _images(self) -> dict[str, Any]:
        if not hasattr(self, "_image_cache"):
            generation = next(
                (self.settings.of_host(name, "pd_npu_generation") for name in self.hosts),
                VARIABLES["pd_npu_generation"].default,
            )
            base = self.settings.cluster("pd_image") or self.profile.image(str(generation))
            configs = {role: [self.kv_raw[(role, host)] for host in self.members[role]] for role in self.profile.roles}
            fabric = any(
                connectors.uses_sfa(config) or connectors.uses_memcache(config)
                for role in configs.values()
                for config in role
            )
            images: dict[str, Any] = {}
            for role, used in configs.items():
                layers = ["vllm"] if self._profile_value("pd_build") else []
                if layers and fabric:
                    layers.append("memfabric")
                if layers and any(connectors.uses_memcache(config) for config in used):
                    layers.append("memcache")
                images[role] = {"base": base, "layers": layers}
            self._image_cache = images
        return self._image_cache

    # ---- the rest ----

    def _check_proxy(self) -> None:
        if len(self.members["proxy"]) > 1:
            self.report.add(
                "one-proxy",
                f"group proxy has {len(self.members['proxy'])} hosts",
                "one: the proxies keep their load figures to themselves",
                "leave one host in the proxy group",
            )
        if self.proxy_host is None and "engine" not in self.profile.roles:
            self.report.add("no-hosts", "group proxy has no host", "the host that clients talk to", "fill the group")

    def _proxy(self, engines: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
        if self.proxy_host is None:
            return None
        address = self.settings.cluster("proxy_address") or self.hosts[self.proxy_host].address
        config = next((raw for (role, _), raw in self.kv_raw.items() if role == "decode"), {})
        flavour = connectors.proxy_flavour(config)
        return {
            "host": self.proxy_host,
            "address": address,
            "port": self.ports.proxy,
            "url": f"http://{address}:{self.ports.proxy}",
            "flavour": flavour,
            "script": PROXY_SCRIPTS[flavour],
            **{
                side: [
                    {"host": self.hosts[engine["host"]].address, "port": engine["http"]["port"]}
                    for engine in engines
                    if engine["role"] == side and engine["serves_http"]
                ]
                for side in ("prefill", "decode")
            },
        }

    def _verify(self, engines: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Two completions, the second with the first one's prefix: the first may start what only the second uses."""
        proxy = self._proxy(engines)
        first = next((engine["http"]["url"] for engine in engines if engine["serves_http"]), None)
        prompt = "The capital of France is"
        return {
            "url": proxy["url"] if proxy else first,
            "requests": [
                {
                    "path": "/v1/completions",
                    "body": {"model": self.model_name, "prompt": text, "max_tokens": 16, "temperature": 0},
                }
                for text in (prompt, f"{prompt} Paris. The capital of Germany is")
            ],
            "timeout_s": self.settings.cluster("pd_verify_timeout_s"),
        }

    def _instance(self, instance: Instance) -> dict[str, Any]:
        return {
            "name": instance.name,
            "role": instance.role,
            "hosts": instance.hosts,
            "parallel": instance.parallel.as_dict(),
            "engines": [engine.name for engine in instance.engines],
        }

    def _hosts(self, services: Sequence[dict[str, Any]]) -> dict[str, Any]:
        base, logs = self.settings.cluster("pd_base_dir"), self.settings.cluster("pd_log_dir")
        result = {}
        for name, host in self.hosts.items():
            own = [service for service in services if service["host"] == name]
            result[name] = {
                "address": host.address,
                "nic": host.nic,
                "roles": host.roles,
                "services": [service["name"] for service in own],
                "images": list(dict.fromkeys(service["image"] for service in own)),
                "folders": [
                    base,
                    logs,
                    *(f"{logs}/{service['name']}" for service in own if service["kind"] != "proxy"),
                ],
                "reserved_ports": self.ports.book.reserved(name, host.facts.ephemeral_ports or (32768, 60999)),
                "chips": len(host.chips),
                "devices": list(host.devices),
            }
        return result

    def _probe(self) -> dict[str, Any]:
        """Arguments of ``host_probe`` per host. An SSH address is good enough to find the way to a peer."""
        ports: dict[str, list[int]] = {}
        for entry in self.ports.book.ranges():
            if entry.fixed and not entry.bind.startswith("127."):
                ports.setdefault(entry.host, []).append(entry.first)
        addresses = {name: self._peer_address(name) for name in self.hosts}
        paths = [mount.source for mount in (*ENGINE_MOUNTS, SBIN_MOUNT)]
        peers = {name: {"address": at, "ports": ports.get(name, [])} for name, at in addresses.items() if at}
        result = {}
        for name in self.hosts:
            result[name] = {
                "peers": [peer for other, peer in peers.items() if other != name],
                "nic": self.settings.of_host(name, "pd_nic"),
                "address": self.settings.of_host(name, "pd_address"),
                "paths": paths,
                "disk_paths": [self.settings.cluster("pd_log_dir"), "/var/lib/docker"],
                "model_paths": [self.model_path] if self.model_path.startswith("/") else [],
            }
        return result

    def _peer_address(self, name: str) -> str | None:
        from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.cluster import is_ipv4

        for candidate in (self.settings.of_host(name, "pd_address"), self.inventory[name].get("ansible_host")):
            if candidate and is_ipv4(str(candidate)):
                return str(candidate)
        return None

    def _settings_dict(self) -> dict[str, Any]:
        values = {name: self.settings.cluster(name) for name in _SETTINGS}
        for name in ("pd_vllm_version", "pd_vllm_ascend_version", "pd_build", "pd_container_privileged"):
            values[name] = self._profile_value(name)
        values["pd_served_model_name"] = self.model_name
        values["proxy_port"] = self.ports.proxy
        return values


def _is_choice(value: Any, choices: Sequence[Any]) -> bool:
    if value is None:
        return True
    values = value if isinstance(value, list) else [value]
    return all(str(item) in map(str, choices) for item in values)


def _loopback(engine: Mapping[str, Any]) -> str:
    """Where an engine answers on its own host."""
    bind = engine["http"]["host"]
    return f"http://{'127.0.0.1' if bind in ('0.0.0.0', '::') else bind}:{engine['http']['port']}"
