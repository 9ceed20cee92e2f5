# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""The layerwise proxy cannot be told of engines while it runs: when a host leaves, it alone restarts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .. import lab
from ..lab import changed
from ..snapshot import containers, differing
from .test_topology import post, without


def serves(plan: dict[str, Any]) -> bool:
    body = {"model": plan["model"]["name"], "prompt": "who is left?", "max_tokens": 4}
    return bool(post(f"{plan['proxy']['url']}/v1/completions", body)["choices"][0]["text"].strip())


@pytest.mark.disturbs
def test_a_decode_host_leaves_and_comes_back(hosts: dict[str, Any], plan: dict[str, Any], tmp_path: Path) -> None:
    name = [each for each in plan["instances"] if each["role"] == "decode"][-1]["hosts"][0]
    smaller = without(name, plan["hosts"][name]["address"], tmp_path)
    before = containers(hosts)
    lab.ansible_playbook("site.yml", inventory=smaller)
    without_it = containers(hosts)
    assert differing(before, without_it) == {"/pd-proxy"}
    assert serves(plan)
    assert set(changed(lab.ansible_playbook("site.yml", inventory=smaller)).values()) == {0}

    lab.ansible_playbook("site.yml")  # its engine still runs, so that only the proxy has news
    assert differing(without_it, containers(hosts)) == {"/pd-proxy"}
    assert serves(plan)
