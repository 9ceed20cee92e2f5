# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""What guide 1 says in so many words, looked for on the hosts without asking the plan. Comments name changes."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from .. import lab
from ..lab import environ

INVENTORY = lab.inventory()
(PREFILL,), (DECODE,) = (INVENTORY[group]["hosts"] for group in ("prefill", "decode"))
ADDRESS = {name: INVENTORY["_meta"]["hostvars"][name]["ansible_host"] for name in (PREFILL, DECODE)}
ENGINE = {PREFILL: f"prefill-{PREFILL}", DECODE: f"decode-{DECODE}"}
MODEL = "/data/models/DeepSeek-V3.2-W8A8"


def config(host: Any, role: str, name: str) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(
        host.file(f"/etc/vllm-ascend-pd/{role}-{name}/{role}-{name}-0.yaml").content
    )
    return content


@pytest.mark.parametrize("name", [PREFILL, DECODE])
def test_section_3_1_container(hosts: dict[str, Any], name: str) -> None:
    def inspect(what: str) -> str:
        return str(hosts[name].check_output("docker inspect --format %s %s", what, f"pd-{ENGINE[name]}"))

    assert inspect("{{.HostConfig.IpcMode}} {{.HostConfig.NetworkMode}} {{.HostConfig.Privileged}}") == "host host true"
    mounts = inspect("{{range .Mounts}}{{.Destination}} {{end}}").split()
    # Of /usr/local/sbin only npu-smi is mounted, and hccn_tool comes with the driver's folder.
    for path in (
        "/usr/local/Ascend/driver",
        "/usr/local/Ascend/add-ons",
        "/usr/local/sbin/npu-smi",
        "/var/log/npu/conf/slog/slog.conf",
        "/var/log/npu/slog",
        "/var/log/npu/profiling",
        "/var/log/npu/dump",
        MODEL,
        # What the guide forgot.
        "/usr/local/dcmi",
        "/etc/ascend_install.info",
        "/etc/hccn.conf",
    ):
        assert path in mounts
    devices = inspect("{{range .HostConfig.Devices}}{{.PathInContainer}} {{end}}").split()
    chips = [f"/dev/davinci{chip}" for chip in range(16)]
    assert sorted(devices) == sorted([*chips, "/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc"])
    seen = hosts[name].check_output("docker exec %s npu-smi info -l", f"pd-{ENGINE[name]}")
    assert re.search(r"Total Count\s*:\s*8", seen)  # eight cards of two chips


@pytest.mark.parametrize("name", [PREFILL, DECODE])
def test_section_3_3_environment(hosts: dict[str, Any], name: str) -> None:
    there = environ(hosts[name], f"pd-{ENGINE[name]}", "vllm serve")
    wanted = {
        "HCCL_IF_IP": ADDRESS[name],
        "HCCL_IF_BASE_PORT": "50000",
        "GLOO_SOCKET_IFNAME": "eth0",
        "TP_SOCKET_IFNAME": "eth0",
        "HCCL_SOCKET_IFNAME": "eth0",
        "HCCL_BUFFSIZE": "400",
        "HCCL_OP_EXPANSION_MODE": "AIV",
        "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS": "3000",
        "OMP_PROC_BIND": "false",
        "OMP_NUM_THREADS": "1",
        "VLLM_USE_V1": "1",
        "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
        "PYTHONHASHSEED": "0",
        # vLLM and the connectors bind what this says; without it, whatever the route to the internet would be.
        "VLLM_HOST_IP": ADDRESS[name],
        "VLLM_ENGINE_READY_TIMEOUT_S": "3600",
    }
    assert {variable: there.get(variable) for variable in wanted} == wanted
    # MemFabric's own set_env.sh says where its libraries are, whichever version was built.
    assert there["MEMFABRIC_HYBRID_EXTEND_LIB_PATH"].startswith("/usr/local/memfabric_hybrid/latest/")
    # MemCache is prefill's; its settings lie outside the installation, which a rebuild would replace.
    memcache = "/etc/vllm-ascend-pd/mmc-local.conf" if name == PREFILL else None
    assert there.get("MMC_LOCAL_CONFIG_PATH") == memcache


def test_section_3_2_and_3_4_memcache(hosts: dict[str, Any]) -> None:
    folder = "/etc/vllm-ascend-pd"
    local = hosts[PREFILL].file(f"{folder}/{ENGINE[PREFILL]}/mmc-local.conf").content_string
    assert re.search(r"^ock\.mmc\.local_service\.protocol = host_shm$", local, re.MULTILINE)
    assert re.search(r"^ock\.mmc\.local_service\.dram\.size = 10G$", local, re.MULTILINE)
    meta = environ(hosts[PREFILL], "pd-memcache-meta", "MetaService")
    assert meta["MMC_META_CONFIG_PATH"] == f"{folder}/mmc-meta.conf"
    # Both sides of the same two addresses.
    there = hosts[PREFILL].file(f"{folder}/memcache-meta/mmc-meta.conf").content_string
    for key in ("meta_service_url", "config_store_url"):
        urls = [re.findall(rf"^ock\.mmc\.\S*{key} = (\S+)$", text, re.MULTILINE) for text in (local, there)]
        assert urls[0] == urls[1] != []
    assert not hosts[DECODE].file(f"{folder}/memcache-meta").exists


def test_section_3_5_prefill(hosts: dict[str, Any]) -> None:
    there = config(hosts[PREFILL], "prefill", PREFILL)
    assert there == {
        **both_sides(),
        "port": 29180,
        "max-num-batched-tokens": 1024,
        "enable-prefix-caching": True,
        # Layerwise prefill is refused without it.
        "enforce-eager": True,
        "kv-transfer-config": {
            "kv_connector": "MultiConnector",
            "kv_role": "kv_producer",
            "kv_connector_extra_config": {
                "connectors": [
                    {
                        "kv_connector": "SfaRemoteD2HConnector",
                        "kv_role": "kv_producer",
                        "kv_connector_extra_config": {"transfer_backend": "memfabric"},
                    },
                    {
                        "kv_connector": "AscendStoreConnector",
                        "kv_role": "kv_producer",
                        "kv_connector_extra_config": {
                            "backend": "memcache",
                            "use_layerwise": True,
                            "layerwise_num_shared_buffers": 3,
                            "layerwise_independent_layers": [0],
                        },
                    },
                ]
            },
        },
        "additional-config": {"enable_mlapo": False},
    }


def test_section_3_6_decode(hosts: dict[str, Any]) -> None:
    there = config(hosts[DECODE], "decode", DECODE)
    # Computed together, so that vllm-ascend's gate passes; the guide's 512 would be allocated in full.
    sparse = there["additional-config"]["sparse_kv_offload_config"]
    assert 0 < sparse.pop("dram_size_per_dp_GB") < 512
    assert there.pop("kv-cache-memory-bytes") > 0
    assert there == {
        **both_sides(),
        "port": 29181,
        "max-num-batched-tokens": 120,
        # In a file, `enable-prefix-caching: false` would be dropped without a word.
        "no-enable-prefix-caching": True,
        "compilation-config": {"cudagraph_mode": "FULL_DECODE_ONLY"},
        "kv-transfer-config": {
            "kv_connector": "SfaRemoteD2HConnector",
            "kv_role": "kv_consumer",
            "kv_port": 20050,
            "kv_connector_extra_config": {"transfer_backend": "memfabric", "use_layerwise": True},
        },
        "additional-config": {
            "enable_mlapo": False,
            "sparse_kv_offload_config": {"enabled": True, "topk_buffer_size": 4096},
        },
    }


def both_sides() -> dict[str, Any]:
    return {
        "model": MODEL,
        "host": "0.0.0.0",
        "tensor-parallel-size": 16,
        "served-model-name": "deepseek-v3.2",
        "max-num-seqs": 4,
        "block-size": 128,
        "max-model-len": 132096,
        "trust-remote-code": True,
        "gpu-memory-utilization": 0.95,
        "quantization": "ascend",
        "enable-chunked-prefill": True,
        "enable-expert-parallel": True,
        "speculative-config": {"method": "mtp", "num_speculative_tokens": 3},
        "safetensors-load-strategy": "prefetch",
    }


def test_section_3_7_proxy(hosts: dict[str, Any]) -> None:
    processes = hosts[PREFILL].check_output("docker top pd-proxy -eo pid,args")
    assert re.search(
        r"examples/disaggregated_prefill_v1/load_balance_proxy_layerwise_server_example\.py"
        rf" --host {ADDRESS[PREFILL]} --port 21600 --prefiller-hosts {ADDRESS[PREFILL]} --prefiller-ports 29180"
        rf" --decoder-hosts {ADDRESS[DECODE]} --decoder-ports 29181$",
        processes,
        re.MULTILINE,
    )
