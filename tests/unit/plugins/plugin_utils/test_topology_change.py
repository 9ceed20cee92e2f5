# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""What another host in the inventory restarts: a container is made anew when the digest of its folder changes."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.planner import plan
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.service_folder import service_folder

from .clusters import cluster, facts_of, planned, service

RANKS = {"tensor_parallel_size": 8, "data_parallel_size": 2, "data_parallel_mode": "external"}


def deployed(profile: str, prefill: int, decode: int, **variables: Any) -> dict[tuple[str, str], tuple[str, Any]]:
    """(service, host) -> digest of the folder and settings of the container."""
    inventory, groups = cluster(prefill, decode, pd_profile=profile, **variables)
    facts = {name: facts_of(own["pd_address"]) for name, own in inventory.items()}
    return {
        (each["name"], each["host"]): (service_folder(each, "launcher")["digest"], each["container"])
        for each in plan(inventory, groups, facts)["services"]
    }


def restarted(before: dict[tuple[str, str], Any], after: dict[tuple[str, str], Any]) -> set[str]:
    return {name for (name, host), made in before.items() if after.get((name, host)) != made}


@pytest.mark.parametrize(
    ("profile", "variables", "proxy"),
    [
        ("mooncake", {}, set()),
        ("mooncake", {"prefill_parallel": RANKS, "decode_parallel": RANKS}, set()),
        ("context_parallel", {}, set()),
        # upstream's layerwise proxy takes its engines from the command line alone
        ("mooncake_layerwise", {}, {"proxy"}),
        ("sparse_kv_offload", {}, {"proxy"}),
    ],
)
def test_another_decode_host_restarts_the_layerwise_proxy_at_most(
    profile: str, variables: dict[str, Any], proxy: set[str]
) -> None:
    small, large = (deployed(profile, 2, decode, **variables) for decode in (1, 2))
    assert restarted(small, large) == proxy
    assert set(large) - set(small) == {("decode-d2", "d2")}


@pytest.mark.parametrize("ranks", [1, 4])
def test_another_decode_host_of_other_sizes_restarts_nobody(ranks: int) -> None:
    """Neither one with fewer data-parallel ranks than the first nor one with more changes what prefill is told."""
    sizes = {"tensor_parallel_size": 4, "data_parallel_size": 2}
    own = {"d2": {"decode_parallel": {**sizes, "data_parallel_size": ranks}}}
    small, large = (deployed("mooncake", 1, decode, decode_parallel=sizes, hosts=own) for decode in (1, 2))
    assert restarted(small, large) == set()


def test_a_proxy_that_starts_anew_knows_every_engine() -> None:
    made = planned(2, 2, pd_profile="mooncake")
    text = service_folder(service(made, "proxy"), "launcher")["files"]["commands/00-proxy.argv"]["content"]
    for side in ("prefill", "decode"):
        for backend in made["proxy"][side]:
            assert f"\n{backend['host']}\n" in text


def test_another_port_of_the_proxy_restarts_it() -> None:
    assert restarted(deployed("mooncake", 1, 1), deployed("mooncake", 1, 1, proxy_port=8010)) == {"proxy"}


@pytest.mark.parametrize(("hosts", "world_size"), [(2, 256), (16, 256), (17, 272)])
def test_memcache_over_several_prefill_hosts(hosts: int, world_size: int) -> None:
    """MetaService runs on the first; everyone has its two addresses, which others can reach, and the same size."""
    made = planned(hosts, 1, pd_profile="sparse_kv_offload")
    metas = [each for each in made["services"] if each["kind"] == "meta"]
    assert [each["host"] for each in metas] == ["p1"]
    meta = metas[0]["files"]["mmc-meta.conf"]["content"]
    address = made["hosts"]["p1"]["address"]
    assert meta["ock.mmc.meta_service_url"].startswith(f"tcp://{address}:")
    assert meta["ock.mmc.meta_service.config_store_url"].startswith(f"tcp://{address}:")
    for number in range(1, hosts + 1):
        local = service(made, f"prefill-p{number}")["files"]["mmc-local.conf"]["content"]
        assert local["ock.mmc.meta_service_url"] == meta["ock.mmc.meta_service_url"]
        assert local["ock.mmc.local_service.config_store_url"] == meta["ock.mmc.meta_service.config_store_url"]
        assert local["ock.mmc.local_service.world_size"] == world_size
    assert "mmc-local.conf" not in service(made, "decode-d1")["files"]
