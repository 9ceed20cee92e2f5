# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""One engine of a deployment: its arguments as meaning, its environment, its place."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.connectors import SIZE_FIELDS
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.environment import OWNED as OWNED_ENV
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.environment import PATH_LIKE
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.options import OptionError, OptionTable

VLLM_PORT, VLLM_RPC_PORT, VLLM_MASTER_PORT = 8000, 29550, 29501  # vLLM's own defaults

ROLES = {"prefill": "prefill", "decode": "decode", "mixed": "engine"}


class NotExpressible(ValueError):
    """A deployment that could not start, or that no inventory can describe; the message says why."""


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
    faults: list[str] = field(default_factory=list)  # for which vLLM would not start it

    def number(self, name: str, default: int) -> int:
        value = self.options.get(name, default)
        try:
            return int(value)
        except (TypeError, ValueError):
            raise NotExpressible(f"--{name} of an engine on node {self.node} is no number: {value!r}") from None

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
    def http_port(self) -> int:
        return self.number("port", VLLM_PORT)

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


def vllm_versions(source: str) -> tuple[str, str] | None:
    """``releases/v0.22.1rc`` -> (0.22.1, 0.22.1rc1), ``releases/v0.23.0`` -> (0.23.0, 0.23.0)."""
    found = re.search(r"\bv(\d+\.\d+\.\d+)(rc\d*)?(?![\w.-])", source)
    if found is None:
        return None
    suffix = "rc1" if found[2] == "rc" else found[2] or ""
    return found[1], found[1] + suffix


def checked(data: Any) -> Mapping[str, Any]:
    """The same deployment, or a refusal that says what of it is not of the format, and where."""
    if not isinstance(data, Mapping):
        raise NotExpressible("a deployment is a mapping with nodes and engines")
    for name in ("name", "nodes", "engines"):
        _require(name in data, f"{name} is missing")
    nodes, engines = data["nodes"], data["engines"]
    _require(_is_list(nodes, str) and nodes, "nodes is no list of addresses")
    _require(_is_list(engines, Mapping) and engines, "engines is no list of mappings")
    _require(isinstance(data.get("source", ""), str), "source is no text")
    _require(
        _is_count(data.get("npu_per_node", 16)), f"npu_per_node is no number of chips: {data.get('npu_per_node')!r}"
    )
    for number, engine in enumerate(engines):
        where = f"engine {number}"
        for name in ("node", "role", "argv", "env"):
            _require(name in engine, f"{where}: {name} is missing")
        node, role = engine["node"], engine["role"]
        _require(
            type(node) is int and 0 <= node < len(nodes),
            f"{where}: there is no node {node!r}, only {', '.join(map(str, range(len(nodes))))}",
        )
        _require(role in list(ROLES), f"{where}: there is no role {role!r}, only {', '.join(ROLES)}")
        _require(_is_list(engine["argv"], str), f"{where}: argv is no list of words")
        _require(isinstance(engine["env"], Mapping), f"{where}: env is no mapping")
    return data


def _require(fine: object, otherwise: str) -> None:
    if not fine:
        raise NotExpressible(otherwise)


def _is_list(value: Any, of: type) -> bool:
    return isinstance(value, list) and all(isinstance(item, of) for item in value)


def _is_count(value: Any) -> bool:
    return type(value) is int and value > 0


def read_engine(data: Mapping[str, Any], table: OptionTable) -> Engine:
    """One engine of the data; owned variables are split off its environment."""
    node = data["node"]
    try:
        options = table.parse(data["argv"])
    except OptionError as error:
        raise NotExpressible(f"vLLM would refuse the arguments of an engine on node {node}: {error}") from None
    faults = [f"an engine on node {node}: {fault}" for fault in (*_unknown(options, table), *_no_json(options, table))]
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
            if not re.fullmatch(r"\d+( *, *\d+)*", text):
                raise NotExpressible(f"{name} of an engine on node {node} is no list of chips: {text!r}")
            devices = [int(part) for part in text.split(",")]
        elif name not in OWNED_ENV:
            env[name] = text
    kv = options.pop("kv-transfer-config", None) or {}
    if not isinstance(kv, Mapping):
        raise NotExpressible("; ".join(faults) or f"--kv-transfer-config of an engine on node {node} is no mapping")
    for fault in _kv_faults(kv):
        raise NotExpressible(f"--kv-transfer-config of an engine on node {node}: {fault}")
    return Engine(node, ROLES[data["role"]], options, env, paths, devices, dict(kv), faults)


def _kv_faults(config: Mapping[str, Any]) -> Iterator[str]:
    """What of a connector's configuration, and of those inside, could not be read as it is meant."""
    if not _is_number(config.get("kv_port", 0)):
        yield f"kv_port is no number: {config['kv_port']!r}"
    extra = config.get("kv_connector_extra_config") or {}
    if not isinstance(extra, Mapping):
        yield "kv_connector_extra_config is no mapping"
        return
    for side in ("prefill", "decode"):
        sizes = extra.get(side) or {}
        if not isinstance(sizes, Mapping):
            yield f"{side} is no mapping"
            continue
        for name, value in sizes.items():
            if name in SIZE_FIELDS and not _is_number(value):
                yield f"{name} of {side} is no number: {value!r}"
    inside = extra.get("connectors", [])
    if not _is_list(inside, Mapping):
        yield "connectors is no list of mappings"
        return
    for child in inside:
        yield from _kv_faults(child)


def _is_number(value: Any) -> bool:
    """An integer, also as the word for it, as deployments have them from shell variables."""
    return type(value) is int or (isinstance(value, str) and re.fullmatch(r"\d+", value) is not None)


def _unknown(options: Mapping[str, Any], table: OptionTable) -> Iterator[str]:
    """Options that this version of vLLM does not have, and would not start with."""
    for name in options:
        if name not in table:
            near = table.nearest(name)
            yield f"vLLM {table.version} has no option --{name}" + (f" (near: --{near})" if near else "")


def _no_json(options: Mapping[str, Any], table: OptionTable) -> Iterator[str]:
    """Values that begin as JSON and are none."""
    for name, value in options.items():
        option = table.get(name)
        if option is not None and option.json and isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
            try:
                json.loads(value)
            except ValueError as error:
                yield f"--{name} is no JSON: {error}"
