# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Guide 1 on loopback: sparse decode, layerwise prefill, and upstream's own layerwise proxy between them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from vllm import bench as cli_bench
from vllm.api_server import tokenize
from vllm.engine import digest

from tests.lab.harness import Host, Lab, Process, call, free_port

PROMPT = "A prompt that decode never computes by itself. " * 30
COMMON: dict[str, Any] = {
    "tensor_parallel_size": 16,
    "max_num_seqs": 4,
    "block_size": 128,
    "max_model_len": 132096,
    "gpu_memory_utilization": 0.95,
    "quantization": "ascend",
    "enable_chunked_prefill": True,
    "enable_expert_parallel": True,
    "trust_remote_code": True,
    "served_model_name": "deepseek-v3.2",
    "speculative_config": {"method": "mtp", "num_speculative_tokens": 3},
    "safetensors_load_strategy": "prefetch",
}
READY = "Application startup complete"


def prefill(port: int, transfer: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
    """Options of guide 1's prefill without the pool."""
    config = {
        "kv_connector": "SfaRemoteD2HConnector",
        "kv_role": "kv_producer",
        "kv_connector_extra_config": {"transfer_backend": "memfabric"},
    }
    own = {"port": port, "max_num_batched_tokens": 1024, "enforce_eager": True}
    return {**COMMON, **own, "kv_transfer_config": {**config, **(transfer or {})}, **options}


def decode(
    port: int, offload: dict[str, Any] | None = None, transfer: dict[str, Any] | None = None, **options: Any
) -> dict[str, Any]:
    """Options of guide 1's decode."""
    config = {
        "kv_connector": "SfaRemoteD2HConnector",
        "kv_role": "kv_consumer",
        "kv_port": 20050,
        "kv_connector_extra_config": {"transfer_backend": "memfabric", "use_layerwise": True},
    }
    sparse = {"enabled": True, "topk_buffer_size": 4096, "dram_size_per_dp_GB": 512, **(offload or {})}
    own = {"port": port, "max_num_batched_tokens": 120, "no_enable_prefix_caching": True}
    return {
        **COMMON,
        **own,
        "kv_transfer_config": {**config, **(transfer or {})},
        "additional_config": {"enable_mlapo": False, "sparse_kv_offload_config": sparse},
        **options,
    }


def start(lab: Lab, hosts: tuple[Host, Host], p: dict[str, Any], d: dict[str, Any]) -> tuple[Process, Process, str]:
    """Prefill, decode and the proxy's URL, all ready."""
    first, second = lab.serve(hosts[0], lab.model(), **p), lab.serve(hosts[1], lab.model(), **d)
    first.until(READY)
    second.until(READY)
    return first, second, lab.proxy(hosts[0], "0.26.0rc1", "layerwise_server_example", [p["port"]], [d["port"]])


def test_prompt_travels_from_prefill_to_decode_through_the_real_proxy(lab: Lab) -> None:
    ports = free_port(), free_port()
    first, second, url = start(lab, (lab.host(2), lab.host(3)), prefill(ports[0]), decode(ports[1]))
    status, body = call(f"{url}/v1/completions", {"model": "deepseek-v3.2", "prompt": PROMPT, "max_tokens": 8})
    assert status == 200
    answer = json.loads(body)
    assert answer["choices"][0]["text"].split()[0] == digest(tokenize(PROMPT))
    assert answer["usage"]["completion_tokens"] == 8
    messages = [{"role": "user", "content": PROMPT}]
    chat = {"model": "deepseek-v3.2", "messages": messages, "max_tokens": 4, "stream": True}
    status, body = call(f"{url}/v1/chat/completions", chat)
    assert status == 200
    assert body.rstrip().endswith(b"data: [DONE]")
    assert body.count(b"data: ") == 5
    prompts = ["one " * 9, "two " * 9]
    several = {"model": "deepseek-v3.2", "prompt": prompts, "max_tokens": 2}
    texts = [choice["text"].split()[0] for choice in json.loads(call(f"{url}/v1/completions", several)[1])["choices"]]
    assert texts == [digest(tokenize(text)) for text in prompts]
    metrics = call(f"http://127.0.0.1:{ports[1]}/metrics")[1].decode()
    labels = 'engine="0",model_name="deepseek-v3.2",finished_reason="length"'
    assert f"vllm:request_success_total{{{labels}}} 4.0" in metrics
    bench(url, "random", "--random-input-len", "2000", "--random-output-len", "4", folder=lab.folder)
    file = lab.folder / "prompts.jsonl"
    file.write_text(json.dumps({"prompt": PROMPT}) + "\n", encoding="utf-8")
    bench(url, "custom", "--dataset-path", str(file), "--custom-output-len", "4", folder=lab.folder)
    assert (first.stop(), second.stop()) == (0, 0)


def bench(url: str, dataset: str, *more: str, folder: Path) -> None:
    """Guide 1's benchmark command, shortened."""
    line = f"--backend openai --base-url {url} --endpoint /v1/completions --model deepseek-v3.2 --trust-remote-code "
    line += f"--dataset-name {dataset} --percentile-metrics ttft,tpot --metric-percentiles 0,50,100 --num-prompts 4 "
    line += "--max-concurrency 2 --ignore-eos --temperature 0 --save-result --result-filename b.json"
    assert cli_bench.main([*line.split(), "--result-dir", str(folder), *more]) == 0
    result = json.loads((folder / "b.json").read_text(encoding="utf-8"))
    assert (result["completed"], result["failed"], result["total_output_tokens"]) == (4, 0, 16)
    assert 0 < result["p0_ttft_ms"] <= result["median_ttft_ms"] <= result["p100_ttft_ms"]


def test_wrong_answers_without_hccn_conf(lab: Lab) -> None:
    hosts = lab.host(2), lab.host(3)
    (hosts[1].root / "etc" / "hccn.conf").unlink()
    *_, url = start(lab, hosts, prefill(free_port()), decode(free_port()))
    body = {"model": "deepseek-v3.2", "prompt": PROMPT, "max_tokens": 2, "temperature": 0}
    answers = [json.loads(call(f"{url}/v1/completions", body)[1])["choices"][0]["text"] for _ in range(2)]
    assert answers[0] != answers[1], "temperature 0 and yet two answers"
    assert digest(tokenize(PROMPT)) not in "".join(answers)


@pytest.mark.parametrize(
    ("p", "d", "text"),
    [
        ({"additional_config": {"enable_sparse_li_c8": True}}, {}, "enable_sparse_li_c8 must be the same on P and D"),
        ({"block_size": 64}, {}, "block size differs: P=64, D=128"),
        ({"tensor_parallel_size": 8, "max_model_len": 1024}, {}, "got P=8, D=16"),
    ],
)
def test_sides_that_do_not_fit_show_at_the_first_request(
    p: dict[str, Any], d: dict[str, Any], text: str, lab: Lab
) -> None:
    hosts = lab.host(2), lab.host(3)
    hosts[0].settings(hbm_gib=128)
    first, second, url = start(lab, hosts, prefill(free_port(), **p), decode(free_port(), **d))
    body = {"model": "deepseek-v3.2", "prompt": PROMPT, "max_tokens": 2}
    with pytest.raises(
        TimeoutError
    ):  # the proxy asks decode again, but does not ask prefill again: no end, as upstream
        call(f"{url}/v1/completions", body, timeout=3)
    assert text in first.text() + second.text()
