# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""The container engine and its containers, and which container a process or an NPU belongs to."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._docker_api import DockerApi, DockerError
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._parallel import Deadline, run_all
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._run import Runner, find_tool
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._text import parse_ranges
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._tree import Tree


def no_engine(reason: str | None) -> dict[str, Any]:
    """The engine's part of the facts with nothing known."""
    return {
        "name": None,
        "version": None,
        "api_version": None,
        "min_api": None,
        "storage_driver": None,
        "root_dir": None,
        "image_dir": None,
        "cgroup_driver": None,
        "runtimes": [],
        "insecure_registries": [],
        "reason": reason,
    }


class Containers(NamedTuple):
    """What was seen of the container engine, shared by the faces that need it."""

    engine: dict[str, Any]
    proxies: dict[str, str]  # the engine's own, by variable name
    entries: list[dict[str, Any]]
    reasons: list[str]


def nothing(reason: str | None) -> Containers:
    """No engine, and why."""
    return Containers(no_engine(reason), {}, [], [])


def gather(api: DockerApi, deadline: Deadline) -> Containers:
    """Ask the engine about itself and all its containers."""
    answers = run_all({"version": api.version, "info": api.info, "list": api.containers}, deadline)
    failed = answers["version"].reason or answers["info"].reason
    if failed:
        return nothing(_plain(failed))
    engine = describe_engine(answers["version"].value, answers["info"].value)
    reasons = ["containers: " + _plain(answers["list"].reason)] if answers["list"].reason else []
    ids = [entry["Id"] for entry in answers["list"].value or []]
    containers = []
    for number, outcome in run_all({i: _inspection(api, i) for i in ids}, deadline, workers=8).items():
        if outcome.reason:
            reasons.append(f"container {str(number)[:12]}: {_plain(outcome.reason)}")
        elif outcome.value is not None:
            containers.append(describe_container(outcome.value))
    containers.sort(key=lambda container: str(container["name"]))
    return Containers(engine, engine_proxies(answers["info"].value), containers, reasons)


def would_start(runner: Runner) -> bool:
    """Whether Docker is stopped while systemd listens in its place: asking would start it, which no probe may."""
    systemctl = find_tool("systemctl")
    if systemctl is None:
        return False
    states = runner.run([systemctl, "is-active", "docker.service", "docker.socket"], timeout_s=5.0).stdout.split()
    return states in (["inactive", "active"], ["failed", "active"])


def _inspection(api: DockerApi, number: str) -> Any:
    def inspect() -> dict[str, Any] | None:
        try:
            return api.inspect(number)
        except DockerError as error:
            if error.status == 404:  # removed since it was listed
                return None
            raise

    return inspect


def _plain(reason: str) -> str:
    return reason.replace("DockerError: ", "", 1)


def describe_engine(version: dict[str, Any], info: dict[str, Any]) -> dict[str, Any]:
    """What matters of the engine's answers to `/version` and `/info`."""
    components = [str(part.get("Name", "")) for part in version.get("Components") or []]
    registries = (info.get("RegistryConfig") or {}).get("IndexConfigs") or {}
    return {
        "name": "podman" if any("podman" in name.lower() for name in components) else "docker",
        "version": version.get("Version"),
        "api_version": version.get("ApiVersion"),
        "min_api": version.get("MinAPIVersion"),
        "storage_driver": info.get("Driver"),
        "root_dir": info.get("DockerRootDir"),
        "image_dir": image_dir(info),
        "cgroup_driver": info.get("CgroupDriver"),
        "runtimes": sorted(info.get("Runtimes") or {}),
        "insecure_registries": sorted(name for name, entry in registries.items() if not entry.get("Secure", True)),
        "reason": None,
    }


def image_dir(info: dict[str, Any]) -> str | None:
    """Folder of the images: the engine's own, or containerd's where that keeps them (Docker 29 by default).

    The engine does not tell containerd's folder. It is the usual one, below the engine's own where the engine has
    started a containerd for itself.
    """
    root = info.get("DockerRootDir")
    status = {str(row[0]): row[1] for row in info.get("DriverStatus") or [] if isinstance(row, list) and len(row) == 2}
    if status.get("driver-type") != "io.containerd.snapshotter.v1":
        return root
    own = "/docker/" in str((info.get("Containerd") or {}).get("Address"))
    return f"{root}/containerd/daemon" if own else "/var/lib/containerd"


def engine_proxies(info: dict[str, Any]) -> dict[str, str]:
    """The proxies that the engine itself pulls images through."""
    names = {"http_proxy": "HttpProxy", "https_proxy": "HttpsProxy", "no_proxy": "NoProxy"}
    return {name: str(info[key]) for name, key in names.items() if info.get(key)}


def describe_container(inspected: dict[str, Any]) -> dict[str, Any]:
    """What matters of one container. Its environment may hold secrets: only the chips named there are taken."""
    config = inspected.get("Config") or {}
    host_config = inspected.get("HostConfig") or {}
    state = inspected.get("State") or {}
    devices = sorted(str(device.get("PathOnHost")) for device in host_config.get("Devices") or [])
    return {
        "id": inspected.get("Id"),
        "name": str(inspected.get("Name", "")).lstrip("/"),
        "image": config.get("Image"),
        "image_id": inspected.get("Image"),
        "state": state.get("Status"),
        "started_at": state.get("StartedAt"),
        "pid": state.get("Pid") or None,
        "restart_count": inspected.get("RestartCount", 0),
        "privileged": bool(host_config.get("Privileged")),
        "network_mode": host_config.get("NetworkMode"),
        "labels": config.get("Labels") or {},
        "devices": devices,
        "chips": chips_of(devices, config.get("Env") or [], bool(host_config.get("Privileged"))),
    }


def chips_of(devices: list[str], env: list[str], privileged: bool = False) -> list[int]:
    """Physical ids of the NPUs that a container was given: as devices, or by the variables that choose among them.

    ASCEND_VISIBLE_DEVICES is read by the Ascend runtime of Docker, ASCEND_RT_VISIBLE_DEVICES by CANN. In a privileged
    container, which sees every device, the latter names physical ids; elsewhere ids are renumbered from 0, and
    the devices tell.
    """
    numbers = {
        int(match.group(1)) for match in (re.fullmatch(r"/dev/davinci([0-9]{1,4})", d) for d in devices) if match
    }
    if not numbers:
        names = ("ASCEND_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES") if privileged else ("ASCEND_VISIBLE_DEVICES",)
        for entry in env:
            name, _mark, value = entry.partition("=")
            if name in names:
                for low, high in parse_ranges(value):
                    numbers.update(range(low, min(high, low + 63) + 1))
    return sorted(numbers)


class Owners:
    """Who owns a process or an NPU, as far as containers go."""

    def __init__(self, tree: Tree, containers: list[dict[str, Any]]) -> None:
        self._tree = tree
        self._names = {str(container["id"]): container["name"] for container in containers}
        self._running = [container for container in containers if container["state"] == "running"]

    def of_process(self, pid: int) -> str | None:
        """Name of the container of a process, its short id if the engine does not know it, None for no container."""
        cgroup = self._tree.text(f"/proc/{pid}/cgroup") or ""
        numbers = re.findall(r"[0-9a-f]{64}", cgroup)
        return self._names.get(numbers[-1], numbers[-1][:12]) if numbers else None

    def by_chip(self) -> dict[int, list[str]]:
        """Names of the running containers that were given a chip, by its physical id."""
        names: dict[int, list[str]] = {}
        for container in self._running:
            for number in container["chips"]:
                names.setdefault(number, []).append(container["name"])
        return names
