# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""One engine in the plan: its options, its environment, and the record that everything else reads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils import connectors, environment, memcache
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.containers import CONFIG_DIR
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.draft import Draft
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.engine_options import (
    OWNED,
    engine_options,
    misshapen,
    misshapen_inside,
    misstated,
    owned,
    parallel_options,
    without_owned,
)
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.facts import mark
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.layers import merge, stated_in
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.topology import Engine

_GATHER_ENV = {
    "VLLM_ASCEND_ENABLE_CPU_GATHER_H2D": "1",
    "VLLM_ASCEND_CPU_GATHER_THREADS": "4",
    "VLLM_ASCEND_CPU_GATHER_BUFFER_BYTES": "8388608",
}


class UserLayers:
    """The user's options and environment for engines of an instance on a host, judged once and merged once."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._options: dict[tuple[str, str], dict[str, Any]] = {}
        self._stated: dict[tuple[str, str], dict[str, str]] = {}
        self._environment: dict[tuple[str, str], dict[str, Any]] = {}

    def _layers(self, kind: str, role: str, host: str, instance: str) -> list[tuple[str, Mapping[str, Any]]]:
        settings = self._draft.settings
        names = (f"pd_{kind}", f"{role}_{kind}", f"pd_instance_{kind}")
        entry = self._draft.claims[instance].entry(host).get(kind) or {}
        return [
            *((name, settings.of_host(host, name)) for name in names),
            (f"{role}_instances.{kind}", entry),
            (f"pd_host_{kind}", settings.of_host(host, f"pd_host_{kind}")),
        ]

    def options(self, role: str, host: str, instance: str) -> dict[str, Any]:
        """Options as meaning, over the profile's, without what the plan owns."""
        if (instance, host) not in self._options:
            offload = self._draft.profile.sparse_kv_offload
            merged: list[Mapping[str, Any]] = [self._draft.profile.vllm_args.get(role, {})]
            stated: list[tuple[str, Mapping[str, Any]]] = []
            for name, layer in self._layers("vllm_args", role, host, instance):
                for spellings in self._draft.table.twice(layer):
                    found, mend = " and ".join(spellings), f"remove all but one from {name}"
                    self._draft.report.add("option-twice", f"{name}: {found}", spellings[-1], mend, host)
                meaning = self._draft.table.normalise(layer)
                self._check_options(name, meaning, role, host)
                stated.append((name, meaning))
                unusable = {*misshapen(meaning), *misstated(meaning, self._draft.table)}
                usable = {key: value for key, value in meaning.items() if key not in unusable}
                merged.append(without_owned(usable, offload))
            self._options[instance, host] = merge(*merged)
            stated += ((name, {"kv-transfer-config": config}) for name, config in self._draft.kv_layers(role, host))
            self._stated.setdefault((instance, host), {}).update(stated_in(stated))
        return self._options[instance, host]

    def stated_in(self, role: str, host: str, instance: str) -> dict[str, str]:
        """Path of an option, of a key in it, or of ``env.NAME`` -> the variable that states it."""
        self.options(role, host, instance)
        self.environment(role, host, instance)
        return self._stated[instance, host]

    def _check_options(self, layer: str, options: Mapping[str, Any], role: str, host: str) -> None:
        draft = self._draft
        for name, right in owned(options, role, draft.profile.sparse_kv_offload):
            draft.report.add(
                "owned-option", f"{layer} sets {name}, which follows from the plan", right, f"use {right} instead", host
            )
        for name, (right, mend) in misstated(options, draft.table).items():
            if name not in OWNED and name not in misshapen(options):
                found = f"{layer}: {name} is {json.dumps(options[name])[:60]}"
                draft.report.add("option-value", found, right, mend, host)
        for name, value in [*((name, options[name]) for name in misshapen(options)), *misshapen_inside(options)]:
            draft.report.add(
                "option-mapping",
                f"{layer}: {name} is {str(value)[:60]!r}",
                "a mapping; it is made into JSON once, at the end",
                f"write {name} as a YAML mapping",
                host,
            )
        for name, value in options.items():
            option = draft.table.get(name)
            if option is None and name != "model":
                near = draft.table.nearest(name)
                mend = f"write {near}" if near else "remove it"
                found = f"{layer}: vLLM {draft.vllm_version} has no option {name}"
                draft.report.add("unknown-option", found, near or "", mend, host)
            elif option is not None and option.choices and not _is_choice(value, option.choices):
                right = f"one of {', '.join(map(str, option.choices))}"
                draft.report.add("option-choice", f"{layer}: {name} is {value!r}", right, f"correct {name}", host)

    def environment(self, role: str, host: str, instance: str) -> dict[str, Any]:
        """The user's variables, without those that may not be set; ``None`` removes one of the profile's."""
        if (instance, host) not in self._environment:
            merged = []
            removed: dict[str, Any] = {}
            stated: list[tuple[str, Mapping[str, Any]]] = []
            for name, layer in self._layers("env", role, host, instance):
                refused = environment.refusals(layer)
                for variable, found, right in refused:
                    self._draft.report.add("environment", f"{name}: {found}", right, f"remove {variable}", host)
                bad = {variable for variable, *_rest in refused}
                merged.append({key: value for key, value in layer.items() if key not in bad})
                stated.append((name, {"env": merged[-1]}))
                removed |= dict.fromkeys(key for key, value in layer.items() if value is None)
            self._environment[instance, host] = {**removed, **merge(*merged)}
            self._stated.setdefault((instance, host), {}).update(stated_in(stated))
        return self._environment[instance, host]


class EnginePlanner:
    """Makes the records of engines."""

    def __init__(self, draft: Draft, layers: UserLayers) -> None:
        self._draft = draft
        self._layers = layers
        roles = {instance.role: instance.parallel for instance in reversed(draft.instances) if instance.laid_out}
        # Of each role, in the profile's order, the first instance speaks for the others to the other side. Where they
        # differ, no choice among them outlasts both each that comes and each that goes (which restarts the other side);
        # the first outlasts all that come later. Upstream asks for the other side's dp_size, and reads it nowhere.
        self._sides = {role: connectors.Sizes.of(roles[role]) for role in draft.profile.roles if role in roles}
        self._addresses = [host.address for host in draft.hosts.values()]

    def record(self, engine: Engine) -> dict[str, Any]:
        draft = self._draft
        options = self._options(engine)
        port = draft.ports.http.get(engine.name)
        bind = draft.settings.of_host(engine.host, "pd_http_host")
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
                "url": f"http://{draft.hosts[engine.host].address}:{port}" if engine.serves_http else None,
            },
            "devices": list(engine.devices),
            "node_rank": engine.node_rank,
            "data_parallel_rank": engine.data_parallel_rank,
            "data_parallel_start_rank": engine.start_rank,
            "data_parallel_size_local": engine.local_ranks if draft.by_instance[engine.instance].laid_out else None,
            "vllm_args": options,
            "stated_in": self._layers.stated_in(engine.role, engine.host, engine.instance),
            "config": draft.table.config_file(options),
            "argv": ["vllm", "serve", "--config", f"{CONFIG_DIR}/{engine.name}.yaml"],
            "env": self._environment(engine),
        }

    # ---- options ----

    def _options(self, engine: Engine) -> dict[str, Any]:
        draft = self._draft
        instance = draft.by_instance[engine.instance]
        head = draft.hosts[instance.engines[0].host].address
        names = draft.served_names
        parallel = parallel_options(
            instance, engine, head, draft.ports.rpc.get(instance.name), draft.ports.master.get(instance.name)
        )
        if not instance.laid_out:
            parallel = {"tensor-parallel-size": mark("layout", instance.name)}
        return engine_options(
            engine,
            draft.model_path,
            {"host": draft.settings.of_host(engine.host, "pd_http_host"), "port": draft.ports.http.get(engine.name)},
            names if len(names) > 1 else "".join(names),
            parallel,
            self._layers.options(engine.role, engine.host, engine.instance),
            self._derived(engine),
        )

    def _derived(self, engine: Engine) -> dict[str, Any]:
        """Options that come from sizes and connector, on top of everything the user says."""
        derived: dict[str, Any] = {}
        sizes = self._draft.sizes[engine.instance]
        if sizes.kv_cache_memory_bytes is not None:
            derived["kv-cache-memory-bytes"] = sizes.kv_cache_memory_bytes
        config = self._kv_config(engine)
        if config:
            derived["kv-transfer-config"] = config
        if sizes.offload_config:
            derived["additional-config"] = {"sparse_kv_offload_config": sizes.offload_config}
        if self._draft.gathers(engine.role):
            # The fork gathers outside captured graphs only and falls back to single copies inside them.
            derived |= {"enforce-eager": True, "compilation-config": None}
        return derived

    def _kv_config(self, engine: Engine) -> dict[str, Any] | None:
        raw = self._draft.kv[engine.role, engine.host]
        if not raw:
            return None
        if self._draft.profile.name == "custom":
            return connectors.complete(raw, engine.role, None, None)
        instance = self._draft.by_instance[engine.instance]
        known = len(self._sides) == 2 and instance.laid_out
        sides = {**self._sides, engine.role: connectors.Sizes.of(instance.parallel)} if known else None
        return connectors.complete(raw, engine.role, self._draft.ports.kv.get(engine.instance), sides)

    # ---- environment ----

    def _environment(self, engine: Engine) -> dict[str, str]:
        draft = self._draft
        host = draft.hosts[engine.host]
        env = dict(draft.profile.env.get(engine.role, {}))
        if draft.profile.guided:
            env["PYTHONHASHSEED"] = "0"  # block hashes must agree between hosts (vllm-ascend kv_pool.md)
            env["VLLM_ENGINE_READY_TIMEOUT_S"] = str(draft.settings.cluster("pd_ready_timeout_s"))
        if draft.gathers(engine.role):
            env |= _GATHER_ENV
        user = self._layers.environment(engine.role, engine.host, engine.instance)
        env = {name: environment.text(value) for name, value in merge(env, user).items()}
        interface = environment.interface(host.address, host.nic, draft.ports.hccl.get(engine.name))
        if not host.chips:
            interface = {name: value for name, value in interface.items() if not name.startswith("HCCL_")}
        result = {**interface, **env}
        visible = self._visible_devices(engine)
        if visible:
            result["ASCEND_RT_VISIBLE_DEVICES"] = visible
        if engine.instance in draft.memcache_instances:
            result["MMC_LOCAL_CONFIG_PATH"] = f"{CONFIG_DIR}/{memcache.LOCAL_FILE}"
        environment.complete_no_proxy(result, self._addresses)
        return result

    def _visible_devices(self, engine: Engine) -> str | None:
        """``ASCEND_RT_VISIBLE_DEVICES``; ``None`` where the engine takes the first chips that it sees anyway.

        Ranks of external data parallelism always get theirs by name, so that one more on a host changes nothing else.
        A privileged container sees every chip under its physical id; any other sees its own, counted from 0.
        """
        draft = self._draft
        mates = [mate for mate in draft.engines_on[engine.host] if mate.instance == engine.instance]
        own = [chip for mate in mates for chip in mate.devices]
        seen: Sequence[int] = draft.hosts[engine.host].chips if draft.privileged else own
        alone = len(draft.engines_on[engine.host]) == 1 and not engine.external
        if not engine.devices or (alone and engine.devices == tuple(seen[: len(engine.devices)])):
            return None
        ids = engine.devices if draft.privileged else [own.index(chip) for chip in engine.devices]
        return ",".join(map(str, ids))


def _is_choice(value: Any, choices: Sequence[Any]) -> bool:
    if value is None:
        return True
    values = value if isinstance(value, list) else [value]
    known = {str(choice) for choice in choices}
    return all(str(item) in known for item in values)
