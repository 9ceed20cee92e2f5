# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""The containers are the planned ones, with the planned settings, mounts and devices."""

from __future__ import annotations

import json
from typing import Any

from ..conftest import Service


def test_exactly_the_planned_containers_run(hosts: dict[str, Any], plan: dict[str, Any]) -> None:
    for name, host in hosts.items():
        there = dict(
            line.split() for line in host.check_output("docker ps --all --format '{{.Names}} {{.State}}'").splitlines()
        )
        assert there == {f"pd-{service}": "running" for service in plan["hosts"][name]["services"]}, name


def test_none_was_restarted(services: list[Service]) -> None:
    assert {service.container: service.inspected["RestartCount"] for service in services} == {
        service.container: 0 for service in services
    }


def test_settings(services: list[Service]) -> None:
    for service in services:
        wanted, config = service.planned["container"], service.inspected["HostConfig"]
        assert {
            "name": service.inspected["Name"].removeprefix("/"),
            "network_mode": config["NetworkMode"],
            "ipc_mode": config["IpcMode"],
            "privileged": config["Privileged"],
            "user": service.inspected["Config"]["User"],
            "restart_policy": config["RestartPolicy"]["Name"],
            "restart_retries": config["RestartPolicy"]["MaximumRetryCount"],
            "stop_timeout": service.inspected["Config"]["StopTimeout"],
            "log_driver": config["LogConfig"]["Type"],
            "log_options": config["LogConfig"]["Config"],
            "ulimits": sorted(f"{limit['Name']}:{limit['Soft']}:{limit['Hard']}" for limit in config["Ulimits"]),
        } == {key: value for key, value in wanted.items() if key not in ("mounts", "devices", "ulimits")} | {
            "ulimits": sorted(wanted["ulimits"])
        }, service.container


def test_mounts(services: list[Service]) -> None:
    for service in services:
        mounts = {
            f"{mount['Source']}:{mount['Destination']}{'' if mount['RW'] else ':ro'}"
            for mount in service.inspected["Mounts"]
        }
        assert mounts == set(service.planned["container"]["mounts"]), service.container


def test_devices(services: list[Service]) -> None:
    for service in services:
        devices = {device["PathOnHost"] for device in service.inspected["HostConfig"]["Devices"] or []}
        assert devices == set(service.planned["container"]["devices"]), service.container
        for device in devices:
            assert service.exec("stat", "--format=%F", device) == "character special file"


def test_environment_is_the_images_alone(services: list[Service]) -> None:
    """Settings and secrets come by files: `docker inspect` shows none."""
    for service in services:
        image = service.host.check_output(
            "docker image inspect --format '{{json .Config.Env}}' %s", service.inspected["Image"]
        )
        assert sorted(service.inspected["Config"]["Env"] or []) == sorted(json.loads(image) or [])
