# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""All faces of a host in one go, each under the same time limit; what the probe modules call."""

from __future__ import annotations

import time
from functools import partial
from typing import Any, Callable, Mapping, Sequence

from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils import _containers
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._docker_api import SOCKET, DockerApi
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._parallel import Deadline, run_all
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._run import Runner
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._tree import Tree, device_nodes

SCHEMA = 1
FACES = ("npu", "nic", "hccn", "host", "model")

# Options of the probe modules, as the documentation fragment `probe` describes them.
COMMON_OPTIONS: dict[str, Any] = {"timeout_s": {"type": "float", "default": 60.0}}
ENGINE_OPTIONS: dict[str, Any] = {"docker_socket": {"type": "path", "default": SOCKET}}
NIC_OPTIONS: dict[str, Any] = {
    "peers": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "address": {"type": "str", "required": True},
            "ports": {"type": "list", "elements": "int", "default": []},
            "ping": {"type": "bool", "default": False},
        },
    },
    "nic": {"type": "str"},
    "address": {"type": "str"},
}
HCCN_OPTIONS: dict[str, Any] = {
    "npu_count_hint": {"type": "int"},
    "ping_hccs": {"type": "list", "elements": "str", "default": []},
    "ping_roce": {"type": "list", "elements": "str", "default": []},
    "pings_only": {"type": "bool", "default": False},
}
HOST_OPTIONS: dict[str, Any] = {
    "paths": {"type": "list", "elements": "str", "default": []},
    "disk_paths": {"type": "list", "elements": "str", "default": []},
    "controller_epoch_s": {"type": "float"},
}
MODEL_OPTIONS: dict[str, Any] = {"model_paths": {"type": "list", "elements": "str", "default": []}}


def probe(faces: Sequence[str], options: Mapping[str, Any], tree: Tree | None = None) -> dict[str, Any]:
    """`{facts: {schema, <face>...}, timing}` of the faces asked for; options as in the modules' documentation."""
    tree = tree or Tree()
    start = time.monotonic()
    whole = Deadline(options["timeout_s"])
    deadline = whole.earlier()
    runner = Runner(deadline)
    containers = _engine(faces, options, runner)
    owners = _containers.Owners(tree, containers.entries)
    tasks: dict[str, Callable[[Any], dict[str, Any]]] = {
        "npu": lambda npu: npu.gather(tree, runner, owners),
        "nic": lambda nics: nics.gather(tree, runner, options["peers"], options.get("nic"), options.get("address")),
        "hccn": lambda hccn: hccn.gather(tree, runner, _chips(tree, options), _pings(options), options["pings_only"]),
        "host": lambda host: host.gather(
            tree,
            runner,
            containers,
            owners,
            options["paths"],
            options["disk_paths"],
            options.get("controller_epoch_s"),
        ),
        "model": lambda model: model.gather(tree, deadline, options["model_paths"]),
    }
    outcomes = run_all({face: partial(tasks[face], _module(face)) for face in faces}, whole)
    facts: dict[str, Any] = {"schema": SCHEMA}
    timing: dict[str, Any] = {"faces": {}}
    for face in faces:
        outcome = outcomes[face]
        facts[face] = outcome.value if outcome.reason is None else _nothing(face, outcome.reason, options)
        timing["faces"][face] = round(outcome.seconds, 3)
    timing["tools"] = runner.timing()
    timing["total_s"] = round(time.monotonic() - start, 3)
    return {"facts": facts, "timing": timing}


def _module(face: str) -> Any:
    """What gathers a face. Others than those asked for are not imported: on half of the hosts of a cluster a second
    call only makes pings, and importing all would cost as much CPU time as these.
    """
    if face == "npu":
        from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils import _npu

        return _npu
    if face == "nic":
        from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils import _nics

        return _nics
    if face == "hccn":
        from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils import _hccn

        return _hccn
    if face == "host":
        from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils import _host

        return _host
    from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils import _model

    return _model


def _engine(faces: Sequence[str], options: Mapping[str, Any], runner: Runner) -> _containers.Containers:
    if not {"npu", "host"} & set(faces):
        return _containers.nothing(None)
    deadline = runner.deadline
    if options["docker_socket"] == SOCKET and _containers.would_start(runner):
        return _containers.nothing("Docker is stopped (docker.socket would start it)")
    api = DockerApi(options["docker_socket"], timeout_s=deadline.within(10.0))
    outcome = run_all({"engine": partial(_containers.gather, api, deadline.earlier())}, deadline)["engine"]
    return outcome.value or _containers.nothing(outcome.reason)


def _nothing(face: str, reason: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """A face of which nothing was learnt, in its usual shape."""
    reason = f"the probe of this face failed: {reason}"
    if face == "model":
        return {path: _module(face).empty(reason) for path in options["model_paths"]}
    empty: dict[str, Any] = _module(face).empty()
    empty["reasons"].append(reason)
    return empty


def _chips(tree: Tree, options: Mapping[str, Any]) -> list[int]:
    return device_nodes(tree) or list(range(options.get("npu_count_hint") or 0))


def _pings(options: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [("hccs", address) for address in options["ping_hccs"]] + [
        ("roce", address) for address in options["ping_roce"]
    ]
