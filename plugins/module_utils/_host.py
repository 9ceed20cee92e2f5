# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""The face `host`: memory, CPUs, disks, ports, clock, container engine and what else a launch depends on."""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, Sequence

from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils import _cpu, _memory, _sockets, _system
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._containers import Containers, Owners, no_engine
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._parallel import run_all
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._run import Runner
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._tree import Tree


def empty() -> dict[str, Any]:
    """The face with nothing known."""
    return {
        "hostname": None,
        "arch": None,
        "kernel": None,
        "os": {"id": None, "version": None, "name": None},
        "python": None,
        "python_requests": None,
        "uid": None,
        "memory": {
            "total_bytes": None,
            "free_bytes": None,
            "available_bytes": None,
            "swap_total_bytes": None,
            "page_bytes": None,
            "numa": [],
            "hugepages": {"size_bytes": None, "total": None, "free": None, "pools": []},
        },
        "contiguous": {"free_bytes": None, "limit_bytes": None, "nodes": [], "kinds": None, "reason": None},
        "shm": {"total_bytes": None, "free_bytes": None},
        "cpu": {"count": None, "model": None, "features": [], "sve": None, "bf16": None},
        "disks": {},
        "ulimits": {},
        "ephemeral_ports": None,
        "reserved_ports": [],
        "listeners": [],
        "clock": {"epoch_s": None, "offset_s": None},
        "engine": no_engine(None),
        "firewall": {"services": {}, "input_policy": None, "input_rules": None, "nft_input": [], "reason": None},
        "proxies": {"environment": {}, "etc_environment": {}, "engine": {}},
        "hosts_file": {
            "own_name": None,
            "own_addresses": [],
            "own_name_on_loopback": None,
            "localhost_addresses": [],
        },
        "paths": {},
        "containers": [],
        "reasons": [],
    }


def gather(
    tree: Tree,
    runner: Runner,
    containers: Containers,
    owners: Owners,
    paths: Sequence[str] = (),
    disk_paths: Sequence[str] = (),
    controller_epoch_s: float | None = None,
) -> dict[str, Any]:
    """Read everything; a part that fails or hangs leaves a reason and takes no other with it."""
    face = empty()
    reasons: list[str] = face["reasons"]
    face["clock"] = _system.clock(controller_epoch_s)
    face.update(_system.identity(tree))
    face["engine"] = containers.engine
    face["containers"] = containers.entries
    reasons.extend(containers.reasons)
    if containers.engine["reason"]:
        reasons.append("container engine: {}".format(containers.engine["reason"]))
    of_engine = {containers.engine["root_dir"], containers.engine["image_dir"]} - {None, *disk_paths}
    disks = [*disk_paths, *sorted(of_engine)]

    plain: dict[str, Callable[[], Any]] = {
        "contiguous": partial(_memory.contiguous, tree),
        "shm": partial(_memory.shm, tree),
        "ulimits": _system.ulimits,
        "firewall": partial(_system.firewall, tree, runner),
        "proxies": partial(_system.proxies, tree, containers.proxies),
    }
    reporting: dict[str, Callable[..., Any]] = {  # these say in a list what they could not read
        "memory": partial(_memory.memory, tree),
        "cpu": partial(_cpu.cpu, tree),
        "ephemeral_ports": partial(_sockets.ephemeral_ports, tree),
        "reserved_ports": partial(_sockets.reserved_ports, tree),
        "listeners": partial(_sockets.listeners, tree, owners),
        "hosts_file": partial(_system.hosts_file, tree, face["hostname"]),
    }
    # A path may lie on a network file system whose server is gone: each is asked for by itself.
    by_path = {("disks", path): partial(_memory.space, tree, path) for path in disks}
    by_path.update({("paths", path): partial(_system.describe_path, tree, path) for path in paths})
    causes: dict[str, list[str]] = {name: [] for name in reporting}

    tasks: dict[Any, Callable[[], Any]] = {**plain, **by_path}
    tasks.update({name: partial(part, reasons=causes[name]) for name, part in reporting.items()})
    for key, outcome in run_all(tasks, runner.deadline).items():
        if outcome.reason:
            reasons.append(f"{key if isinstance(key, str) else key[1]}: {outcome.reason}")
        elif isinstance(key, str):
            face[key] = outcome.value
            reasons.extend(causes.get(key, []))
        else:
            face[key[0]][key[1]] = outcome.value
    return face
