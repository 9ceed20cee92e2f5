# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""A deployment as data: its engines with their arguments as meaning, and the instances that they form."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.environment import OWNED as OWNED_ENV
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.environment import PATH_LIKE
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.options import OptionTable

VLLM_PORT, VLLM_RPC_PORT, VLLM_MASTER_PORT = 8000, 29550, 29501  # vLLM's own defaults

ROLES = {"prefill": "prefill", "decode": "decode", "mixed": "engine"}


class NotExpressible(ValueError):
    """A deployment that no inventory can describe; the message says why."""


@dataclass
class Engine:
    """One engine of the deployment, its arguments as meaning."""

    node: int
    role: str
    options: dict[str, Any]
    env: dict[str, str]
    paths: dict[str, list[str]]
    devices: list[int] | None  # as ASCEND_RT_VISIBLE_DEVICES says
    kv: dict[str, Any]

    def number(self, name: str, default: int) -> int:
        return int(self.options.get(name, default))

    @property
    def dp(self) -> int:
        return self.number("data-parallel-size", 1)

    @property
    def external(self) -> bool:
        return "data-parallel-rank" in self.options

    @property
    def headless(self) -> bool:
        return bool(self.options.get("headless"))

    @property
    def start_rank(self) -> int:
        return self.number("data-parallel-rank" if self.external else "data-parallel-start-rank", 0)

    @property
    def nnodes(self) -> int:
        return self.number("nnodes", 1)

    @property
    def local_ranks(self) -> int:
        return 1 if self.external or self.nnodes > 1 else self.number("data-parallel-size-local", self.dp)

    @property
    def world(self) -> int:
        sizes = ("tensor-parallel-size", "pipeline-parallel-size", "prefill-context-parallel-size")
        product = 1
        for name in sizes:
            product *= self.number(name, 1)
        return product

    @property
    def chips(self) -> int:
        """Chips of this engine on its node."""
        if self.nnodes > 1:
            return self.world * self.dp // self.nnodes
        return self.world * self.local_ranks


@dataclass
class Instance:
    """Engines that share one data-parallel group, in rank order."""

    role: str
    engines: list[Engine] = field(default_factory=list)

    @property
    def nodes(self) -> list[int]:
        return list(dict.fromkeys(engine.node for engine in self.engines))

    def on(self, node: int) -> list[Engine]:
        return [engine for engine in self.engines if engine.node == node]


def vllm_versions(source: str) -> tuple[str, str] | None:
    """``releases/v0.22.1rc`` -> (0.22.1, 0.22.1rc1)."""
    found = re.search(r"releases/v(\d+\.\d+\.\d+)rc\b", source)
    return (found[1], f"{found[1]}rc1") if found else None


def read_engine(data: Mapping[str, Any], table: OptionTable) -> Engine:
    """One engine of the data; owned variables are split off its environment."""
    options = table.parse(data["argv"])
    env: dict[str, str] = {}
    paths: dict[str, list[str]] = {}
    devices = None
    for name, value in data["env"].items():
        text = str(value)
        if name in PATH_LIKE:
            entries = [entry for entry in text.split(":") if entry and entry.strip("${}") != name]
            if any("$" in entry for entry in entries):
                raise NotExpressible(f"{name} is built from other variables: {text}")
            paths[name] = entries
        elif name == "ASCEND_RT_VISIBLE_DEVICES":
            devices = [int(part) for part in text.split(",")]
        elif name not in OWNED_ENV:
            env[name] = text
    kv = options.pop("kv-transfer-config", None) or {}
    return Engine(data["node"], ROLES[data["role"]], options, env, paths, devices, kv)


def group(engines: Iterable[Engine], nodes: Sequence[str]) -> list[Instance]:
    """Engines to instances: by rendezvous where there is one, else each engine is its own."""
    instances: dict[Any, Instance] = {}
    for engine in engines:
        options = engine.options
        own = nodes[engine.node]
        if engine.nnodes > 1:
            key: tuple[Any, ...] = (engine.role, "nnodes", options.get("master-addr"), options.get("master-port"))
        elif engine.external or engine.local_ranks < engine.dp:
            address = options.get("data-parallel-address", own)
            key = (engine.role, "ranks", address, options.get("data-parallel-rpc-port"))
        else:
            key = (engine.role, "alone", engine.node, options.get("port", VLLM_PORT))
        while key in instances and any(_same_rank(engine, other) for other in instances[key].engines):
            key = (*key, "next")  # the same rank again: another group that shares address and port
        instances.setdefault(key, Instance(engine.role)).engines.append(engine)
    for instance in instances.values():
        instance.engines.sort(key=lambda e: (e.number("node-rank", 0), e.start_rank))
    return list(instances.values())


def _same_rank(one: Engine, other: Engine) -> bool:
    if one.nnodes > 1:
        return one.number("node-rank", 0) == other.number("node-rank", 0)
    return one.start_rank == other.start_rank
