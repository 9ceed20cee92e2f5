# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Guide 2 and guide 1's Mooncake baseline on loopback, with upstream's own proxies."""

from __future__ import annotations

import json
from typing import Any

from vllm.api_server import tokenize
from vllm.engine import digest

from tests.lab.harness import SPARSE_MODEL, Lab, call, free_port
from tests.lab.test_sparse_pd import READY

MLA_MODEL = {key: value for key, value in SPARSE_MODEL.items() if not key.startswith("index")} | {
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
}


def engine(name: str, role: str, kv_port: int, decode: tuple[int, int] = (1, 16), **options: Any) -> dict[str, Any]:
    """Options of one engine; decode is its data and tensor parallel size."""
    sizes = {"prefill": {"dp_size": 1, "tp_size": 16}, "decode": {"dp_size": decode[0], "tp_size": decode[1]}}
    transfer = {"kv_connector": name, "kv_role": role, "kv_port": str(kv_port), "kv_connector_extra_config": sizes}
    common = {
        "tensor_parallel_size": 16,
        "enable_expert_parallel": True,
        "quantization": "ascend",
        "served_model_name": "deepseek_v3",
        "max_model_len": 136000,
        "no_enable_prefix_caching": True,
        "block_size": 128,
    }
    return {**common, "kv_transfer_config": transfer, **options}


def complete(url: str, prompt: str) -> tuple[int, str]:
    """Status and first word of an answer."""
    body = {"model": "deepseek_v3", "prompt": prompt, "max_tokens": 4}
    status, answer = call(f"{url}/v1/completions", body)
    return status, json.loads(answer)["choices"][0]["text"].split()[0] if status == 200 else ""


def test_prefill_over_two_nodes_and_decode_through_the_real_proxy(lab: Lab) -> None:
    hosts, ports, prompt = (lab.host(2), lab.host(3), lab.host(4)), (free_port(), free_port()), "in two halves " * 50
    for where in hosts:
        lab.release(where, "0.22.1", "0.22.1rc1")
    master = {"nnodes": 2, "master_addr": hosts[0].address, "master_port": free_port()}
    wide = engine(
        "MooncakeConnectorV1",
        "kv_producer",
        36000,
        prefill_context_parallel_size=2,
        decode_context_parallel_size=8,
        cp_kv_cache_interleave_size=128,
        enforce_eager=True,
        no_enable_chunked_prefill=True,
        max_num_batched_tokens=136000,
        max_num_seqs=1,
        gpu_memory_utilization=0.8,
        **master,
    )
    head = lab.serve(hosts[0], lab.model(MLA_MODEL), **wide, node_rank=0, port=ports[0])
    tail = lab.serve(hosts[1], lab.model(MLA_MODEL), **wide, node_rank=1, headless=True)
    own = {"additional_config": {"recompute_scheduler_enable": True}, "max_num_batched_tokens": 128, "max_num_seqs": 4}
    narrow = engine("MooncakeConnectorV1", "kv_consumer", 36200, port=ports[1], **own)
    decode = lab.serve(hosts[2], lab.model(MLA_MODEL), **narrow)
    head.until(READY)
    decode.until(READY)
    tail.until("init engine")
    url = lab.proxy(hosts[0], "0.22.1rc1", "server_example", [ports[0]], [ports[1]])
    assert complete(url, prompt) == (200, digest(tokenize(prompt)))
    assert call(f"{url}/reset_prefix_cache", {})[0] == 500, "engines have it in development mode only"
    tail.popen.kill()
    assert head.ended() == 0, "a head without its workers must end"
    assert decode.stop() == 0
    assert complete(url, prompt)[0] == 500, "the proxy cannot prefill any more"


def test_layerwise_push_to_two_replicas_of_half_the_size(lab: Lab) -> None:
    hosts, ports, name = (lab.host(2), lab.host(3)), (free_port(), free_port()), "MooncakeLayerwiseConnector"
    wide = engine(name, "kv_producer", 36000, (2, 8), enforce_eager=True, port=ports[0])
    narrow = engine(name, "kv_consumer", 36100, (2, 8), tensor_parallel_size=8, data_parallel_size=2, port=ports[1])
    for where, options in zip(hosts, (wide, narrow), strict=True):
        lab.serve(where, lab.model(MLA_MODEL), **options)
    for process in lab.started:
        process.until(READY)
    url = lab.proxy(hosts[0], "0.26.0rc1", "layerwise_server_example", [ports[0]], [ports[1]])
    for turn in range(2):  # one request per replica of decode
        prompt = f"request {turn} " * 20
        assert complete(url, prompt) == (200, digest(tokenize(prompt)))


def test_one_engine_per_rank_on_both_sides(lab: Lab) -> None:
    """External data parallelism: two prefill engines on one host, two decode engines on another, all in the proxy."""
    sides: dict[str, list[int]] = {}
    for where, role, kv_port in ((lab.host(2), "kv_producer", 36000), (lab.host(3), "kv_consumer", 36100)):
        sides[role] = [free_port(), free_port()]
        shared = {
            "data_parallel_size": 2,
            "data_parallel_address": where.address,
            "data_parallel_rpc_port": free_port(),
        }
        sizes = {side: {"dp_size": 2, "tp_size": 8} for side in ("prefill", "decode")}
        for rank, port in enumerate(sides[role]):
            where.env["ASCEND_RT_VISIBLE_DEVICES"] = ",".join(map(str, range(rank * 8, rank * 8 + 8)))
            options = engine("MooncakeConnectorV1", role, kv_port, tensor_parallel_size=8, **shared)
            options["kv_transfer_config"]["kv_connector_extra_config"] = sizes
            lab.serve(where, lab.model(MLA_MODEL), **options, data_parallel_rank=rank, port=port, max_num_seqs=4)
    for process in lab.started:
        process.until(READY)
    url = lab.proxy(lab.host(2), "0.22.1rc1", "server_example", *sides.values())
    for turn in range(4):
        assert complete(url, f"turn {turn}") == (200, digest(tokenize(f"turn {turn}")))
    gone = {"type": "decode", "instances": [f"127.0.0.1:{sides['kv_consumer'][1]}"]}
    assert call(f"{url}/instances/remove", gone)[0] == 200
    assert complete(url, "still there")[0] == 200
    added = json.loads(call(f"{url}/instances/add", gone)[1])
    assert added["current_decode_instances"] or added["message"]


def test_releases_differ(lab: Lab) -> None:
    """0.22.1rc1 knows no sparse offload; 0.26.0rc1 takes no prefill context parallelism."""
    where = lab.host(2)
    lab.release(where, "0.22.1", "0.22.1rc1")
    unknown = lab.serve(where, lab.model(), **engine("SfaRemoteD2HConnector", "kv_producer", 36000, port=free_port()))
    assert unknown.ended() == 1
    assert "Unsupported connector type: SfaRemoteD2HConnector" in unknown.text()
    options = engine("MooncakeConnectorV1", "kv_producer", 36000, port=free_port(), prefill_context_parallel_size=2)
    refused = lab.serve(lab.host(3), lab.model(MLA_MODEL), **options)
    assert refused.ended() == 1
    assert "PCP (Prefill Context Parallelism) is not supported by vLLM Ascend" in refused.text()
