# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""What rules may ask: the plan's engines, services and ports in handy form, facts by path, and sizes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ...module_utils._sizing import Sizing, size
from ...module_utils._sizing_gate import DEFAULT_DRAM_GIB, DEFAULT_TOPK_BUFFER_SIZE, GATE_AVAILABLE, GATE_PLANNED, GIB
from ...module_utils._sizing_input import (
    DEFAULT_BLOCK_SIZE,
    DEFAULT_GPU_MEMORY_UTILIZATION,
    DEFAULT_MAX_NUM_BATCHED_TOKENS,
    DEFAULT_MAX_NUM_SEQS,
    SizingInput,
)
from ...module_utils._sizing_model import experts_of, longest_length, number, text_config
from .. import connectors, containers
from ..memcache import LOCAL_FILE
from ..profiles import PROFILES
from ..sizes import fraction, is_auto, sizing_input, whole, wrong_numbers

UNKNOWN = "<unknown"
#: Facts that no working host shows empty.
NEVER_EMPTY = ("nic.interfaces", "host.listeners", "host.ulimits")


class Missing(Exception):
    """Something that the rule needs is not known."""


class NotLaidOut(Missing):
    """Sizes of an instance that the planner could not lay out, and told so."""


def known(value: Any, what: str) -> Any:
    """The value, unless it is none or one that the plan marks as unknown."""
    if value is None or (isinstance(value, str) and value.startswith(UNKNOWN)):
        raise Missing(f"{what} is not known")
    return value


def numbers(version: str | None) -> tuple[int, ...]:
    """``0.26.0rc1`` -> (0, 26, 0): enough to order releases."""
    return tuple(int(part) for part in re.findall(r"\d+", re.sub(r"(rc|post|dev|a|b).*", "", version or "")))[:4]


#: Above every release.
NEWEST = (9999,)


def in_range(version: str, specifier: str) -> bool:
    """``>=0.22.1,<0.25`` and the like, on release numbers; a release candidate counts as its release, and a branch such
    as ``main``, which has no number, as newer than all.
    """
    compare = {
        ">=": lambda a, b: a >= b,
        "<": lambda a, b: a < b,
        ">": lambda a, b: a > b,
        "<=": lambda a, b: a <= b,
    }
    for part in filter(None, (piece.strip() for piece in specifier.split(","))):
        match = re.fullmatch(r"(>=|<=|<|>)\s*(\S+)", part)
        if match is None:
            raise ValueError(f"not a version range: {specifier}")
        left, right = numbers(version) or NEWEST, numbers(match.group(2))
        width = max(len(left), len(right))
        pad = (0,) * width
        if not compare[match.group(1)]((left + pad)[:width], (right + pad)[:width]):
            return False
    return True


@dataclass(frozen=True)
class Engine:
    """One ``vllm serve`` process of the plan; what is read off it is kept, as rules ask a hundred times."""

    data: Mapping[str, Any]
    service: Mapping[str, Any]
    instance: Mapping[str, Any]

    @cached_property
    def name(self) -> str:
        return str(self.data["name"])

    @cached_property
    def role(self) -> str:
        return str(self.data["role"])

    @cached_property
    def host(self) -> str:
        return str(self.data["host"])

    @cached_property
    def devices(self) -> Sequence[int]:
        devices: Sequence[int] = known(self.data.get("devices"), f"devices of {self.name}")
        return devices

    @cached_property
    def args(self) -> Mapping[str, Any]:
        return self.data.get("vllm_args") or {}

    def stated_in(self, *paths: str, default: str) -> str:
        """The variable in which the user states an option, or a key in it: of the first of these paths that is."""
        stated = self.data.get("stated_in") or {}
        return next((str(stated[path]) for path in paths if path in stated), default)

    @cached_property
    def env(self) -> Mapping[str, Any]:
        """What the process will find: the service's environment and its own."""
        return {**(self.service.get("env") or {}), **(self.data.get("env") or {})}

    @cached_property
    def container(self) -> Mapping[str, Any]:
        return self.service.get("container") or {}

    def place(self, *path: str) -> str:
        """The variable in which to mend an option of ``vllm serve``, or a key in it."""
        return self.stated_in(".".join(path), default=f"{self.role}_vllm_args")

    def scheduler_place(self, name: str) -> str:
        """The variable in which to mend an option of the scheduler, wherever it stands."""
        above = "additional-config"
        return self.stated_in(f"{above}.scheduler_config.{name}", f"{above}.{name}", default=self.place(above))

    def size(self, name: str) -> int:
        """A parallel size by its long name."""
        if not self.laid_out:
            raise NotLaidOut(f"the layout of {self.data['instance']} is not known")
        return int((self.instance.get("parallel") or {}).get(name) or 1)

    @cached_property
    def laid_out(self) -> bool:
        """Whether the planner could lay the instance out: else neither its sizes nor its chips are certain."""
        return self.instance.get("parallel", {}) is not None

    @cached_property
    def tp(self) -> int:
        return self.size("tensor_parallel_size")

    @cached_property
    def pp(self) -> int:
        return self.size("pipeline_parallel_size")

    @cached_property
    def pcp(self) -> int:
        return self.size("prefill_context_parallel_size")

    @cached_property
    def dcp(self) -> int:
        return self.size("decode_context_parallel_size")

    @cached_property
    def dp(self) -> int:
        return self.size("data_parallel_size")

    # ---- options, with vLLM's own value where one is left out ----

    def number(self, option: str, default: int) -> int:
        """An option that is a whole number; what is none is one rule's finding and unknown to the others."""
        value = self.args.get(option)
        if value is None:
            return default
        found = -1 if option == "max-model-len" and is_auto(value) else whole(value)
        if found is None or option in self._refused:
            raise Missing(f"{option} of {self.name} is {value!r}, which is no number for it")
        return found

    @cached_property
    def _refused(self) -> set[str]:
        """Options whose value vLLM refuses, which PD-ARG-003 tells."""
        return {path[-1] for path, _value in wrong_numbers(self.args)}

    @property
    def block_size(self) -> int:
        return self.number("block-size", DEFAULT_BLOCK_SIZE)

    @property
    def max_num_seqs(self) -> int:
        return self.number("max-num-seqs", DEFAULT_MAX_NUM_SEQS)

    @property
    def max_num_batched_tokens(self) -> int:
        return self.number("max-num-batched-tokens", DEFAULT_MAX_NUM_BATCHED_TOKENS)

    @property
    def memory_utilization(self) -> float:
        value = self.args.get("gpu-memory-utilization")
        found = DEFAULT_GPU_MEMORY_UTILIZATION if value is None else fraction(value)
        if found is None:
            raise Missing(f"gpu-memory-utilization of {self.name} is {value!r}, no number")
        return found

    @property
    def ranks(self) -> int:
        """Chips that the parallel sizes of the whole instance want, one for each rank."""
        return self.tp * self.pp * self.pcp * self.dp

    @cached_property
    def local_ranks(self) -> int:
        """Data-parallel ranks in this process; at least one, as a rank may span hosts."""
        stated = self.data.get("data_parallel_size_local")
        return int(stated) if stated else max(1, len(self.devices) // (self.tp * self.pp * self.pcp))

    @cached_property
    def transfer(self) -> Mapping[str, Any]:
        value = self.args.get("kv-transfer-config")
        return value if isinstance(value, Mapping) else {}

    @cached_property
    def parts(self) -> list[Mapping[str, Any]]:
        """The connector configuration and those inside a MultiConnector."""
        return list(connectors.walk(self.transfer)) if self.transfer else []

    @cached_property
    def connectors(self) -> set[str]:
        return connectors.names(self.transfer) if self.transfer else set()

    def part(self, *wanted: str) -> Mapping[str, Any] | None:
        """The configuration of the first connector with one of these names."""
        return next((part for part in self.parts if part.get("kv_connector") in wanted), None)

    @cached_property
    def uses_memcache(self) -> bool:
        return bool(self.transfer) and connectors.uses_memcache(self.transfer)

    @cached_property
    def uses_mooncake(self) -> bool:
        return bool(self.transfer) and connectors.uses_mooncake_transport(self.transfer)

    @cached_property
    def uses_memfabric(self) -> bool:
        """MemFabric moves KV or holds the offload pool."""
        return connectors.SFA in self.connectors or self.uses_memcache or self.offloads

    @cached_property
    def additional(self) -> Mapping[str, Any]:
        value = self.args.get("additional-config")
        return value if isinstance(value, Mapping) else {}

    @cached_property
    def offload(self) -> Mapping[str, Any]:
        value = self.additional.get("sparse_kv_offload_config")
        return value if isinstance(value, Mapping) else {}

    @cached_property
    def offloads(self) -> bool:
        return bool(self.offload.get("enabled"))

    def scheduler_option(self, name: str) -> Any:
        """An option that moved into ``scheduler_config`` (ascend_config.py ``SchedulerConfig``)."""
        nested = self.additional.get("scheduler_config")
        if isinstance(nested, Mapping) and name in nested:
            return nested[name]
        return self.additional.get(name)

    @cached_property
    def speculative(self) -> Mapping[str, Any]:
        value = self.args.get("speculative-config")
        return value if isinstance(value, Mapping) else {}

    @cached_property
    def speculative_tokens(self) -> int:
        return whole(self.speculative.get("num_speculative_tokens")) or 0

    @cached_property
    def eager(self) -> bool:
        return bool(self.args.get("enforce-eager"))

    @cached_property
    def graph_mode(self) -> str:
        config = self.args.get("compilation-config")
        mode = config.get("cudagraph_mode", "default") if isinstance(config, Mapping) else "default"
        return "NONE" if self.eager else str(mode)


class Context:
    """Plan and facts of one run."""

    def __init__(self, plan: Mapping[str, Any], facts: Mapping[str, Mapping[str, Any]] | None) -> None:
        self.plan = plan
        self.facts = facts
        self._sizes: dict[tuple[Any, ...], Sizing] = {}
        #: Free ports that findings offer: host, owner, purpose, first port -> first and last instead.
        self.offers: dict[tuple[str, str, str, int], tuple[int, int]] = {}

    # ---- plan ----

    @cached_property
    def hosts(self) -> Mapping[str, Mapping[str, Any]]:
        return self.plan.get("hosts") or {}

    @property
    def settings(self) -> Mapping[str, Any]:
        return self.plan.get("settings") or {}

    @property
    def profile(self) -> str:
        return str(self.plan.get("profile"))

    @property
    def vllm_ascend(self) -> str:
        return str((self.plan.get("versions") or {}).get("vllm_ascend") or "")

    @property
    def planned_gate(self) -> bool:
        """Whether vllm-ascend allocates no more of the host pool than the requests need (its PR #14921)."""
        return self.settings.get("pd_dram_gate") == GATE_PLANNED

    def version_in(self, specifier: str) -> bool:
        return not specifier or not self.vllm_ascend or in_range(self.vllm_ascend, specifier)

    @cached_property
    def services(self) -> list[Mapping[str, Any]]:
        return list(self.plan.get("services") or [])

    @cached_property
    def instances(self) -> Mapping[str, Mapping[str, Any]]:
        return {str(one["name"]): one for one in self.plan.get("instances") or []}

    @cached_property
    def engines(self) -> list[Engine]:
        """All engines; last those without a layout, at which a rule that asks for sizes ends."""
        services = {(service["host"], service["name"]): service for service in self.services}
        found = [
            Engine(data, services.get((data["host"], data["service"]), {}), self.instances.get(data["instance"], {}))
            for data in self.plan.get("engines") or []
        ]
        return sorted(found, key=lambda engine: not engine.laid_out)

    @cached_property
    def _by_host(self) -> Mapping[str, list[Engine]]:
        result: dict[str, list[Engine]] = {}
        for engine in self.engines:
            result.setdefault(engine.host, []).append(engine)
        return result

    @cached_property
    def _by_role(self) -> Mapping[str, list[Engine]]:
        result: dict[str, list[Engine]] = {}
        for engine in self.engines:
            result.setdefault(engine.role, []).append(engine)
        return result

    @cached_property
    def _by_instance(self) -> Mapping[str, list[Engine]]:
        result: dict[str, list[Engine]] = {}
        for engine in self.engines:
            result.setdefault(str(engine.data["instance"]), []).append(engine)
        return result

    def on(self, host: str) -> list[Engine]:
        """Engines of a host."""
        return self._by_host.get(host, [])

    def of(self, role: str) -> list[Engine]:
        """Engines of a role."""
        return self._by_role.get(role, [])

    def of_instance(self, instance: str) -> list[Engine]:
        return self._by_instance.get(instance, [])

    @cached_property
    def heads(self) -> list[Engine]:
        """The first engine of each instance: where its engines agree, one speaks for all."""
        return [engines[0] for engines in self._by_instance.values()]

    @cached_property
    def pairs(self) -> list[tuple[Engine, Engine]]:
        """Prefill and decode of every two instances that hand KV on, each by its first engine."""
        decodes = [one for one in self.heads if one.role == "decode"]
        found = [(one, decode) for one in self.heads if one.role == "prefill" for decode in decodes]
        return sorted(found, key=lambda pair: not all(one.laid_out for one in pair))

    @cached_property
    def carriers(self) -> list[Engine]:
        """The first engine of each container, which speaks for what its container has."""
        seen: dict[tuple[str, Any], Engine] = {}
        for engine in self.engines:
            seen.setdefault((engine.host, engine.data["service"]), engine)
        return list(seen.values())

    def services_on(self, host: str) -> list[Mapping[str, Any]]:
        return self._services_by_host.get(host, [])

    @cached_property
    def _services_by_host(self) -> Mapping[str, list[Mapping[str, Any]]]:
        result: dict[str, list[Mapping[str, Any]]] = {}
        for service in self.services:
            result.setdefault(str(service["host"]), []).append(service)
        return result

    def ports_on(self, host: str) -> list[Mapping[str, Any]]:
        return self._ports_by_host.get(host, [])

    @cached_property
    def _ports_by_host(self) -> Mapping[str, list[Mapping[str, Any]]]:
        result: dict[str, list[Mapping[str, Any]]] = {}
        for port in self.plan.get("ports") or []:
            result.setdefault(str(port["host"]), []).append(port)
        return result

    def of_guide(self, engine: Engine, *path: str) -> bool:
        """Whether an option, or a key in it, is as the profile has it from its guide, and no variable states it."""
        profile = PROFILES.get(self.profile)
        if profile is None or not profile.guided or engine.stated_in(".".join(path), default=""):
            return False
        value: Any = engine.args
        own: Any = profile.vllm_args.get(engine.role, {})
        for key in path:
            value, own = ((one.get(key) if isinstance(one, Mapping) else None) for one in (value, own))
        return own is not None and value == own

    def told(self, rule: str, host: str | None = None, about: str = "") -> bool:
        """Whether the planner itself has found this: anywhere or of a host, and about what its text begins with."""
        return any(
            one["rule"] == rule and host in (None, one["host"]) and str(one["found"]).startswith(about)
            for one in self.plan.get("findings") or []
        )

    def address(self, host: str) -> str:
        return str(known((self.hosts.get(host) or {}).get("address"), f"serving address of {host}"))

    def conf(self, service: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
        """Content of a properties file of a service."""
        content = ((service.get("files") or {}).get(name) or {}).get("content")
        return content if isinstance(content, Mapping) else None

    def image_of(self, engine: Engine) -> Mapping[str, Any]:
        """Base and layers of the image that an engine runs in."""
        return (self.plan.get("images") or {}).get(engine.service.get("image")) or {}

    def units(self, scope: str, *, with_chips: bool = False) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """(host, arguments) for each unit of a rule's scope; ``with_chips``: only where engines run on chips."""
        if scope == "cluster":
            yield "", ()
        elif scope == "host":
            for host in self.hosts:
                if not with_chips or any(engine.devices for engine in self.on(host)):
                    yield host, (host,)
        else:
            for engine in {"instance": self.heads, "service": self.carriers, "engine": self.engines}[scope]:
                if engine.devices or not with_chips:
                    yield engine.host, (engine,)

    # ---- facts ----

    def face(self, host: str) -> Mapping[str, Any]:
        """Everything that is known of a host."""
        if self.facts is None:
            raise Missing("no host was contacted")
        found = self.facts.get(host)
        if not found or found.get("unreachable"):
            raise Missing(f"{host} was not reached")
        return found

    def fact(self, host: str, path: str) -> Any:
        """A fact by its dotted path, such as ``host.memory.total_bytes``; :class:`Missing` if it is not known.

        The probe shows what it could not read as null, or as empty with a reason.
        """
        value: Any = self.face(host)
        face, last = path.split(".")[0], path.rsplit(".", maxsplit=1)[-1]
        reasons = self.reasons(host, face)
        failed = next(
            (reason for reason in reasons if reason.startswith(("the probe of this face failed", f"{last}: "))), None
        )
        for key in path.split("."):
            value = value.get(key) if isinstance(value, Mapping) else None
            empty = value in ([], {}) and (failed or path in NEVER_EMPTY)
            if value is None or empty or (failed and failed.startswith("the probe")):
                raise Missing(f"{path} of {host} is not known{self._reason(host, face)}")
        return value

    def reasons(self, host: str, face: str) -> list[str]:
        """Why a face of the host does not tell something."""
        found = self.face(host).get(face)
        return [str(reason) for reason in found.get("reasons") or []] if isinstance(found, Mapping) else []

    def _reason(self, host: str, face: str) -> str:
        """Why the face could not tell, if it gives but one reason."""
        reasons = self.reasons(host, face)
        return f": {reasons[0]}" if len(reasons) == 1 else ""

    def chips(self, host: str) -> list[Mapping[str, Any]]:
        """Chips as npu-smi shows them; :class:`Missing` if it shows none."""
        found = self.fact(host, "npu.chips")
        if not found:
            raise Missing(f"no chip of {host} was seen{self._reason(host, 'npu')}")
        return list(found)

    def used_chips(self, host: str) -> list[Mapping[str, Any]]:
        """Those that the plan gives to engines."""
        wanted = {number for engine in self.on(host) for number in engine.devices}
        return [chip for chip in self.chips(host) if chip.get("phy_id") in wanted]

    def own_running(self, host: str) -> list[str]:
        """Names of our own running containers, which hold ports, chips and memory that are ours already."""
        return [
            str(one["name"])
            for one in self.fact(host, "host.containers")
            if self.is_own(host, one.get("name")) and one.get("state") == "running"
        ]

    def is_own(self, host: str, container: Any) -> bool:
        """Whether a container is one that this plan makes anew: what it holds is ours to replace, not a clash."""
        return container in [(service.get("container") or {}).get("name") for service in self.services_on(host)]

    def left_over(self, host: str, container: Any) -> bool:
        """Whether a container is of a service that an earlier plan had here: nothing stops it any more."""
        return str(container or "").startswith(containers.OWN) and not self.is_own(host, container)

    def generation(self, host: str) -> str:
        """``A3`` or ``A2``: as probed, else by the number of chips."""
        face = ((self.facts or {}).get(host) or {}).get("npu") or {}
        return str(face.get("generation") or ("A2" if self.hosts[host].get("chips") == 8 else "A3"))

    def model(self, host: str) -> Mapping[str, Any]:
        """What the probe saw of the served model's folder."""
        models = self.fact(host, "model")
        path = (self.plan.get("model") or {}).get("path")
        if not models.get(path):
            raise Missing(f"{path} was not looked at on {host}")
        return dict(models[path])

    def model_config(self, host: str) -> Mapping[str, Any]:
        """Fields of config.json."""
        config = self.model(host).get("config")
        if not config:
            raise Missing(f"config.json of the model on {host} could not be read")
        return dict(config)

    def has_experts(self, host: str) -> bool:
        """Whether the model is a mixture of experts."""
        return experts_of(self.model_config(host)) > 0

    def lacks_for_offload(self, host: str) -> str | None:
        """What the model has not that sparse KV offload needs, by its name in config.json."""
        config = self.model_config(host)
        return next(
            (name for name in ("index_topk", "index_head_dim", "kv_lora_rank") if not number(config, name)), None
        )

    def heads_left(self, engine: Engine) -> bool:
        """Whether the attention heads cannot be split among the engine's tensor parallel ranks (PD-MODEL-009)."""
        return bool(number(self.model_config(engine.host), "num_attention_heads") % engine.tp)

    # ---- sizes ----

    def model_length(self, engine: Engine) -> int:
        """``max-model-len``; where it is left out, what vLLM derives from the model."""
        stated = engine.number("max-model-len", 0)
        if stated > 0:
            return stated
        length = longest_length(text_config(self.model_config(engine.host)))
        return int(known(length, f"max-model-len of {engine.name}"))

    def sizing_input(self, engine: Engine) -> SizingInput:
        """Sizing of one engine's instance from its own arguments and the facts of its host."""
        for path, value in wrong_numbers(engine.args):  # PD-ARG-003 tells it; sizes of vLLM's default would pretend
            raise Missing(f"{path[-1]} of {engine.name} is {value!r}, which vLLM refuses")
        config, weights = self.model_config(engine.host), self.model(engine.host).get("shards") or {}
        pinned = engine.args.get("kv-cache-memory-bytes")
        return sizing_input(
            config,
            engine.args,
            engine.transfer,
            {
                "tensor_parallel_size": engine.tp,
                "pipeline_parallel_size": engine.pp,
                "prefill_context_parallel_size": engine.pcp,
                "decode_context_parallel_size": engine.dcp,
                "data_parallel_size": engine.dp,
                "data_parallel_size_local": engine.local_ranks,
            },
            weight_bytes=weights.get("bytes") or None,
            sparse_kv_offload=engine.offloads,
            topk_buffer_size=whole(engine.offload.get("topk_buffer_size", DEFAULT_TOPK_BUFFER_SIZE)),
            dram_size_per_dp_gib=self.offload_gib(engine),
            kv_cache_memory_bytes=None if pinned is None else whole(known(pinned, "kv-cache-memory-bytes")),
            pin_kv_cache=pinned is not None,
            gate=str(self.settings.get("pd_dram_gate") or GATE_AVAILABLE),
            memcache_dram_gib=self.memcache_gib(engine),
            hbm_bytes=self._hbm_bytes(engine.host),
            host_available_bytes=self._usable_memory(engine.host),
        )

    def sizing(self, engine: Engine) -> Sizing:
        """Sizes of an engine's instance, computed once per instance and host."""
        key = (engine.data["instance"], engine.host)
        if key not in self._sizes:
            self._sizes[key] = size(self.sizing_input(engine))
        return self._sizes[key]

    def right_dram(self, engine: Engine) -> int | None:
        """The ``dram_size_per_dp_GB`` that keeps every bound at once. ``None``: there is none, or it is not known."""
        right, limit = self.wanted_dram(engine), self.sizing(engine).bounds.host_limit_gib
        return None if right is None or (limit is not None and right > limit) else right

    def wanted_dram(self, engine: Engine, max_num_seqs: int | None = None) -> int | None:
        """What ``auto`` takes for so many requests, else those of the engine, with kv-cache-memory-bytes left to the
        plan too, whether the host has it or not.
        """
        sizing = self.sizing(engine)
        if not engine.offloads or sizing.bounds.capacity_gib is None:
            return None
        pinned = engine.args.get("kv-cache-memory-bytes") == sizing.recommended.kv_cache_memory_bytes
        if max_num_seqs is not None or not pinned:
            stated = replace(self.sizing_input(engine), max_num_seqs=max_num_seqs or engine.max_num_seqs)
            sizing = size(replace(stated, kv_cache_memory_bytes=None, pin_kv_cache=True, dram_size_per_dp_gib=None))
        return sizing.recommended.dram_size_per_dp_GB

    def _hbm_bytes(self, host: str) -> int | None:
        try:
            totals = [chip.get("hbm_total_mib") for chip in self.chips(host)]
        except Missing:
            return None
        found = [int(total) for total in totals if total]
        return min(found) << 20 if found else None

    def _usable_memory(self, host: str) -> int | None:
        try:
            return self.usable_memory(host)
        except Missing:
            return None

    def usable_memory(self, host: str) -> int:
        """Bytes that the host can give: what is available, or, while our own services run, all that is installed."""
        name = "total_bytes" if self.own_running(host) else "available_bytes"
        return int(self.fact(host, f"host.memory.{name}"))

    def offload_gib(self, engine: Engine) -> int | None:
        """``dram_size_per_dp_GB`` as vllm-ascend reads it; ``None`` without offload or where it is no number."""
        if not engine.offloads:
            return None
        try:
            return int(engine.offload.get("dram_size_per_dp_GB", DEFAULT_DRAM_GIB))
        except (TypeError, ValueError, OverflowError):
            return None

    def memcache_gib(self, engine: Engine) -> int | None:
        """GiB that each rank of the engine gives to MemCache; ``None`` where it has no such file or the value is
        odd.
        """
        conf = self.conf(engine.service, LOCAL_FILE)
        size = parse_size((conf or {}).get("ock.mmc.local_service.dram.size"))
        return None if size is None else -(-size // GIB)


def targets(engine: Engine) -> list[str]:
    """Paths that are mounted into the engine's container."""
    return [parts[1] for parts in (str(m).split(":") for m in engine.container.get("mounts") or []) if len(parts) > 1]


def covers(paths: list[str], wanted: str) -> bool:
    """Whether one of the paths is the wanted one or a folder above it."""
    return any(wanted == path.rstrip("/") or wanted.startswith(path.rstrip("/") + "/") for path in paths)


def parse_size(value: Any) -> int | None:
    """Bytes of a MemCache size such as ``10G``, ``2.5GB`` or ``134217728``; ``None`` if it is none."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)B?\s*", str(value), re.IGNORECASE)
    if match is None:
        return None
    power = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}[match.group(2).upper()]
    return int(float(match.group(1)) * (1 << power))
