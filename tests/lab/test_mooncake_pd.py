# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Guide 2 on loopback: context-parallel prefill over two nodes, plain decode, upstream's non-layerwise proxy."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ENGINE, SPARSE_MODEL, Host, Process, call, free_port

from vllm.api_server import tokenize
from vllm.engine import digest

MLA_MODEL = {key: value for key, value in SPARSE_MODEL.items() if not key.startswith("index")} | {
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
}
SIZES = {"prefill": {"dp_size": 1, "tp_size": 16}, "decode": {"dp_size": 1, "tp_size": 16}}


@pytest.fixture
def older(tmp_path: Path) -> str:
    """The engine's packages as those of vLLM 0.22.1 with vLLM-Ascend 0.22.1rc1."""
    tree = tmp_path / "tree"
    for package, version in (("vllm", "0.22.1"), ("vllm_ascend", "0.22.1rc1")):
        shutil.copytree(ENGINE / package, tree / package, ignore=shutil.ignore_patterns("__pycache__"))
        (tree / package / "VERSION").write_text(version + "\n", encoding="ascii")
    options = ENGINE.parents[1] / "plugins" / "plugin_utils" / "data" / "vllm-serve-0.22.1.json"
    shutil.copy(options, tree / "vllm" / "data")
    return str(tree)


def arguments(model: Path, port: int, role: str, kv_port: int, *more: str, name: str = "MooncakeConnectorV1") -> list[str]:
    transfer = {"kv_connector": name, "kv_role": role, "kv_port": str(kv_port), "kv_connector_extra_config": SIZES}
    return [
        str(model), "--host", "0.0.0.0", "--port", str(port), "--tensor-parallel-size", "16", "--enable-expert-parallel",
        "--quantization", "ascend", "--served-model-name", "deepseek_v3", "--max-model-len", "136000",
        "--no-enable-prefix-caching", "--block-size", "128", "--trust-remote-code", "--kv-transfer-config",
        json.dumps(transfer), *more,
    ]  # fmt: skip


def prefill_arguments(model: Path, port: int, rank: int, master: str, master_port: int, pcp: int = 2) -> list[str]:
    return arguments(
        model, port, "kv_producer", 36000, "--prefill-context-parallel-size", str(pcp), "--decode-context-parallel-size",
        "8", "--cp-kv-cache-interleave-size", "128", "--enforce-eager", "--no-enable-chunked-prefill",
        "--max-num-batched-tokens", "136000", "--max-num-seqs", "1", "--gpu-memory-utilization", "0.8", "--nnodes", "2",
        "--node-rank", str(rank), "--master-addr", master, "--master-port", str(master_port),
        *(["--headless"] if rank else []),
    )  # fmt: skip


def test_prefill_over_two_nodes_and_decode_through_the_real_proxy(
    run: Callable[..., Process],
    host: Callable[[int], Host],
    model: Callable[..., Path],
    upstream: Callable[[str], Path],
    older: str,
) -> None:
    pytest.importorskip("uvicorn")
    hosts = host(2), host(3), host(4)
    folder, master, ports = model("DeepSeek-V3.1", MLA_MODEL), free_port(), (free_port(), free_port())
    tree = [{"PYTHONPATH": f"{older}:{each.root}/modules"} for each in hosts]
    head = run(hosts[0], *prefill_arguments(folder, ports[0], 0, hosts[0].address, master), env=tree[0])
    tail = run(hosts[1], *prefill_arguments(folder, ports[0], 1, hosts[0].address, master), env=tree[1])
    recompute = '{"recompute_scheduler_enable": true}'
    decode = run(
        hosts[2],
        *arguments(folder, ports[1], "kv_consumer", 36200, "--additional-config", recompute, "--max-num-batched-tokens", "128",
                   "--max-num-seqs", "4", "--gpu-memory-utilization", "0.96"),
        env=tree[2],
    )  # fmt: skip
    for process in (head, decode):
        process.until("Application startup complete")
    tail.until("init engine")
    port = free_port()
    script = upstream("0.22.1rc1") / "examples" / "disaggregated_prefill_v1" / "load_balance_proxy_server_example.py"
    proxy = run(
        hosts[0], "--port", str(port), "--host", "127.0.0.1", "--prefiller-hosts", "127.0.0.1", "--prefiller-ports",
        str(ports[0]), "--decoder-hosts", "127.0.0.1", "--decoder-ports", str(ports[1]),
        program=[sys.executable, str(script)], env={"PYTHONPATH": str(ENGINE)},
    )  # fmt: skip
    proxy.until("Application startup complete")
    prompt = "long sequences in two halves " * 50
    status, body = call(f"http://127.0.0.1:{port}/v1/completions", {"model": "deepseek_v3", "prompt": prompt, "max_tokens": 4})
    assert status == 200
    assert json.loads(body)["choices"][0]["text"].split()[0] == digest(tokenize(prompt))
    assert call(f"http://127.0.0.1:{ports[0]}/reset_prefix_cache", {})[0] == 200
    tail.popen.kill()
    assert head.ended() == 1, "a head without its workers must end"
    assert decode.stop() == 0
    status, body = call(f"http://127.0.0.1:{port}/v1/completions", {"model": "deepseek_v3", "prompt": prompt, "max_tokens": 4})
    assert status == 500, "the proxy cannot prefill any more"


def test_layerwise_push_with_unequal_tensor_parallel_sizes(
    run: Callable[..., Process], host: Callable[[int], Host], model: Callable[..., Path], upstream: Callable[[str], Path]
) -> None:
    pytest.importorskip("uvicorn")
    hosts, folder, ports = (host(2), host(3)), model("DeepSeek-V3.1", MLA_MODEL), (free_port(), free_port())
    sizes = {"prefill": {"dp_size": 1, "tp_size": 16}, "decode": {"dp_size": 2, "tp_size": 8}}
    lines = [arguments(folder, ports[0], "kv_producer", 36000, "--enforce-eager", name="MooncakeLayerwiseConnector"),
             arguments(folder, ports[1], "kv_consumer", 36100, "--data-parallel-size", "2", name="MooncakeLayerwiseConnector")]  # fmt: skip
    for line in lines:
        place = line.index("--kv-transfer-config") + 1
        line[place] = json.dumps({**json.loads(line[place]), "kv_connector_extra_config": sizes})
    lines[1][lines[1].index("--tensor-parallel-size") + 1] = "8"
    started = [run(each, *line) for each, line in zip(hosts, lines, strict=True)]
    for process in started:
        process.until("Application startup complete")
    port = free_port()
    script = upstream("0.26.0rc1") / "examples" / "disaggregated_prefill_v1" / "load_balance_proxy_layerwise_server_example.py"
    proxy = run(
        hosts[0], "--host", "127.0.0.1", "--port", str(port), "--prefiller-hosts", "127.0.0.1", "--prefiller-ports",
        str(ports[0]), "--decoder-hosts", "127.0.0.1", "--decoder-ports", str(ports[1]),
        program=[sys.executable, str(script)], env={"PYTHONPATH": str(ENGINE)},
    )  # fmt: skip
    proxy.until("Application startup complete")
    for turn in range(2):  # one request per replica of decode
        prompt = f"request {turn} " * 20
        status, body = call(f"http://127.0.0.1:{port}/v1/completions", {"model": "deepseek_v3", "prompt": prompt, "max_tokens": 3})
        assert status == 200
        assert json.loads(body)["choices"][0]["text"].split()[0] == digest(tokenize(prompt))
