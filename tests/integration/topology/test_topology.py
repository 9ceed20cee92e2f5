# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""A decode host leaves a running cluster and comes back: the proxy is told, and nothing else is touched."""

from __future__ import annotations

import json
import re
import shutil
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

from .. import lab
from ..lab import changed
from ..snapshot import containers, differing


def without(name: str, address: str, folder: Path) -> str:
    """A copy of the inventory under test in which a host is in no group but `retired`."""
    copy = Path(shutil.copytree(lab.INVENTORY, folder / "inventory"))
    for path in copy.glob("**/*.yml"):
        groups = yaml.safe_load(re.sub(r"{{ inventory_dir[^}]*}}/\.\./\.\.", str(lab.ROOT), path.read_text()))
        for group in groups.values():
            if isinstance(group, dict):
                group.get("hosts", {}).pop(name, None)
        path.write_text(yaml.safe_dump(groups))
    (copy / "retired.yml").write_text(
        yaml.safe_dump({"retired": {"hosts": {name: {"ansible_host": address}}}}, sort_keys=False)
    )
    return str(copy)


def post(url: str, body: dict[str, Any]) -> Any:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)


def decoders(url: str) -> set[str]:
    """What the running proxy sends to."""
    told = post(f"{url}/instances/add", {"type": "decode", "instances": []})
    return set(told["current_decode_instances"])


def refused(*arguments: str, inventory: str = lab.INVENTORY) -> str:
    """Output of a playbook that fails, in one line: Ansible folds long messages."""
    with pytest.raises(AssertionError) as told:
        lab.ansible_playbook(*arguments, inventory=inventory)
    return " ".join(str(told.value).split())


@pytest.mark.disturbs
def test_a_decode_host_leaves_and_comes_back(hosts: dict[str, Any], plan: dict[str, Any], tmp_path: Path) -> None:
    url, name = plan["proxy"]["url"], [each for each in plan["instances"] if each["role"] == "decode"][-1]["hosts"][0]
    address = plan["hosts"][name]["address"]
    everyone = {f"{each['host']}:{each['port']}" for each in plan["proxy"]["decode"]}
    others = {each for each in everyone if not each.startswith(f"{address}:")}
    own = {f"/pd-{service}" for service in plan["hosts"][name]["services"]}
    assert decoders(url) == everyone

    before, smaller = containers(hosts), without(name, address, tmp_path)
    remove = ("playbooks/remove.yml", "--limit", name)
    assert "still is in a group" in refused(*remove)
    assert "would not know which engines there are. Run site.yml first" in refused(*remove, inventory=smaller)
    assert changed(lab.ansible_playbook("site.yml", inventory=smaller))[plan["proxy"]["host"]] == 2  # file and proxy
    assert decoders(url) == others
    assert containers(hosts) == before, "the proxy was told, so nothing had to be restarted"
    assert set(changed(lab.ansible_playbook("site.yml", inventory=smaller)).values()) == {0}

    # Its services go, and nobody else's.
    lab.ansible_playbook(*remove, inventory=smaller)
    assert containers(hosts) == {each: state for each, state in before.items() if each not in own}
    for service in plan["hosts"][name]["services"]:
        assert not hosts[name].file(f"{plan['settings']['pd_base_dir']}/{service}").exists
    assert changed(lab.ansible_playbook(*remove, inventory=smaller))[name] == 0

    # It comes back as a host that has nothing. Alone it may not: the proxy would not know of it.
    assert "Widen --limit to it" in refused("site.yml", "--limit", name)
    assert containers(hosts) == {each: state for each, state in before.items() if each not in own}
    ahead = changed(lab.ansible_playbook("site.yml", "--check"))
    assert ahead[name] > 0
    assert decoders(url) == others, "check mode tells the proxy nothing"
    lab.ansible_playbook("site.yml")
    after = containers(hosts)
    assert differing(before, after) == own
    assert decoders(url) == everyone
    for turn in range(2 * len(everyone)):  # each of them has its turn
        body = {"model": plan["model"]["name"], "prompt": f"prompt {turn}", "max_tokens": 4}
        assert post(f"{url}/v1/completions", body)["choices"][0]["text"].strip()
    assert set(changed(lab.ansible_playbook("site.yml")).values()) == {0}
