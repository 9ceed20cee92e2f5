# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""From a deployment to the inventory that a person would write for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils import connectors
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.engine_options import NEEDS_HTTP, OWNED
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.layers import merge
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.options import option_table
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.port_plan import RPC_PORT
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.profiles import PROFILES
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.variables import VARIABLES

from tools.deployments import ports
from tools.deployments.connector_config import comparable_kv, out_of_band, strip_derived
from tools.deployments.factoring import all_equal, common, remainder
from tools.deployments.grouping import Instance, group
from tools.deployments.reading import (
    VLLM_MASTER_PORT,
    VLLM_RPC_PORT,
    Engine,
    NotExpressible,
    read_engine,
    vllm_versions,
)

MASTER_PORT = VARIABLES["pd_master_port"].default

#: Ports that belong to an instance and not to a host.
MEETINGS = ("data_parallel_rpc_port", "kv_port")


class Writer:
    """Collects variables for all hosts, for groups and for single hosts."""

    def __init__(self, deployment: Mapping[str, Any]) -> None:
        self.deployment = deployment
        self.nodes: list[str] = deployment["nodes"]
        versions = vllm_versions(deployment.get("source", ""))
        default = PROFILES["mooncake"]
        self.versions = versions or (default.vllm, default.vllm_ascend)
        self.table = option_table(self.versions[0])
        self.engines = [read_engine(engine, self.table) for engine in deployment["engines"]]
        self.chips_per_node = int(deployment.get("npu_per_node", 16))
        self.instances = group(self.engines, self.nodes, self.chips_per_node)
        self.roles = [role for role in ("prefill", "decode", "engine") if any(e.role == role for e in self.engines)]
        self.all: dict[str, Any] = {}
        self.groups: dict[str, dict[str, Any]] = {role: {} for role in self.roles}
        self.hosts: dict[int, dict[str, Any]] = {node: {} for node in self._node_order()}
        self.names = self._host_names()
        self.shared = {e.node for e in self.engines if len({o.role for o in self.engines if o.node == e.node}) > 1}

    def _node_order(self) -> list[int]:
        """Nodes so that those of an instance follow each other by rank."""
        return list(dict.fromkeys(node for instance in self.instances for node in instance.nodes))

    def _host_names(self) -> dict[int, str]:
        names: dict[int, str] = {}
        counts: dict[str, int] = {}
        for node in self.hosts:
            roles = [role for role in self.roles if any(e.node == node and e.role == role for e in self.engines)]
            stem = roles[0] if len(roles) == 1 else "both"
            counts[stem] = counts.get(stem, 0) + 1
            names[node] = f"{stem}-{counts[stem]}"
        return names

    def inventory(self) -> dict[str, Any]:
        self._model_and_profile()
        self._topology()
        self._ports()
        self._single_values()
        self._layers("vllm_args", self._user_options)
        self._layers("env", lambda engine: engine.env)
        self._per_host("pd_prepend_paths", lambda engine: engine.paths)
        return self._assemble()

    # -- what is served --

    def _model_and_profile(self) -> None:
        models = {engine.options.get("model") for engine in self.engines}
        if len(models) > 1:
            raise NotExpressible(f"engines serve different models: {sorted(map(str, models))}")
        model = models.pop() or self.deployment.get("model")
        if not isinstance(model, str):
            raise NotExpressible("neither the engines nor the deployment name a model")
        self.profile = self._choose_profile()
        self.all["pd_profile"] = self.profile
        self.all["pd_model_path"] = model
        if self.versions != (PROFILES[self.profile].vllm, PROFILES[self.profile].vllm_ascend):
            self.all |= {"pd_vllm_version": self.versions[0], "pd_vllm_ascend_version": self.versions[1]}
        per_node = self.chips_per_node
        if per_node == 8:
            self.all["pd_npu_generation"] = "A2"
        elif per_node != 16:
            self.all["pd_devices"] = list(range(per_node))
        served = {
            tuple(engine.options.get("served-model-name") or ()) for engine in self.engines if not engine.headless
        }
        if len(served) > 1:
            raise NotExpressible("engines have different served names")
        if names := " ".join(map(str, served.pop())):
            self.all["pd_served_model_name"] = names
        self._connectors()

    def _choose_profile(self) -> str:
        if self.roles == ["engine"]:
            return "aggregated"
        found = set().union(*(connectors.names(engine.kv) for engine in self.engines))
        layerwise = any(name == "MooncakeLayerwiseConnector" for name in found)
        candidate = "mooncake_layerwise" if layerwise else "mooncake"
        sides: dict[str, connectors.Sizes] = {}
        for engine in self.engines:
            sides.setdefault(engine.role, self._sizes(engine))
        derivable = any(connectors.is_sized(name) for name in found) and all(
            self._is_told(engine, candidate, sides) for engine in self.engines
        )
        return candidate if derivable else "custom"

    def _is_told(self, engine: Engine, profile: str, sides: Mapping[str, connectors.Sizes]) -> bool:
        """Whether the planner would tell the engine's connector the same: its own sizes and the first other ones."""
        own, first = self._sizes(engine), sides[engine.role].fields()
        user = self._user_kv(engine, profile)
        told = connectors.complete(user, engine.role, None, {**sides, engine.role: own})
        common = connectors.common_sizes(engine.kv, engine.role)
        return comparable_kv(told) == comparable_kv(engine.kv) and all(own.fields()[n] == first[n] for n in common)

    @staticmethod
    def _sizes(engine: Engine) -> connectors.Sizes:
        return connectors.Sizes(
            engine.dp, engine.number("tensor-parallel-size", 1), engine.number("pipeline-parallel-size", 1)
        )

    def _user_kv(self, engine: Engine, profile: str) -> dict[str, Any]:
        """The connector's configuration without what is derived."""
        if profile == "custom":
            return out_of_band(engine.kv, self.chips_per_node)
        return strip_derived(engine.kv, connectors.ROLE_TO_KV[engine.role], sized=engine.role != "engine")

    def _connectors(self) -> None:
        below = PROFILES[self.profile].kv_transfer
        stated = {
            id(engine): remainder(self._user_kv(engine, self.profile), below.get(engine.role, {}))
            for engine in self.engines
        }
        self._spread(
            "pd_kv_transfer_config",
            "{role}_kv_transfer_config",
            {role: [stated[id(e)] for e in self.engines if e.role == role] for role in self.roles},
            [(e, stated[id(e)]) for e in self.engines],
        )

    # -- topology --

    def _topology(self) -> None:
        settings = {id(instance): self._parallel(instance) for instance in self.instances}
        named = self._name_instances()
        for role in self.roles:
            own = [instance for instance in self.instances if instance.role == role]
            values = [settings[id(instance)] for instance in own]
            same = all(value == values[0] for value in values)
            if same:
                self.groups[role][f"{role}_parallel"] = values[0]
            for number, instance in enumerate(own):
                place = self._place_of(instance.nodes[0], named)
                if sum(1 for other in own if self._place_of(other.nodes[0], named) == place) > 1:
                    self._entry(instance, f"i{number + 1}", {} if same else settings[id(instance)])
                    continue
                for node in () if same else instance.nodes:
                    self.hosts[node][f"{role}_parallel"] = settings[id(instance)]
        for role in self.roles:
            self._name_once(role)
        self._devices()
        self._uneven_ranks()

    def _name_instances(self) -> dict[int, str]:
        """``pd_instance`` by node, one for all nodes that instances over several nodes tie together."""
        named: dict[int, str] = {}
        for role in self.roles:
            own = [instance for instance in self.instances if instance.role == role]
            for number, instance in enumerate(own):
                if len(instance.nodes) == 1:
                    continue
                known = [named[node] for node in instance.nodes if node in named]
                name = known[0] if known else f"{role}-{number + 1}" if len(own) > 1 else role
                named = {node: name if other in known else other for node, other in named.items()}
                named |= dict.fromkeys(instance.nodes, name)
        for node, name in named.items():
            self.hosts[node]["pd_instance"] = name
        return named

    @staticmethod
    def _place_of(node: int, named: Mapping[int, str]) -> int | str:
        """What the planner puts together, unless entries tell it apart: nodes of one ``pd_instance``, else the node."""
        return named.get(node, node)

    def _name_once(self, role: str) -> None:
        """One instance over all hosts of a role: its name stands in the group."""
        nodes = {engine.node for engine in self.engines if engine.role == role}
        names = {self.hosts[node].get("pd_instance") for node in nodes}
        if len(names) == 1 and None not in names and not nodes & self.shared:
            self.groups[role]["pd_instance"] = names.pop()
            for node in nodes:
                del self.hosts[node]["pd_instance"]

    @staticmethod
    def _parallel(instance: Instance) -> dict[str, Any]:
        """Sizes as the deployment states them."""
        head = instance.engines[0]
        result: dict[str, Any] = {"tensor_parallel_size": head.number("tensor-parallel-size", 1)}
        for name in ("pipeline", "prefill-context", "decode-context", "data"):
            option = f"{name}-parallel-size"
            if option in head.options:
                result[option.replace("-", "_")] = head.number(option, 1)
        if head.external:
            result["data_parallel_mode"] = "external"
        elif head.options.get("data-parallel-hybrid-lb"):
            result["data_parallel_mode"] = "hybrid"
        return result

    def _entry(self, instance: Instance, name: str, parallel: dict[str, Any]) -> None:
        """An entry of ROLE_instances on each of the instance's nodes."""
        for node in instance.nodes:
            entry: dict[str, Any] = {"name": name}
            if devices := [chip for engine in instance.on(node) for chip in engine.devices or []]:
                entry["devices"] = devices
            if parallel:
                entry["parallel"] = parallel
            self.hosts[node].setdefault(f"{instance.role}_instances", []).append(entry)

    def _devices(self) -> None:
        """Chips, where they are not simply the node's first in order of rank."""
        for node in self.hosts:
            taken = 0
            for role in self.roles:
                for instance in (i for i in self.instances if i.role == role and node in i.nodes):
                    engines = instance.on(node)
                    stated = [chip for engine in engines for chip in engine.devices or []]
                    count = sum(engine.chips for engine in engines)
                    usual = list(range(taken, taken + count))
                    taken += count
                    if not stated or stated[:count] == usual or self._instance_entry(engines[0]) is not None:
                        continue
                    if node in self.shared:
                        self._entry(instance, "i1", {})
                    else:
                        self.hosts[node]["pd_devices"] = stated

    def _uneven_ranks(self) -> None:
        for instance in self.instances:
            if instance.engines[0].nnodes > 1 or len(instance.nodes) == 1:
                continue
            ranks = {node: sum(engine.local_ranks for engine in instance.on(node)) for node in instance.nodes}
            share, over = divmod(sum(ranks.values()), len(ranks))
            usual = [share + (position < over) for position in range(len(ranks))]
            if list(ranks.values()) != usual:
                for node, count in ranks.items():
                    self.hosts[node]["pd_data_parallel_size_local"] = count

    # -- ports --

    def _ports(self) -> None:
        default = PROFILES[self.profile].ports
        for role in self.roles:
            own = {node: [i for i in self.instances if i.role == role and node in i.nodes] for node in self.hosts}
            bases = {node: self._base(node, i, "port", [ports.http(x, node) for x in i]) for node, i in own.items()}
            self._role_value(role, f"{role}_port", bases, default[role])
            if self.profile != "custom":
                spans = {node: [ports.kv(x, node, self.chips_per_node) for x in i] for node, i in own.items()}
                bases = {node: self._base(node, own[node], "kv_port", spans[node]) for node in own}
                self._role_value(role, f"{role}_kv_port", bases, None)
        self._rendezvous("pd_data_parallel_rpc_port", "data-parallel-rpc-port", RPC_PORT, VLLM_RPC_PORT)
        self._rendezvous("pd_master_port", "master-port", MASTER_PORT, VLLM_MASTER_PORT)

    def _base(self, node: int, instances: Sequence[Instance], key: str, spans: Sequence[ports.Span]) -> int | None:
        """The port from which a node's instances count on. Where they do not, each states its own in its entry."""
        stated = [span for span in spans if span]
        if not stated or len(spans) == 1 or ports.in_a_row(spans):
            return stated[0][0] if stated else None
        for instance, span in zip(instances, spans, strict=True):
            if span:
                # where an instance's hosts meet, any of them may come first
                for each in instance.nodes if key in MEETINGS else (node,):
                    self._entry_on(each, instance)[key] = span[0]
        return None

    def _entry_on(self, node: int, instance: Instance) -> dict[str, Any]:
        """The instance's entry on a node, a new one where it is the only instance of its role there."""
        if self._instance_entry(instance.on(node)[0]) is None:
            for each in instance.nodes:
                self.hosts[each][f"{instance.role}_instances"] = [{"name": "i1"}]
        entry = self._instance_entry(instance.on(node)[0])
        assert entry is not None
        return entry

    def _rendezvous(self, variable: str, option: str, ours: int, theirs: int) -> None:
        """The port where an instance's engines meet: for all of its nodes, so that any of them may come first."""
        values: dict[int, int] = {}
        ordered = [instance for role in self.roles for instance in self.instances if instance.role == role]
        heads = {instance.engines[0].node for instance in ordered}
        for node in self.hosts:
            own = [instance for instance in ordered if instance.engines[0].node == node]
            meetings = [(instance, ports.meeting(instance, option, theirs)) for instance in own]
            stated = [(instance, span) for instance, span in meetings if span]
            spans = [span for _instance, span in stated]
            if not stated or (spans[0] == (ours, 1) and ports.in_a_row(spans)):
                continue
            base = self._base(node, [instance for instance, _span in stated], option.replace("-", "_"), spans)
            if base is not None:
                followers = [other for instance in own for other in instance.nodes if other not in heads]
                values |= dict.fromkeys([node, *followers], base)
        self._place(variable, values)

    def _role_value(self, role: str, name: str, bases: Mapping[int, int | None], default: int | None) -> None:
        values = {node: base for node, base in bases.items() if base is not None}
        if not values:
            return
        common = max(set(values.values()), key=list(values.values()).count)
        if common != default:
            self.groups[role][name] = common
        for node, value in values.items():
            if value != common:
                self.hosts[node][name] = value

    # -- single values --

    def _single_values(self) -> None:
        def stated(option: str, default: Any) -> Callable[[Engine], Any]:
            def value(engine: Engine) -> Any:
                own = engine.options.get(option)
                return None if engine.headless or own == default else own

            return value

        self._per_host("pd_http_host", stated("host", "0.0.0.0"))
        self._per_host("pd_kv_cache_memory_bytes", stated("kv-cache-memory-bytes", None))

    def _per_host(self, variable: str, value: Callable[[Engine], Any]) -> None:
        """A variable of hosts, from their engines."""
        values: dict[int, Any] = {}
        for engine in self.engines:
            own = value(engine)
            if own and values.setdefault(engine.node, own) != own:
                raise NotExpressible(f"{variable} differs between engines of node {engine.node}")
        self._place(variable, values)

    def _place(self, variable: str, values: Mapping[int, Any]) -> None:
        """Values by node: for all, for the group, or for the host alone, as high as it fits."""
        if not values:
            return
        if len(values) == len(self.hosts) and all_equal(values.values()):
            self.all[variable] = next(iter(values.values()))
            return
        for role in self.roles:
            nodes = {engine.node for engine in self.engines if engine.role == role}
            own = [values.get(node) for node in nodes]
            if not nodes & self.shared and own[0] is not None and all_equal(own):
                self.groups[role][variable] = own[0]
                values = {node: item for node, item in values.items() if node not in nodes}
        for node, item in values.items():
            self.hosts[node][variable] = item

    # -- options and environment --

    def _user_options(self, engine: Engine) -> dict[str, Any]:
        options = {name: value for name, value in engine.options.items() if name not in OWNED}
        if engine.headless:  # such an option is dropped there anyway, so it may stand for all
            head = next(i.engines[0] for i in self.instances if engine in i.engines)
            options |= {name: head.options[name] for name in NEEDS_HTTP if name in head.options}
        return options

    def _layers(self, kind: str, read: Callable[[Engine], dict[str, Any]]) -> None:
        values = [(engine, read(engine)) for engine in self.engines]
        per_role = {role: [value for engine, value in values if engine.role == role] for role in self.roles}
        self._spread(f"pd_{kind}", f"{{role}}_{kind}", per_role, values, kind)

    def _spread(
        self,
        for_all: str,
        for_role: str,
        per_role: Mapping[str, Sequence[dict[str, Any]]],
        values: Sequence[tuple[Engine, dict[str, Any]]],
        kind: str | None = None,
    ) -> None:
        """What all engines have in common, then what a role has, then the rest where it belongs."""
        base = common([common(own) for own in per_role.values()], deep=False) if len(per_role) > 1 else {}
        if base:
            self.all[for_all] = base
        roles = {role: common(own) for role, own in per_role.items()}
        for role, own in roles.items():
            rest = remainder(own, base)
            if rest:
                self.groups[role][for_role.format(role=role)] = rest
        leftovers = [(e, remainder(value, merge(base, roles[e.role]))) for e, value in values]
        for engine, rest in leftovers:
            if not rest:
                continue
            entry = self._instance_entry(engine) if kind else None
            target, name, wanted = self.hosts[engine.node], f"pd_host_{kind}", rest
            if entry is not None:
                target, name = entry, str(kind)
            elif kind is None or engine.node in self.shared:  # the role's own variable, set for this host
                name = for_role.format(role=engine.role)
                wanted = merge(remainder(roles[engine.role], base), rest)
            if target.setdefault(name, wanted) != wanted:
                raise NotExpressible(f"engines of node {engine.node} differ in {', '.join(sorted(rest))}")

    def _instance_entry(self, engine: Engine) -> dict[str, Any] | None:
        """The entry of a host that carries several instances of a role, if there is one."""
        entries = self.hosts[engine.node].get(f"{engine.role}_instances") or []
        own = [i for i in self.instances if i.role == engine.role and engine.node in i.nodes]
        position = next(index for index, item in enumerate(own) if engine in item.engines)
        return entries[position] if position < len(entries) else None

    # -- the inventory --

    def _assemble(self) -> dict[str, Any]:
        children: dict[str, Any] = {}
        for role in self.roles:
            nodes = [n for n in self.hosts if any(e.node == n and e.role == role for e in self.engines)]
            hosts: dict[str, Any] = {}
            for node in nodes:
                first = role == next(r for r in self.roles if any(e.node == node and e.role == r for e in self.engines))
                hosts[self.names[node]] = (
                    {"ansible_host": self.nodes[node], "pd_address": self.nodes[node], **self.hosts[node]}
                    if first
                    else None
                )
            children[role] = {"hosts": hosts}
            if self.groups[role]:
                children[role]["vars"] = self.groups[role]
        if self.roles != ["engine"]:
            front = next((e.node for e in self.engines if e.role == "prefill"), self.engines[0].node)
            children["proxy"] = {"hosts": {self.names[front]: None}}
        return {"all": {"vars": self.all, "children": children}}
