# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Small-packet gather (guide 1, section 4): both sides from the fork, on and off by a restart of decode alone."""

from __future__ import annotations

import json
from typing import Any

from .. import lab
from ..snapshot import containers, differing

FORK = {
    "pd_small_packet_gather": True,
    "vllm_build_vllm_ascend_repo": "https://github.com/zd1204/vllm-ascend.git",
    "vllm_build_vllm_ascend_ref": "group_aggregation_cpu",
}
NONE = "does not have it: its variables do nothing there"


def site(**variables: Any) -> str:
    """Output of site.yml in one line: Ansible folds long messages."""
    return " ".join(lab.ansible_playbook("site.yml", "--extra-vars", json.dumps(variables)).split())


def test_the_fork_is_built_for_both_and_gather_switched_by_decode_alone(
    hosts: dict[str, Any], plan: dict[str, Any]
) -> None:
    engines = {each["role"]: each for each in plan["services"] if each["kind"] == "engine"}
    decode = f"pd-{engines['decode']['name']}"
    on = hosts[engines["decode"]["host"]]
    try:
        assert NONE not in site(**FORK)
        for service in engines.values():
            host, container = hosts[service["host"]], f"pd-{service['name']}"
            version = "from importlib.metadata import version; print(version('vllm-ascend'))"
            # One commit past the release's tag, as the depot's fork is.
            assert ".dev1+g" in host.check_output("docker exec %s python3 -c %s", container, version), service["name"]
            environ = lab.environ(host, container, "vllm serve")
            wanted = {"VLLM_ASCEND_ENABLE_CPU_GATHER_H2D": "1"} if container == decode else {}
            assert {name: value for name, value in environ.items() if "ENABLE_CPU_GATHER" in name} == wanted
        said = on.check_output("docker logs %s 2>&1", decode)
        assert "CPU gather H2D enabled: threads=4, buffer_bytes=8388608" in said

        before = containers(hosts)
        site(**FORK, decode_env={"VLLM_ASCEND_ENABLE_CPU_GATHER_H2D": "0"})
        after = containers(hosts)
        assert differing(before, after) == {f"/{decode}"}
        assert "CPU gather H2D enabled" not in on.check_output("docker logs %s 2>&1", decode)

        told = site(pd_small_packet_gather=True)  # with what upstream released
        assert NONE in told
        assert "PD-SPARSE-022" in told
        assert "CPU gather H2D enabled" not in on.check_output("docker logs %s 2>&1", decode)
    finally:
        lab.ansible_playbook("site.yml")
