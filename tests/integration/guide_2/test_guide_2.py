# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""What guide 2 says in so many words, looked for on the hosts without asking the plan. Comments name changes."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from .. import lab
from ..lab import environ

CONTAINER = {"p1": "pd-prefill", "p2": "pd-prefill", "d1": "pd-decode-d1"}
ENGINE = {"p1": "prefill-0", "p2": "prefill-1", "d1": "decode-d1-0"}
PREFILL = ("p1", "p2")
MODEL = "/data/models/DeepSeek-V3.1-W8A8"


@pytest.fixture(scope="module")
def address() -> dict[str, str]:
    return {name: own["ansible_host"] for name, own in lab.inventory()["_meta"]["hostvars"].items()}


def config(host: Any, name: str) -> dict[str, Any]:
    folder = CONTAINER[name].removeprefix("pd-")
    found: dict[str, Any] = yaml.safe_load(host.file(f"/etc/vllm-ascend-pd/{folder}/{ENGINE[name]}.yaml").content)
    return found


@pytest.mark.parametrize("name", CONTAINER)
def test_container(hosts: dict[str, Any], name: str) -> None:
    def inspect(what: str) -> str:
        return str(hosts[name].check_output("docker inspect --format %s %s", what, CONTAINER[name]))

    # The host's shared memory in place of --shm-size=1g.
    assert (
        inspect("{{.HostConfig.IpcMode}} {{.HostConfig.NetworkMode}} {{.HostConfig.Privileged}}") == "host host false"
    )
    assert re.search(r":v0\.22\.1rc1-a3-", inspect("{{.Config.Image}}"))  # the guide's, without -a3, is for A2
    devices = inspect("{{range .HostConfig.Devices}}{{.PathInContainer}} {{end}}").split()
    # The guide passes eight of the sixteen that it uses.
    chips = [f"/dev/davinci{chip}" for chip in range(16)]
    assert sorted(devices) == sorted([*chips, "/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc"])
    mounts = inspect("{{range .Mounts}}{{.Destination}} {{end}}").split()
    # The driver as a whole; /etc/hccn.conf is what the guide forgot.
    for path in ("/usr/local/dcmi", "/usr/local/Ascend/driver", "/etc/ascend_install.info", "/etc/hccn.conf", MODEL):
        assert path in mounts


@pytest.mark.parametrize("name", CONTAINER)
def test_environment(hosts: dict[str, Any], address: dict[str, str], name: str) -> None:
    there = environ(hosts[name], CONTAINER[name], "vllm serve")
    wanted = {
        "HCCL_IF_IP": address[name],
        "GLOO_SOCKET_IFNAME": "eth0",
        "TP_SOCKET_IFNAME": "eth0",
        "HCCL_SOCKET_IFNAME": "eth0",
        "HCCL_BUFFSIZE": "768",
        "OMP_PROC_BIND": "false",
        "PYTORCH_NPU_ALLOC_CONF": "expandable_segments:True",
        "OMP_NUM_THREADS": "1",
        "HCCL_OP_EXPANSION_MODE": "AIV",
        "VLLM_USE_V1": "1",
        "TASK_QUEUE_ENABLE": "1",
        "VLLM_ASCEND_ENABLE_FLASHCOMM1": "1" if name in PREFILL else None,
        "VLLM_HOST_IP": address[name],  # not in the guide
    }
    assert {variable: there.get(variable) for variable in wanted} == wanted


def both_sides() -> dict[str, Any]:
    return {
        "model": MODEL,
        "tensor-parallel-size": 16,
        "enable-expert-parallel": True,
        "quantization": "ascend",
        "served-model-name": "deepseek_v3",
        "seed": 1024,
        "max-model-len": 136000,
        "no-enable-prefix-caching": True,
        "block-size": 128,  # not said on decode by the guide
        "trust-remote-code": True,
        "speculative-config": {"num_speculative_tokens": 3, "method": "deepseek_mtp"},
    }


def transfer(role: str, **extra: Any) -> dict[str, Any]:
    sizes = {side: {"dp_size": 1, "tp_size": 16} for side in ("prefill", "decode")}
    return {
        "kv_connector": "MooncakeConnectorV1",
        "kv_role": role,
        # The guide's 30000 and 30200 lie where Mooncake picks ports at random.
        "kv_port": 36000,
        "kv_connector_extra_config": {**extra, **sizes},
    }


@pytest.mark.parametrize(("name", "rank"), [("p1", 0), ("p2", 1)])
def test_prefill(hosts: dict[str, Any], address: dict[str, str], name: str, rank: int) -> None:
    own = {"headless": True} if rank else {"host": "0.0.0.0", "port": 8004}
    assert config(hosts[name], name) == {
        **both_sides(),
        **own,
        "decode-context-parallel-size": 8,
        "prefill-context-parallel-size": 2,
        "cp-kv-cache-interleave-size": 128,
        "enforce-eager": True,
        "no-enable-chunked-prefill": True,
        "max-num-seqs": 1,
        "max-num-batched-tokens": 136000,
        "gpu-memory-utilization": 0.8,
        "nnodes": 2,
        "node-rank": rank,
        "master-addr": address["p1"],
        "master-port": 7001,
        "kv-transfer-config": transfer("kv_producer", use_ascend_direct=True),
    }


def test_decode(hosts: dict[str, Any], address: dict[str, str]) -> None:
    assert config(hosts["d1"], "d1") == {
        **both_sides(),
        "host": "0.0.0.0",
        "port": 8004,
        "api-server-count": 1,
        "data-parallel-size": 1,
        "data-parallel-size-local": 1,
        "data-parallel-start-rank": 0,
        "data-parallel-address": address["d1"],
        "data-parallel-rpc-port": 5980,
        "decode-context-parallel-size": 1,
        "distributed-executor-backend": "mp",
        "max-num-batched-tokens": 128,
        "enable-chunked-prefill": True,
        "max-num-seqs": 4,
        "gpu-memory-utilization": 0.96,
        "additional-config": {"recompute_scheduler_enable": True},
        "compilation-config": {"cudagraph_mode": "FULL_DECODE_ONLY", "cudagraph_capture_sizes": [1, 2, 4]},
        "kv-transfer-config": transfer("kv_consumer"),
    }


def test_proxy(hosts: dict[str, Any], address: dict[str, str]) -> None:
    assert re.search(
        r"examples/disaggregated_prefill_v1/load_balance_proxy_server_example\.py"
        rf" --host {address['p1']} --port 8005 --prefiller-hosts {address['p1']} --prefiller-ports 8004"
        rf" --decoder-hosts {address['d1']} --decoder-ports 8004$",
        hosts["p1"].check_output("docker top pd-proxy -eo pid,args"),
        re.MULTILINE,
    )
