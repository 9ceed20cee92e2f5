# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Guide 1 on loopback: sparse decode, layerwise prefill, and upstream's own layerwise proxy between them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ENGINE, Host, Process, call, free_port

from vllm.api_server import tokenize
from vllm.engine import digest

COMMON = (
    "--tensor-parallel-size", "16", "--max-num-seqs", "4", "--block-size", "128", "--max-model-len", "132096",
    "--gpu-memory-utilization", "0.95", "--quantization", "ascend", "--enable-chunked-prefill",
    "--enable-expert-parallel", "--trust-remote-code", "--served-model-name", "deepseek-v3.2",
    "--speculative-config", '{"method": "mtp", "num_speculative_tokens": 3}', "--safetensors-load-strategy", "prefetch",
)  # fmt: skip


def prefill_arguments(model: Path, port: int, **transfer: object) -> list[str]:
    config = {"kv_connector": "SfaRemoteD2HConnector", "kv_role": "kv_producer",
              "kv_connector_extra_config": {"transfer_backend": "memfabric"}, **transfer}  # fmt: skip
    return [str(model), "--host", "127.0.0.1", "--port", str(port), *COMMON, "--max-num-batched-tokens", "1024",
            "--enforce-eager", "--kv-transfer-config", json.dumps(config), "--additional-config", '{"enable_mlapo": false}']  # fmt: skip


def decode_arguments(model: Path, port: int, offload: dict[str, object] | None = None, **transfer: object) -> list[str]:
    config = {"kv_connector": "SfaRemoteD2HConnector", "kv_role": "kv_consumer", "kv_port": 20050,
              "kv_connector_extra_config": {"transfer_backend": "memfabric", "use_layerwise": True}, **transfer}  # fmt: skip
    sparse = {"enabled": True, "topk_buffer_size": 4096, "dram_size_per_dp_GB": 512, **(offload or {})}
    return [str(model), "--host", "127.0.0.1", "--port", str(port), *COMMON, "--max-num-batched-tokens", "120",
            "--no-enable-prefix-caching", "--kv-transfer-config", json.dumps(config), "--additional-config",
            json.dumps({"enable_mlapo": False, "sparse_kv_offload_config": sparse})]  # fmt: skip


def start_proxy(run: Callable[..., Process], where: Host, upstream: Path, prefill: int, decode: int) -> tuple[Process, str]:
    port = free_port()
    script = upstream / "examples" / "disaggregated_prefill_v1" / "load_balance_proxy_layerwise_server_example.py"
    proxy = run(
        where, "--host", "127.0.0.1", "--port", str(port), "--prefiller-hosts", "127.0.0.1", "--prefiller-ports",
        str(prefill), "--decoder-hosts", "127.0.0.1", "--decoder-ports", str(decode),
        program=[sys.executable, str(script)], env={"PYTHONPATH": str(ENGINE)},
    )  # fmt: skip
    proxy.until("Application startup complete")
    return proxy, f"http://127.0.0.1:{port}"


def test_prompt_travels_from_prefill_to_decode_through_the_real_proxy(
    run: Callable[..., Process], host: Callable[[int], Host], model: Callable[..., Path], upstream: Callable[[str], Path]
) -> None:
    pytest.importorskip("uvicorn")
    first, second, folder = host(2), host(3), model()
    ports = free_port(), free_port()
    prefill = run(first, *prefill_arguments(folder, ports[0]))
    decode = run(second, *decode_arguments(folder, ports[1]))
    prefill.until("Application startup complete")
    decode.until("Application startup complete")
    _, url = start_proxy(run, first, upstream("0.26.0rc1"), *ports)
    prompt = "A prompt that decode never computes by itself. " * 30
    status, body = call(f"{url}/v1/completions", {"model": "deepseek-v3.2", "prompt": prompt, "max_tokens": 8})
    assert status == 200
    answer = json.loads(body)
    assert answer["choices"][0]["text"].split()[0] == digest(tokenize(prompt))
    assert answer["usage"]["completion_tokens"] == 8
    chat = {"model": "deepseek-v3.2", "messages": [{"role": "user", "content": prompt}], "max_tokens": 4, "stream": True}
    status, body = call(f"{url}/v1/chat/completions", chat)
    assert status == 200 and body.rstrip().endswith(b"data: [DONE]") and body.count(b"data: ") == 5
    metrics = call(f"http://127.0.0.1:{ports[1]}/metrics")[1].decode()
    assert 'vllm:request_success_total{engine="0",model_name="deepseek-v3.2",finished_reason="length"} 2.0' in metrics
    assert (prefill.stop(), decode.stop()) == (0, 0)
