# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""The environment of the running processes, as the kernel has it: image, set_env.sh files and plan have their say."""

from __future__ import annotations

from ..conftest import Service

PATHS = ("LD_LIBRARY_PATH", "LD_PRELOAD", "PATH", "PYTHONPATH")


def sourced(service: Service) -> dict[str, str]:
    """What the image's environment becomes by its set_env.sh files: made without the launcher, as a reference."""
    script = "\n".join(f". {line}" for line in service.planned["sources"]) + "\nenv"
    lines = service.exec("bash", "-c", script).splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


def commands(service: Service) -> list[tuple[str, dict[str, str]]]:
    """Command line and planned environment of each process."""
    return [
        (" ".join(command["argv"]), {**service.planned["env"], **command["env"]})
        for command in service.planned["commands"]
    ]


def test_planned_variables_arrive(services: list[Service]) -> None:
    for service in services:
        for command, planned in commands(service):
            environ = service.environ(command)
            assert {name: environ.get(name) for name in planned} == planned, service.container


def test_paths_of_image_and_of_every_set_env_and_ours(services: list[Service]) -> None:
    for service in services:
        reference, prepended = sourced(service), service.planned["prepend"]
        for command, _planned in commands(service):
            environ = service.environ(command)
            for name in PATHS:
                wanted = [*prepended.get(name, []), *filter(None, reference.get(name, "").split(":"))]
                assert list(filter(None, environ.get(name, "").split(":"))) == wanted, (service.container, name)


def test_other_variables_of_set_env_arrive(services: list[Service]) -> None:
    for service in services:
        reference = sourced(service)
        for command, planned in commands(service):
            environ = service.environ(command)
            ours = {*planned, *PATHS, "HOSTNAME", "HOME", "PWD", "OLDPWD", "SHLVL", "_"}
            missing = {
                name: value for name, value in reference.items() if name not in ours and environ.get(name) != value
            }
            assert missing == {}, service.container
