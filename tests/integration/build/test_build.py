# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Builds that go wrong: a step that fails, a controller that vanishes, a password that must not stay behind.

They run on a deployed cluster and build variants of the first layer, which they remove again.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest

from .. import lab, snapshot

PLAYBOOK = "tests/integration/build/vllm.yml"
BUILDER = "pd-build-vllm"
PASSWORD = "open-sesame-7c1f"
# Another value is another tag, so another build; the package is there already, so that it is a quick one.
VARIANT = {"vllm_build_extra_packages": ["tzdata", "tzdata"]}
# In the place where a proxy's address would hold a password; this one would be no use as a proxy.
SECRET = {"container_proxy_environment": {"ftp_proxy": f"http://user:{PASSWORD}@proxy.invalid:3128"}}


def extra(**variables: Any) -> list[str]:
    return ["--extra-vars", json.dumps(variables)]


@pytest.fixture
def builder(hosts: dict[str, Any], plan: dict[str, Any]) -> Iterator[Any]:
    """The host that builds. New layers and the builder are removed at the end."""
    top = max(plan["images"], key=lambda name: len(plan["images"][name]["layers"]))
    host = hosts[next(name for name, of_host in plan["hosts"].items() if top in of_host["images"])]
    before = set(images(host))
    yield host
    host.run("docker rm --force %s", BUILDER)
    for image in set(images(host)) - before:
        host.check_output("docker rmi %s", image)


def images(host: Any) -> list[str]:
    return sorted(host.check_output("docker images --format '{{.Repository}}:{{.Tag}}'").split())


def of_services(hosts: dict[str, Any]) -> dict[str, list[str]]:
    """Names, ids and start times of the services' containers."""
    return {
        name: [line for line in subjects["containers"] if not line.startswith(f"/{BUILDER}")]
        for name, subjects in snapshot.take(hosts, "containers").items()
    }


def test_a_failing_step_is_told_and_harms_nothing(hosts: dict[str, Any], builder: Any) -> None:
    services, before = of_services(hosts), images(builder)
    with pytest.raises(AssertionError) as told:
        lab.ansible_playbook(PLAYBOOK, *extra(vllm_build_extra_packages=["there-is-no-such-package"]))
    assert "No matching distribution found for there-is-no-such-package" in str(told.value)
    assert "==> failed: install vLLM" in str(told.value)
    assert images(builder) == before
    assert of_services(hosts) == services


def test_a_build_outlives_its_controller_and_leaves_no_secret(hosts: dict[str, Any], builder: Any) -> None:
    arguments = [PLAYBOOK, *extra(**VARIANT, **SECRET)]
    before = set(images(builder))
    builder.run("docker rm --force %s", BUILDER)
    controller = lab.start_playbook(*arguments)
    started = "docker inspect --format '{{.Id}} {{.State.StartedAt}}' " + BUILDER
    while not builder.run(started).succeeded:
        assert controller.poll() is None, "it ended without starting a builder"
        time.sleep(0.5)
    first = builder.check_output(started)
    os.killpg(controller.pid, signal.SIGKILL)
    controller.wait()
    assert set(images(builder)) == before

    described = builder.check_output("docker inspect %s", BUILDER)
    seen = {first}
    again = lab.start_playbook(*arguments, stdout=subprocess.PIPE)
    while again.poll() is None:
        now = builder.run(started)
        if now.succeeded:
            seen.add(now.stdout.strip())
        time.sleep(0.5)
    output = again.communicate()[0]
    assert again.returncode == 0, output
    assert seen == {first}, "the builder was started anew"

    (image,) = set(images(builder)) - before
    described += builder.check_output("docker image inspect %s", image)
    described += builder.check_output("docker history --no-trunc %s", image)
    assert PASSWORD not in described
    assert PASSWORD not in output
    # It did reach the build, by a file that only root can read.
    folder = "/etc/vllm-ascend-pd/build-vllm"
    assert PASSWORD in builder.file(f"{folder}/env").content_string
    assert builder.file(f"{folder}/env").mode == 0o600
    inside = "grep --recursive --files-with-matches --fixed-strings %s / --exclude-dir=proc --exclude-dir=sys"
    found = builder.run(f"docker run --rm --entrypoint=sh %s -c '{inside % PASSWORD} 2>/dev/null'", image)
    assert found.stdout == ""


def test_an_image_differs_from_its_base_in_files_alone(
    hosts: dict[str, Any], builder: Any, plan: dict[str, Any]
) -> None:
    base = json.loads(builder.check_output("docker image inspect %s", plan["images"]["decode"]["base"]))[0]["Config"]
    for service in plan["services"]:
        host = hosts[service["host"]]
        image = host.check_output("docker inspect --format '{{.Image}}' %s", f"pd-{service['name']}")
        config = json.loads(host.check_output("docker image inspect %s", image))[0]["Config"]
        for key in ("Entrypoint", "Cmd", "Env", "Labels", "User", "WorkingDir", "ExposedPorts", "Volumes"):
            assert config.get(key) == base.get(key), (service["name"], key)
