# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Fixtures of the tests that look at deployed hosts: what was planned, and what is there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from . import lab


@dataclass
class Service:
    """One planned service with the container that carries it."""

    planned: dict[str, Any]
    engines: list[dict[str, Any]]
    host: Any  # testinfra's
    inspected: dict[str, Any]  # docker inspect

    @property
    def container(self) -> str:
        return f"pd-{self.planned['name']}"

    def exec(self, *argv: str) -> str:
        """Standard output of a command in the container, with the image's environment and nothing of the launcher's."""
        return str(self.host.check_output("docker exec %s" + " %s" * len(argv), self.container, *argv))

    def environ(self, command: str) -> dict[str, str]:
        """Environment of the process whose command line begins with `command`, from the kernel."""
        for line in self.host.check_output("docker top %s -eo pid,args", self.container).splitlines():
            pid, arguments = line.split(maxsplit=1)
            if command in arguments and "launch" not in arguments:
                text = self.host.check_output("tr '\\0' '\\n' < /proc/%s/environ", pid)
                return dict(item.split("=", 1) for item in text.splitlines() if "=" in item)
        raise AssertionError(f"{self.container} runs no {command}")


@pytest.fixture(scope="session")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """testinfra hosts by inventory name."""
    return lab.connect(tmp_path_factory.mktemp("ssh"))


@pytest.fixture(scope="session")
def plan(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return lab.plan(tmp_path_factory.mktemp("plan"))


@pytest.fixture
def services(hosts: dict[str, Any], plan: dict[str, Any]) -> list[Service]:
    """Every planned service; a missing container fails here."""
    found = []
    for planned in plan["services"]:
        host = hosts[planned["host"]]
        inspected = json.loads(host.check_output("docker inspect %s", f"pd-{planned['name']}"))[0]
        engines = [
            engine
            for engine in plan["engines"]
            if (engine["host"], engine["service"]) == (planned["host"], planned["name"])
        ]
        found.append(Service(planned, engines, host, inspected))
    return found


@pytest.fixture
def engines(services: list[Service]) -> list[Service]:
    return [service for service in services if service.planned["kind"] == "engine"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.get_closest_marker("disturbs") is not None)


@pytest.fixture(autouse=True)
def logs_of_the_first_failure(request: pytest.FixtureRequest) -> Iterator[None]:
    """The first failed test shows the last lines of every container."""
    before = request.session.testsfailed
    yield
    if before == 0 and request.session.testsfailed:
        for name, host in request.getfixturevalue("hosts").items():
            for container in host.run("docker ps --all --format '{{.Names}}'").stdout.split():
                print(f"----- {name} {container}")
                print(host.run("docker logs --tail 15 %s 2>&1", container).stdout)
