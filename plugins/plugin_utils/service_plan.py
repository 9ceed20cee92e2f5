# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Services of the plan: one container each, in the order in which they start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils import connectors, environment, memcache
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
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.draft import Draft
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.profiles import PROXY_SCRIPTS, STANDARD
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.variables import VARIABLES

_EXAMPLES = "vllm-ascend/examples/disaggregated_prefill_v1"  # upstream's proxies, below pd_sources_dir

Records = Sequence[dict[str, Any]]


class ServicePlanner:
    """Makes the records of services and images from the engines' records."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._settings = draft.settings

    def services(self, engines: Records, proxy: Mapping[str, Any] | None) -> list[dict[str, Any]]:
        result = []
        if self._draft.meta is not None:
            result.append(self._meta(self._draft.meta))
        groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for engine in engines:
            groups.setdefault((engine["host"], engine["instance"]), []).append(engine)
        result += [self._engines(host, instance, group) for (host, instance), group in groups.items()]
        if proxy is not None:
            result.append(self._proxy(proxy))
        return result

    def proxy(self, engines: Records) -> dict[str, Any] | None:
        """Where clients go, and the backends: exactly the engines that serve HTTP."""
        draft = self._draft
        if draft.proxy_host is None:
            return None
        address = self._settings.cluster("proxy_address") or draft.hosts[draft.proxy_host].address
        config = next((raw for (role, _host), raw in draft.kv.items() if role == "decode"), {})
        flavour = connectors.proxy_flavour(config)
        backends: dict[str, list[dict[str, Any]]] = {"prefill": [], "decode": []}
        for engine in engines:
            if engine["serves_http"]:
                backend = {"host": draft.hosts[engine["host"]].address, "port": engine["http"]["port"]}
                backends[engine["role"]].append(backend)
        return {
            "host": draft.proxy_host,
            "address": address,
            "port": draft.ports.proxy,
            "url": f"http://{address}:{draft.ports.proxy}",
            "flavour": flavour,
            "script": PROXY_SCRIPTS[flavour],
            **backends,
        }

    # ---- images ----

    @cached_property
    def images(self) -> dict[str, Any]:
        """Base image and layers by role. Prefill and decode share what they can: only the top layer may differ."""
        draft = self._draft
        default = VARIABLES["pd_npu_generation"].default
        generation = next((self._generation(name) for name in draft.hosts), default)
        version = str(draft.profile_value("pd_vllm_ascend_version"))
        base = self._settings.cluster("pd_image") or draft.profile.image(str(generation), version)
        configs = {role: [draft.kv[role, host] for host in draft.members[role]] for role in draft.profile.roles}
        every = [config for used in configs.values() for config in used]
        fabric = any(connectors.uses_sfa(config) or connectors.uses_memcache(config) for config in every)
        images: dict[str, Any] = {}
        for role, used in configs.items():
            layers = []
            if draft.profile_value("pd_build"):
                layers = ["vllm", *(["memfabric"] if fabric else [])]
                if any(connectors.uses_memcache(config) for config in used):
                    layers.append("memcache")
            images[role] = {"base": base, "layers": layers}
        return images

    def _generation(self, host: str) -> str:
        """Of a host's chips: as stated, else as probed, else A3."""
        stated = self._settings.is_set(host, "pd_npu_generation")
        probed = None if stated else self._draft.hosts[host].facts.generation
        return str(probed or self._settings.of_host(host, "pd_npu_generation"))

    def _image_for_host(self, host: str) -> str:
        """Image of a service that any image can carry: one that the host has anyway."""
        roles = [role for role in self._draft.hosts[host].roles if role in self._draft.profile.roles]
        return roles[0] if roles else self._draft.profile.roles[-1]

    def _scripts(self, image: str, engine: bool) -> list[str]:
        """``set_env.sh`` files for the launcher: CANN's, and those of the layers that the image has."""
        stated = self._settings.cluster("pd_environment_scripts")
        if stated is not None:
            return [str(path) for path in stated]
        layers = self.images[image]["layers"] if engine else []
        own = (("memfabric", MEMFABRIC_SCRIPT), ("memcache", MEMCACHE_SCRIPT))
        return [*CANN_SCRIPTS, *(script for layer, script in own if layer in layers)]

    # ---- the three kinds ----

    def _service(
        self, name: str, kind: str, role: str, host: str, image: str, mounts: Sequence[str], devices: Sequence[str] = ()
    ) -> dict[str, Any]:
        """What every service has in common; the rest of its keys is empty yet."""
        settings = self._settings
        config = f"{settings.cluster('pd_base_dir')}/{name}:{CONFIG_DIR}:ro"
        return {
            "name": name,
            "kind": kind,
            "role": role,
            "host": host,
            "image": image,
            "container": container(
                name,
                privileged=kind == "engine" and self._draft.privileged,
                devices=devices,
                mounts=[config, *mounts],
                retries=settings.cluster("pd_restart_retries"),
                stop_timeout=settings.cluster("pd_stop_grace_s"),
                log_size=settings.cluster("pd_log_max_size"),
                log_files=settings.cluster("pd_log_max_files"),
            ),
            "sources": self._scripts(image, kind != "proxy"),
            "prepend": {},
            "env": {},
            "files": {},
        }

    def _engines(self, host: str, instance: str, engines: Records) -> dict[str, Any]:
        """The engines of one instance on one host. Their records keep only what differs from the common environment."""
        draft = self._draft
        common = dict(item for item in engines[0]["env"].items() if all(item in e["env"].items() for e in engines))
        for engine in engines:
            engine["env"] = {key: value for key, value in engine["env"].items() if key not in common}
        chips = draft.hosts[host].chips if draft.privileged else [c for engine in engines for c in engine["devices"]]
        urls = [f"{_loopback(engine)}/health" for engine in engines if engine["serves_http"]]
        names = {engine["name"] for engine in engines}
        role = engines[0]["role"]
        service = self._service(
            instance, "engine", role, host, role, self._engine_mounts(host, instance), device_paths(chips)
        )
        files = {f"{engine['name']}.yaml": {"format": "yaml", "content": engine["config"]} for engine in engines}
        return service | {
            "prepend": self._prepend(host),
            "env": common,
            "files": files | self._local_conf(instance, host),
            "commands": [{"name": e["name"], "argv": e["argv"], "env": e["env"]} for e in engines],
            "ready": {"kind": "http", "url": urls[0], "urls": urls, "expect": "status"}
            if urls
            else {"kind": "running"},
            "ports": sorted(entry.first for entry in draft.ports.book.on(host) if entry.owner in names and entry.fixed),
        }

    def _prepend(self, host: str) -> dict[str, list[str]]:
        """The user's search paths before the profile's."""
        good, wrong = environment.check_prepend(self._settings.of_host(host, "pd_prepend_paths"))
        for found in wrong:
            self._draft.report.add(
                "prepend-paths", f"pd_prepend_paths: {found}", "lists of single paths", "correct pd_prepend_paths", host
            )
        below = self._draft.profile.prepend if self._draft.hosts[host].chips else {}
        return {
            name: [*good.get(name, []), *(path for path in below.get(name, ()) if path not in good.get(name, []))]
            for name in {**good, **below}
        }

    def _meta(self, meta: memcache.MetaAddress) -> dict[str, Any]:
        """MetaService, in the image of those who use it."""
        url = f"{meta.metrics_url}/health"
        service = self._service(
            "memcache-meta",
            "meta",
            "memcache",
            meta.host,
            self._draft.memcache_engines[0].role,
            [*self._driver_mounts(meta.host), self._log_mount("memcache-meta", "/var/log/memcache_hybrid")],
        )
        return service | {
            "env": {"MMC_META_CONFIG_PATH": f"{CONFIG_DIR}/{memcache.META_FILE}"},
            "files": {memcache.META_FILE: {"format": "properties", "content": memcache.meta_conf(meta)}},
            "commands": [{"name": "memcache-meta", "argv": list(memcache.META_COMMAND), "env": {}}],
            # errors come with status 200, so the body decides
            "ready": {
                "kind": "http",
                "url": url,
                "urls": [url],
                "expect": "json",
                "key": "service_ready",
                "value": True,
            },
            "ports": [meta.service_port, meta.config_store_port, meta.metrics_port],
        }

    def _proxy(self, proxy: Mapping[str, Any]) -> dict[str, Any]:
        """Upstream's proxy. It imports vLLM, so it wants CANN and the driver's libraries, but no chip."""
        script = f"{self._settings.cluster('pd_sources_dir')}/{_EXAMPLES}/{proxy['script']}"
        argv = ["python", script, "--host", proxy["address"], "--port", str(proxy["port"])]
        command: dict[str, Any] = {"name": "proxy", "argv": argv, "env": {}}
        if proxy["flavour"] == STANDARD:
            command["live_from"] = len(argv)  # what follows is told to the running proxy
        for side, option in (("prefill", "prefiller"), ("decode", "decoder")):
            argv += [f"--{option}-hosts", *(backend["host"] for backend in proxy[side])]
            argv += [f"--{option}-ports", *(str(backend["port"]) for backend in proxy[side])]
        url = f"{proxy['url']}/healthcheck"
        host = proxy["host"]
        service = self._service("proxy", "proxy", "proxy", host, self._image_for_host(host), self._driver_mounts(host))
        return service | {
            "commands": [command],
            "ready": {"kind": "http", "url": url, "urls": [url], "expect": "json", "key": "status", "value": "ok"},
            "ports": [proxy["port"]],
        }

    # ---- files and mounts ----

    def _local_conf(self, instance: str, host: str) -> dict[str, Any]:
        """MemCache's file for an instance that keeps KV there."""
        draft = self._draft
        if draft.meta is None or instance not in draft.memcache_instances:
            return {}
        content = memcache.local_conf(
            draft.meta,
            sum(len(engine.devices) for engine in draft.memcache_engines),
            self._settings.of_host(host, "memcache_protocol"),
            draft.sizes[instance].memcache_dram,
            self._settings.of_host(host, "memcache_hcom_url"),
        )
        return {memcache.LOCAL_FILE: {"format": "properties", "content": content}}

    def _log_mount(self, service: str, target: str) -> str:
        return f"{self._settings.cluster('pd_log_dir')}/{service}:{target}"

    def _driver_mounts(self, host: str) -> list[str]:
        """The driver, for processes that load CANN without using chips: whatever of it the host has."""
        if not self._draft.hosts[host].chips:
            return []
        return present([Mount(m.source, optional=True) for m in DRIVER_MOUNTS], self._draft.hosts[host].facts)

    def _engine_mounts(self, host: str, service: str) -> list[str]:
        mounts: list[str] = []
        facts = self._draft.hosts[host].facts
        if self._draft.hosts[host].chips:
            tool = facts.npu_smi_path or self._draft.unknowns.mark("path of npu-smi", host)
            extra = [SBIN_MOUNT] if self._settings.cluster("pd_mount_sbin") else []
            mounts = present([*ENGINE_MOUNTS, Mount(tool), *extra], facts)
            mounts.append(self._log_mount(service, "/root/ascend/log"))
        model = self._settings.cluster("pd_model_mount") or self._draft.model_path
        if model.startswith("/"):
            mounts.append(f"{model}:{model}:ro")
        return [*mounts, *map(str, self._settings.of_host(host, "pd_extra_mounts"))]


def _loopback(engine: Mapping[str, Any]) -> str:
    """Where an engine answers on its own host."""
    bind = engine["http"]["host"]
    return f"http://{'127.0.0.1' if bind in ('0.0.0.0', '::') else bind}:{engine['http']['port']}"
