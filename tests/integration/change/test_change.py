# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""A change of one value of decode restarts decode, and nothing else."""

from __future__ import annotations

import json
from typing import Any

from .. import lab
from ..snapshot import containers, differing


def test_a_decode_value_restarts_decode_alone(hosts: dict[str, Any], plan: dict[str, Any]) -> None:
    decode = {f"/pd-{service['name']}" for service in plan["services"] if service["role"] == "decode"}
    before = containers(hosts)
    changed = lab.ansible_playbook("site.yml", "--extra-vars", json.dumps({"decode_env": {"HCCL_BUFFSIZE": "401"}}))
    after = containers(hosts)
    assert differing(before, after) == decode
    assert "item=proxy)" in changed  # the run came as far as the proxy, and left it

    lab.ansible_playbook("site.yml")
    restored = containers(hosts)
    assert differing(after, restored) == decode


def test_check_mode_lists_what_it_would_do_where_docker_is_missing(hosts: dict[str, Any], plan: dict[str, Any]) -> None:
    service = next(service for service in plan["services"] if service["role"] == "decode")
    host = hosts[service["host"]]
    host.check_output("systemctl stop docker.socket docker.service")
    try:
        told = lab.ansible_playbook("site.yml", "--check", "--diff")
    finally:
        host.check_output("systemctl start docker.service docker.socket")
    assert f"with one, these containers would be created: pd-{service['name']}" in " ".join(told.split())
    lab.ansible_playbook("site.yml")
