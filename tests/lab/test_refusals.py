# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""What an engine refuses, with which words and before or after which stage."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.lab.harness import Host, Lab, Process, call, free_port
from tests.lab.test_sparse_pd import READY, decode, prefill

LOADED = "Loading weights took"
Change = Callable[[Host], Any]


def remove(*paths: str) -> Change:
    def change(where: Host) -> None:
        for path in paths:
            target = where.root / path
            shutil.rmtree(target) if target.is_dir() else target.unlink()

    return change


def write(path: str, text: str) -> Change:
    return lambda where: where.write(path, text)


def env(**values: str | None) -> Change:
    def change(where: Host) -> None:
        for key, value in values.items():
            where.env.pop(key, None) if value is None else where.env.update({key: value})

    return change


def refused(process: Process, text: str, loaded: bool) -> None:
    assert process.ended() == 1
    assert text in process.text(), process.text()
    assert (LOADED in process.text()) is loaded, process.text()


@pytest.mark.parametrize(
    ("change", "text", "loaded"),
    [
        (env(LD_LIBRARY_PATH=None), "libascendcl.so: cannot open shared object file", False),
        (env(LD_LIBRARY_PATH="/usr/local/Ascend/ascend-toolkit/latest/lib64"), "libatb.so: cannot open", False),
        (env(ASCEND_OPP_PATH=None), "ASCEND_OPP_PATH is not set", False),
        (remove("usr/local/Ascend/driver/version.info"), "libascend_hal.so", False),
        (remove("dev/davinci_manager"), "cannot open /dev/davinci_manager", False),
        (remove("dev/davinci7"), "16 ranks on this node, 15 devices visible", False),
        (env(ASCEND_RT_VISIBLE_DEVICES="0,1,2"), "16 ranks on this node, 3 devices visible", False),
        (env(ASCEND_RT_VISIBLE_DEVICES="16"), "Invalid device ID", False),
        (env(VLLM_USE_V2_MODEL_RUNNER="1"), "doesn't support model_runner_v2", False),
        (env(GLOO_SOCKET_IFNAME="enp99"), "Unable to find interface for: [enp99]", False),
        (env(HCCL_IF_IP="192.0.2.10"), "EJ0003: Failed to bind the IP port", False),
        (env(VLLM_HOST_IP="0.0.0.0"), "must be a numeric IPv4 address reachable by the peer", True),
        (env(MEMFABRIC_HYBRID_EXTEND_LIB_PATH=None), "MEMFABRIC_HYBRID_EXTEND_LIB_PATH is not set", True),
        (remove("etc/ascend_install.info"), "/etc/ascend_install.info failed", True),
        (write("usr/local/Ascend/driver/version.info", "Version=25.3.rc1\n"), "25.3.rc1 does not support GVA", True),
        (write("modules/triton-3.5.0.dist-info/METADATA", "Name: triton\nVersion: 3.5.0\n"), "0 active drivers", False),
        (remove("modules/memfabric_hybrid"), "Please install memfabric_hybrid", True),
        (write("memfabric_hybrid/lib64/libmf_hybm_accoffload.so", ""), "offload launch load library failed", True),
        (remove("clang/include/omp.h"), "'omp.h' file not found", True),
        (write("proc/cpuinfo", "Features\t: fp asimd ssbs\n"), "CPU without bf16, sve", True),
        (write("proc/meminfo", "MemAvailable: 1048576 kB\n"), "offload.initialize failed", True),
        (lambda where: where.settings(hbm_gib=32), "No available memory for the cache blocks", True),
    ],
)  # fmt: skip
def test_sparse_decode_on_a_host_that_lacks_something(
    change: Change,
    text: str,
    loaded: bool,
    lab: Lab,
) -> None:
    where = lab.host(2)
    change(where)
    refused(lab.serve(where, lab.model(), **decode(free_port())), text, loaded)


@pytest.mark.parametrize(
    ("offload", "options", "text", "loaded"),
    [
        ({"topk_buffer_size": 0}, {}, "topk_buffer_size must be positive", False),
        ({"topk_buffer_size": 1024}, {}, "must be >= topk, got topk_buffer_size=1024, topk=2048", False),
        ({"topk_buffer_size": 4000}, {}, "must be divisible by block_size, got 4000 and 128", True),
        ({"dram_size_per_dp_gb": 512, "dram_size_per_dp_GB": 30}, {}, "than user specified dram size (30 GB)", True),
        ({"enabled": False}, {}, "consumer (D) must run with sparse_kv_offload_config.enabled=true", True),
        ({}, {"decode_context_parallel_size": 16}, "don't support context parallel", False),
        ({}, {"prefill_context_parallel_size": 2}, "PCP (Prefill Context Parallelism) is not supported", False),
        ({}, {"pipeline_parallel_size": 2}, "don't support pipeline parallel", False),
        ({}, {"kv_transfer_config": None}, "can only be used in D node", False),
        ({}, {"max_model_len": 200000}, "greater than the derived max_model_len", False),
        ({}, {"max_num_batched_tokens": 3}, "must be greater than or equal to max_num_seqs", False),
        ({}, {"kv_cache_memory_bytes": 900_000_000}, "To serve at least one request", True),
        ({}, {"kv_cache_memory_bytes": 90_000_000_000}, "NPU out of memory", True),
    ],
)
def test_sparse_decode_with_a_wrong_number(
    offload: dict[str, Any], options: dict[str, Any], text: str, loaded: bool, lab: Lab
) -> None:
    engine = lab.serve(lab.host(2), lab.model(), **decode(free_port(), offload, **options))
    refused(engine, text, loaded)


@pytest.mark.parametrize(
    ("transfer", "text", "loaded"),
    [
        ({"kv_role": "consumer"}, "Unsupported kv_role: consumer", False),
        ({"kv_role": "kv_producer"}, "can only be used in D node", False),
        ({"kv_role": "kv_both"}, "producer (P) must run with sparse_kv_offload_config.enabled=false", True),
        ({"kv_rol": "kv_consumer"}, "kv_rol: Unexpected keyword argument", False),
        ({"kv_connector": "SfaConnector"}, "Unsupported connector type: SfaConnector", True),
        ({"kv_connector_extra_config": {}}, 'requires kv_connector_extra_config["transfer_backend"]', True),
        ({"kv_connector_extra_config": {"transfer_backend": "mooncake"}}, "supports MemFabric pull only", True),
        ({"kv_port": 65530}, "highest TP control-plane port must be in [1, 65535], got 65545", True),
    ],
)
def test_sparse_decode_with_a_wrong_connector(
    transfer: dict[str, object], text: str, loaded: bool, lab: Lab
) -> None:  # fmt: skip
    refused(lab.serve(lab.host(2), lab.model(), **decode(free_port(), transfer=transfer)), text, loaded)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"index_topk": None}, "only support sparse attention model"),
        ({"compress_ratios": [1]}, "don't support compress now"),
    ],
)
def test_sparse_decode_with_another_model(
    changes: dict[str, object],
    text: str,
    lab: Lab,
) -> None:
    refused(lab.serve(lab.host(2), lab.model(**changes), **decode(free_port())), text, False)


def test_model_folder(lab: Lab, tmp_path: Path) -> None:
    nowhere = lab.serve(lab.host(2), tmp_path / "Nope", **decode(free_port()))
    refused(nowhere, "Invalid repository ID or local directory specified", False)
    folder = lab.model()
    (folder / "model-00003-of-00003.safetensors").unlink()
    missing = lab.serve(lab.host(3), folder, **decode(free_port()))
    refused(missing, "No such file or directory", False)
    assert "Loading safetensors checkpoint shards:  67% Completed | 2/3" in missing.text()


@pytest.mark.parametrize(
    ("port", "text"), [(20053, "SFAPD D-side read thread failed during startup"), (8500, "offload.initialize failed")]
)
def test_taken_port(port: int, text: str, lab: Lab) -> None:
    where = lab.host(2)
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1" if port == 8500 else where.address, port))
        holder.listen()
        refused(lab.serve(where, lab.model(), **decode(free_port())), text, True)


def test_taken_http_port_and_taken_chips(lab: Lab) -> None:
    where, port = lab.host(2), free_port()
    first = lab.serve(where, lab.model(), **decode(port))
    first.until(READY)
    refused(lab.serve(where, lab.model(), **prefill(port)), "Address already in use", False)
    refused(lab.serve(where, lab.model(), **prefill(free_port())), "Free memory on device npu:0", False)
    assert first.stop() == 0


def test_renumbered_devices(lab: Lab) -> None:
    """A container that shows chips 8 to 15 counts them from 0, and HCCL's ports follow the physical ids."""
    where = lab.host(2)
    remove(*(f"dev/davinci{chip}" for chip in range(8)))(where)
    where.env |= {"ASCEND_RT_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7", "HCCL_IF_BASE_PORT": "50000"}
    options = prefill(free_port(), tensor_parallel_size=8, gpu_memory_utilization=0.99, max_model_len=4096)
    engine = lab.serve(where, lab.model(), **options)
    engine.until("Loading safetensors checkpoint shards")
    with socket.socket() as taken, pytest.raises(OSError, match="in use"):
        taken.bind((where.address, 50008))
    with socket.socket() as free:
        free.bind((where.address, 50007))
    assert engine.ended() == 1, "690 GB do not fit on eight chips"
    assert "No available memory" in engine.text()


def test_bounded_pool_of_newer_trees(lab: Lab) -> None:
    """With the newer rule a small pool caps the cache instead of ending the start."""
    where = lab.host(2)
    lab.release(where, "0.26.0", "0.26.0rc1", "bounded_pool")
    engine = lab.serve(where, lab.model(), **decode(free_port(), {"dram_size_per_dp_GB": 30}))
    engine.until(READY)
    assert "caps the KV cache" in engine.text()


def test_decode_dies_of_a_direct_completion(lab: Lab) -> None:
    port = free_port()
    engine = lab.serve(lab.host(2), lab.model(), **decode(port))
    engine.until(READY)
    url = f"http://127.0.0.1:{port}"
    assert call(f"{url}/health")[0] == 200
    assert json.loads(call(f"{url}/v1/models")[1])["data"][0]["id"] == "deepseek-v3.2"
    assert call(f"{url}/v1/completions", {"model": "nobody", "prompt": "x"})[0] == 404
    assert call(f"{url}/v1/completions", {"prompt": "word " * 140_000, "max_tokens": 1})[0] == 400
    status, _ = call(f"{url}/v1/completions", {"prompt": "straight to decode, which cannot prefill"})
    assert status == 500
    assert engine.ended() == 0
    assert "a PD-disaggregated decode node only accepts decode requests" in engine.text()


def test_unequal_tensor_parallel_sizes_show_at_the_first_request(lab: Lab) -> None:
    port = free_port()
    engine = lab.serve(lab.host(2), lab.model(), **prefill(port))
    engine.until(READY)
    params = {
        "do_remote_decode": True,
        "request_id": "cmpl-1-0",
        "remote_host": "127.0.0.3",
        "remote_port": 1,
        "remote_tp_size": 3,
    }
    body = {"prompt": "x", "max_tokens": 1, "kv_transfer_params": params}
    assert call(f"http://127.0.0.1:{port}/v1/completions", body)[0] == 500
    assert engine.ended() == 0
    assert "got P=16, D=3" in engine.text()


def test_api_key(lab: Lab) -> None:
    port = free_port()
    lab.serve(lab.host(2), lab.model(), **prefill(port, api_key="s3cret")).until(READY)
    url = f"http://127.0.0.1:{port}/v1/models"
    assert call(url)[0] == 401
    assert call(url, headers={"Authorization": "Bearer s3cret"})[0] == 200
