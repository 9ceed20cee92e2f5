# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""One MemCache over several prefill hosts: MetaService once, every client with its address, room for all ranks."""

from __future__ import annotations

import re
from typing import Any

from .. import lab

INVENTORY = lab.inventory()
FIRST, *FURTHER = INVENTORY["prefill"]["hosts"]
ADDRESS = {name: variables["ansible_host"] for name, variables in INVENTORY["_meta"]["hostvars"].items()}
CHIPS = 16
FOLDER = "/etc/vllm-ascend-pd"


def settings(host: Any, path: str) -> dict[str, str]:
    lines = host.file(f"{FOLDER}/{path}").content_string.splitlines()
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {key.strip(): value.strip() for key, _, value in pairs}


def test_there_are_several_prefill_hosts() -> None:
    assert FURTHER


def test_meta_runs_on_the_first_alone(hosts: dict[str, Any]) -> None:
    running = {name: host.check_output("docker ps --format '{{.Names}}'").split() for name, host in hosts.items()}
    assert [name for name in hosts if "pd-memcache-meta" in running[name]] == [FIRST]


def test_every_client_has_the_addresses_on_which_meta_listens(hosts: dict[str, Any]) -> None:
    meta = settings(hosts[FIRST], "memcache-meta/mmc-meta.conf")
    urls = (meta["ock.mmc.meta_service_url"], meta["ock.mmc.meta_service.config_store_url"])
    assert all(url.startswith(f"tcp://{ADDRESS[FIRST]}:") for url in urls)
    listening = hosts[FIRST].check_output("ss --no-header --listening --tcp --numeric")
    assert all(re.search(rf"\s{re.escape(url.removeprefix('tcp://'))}\s", listening) for url in urls)
    for name in (FIRST, *FURTHER):
        local = settings(hosts[name], f"prefill-{name}/mmc-local.conf")
        assert (local["ock.mmc.meta_service_url"], local["ock.mmc.local_service.config_store_url"]) == urls


def test_the_world_has_room_for_the_ranks_of_all_hosts(hosts: dict[str, Any]) -> None:
    """The simulated engine refuses a world_size below its own ranks; all hosts' ranks share one world."""
    for name in (FIRST, *FURTHER):
        local = settings(hosts[name], f"prefill-{name}/mmc-local.conf")
        assert int(local["ock.mmc.local_service.world_size"]) >= CHIPS * (1 + len(FURTHER))
