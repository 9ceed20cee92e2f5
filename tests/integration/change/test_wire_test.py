# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""playbooks/wire_test.yml on deployed hosts: not beside running engines, a verdict without them, nothing left."""

from __future__ import annotations

from typing import Any

import pytest

from .. import lab
from ..snapshot import containers, take

WIRE_TEST = "playbooks/wire_test.yml"


def test_upstreams_read_passes_once_the_engines_are_ended(hosts: dict[str, Any], plan: dict[str, Any]) -> None:
    engines = [(hosts[each["host"]], f"pd-{each['name']}") for each in plan["services"] if each["kind"] == "engine"]
    before = containers(hosts)
    with pytest.raises(AssertionError) as refused:
        lab.ansible_playbook(WIRE_TEST)
    for _host, name in engines:
        assert f"end them first: docker stop {name}" in " ".join(str(refused.value).split())
    assert containers(hosts) == before
    try:
        for host, name in engines:
            host.check_output("docker stop %s", name)
        stopped = take(hosts, "containers", "files")
        told = " ".join(lab.ansible_playbook(WIRE_TEST).split())
        for role in ("prefill", "decode"):
            assert f"passed as {role}: 4194304 bytes were read over MemFabric and are equal" in told
        assert take(hosts, "containers", "files") == stopped
    finally:
        lab.ansible_playbook("site.yml")
