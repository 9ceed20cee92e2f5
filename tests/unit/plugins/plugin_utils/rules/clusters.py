# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Clusters for the tests of rules: plans that the planner made, and facts of hosts on which nothing is wrong."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils import _hccn, _host, _model, _nics, _npu
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.planner import plan
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.variables import TRANSFER_DIR

GIB = 1 << 30
MODELS = Path(__file__).parents[3] / "data" / "models"
ADDRESSES = {"p1": "192.0.2.10", "p2": "192.0.2.11", "d1": "192.0.2.20", "d2": "192.0.2.21"}

Plan = dict[str, Any]
Facts = dict[str, dict[str, Any]]


def chip(number: int) -> dict[str, Any]:
    """An idle, healthy chip of an A3."""
    return {
        "npu": number // 2,
        "chip": number % 2,
        "phy_id": number,
        "logic_id": number,
        "name": "Ascend910",
        "health": "OK",
        "bus_id": None,
        "hbm_used_mib": 3100,
        "hbm_total_mib": 65536,
        "processes": [],
    }


def interface(address: str) -> dict[str, Any]:
    return {
        "name": "enp1s0f0",
        "index": 2,
        "kind": "physical",
        "state": "up",
        "admin_up": True,
        "carrier": True,
        "speed_mbps": 100000,
        "mtu": 1500,
        "addresses": [{"address": address, "prefix": 24, "family": "ipv4"}],
    }


def hccn_chip(host: str, number: int) -> dict[str, Any]:
    last = 16 * sorted(ADDRESSES).index(host) + number + 1
    return {
        "phy_id": number,
        "link": "UP",
        "net_health": "Success",
        "ip": f"198.51.100.{last}",
        "vnic": f"203.0.113.{last}",
        "tls": False,
    }


def model_facts(name: str) -> dict[str, Any]:
    """A complete model folder."""
    config = json.loads((MODELS / f"{name}.json").read_text())
    return {
        **_model.empty(),
        "exists": True,
        "config": _model.merged_config(config),
        "architectures": config["architectures"],
        "torch_dtype": "bfloat16",
        "quantization": {"files": ["quant_model_description.json"], "method": None, "settings": {}, "tensors": {}},
        "tokenizer": ["tokenizer.json", "tokenizer_config.json"],
        "shards": {
            "count": 163,
            "missing": [],
            "bytes": 690 * 10**9,
            "declared_bytes": 690 * 10**9,
            "lfs_pointers": [],
        },
        "total_bytes": 690 * 10**9,
        "digest": "0f" * 32,
    }


def host_facts(host: str, hosts: list[str], model_path: str) -> dict[str, Any]:
    """A healthy A3 server with 1.5 TiB, idle."""
    npu, nic, hccn, own = _npu.empty(), _nics.empty(), _hccn.empty(), _host.empty()
    npu.update(
        chips=[chip(number) for number in range(16)],
        device_nodes=list(range(16)),
        generation="A3",
        driver_version="25.5.1",
        firmware_version="7.7.0",
        install_path="/usr/local/Ascend",
        ascend_install_info="/etc/ascend_install.info",
        npu_smi_path="/usr/local/sbin/npu-smi",
        superpod_id=3,
    )
    nic.update(
        interfaces=[interface(ADDRESSES[host])],
        serving={"name": "enp1s0f0", "address": ADDRESSES[host], "reason": "default route"},
        peers={
            ADDRESSES[other]: {
                "interface": "enp1s0f0",
                "source": ADDRESSES[host],
                "gateway": None,
                "local": False,
                "tcp": {"29180": "refused"},
                "path_mtu": 1500,
                "path_mtu_measured": True,
                "reason": None,
            }
            for other in hosts
            if other != host
        },
    )
    hccn.update(
        tool_path="/usr/local/Ascend/driver/tools/hccn_tool",
        chips=[hccn_chip(host, number) for number in range(16)],
        pings=[
            {"phy_id": 0, "method": method, "address": hccn_chip(other, 0)[field], "ok": True, "reason": None}
            for other in hosts
            if other != host
            for method, field in (("hccs", "vnic"), ("roce", "ip"))
        ],
        hccn_conf={"exists": True, "size_bytes": 1432, "lines": []},
    )
    own.update(
        hostname=host,
        arch="aarch64",
        python="3.11.6",
        python_requests=True,
        shm={"total_bytes": 768 * GIB, "free_bytes": 768 * GIB},
        contiguous={"free_bytes": 1200 * GIB, "nodes": [], "reason": None},
        ulimits={"nofile": {"soft": 1024, "hard": 524288}},
        ephemeral_ports=[32768, 60999],
        listeners=[
            {"address": "0.0.0.0", "port": 22, "protocol": "tcp", "pid": 1, "process": "sshd", "container": None}
        ],
        clock={"epoch_s": 0.0, "offset_s": 0.4},
        disks={
            folder: {"total_bytes": 900 * GIB, "free_bytes": 500 * GIB, "at": "/", "reason": None}
            for folder in ("/var/lib/docker", TRANSFER_DIR)
        },
        hosts_file={
            "own_name": host,
            "own_addresses": [ADDRESSES[host]],
            "own_name_on_loopback": False,
            "localhost_addresses": ["127.0.0.1"],
        },
    )
    own["memory"].update(total_bytes=1536 * GIB, available_bytes=1400 * GIB, free_bytes=1300 * GIB)
    own["memory"]["hugepages"] = {"size_bytes": 2 << 20, "total": 0, "free": 0}
    own["cpu"].update(count=192, features=["sve", "bf16"], sve=True, bf16=True)
    own["engine"].update(name="docker", version="26.1.3", api_version="1.45", root_dir="/var/lib/docker")
    name = model_path.rsplit("/", 1)[-1]
    return {"schema": 1, "npu": npu, "nic": nic, "hccn": hccn, "host": own, "model": {model_path: model_facts(name)}}


def take_chips_away(facts: Facts) -> None:
    """What probes see on hosts without NPUs."""
    for seen in facts.values():
        seen.update(npu=_npu.empty(), hccn=_hccn.empty())


@cache
def _made(kind: str) -> str:
    groups, variables = CLUSTERS[kind]
    hosts = list(dict.fromkeys(host for members in groups.values() for host in members))
    facts = {host: host_facts(host, hosts, variables["pd_model_path"]) for host in hosts}
    per_host = variables.get("per_host", {})
    shared = {key: value for key, value in variables.items() if key != "per_host"}
    inventory = {host: {**shared, **per_host.get(host, {})} for host in hosts}
    return json.dumps([plan(inventory, groups, facts), facts])


def cluster(kind: str) -> tuple[Plan, Facts]:
    """A fresh copy of a cluster's plan and facts."""
    made, facts = json.loads(_made(kind))
    return made, facts


ONE_PAIR = {"prefill": ["p1"], "decode": ["d1"], "proxy": ["p1"]}
V32 = {"pd_model_path": "/data/models/DeepSeek-V3.2-W8A8", "memcache_dram_size": "10G"}
V31 = {"pd_model_path": "/data/models/DeepSeek-V3.1-W8A8"}
COMMON = {"max-model-len": 65536, "max-num-seqs": 4, "block-size": 128, "quantization": "ascend"}
MOONCAKE = {**V31, "pd_env": {"PYTHONHASHSEED": "0"}, "pd_vllm_args": COMMON}
HALVES = [{"name": "a", "devices": list(range(8))}, {"name": "b", "devices": list(range(8, 16))}]

#: kind -> (groups, variables)
CLUSTERS: dict[str, tuple[dict[str, list[str]], dict[str, Any]]] = {
    "sparse": (ONE_PAIR, {**V32, "pd_profile": "sparse_kv_offload"}),
    "sparse_2p": ({**ONE_PAIR, "prefill": ["p1", "p2"]}, {**V32, "pd_profile": "sparse_kv_offload"}),
    "context_parallel": (
        {**ONE_PAIR, "prefill": ["p1", "p2"]},
        {**V31, "pd_profile": "context_parallel", "per_host": {h: {"pd_instance": "p"} for h in ("p1", "p2")}},
    ),
    "mooncake": (ONE_PAIR, {**MOONCAKE, "pd_profile": "mooncake"}),
    "layerwise": (ONE_PAIR, {**MOONCAKE, "pd_profile": "mooncake_layerwise"}),
    "halves": (
        ONE_PAIR,
        {**MOONCAKE, "pd_profile": "mooncake", "prefill_instances": HALVES, "decode_instances": HALVES},
    ),
    "data_parallel": (
        {**ONE_PAIR, "decode": ["d1", "d2"]},
        {
            **MOONCAKE,
            "pd_profile": "mooncake",
            "decode_parallel": {"data_parallel_size": 4, "tensor_parallel_size": 8},
            "per_host": {h: {"pd_instance": "d"} for h in ("d1", "d2")},
        },
    ),
}
