# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""The other ways in which an image comes to a host: a registry, a build on each host, an archive, a ready-made image.

They run on the deployed cluster of guide 1 and leave it as it was.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .. import lab, snapshot
from ..lab import changed

REGISTRY = "10.88.0.5:5000/built"
# A name as a ready-made image would have: rules read version and chip from it.
COMPLETE = "ready-made/vllm-ascend:v0.26.0rc1-a3-openeuler"
SCRIPTS = [
    "/usr/local/Ascend/ascend-toolkit/set_env.sh",
    "/usr/local/Ascend/nnal/atb/set_env.sh",
    "/usr/local/memfabric_hybrid/set_env.sh",
    "/usr/local/memcache_hybrid/set_env.sh",
]
# What an image with its own MemFabric and MemCache has; made of the wheels that vllm-ascend's requirements install.
INSTALL = r"""
for name in memfabric memcache; do
  find="import importlib.util as u; print(u.find_spec('${name}_hybrid').submodule_search_locations[0])"
  lib=$(python3 -c "$find")/lib
  echo compiled >"$lib/libmf_hybm_accoffload.so"
  mkdir -p /usr/local/${name}_hybrid
  printf 'export %s\n' "LD_LIBRARY_PATH=$lib:\$LD_LIBRARY_PATH" >/usr/local/${name}_hybrid/set_env.sh
done
echo "export MEMFABRIC_HYBRID_EXTEND_LIB_PATH=$(python3 -c "${find/memcache/memfabric}")/lib" \
  >>/usr/local/memfabric_hybrid/set_env.sh
"""
PREINSTALLED = {"memfabric_method": "preinstalled", "memcache_method": "preinstalled", "pd_image_source": "present"}


def play(playbook: str, **variables: Any) -> str:
    return lab.ansible_playbook(playbook, "--extra-vars", json.dumps(variables))


def names(host: Any) -> set[str]:
    told: str = host.check_output("docker images --format '{{.Repository}}:{{.Tag}}'")
    return set(told.split())


def containers(host: Any) -> list[str]:
    return snapshot.take({"host": host}, "containers")["host"]["containers"]


def image_of(host: Any, container: str) -> str:
    return str(host.check_output("docker inspect --format '{{.Image}}' %s", container))


def id_of(host: Any, image: str) -> str:
    return str(host.check_output("docker image inspect --format '{{.Id}}' %s", image))


@pytest.fixture(scope="module")
def builds(plan: dict[str, Any]) -> str:
    """Name of the host that builds for all: prefill's, which needs every layer."""
    return next(name for name, host in plan["hosts"].items() if "prefill" in host["roles"])


@pytest.fixture(scope="module")
def builder(hosts: dict[str, Any], builds: str) -> Any:
    return hosts[builds]


@pytest.fixture(scope="module")
def decode(hosts: dict[str, Any], plan: dict[str, Any]) -> Iterator[tuple[Any, str]]:
    """The other host and its container. Afterwards both hosts are as site.yml makes them, without further names."""
    (service,) = [each for each in plan["services"] if each["role"] == "decode"]
    yield hosts[service["host"]], f"pd-{service['name']}"
    lab.ansible_playbook("site.yml")
    for host in hosts.values():
        for name in names(host):
            if name.startswith("ready-made/"):
                host.check_output("docker rmi %s", name)


def without_image(host: Any, container: str) -> None:
    """As a host that has never had what was built."""
    host.check_output("docker rm --force %s", container)
    for name in names(host):
        if name.startswith("vllm-ascend-pd/"):
            host.check_output("docker rmi %s", name)


def test_a_registry_hands_the_image_on(builder: Any, decode: tuple[Any, str]) -> None:
    host, container = decode
    before = containers(builder)
    without_image(host, container)
    play("site.yml", pd_image_share="registry", pd_registry=REGISTRY)
    assert image_of(host, container) == id_of(builder, "vllm-ascend-pd/memfabric:" + tag(host, "memfabric"))
    assert [name for each in (builder, host) for name in names(each) if name.startswith(REGISTRY)] == []
    assert containers(builder) == before


def tag(host: Any, layer: str) -> str:
    """Tag of the one build of a layer that a host has."""
    (found,) = [name for name in names(host) if name.startswith(f"vllm-ascend-pd/{layer}:")]
    return found.rpartition(":")[2]


def test_each_host_builds_for_itself(builder: Any, decode: tuple[Any, str]) -> None:
    host, container = decode
    before = containers(builder)
    without_image(host, container)
    play("site.yml", pd_image_share="build")
    own = f"vllm-ascend-pd/memfabric:{tag(host, 'memfabric')}"
    assert own in names(builder), "the same inputs have the same tag wherever they are built"
    assert image_of(host, container) == id_of(host, own) != id_of(builder, own)
    assert not any(name.startswith("vllm-ascend-pd/memcache:") for name in names(host)), "decode needs no MemCache"
    assert containers(builder) == before
    assert set(changed(play("site.yml", pd_image_share="build")).values()) == {0}


@pytest.fixture
def archive(builder: Any, builds: str, tmp_path: Path) -> Path:
    """A ready-made image in an archive on the controller: what prefill runs, under another name."""
    builder.check_output("docker tag vllm-ascend-pd/prefill:current %s", COMPLETE)
    builder.check_output("docker save --output /tmp/complete.tar %s", COMPLETE)
    builder.check_output("docker rmi %s", COMPLETE)
    target = tmp_path / "complete.tar"
    fetch = ("--module-name", "ansible.builtin.fetch", "--args", f"src=/tmp/complete.tar dest={target} flat=true")
    argv = [str(lab.BIN / "ansible"), builds, "--inventory", lab.INVENTORY, *fetch]
    subprocess.run(argv, cwd=lab.ROOT, check=True, capture_output=True)
    builder.check_output("rm /tmp/complete.tar")
    return target


def test_a_ready_made_image_comes_as_an_archive_or_is_there(
    hosts: dict[str, Any], decode: tuple[Any, str], archive: Path
) -> None:
    host, container = decode
    here = {"pd_build": False, "pd_image": COMPLETE, "pd_environment_scripts": SCRIPTS}
    from_archive = here | {"pd_image_source": "archive", "pd_image_archive": str(archive)}
    play("site.yml", **from_archive)  # to two completions through the proxy
    assert image_of(host, container) == id_of(host, COMPLETE)
    assert all(not each.file("/var/lib/vllm-ascend-pd/complete.tar").exists for each in hosts.values())
    assert set(changed(play("site.yml", **here, pd_image_source="present")).values()) == {0}

    other = COMPLETE.replace("ready-made", "not-there")
    for source, told in (
        ({"pd_image_source": "present"}, f"{other} is not on"),
        ({"pd_image_source": "archive", "pd_image_archive": str(archive)}, f"and not {other}"),
    ):
        with pytest.raises(AssertionError) as failure:
            play("tests/integration/images/base.yml", **here | source | {"pd_image": other})
        assert told in " ".join(str(failure.value).split())


def test_what_the_base_image_has_installed_is_taken_or_refused(builder: Any) -> None:
    """The vllm layer's requirements pin 1.2.0: what is installed as 1.2.1 is half overwritten then."""
    layers = "tests/integration/images/layers.yml"
    before = names(builder)
    try:
        builder.check_output("docker tag vllm-ascend-pd/prefill:current %s", COMPLETE)
        with pytest.raises(AssertionError) as failure:
            play(layers, pd_image=COMPLETE, **PREINSTALLED)
        told = " ".join(str(failure.value).split())
        assert "memfabric_hybrid is 1.2.1 in /usr/local/memfabric_hybrid, but 1.2.0 in Python" in told

        vllm = min(name for name in before if name.startswith("vllm-ascend-pd/vllm:"))
        builder.check_output("docker run --name ready-made --entrypoint bash %s -ec %s", vllm, INSTALL)
        builder.check_output("docker commit ready-made %s", COMPLETE)
        play(layers, pd_image=COMPLETE, **PREINSTALLED)
        (taken,) = {each for each in names(builder) - before if each.startswith("vllm-ascend-pd/memcache:")}
        ask = "docker run --rm --entrypoint=python3 %s -m pip show memcache_hybrid memfabric_hybrid"
        assert builder.check_output(ask, taken).count("Version: 1.2.0") == 2
    finally:
        builder.run("docker rm --force ready-made pd-build-memfabric pd-build-memcache pd-build-vllm")
        for name in sorted(names(builder) - before):
            builder.run("docker rmi %s", name)
