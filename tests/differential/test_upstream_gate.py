# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Upstream judges: its own code, loaded from its source distribution, must agree with ours on thousands of cases.

The source distribution is fetched through the package index that pip is set to use, or found in the folder that
PD_UPSTREAM_SDISTS names; without either the tests are skipped. Only the pieces asked are compiled, with stand-ins for
torch and vllm; nothing of them is kept.
"""

from __future__ import annotations

import ast
import math
import os
import random
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils import _sizing
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils import rules
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.rules.arguments import QUANTIZATIONS
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.rules.env import names_read
from ansible_collections.vllm_ascend.pd_serving.tests.unit.plugins.plugin_utils.rules.clusters import cluster

VERSION = "0.26.0rc1"
CASES = 3000
SKO = "vllm_ascend/distributed/kv_transfer/sparse_kv_offload/sparse_kv_offload_manager.py"
LAYOUT = "vllm_ascend/distributed/kv_transfer/kv_pool/ascend_store/layerwise_cache_layout.py"


def fetch(folder: Path) -> Path:
    """The source archive, from PD_UPSTREAM_SDISTS or the package index."""
    given = os.environ.get("PD_UPSTREAM_SDISTS")
    if given:
        found = sorted(Path(given).glob(f"vllm_ascend-{VERSION}.tar.gz"))
        if found:
            return found[0]
    unearth = shutil.which("unearth", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if unearth is None:
        pytest.skip("unearth is not installed, and PD_UPSTREAM_SDISTS names no copy")
    # argv list, no shell: the version is a constant of this file
    command = [unearth, f"vllm-ascend=={VERSION}", "--no-binary", "--download", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    archives = sorted(folder.glob("*.tar.gz"))
    if done.returncode or not archives:
        pytest.skip(f"vllm-ascend=={VERSION} could not be fetched: {done.stderr.strip()[-200:]}")
    return archives[0]


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fetch(tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="session")
def paths(archive: Path) -> list[str]:
    """All Python files of upstream."""
    with tarfile.open(archive) as tar:
        return [name.partition("/")[2] for name in tar.getnames() if name.endswith(".py")]


@pytest.fixture(scope="session")
def upstream(archive: Path) -> Callable[[str], ast.Module]:
    """Parsed source files of upstream by path."""

    def parse(path: str) -> ast.Module:
        with tarfile.open(archive) as tar:
            member = tar.extractfile(f"vllm_ascend-{VERSION}/{path}")
            assert member is not None, path
            return ast.parse(member.read())

    return parse


def load(tree: ast.Module, *names: str, **stand_ins: Any) -> dict[str, Any]:
    """Compile top-level functions, classes, assignments or ``Class.method`` of a file, with stand-ins around."""
    wanted: list[ast.stmt] = []
    for name in names:
        owner, _, method = name.partition(".")
        for node in tree.body:
            targets = [t.id for t in getattr(node, "targets", []) if isinstance(t, ast.Name)]
            if getattr(node, "name", None) != owner and owner not in targets:
                continue
            if method:
                assert isinstance(node, ast.ClassDef)
                wanted += [n for n in node.body if getattr(n, "name", None) == method]
            else:
                wanted.append(node)
    assert len(wanted) == len(names), f"upstream moved one of {names}"
    future = ast.parse("from __future__ import annotations").body
    module = ast.fix_missing_locations(ast.Module(body=future + wanted, type_ignores=[]))
    namespace: dict[str, Any] = {
        "logger": SimpleNamespace(**dict.fromkeys(LOG_METHODS, lambda *a, **k: None)),
        **stand_ins,
    }
    exec(compile(module, "upstream", "exec"), namespace)
    return namespace


LOG_METHODS = ("warning_once", "info_once", "info", "debug", "warning")

#: Words of upstream's refusals, in its order, and the rule that tells the same before the launch.
REFUSALS = {
    "don't support compress": "PD-SPARSE-005",
    "only support sparse attention model": "PD-SPARSE-005",
    "don't support context parallel": "PD-SPARSE-006",
    "don't support pipeline parallel": "PD-SPARSE-006",
    "only supported in PD disaggregate": "PD-SPARSE-007",
    "doesn't support model_runner_v2": "PD-SPARSE-008",
    "must be positive": "PD-SPARSE-001",
    "must be >= topk": "PD-SPARSE-001",
}


def test_rules_refuse_what_upstream_refuses(upstream: Callable[[str], ast.Module]) -> None:
    """The plan of a random configuration is refused by the rules if, and only if, upstream refuses it at start, and the
    rule for upstream's first reason is among those that speak.
    """
    namespace = load(upstream("vllm_ascend/ascend_config.py"), "SparseKVOffloadConfig")
    ours = {name: rules.RULES[name] for name in set(REFUSALS.values())}
    draw = random.Random(1)
    seen: dict[str | None, int] = {}
    for _ in range(CASES):
        index_topk = draw.choice([2048, 2048, 1024, 2048, None])
        compress = draw.random() < 0.1
        pcp, dcp, pp = draw.choice([1, 1, 1, 2]), draw.choice([1, 1, 1, 8]), draw.choice([1, 1, 1, 2])
        consumer, transfer, v2 = draw.random() < 0.8, draw.random() < 0.9, draw.random() < 0.15
        keep, enabled = draw.random() < 0.2, draw.random() < 0.95
        topk_buffer = draw.choice([-1, 0, 1, 1024, 2047, 2048, 2049, 4096, draw.randint(-10, 9000)])
        user = {"enabled": enabled, "topk_buffer_size": topk_buffer, "keep_device_kv_cache": keep}

        text = SimpleNamespace(**({} if index_topk is None else {"index_topk": index_topk}))
        if compress:
            text.compress_ratios = [4]
        config = SimpleNamespace(
            model_config=SimpleNamespace(hf_text_config=text),
            parallel_config=SimpleNamespace(
                prefill_context_parallel_size=pcp, decode_context_parallel_size=dcp, pipeline_parallel_size=pp
            ),
            kv_transfer_config=SimpleNamespace(is_kv_consumer=consumer) if transfer else None,
            use_v2_model_runner=v2,
        )
        theirs = None
        try:
            namespace["SparseKVOffloadConfig"](config, user)
        except (ValueError, AssertionError) as error:
            theirs = next(words for words in REFUSALS if words in str(error))

        plan, facts = cluster("sparse")
        decode = next(engine for engine in plan["engines"] if engine["role"] == "decode")
        model = next(iter(facts["d1"]["model"].values()))["config"]
        model.update(index_topk=index_topk, **({"compress_ratios": [4]} if compress else {}))
        instance = next(one for one in plan["instances"] if one["name"] == decode["instance"])
        instance["parallel"].update(
            prefill_context_parallel_size=pcp, decode_context_parallel_size=dcp, pipeline_parallel_size=pp
        )
        decode["role"] = "engine"  # at prefill and decode PD-CONN-004 tells a wrong kv_role, offload or not
        # a connector that asks nothing of its own: it is upstream's check of the configuration that is compared
        role = "kv_consumer" if consumer else "kv_producer"
        decode["vllm_args"]["kv-transfer-config"] = {"kv_connector": "Other", "kv_role": role} if transfer else None
        decode["vllm_args"]["additional-config"] = {"sparse_kv_offload_config": user}
        decode["env"]["VLLM_USE_V2_MODEL_RUNNER"] = str(int(v2))
        told = {one.rule for one in rules.judge(plan, facts, ours).findings if one.stops and one.host == "d1"}
        case = (user, index_topk, compress, pcp, dcp, pp, consumer, transfer, v2)
        assert bool(told) is (theirs is not None), (case, theirs, told)
        assert theirs is None or REFUSALS[theirs] in told, (case, theirs, told)
        seen[theirs] = seen.get(theirs, 0) + 1
    assert set(seen) == {None, *REFUSALS}, f"the draw missed a branch: {seen}"


@dataclass
class Spec:
    """As much of a KV cache spec as the gate looks at."""

    page_size_bytes: int
    store_on_host: bool = False


def random_input(draw: random.Random) -> _sizing.SizingInput:
    layers = draw.randint(1, 80)
    types = tuple(draw.choice(["full", "full", "shared"]) for _ in range(layers)) if draw.random() < 0.4 else None
    return _sizing.SizingInput(
        num_hidden_layers=layers,
        mtp_layers=1,
        kv_lora_rank=draw.choice([256, 512]),
        qk_rope_head_dim=64,
        index_head_dim=draw.choice([64, 128]),
        index_topk=2048,
        indexer_types=types,
        li_c8=draw.random() < 0.3,
        block_size=draw.choice([64, 128]),
        max_model_len=draw.randint(1, 1 << 20),
        max_num_seqs=draw.randint(1, 64),
        max_num_batched_tokens=draw.randint(1, 4096),
        num_speculative_tokens=draw.randint(0, 4),
        topk_buffer_size=draw.choice([2048, 4096, 8192]),
        sparse_kv_offload=True,
        keep_device_kv_cache=draw.random() < 0.1,
    )


def specs_of(inp: _sizing.SizingInput, page: dict[str, Any]) -> dict[str, Spec]:
    """The specs that upstream's runner would build, with pages by upstream's own formula."""
    torch_sizes = {"bf16": 2, "int8": 1, "fp16": 2}

    def indexer() -> int:
        scale, dtype = (1, "int8") if inp.li_c8 else (0, "bf16")
        spec = SimpleNamespace(
            block_size=inp.block_size,
            num_kv_heads=1,
            head_size=inp.index_head_dim,
            dtype=torch_sizes[dtype],
            scale_dim=scale,
            scale_dtype=2,
            sfa_dcp_replicated_indexer_size=1,
        )
        return page["indexer"](spec)

    main = SimpleNamespace(
        block_size=inp.block_size,
        num_kv_heads=1,
        head_size=inp.kv_lora_rank + inp.qk_rope_head_dim,
        dtype=2,
        scale_dim=0,
        scale_dtype=1,
    )
    specs = {f"layer{n}": Spec(page["main"](main), store_on_host=True) for n in range(inp.kv_layers)}
    for n in range(inp.kv_layers):
        kind = (inp.indexer_types or ())[n : n + 1]
        if kind != ("shared",):
            specs[f"layer{n}.indexer"] = Spec(indexer())
    return specs


def test_start_up_gate_agrees(upstream: Callable[[str], ast.Module]) -> None:
    """Pages, ratio and verdict: upstream's arithmetic against ours, at random and on both sides of each boundary."""
    interface = upstream("vllm_ascend/core/kv_cache_interface.py")
    page = {
        name: load(interface, f"{cls}.real_page_size_bytes", property=lambda f: f, get_dtype_size=lambda size: size)[
            "real_page_size_bytes"
        ]
        for name, cls in (("main", "AscendMLAAttentionSpec"), ("indexer", "AscendSFAIndexerCacheSpec"))
    }
    ratio = load(upstream(SKO), "get_host_device_memory_usage_ratio", KVCacheSpec=Spec)[
        "get_host_device_memory_usage_ratio"
    ]
    config = SimpleNamespace(sparse_kv_offload_config=None)
    gate = load(
        upstream("vllm_ascend/worker/worker.py"),
        "NPUWorker.update_available_memory_for_sparse_kv_offload",
        get_ascend_config=lambda: config,
        get_host_device_memory_usage_ratio=ratio,
        GiB_bytes=1 << 30,
    )["update_available_memory_for_sparse_kv_offload"]
    draw = random.Random(2)
    passed = 0
    for _ in range(CASES):
        inp = random_input(draw)
        if inp.indexer_layers < 1:
            continue
        specs = specs_of(inp, page)
        assert sum(s.page_size_bytes for s in specs.values() if s.store_on_host) == _sizing.host_page_bytes(inp)
        if not inp.keep_device_kv_cache:
            assert ratio(specs) == _sizing.size(inp).host_device_ratio
        available = draw.choice([draw.randint(1, 40 << 30), _sizing.pinned_kv_cache_bytes(inp)])
        exact = _sizing.size(replace(inp, available_kv_bytes=available)).bounds.gate_exact_gib
        assert exact is not None
        for dram in {exact, max(1, exact - 1), draw.randint(1, 1024)} - {0}:
            ours = _sizing.size(replace(inp, available_kv_bytes=available, dram_size_per_dp_gib=dram))
            config.sparse_kv_offload_config = SimpleNamespace(
                enabled=True, keep_device_kv_cache=inp.keep_device_kv_cache, dram_size_per_dp_GB=dram
            )
            worker = SimpleNamespace(kv_cache_spec=specs)
            try:
                total = gate(worker, available)
            except ValueError:
                assert ours.gate_passes is False, (inp, available, dram)
                continue
            assert ours.gate_passes is True, (inp, available, dram)
            passed += 1
            if ours.tokens_fit is not None:  # vLLM makes whole blocks of what upstream reports
                blocks = total // sum(s.page_size_bytes for s in specs.values())
                assert ours.tokens_fit == max(0, blocks - 1) * inp.block_size
    assert passed > CASES


def test_recommendation_survives_upstream(upstream: Callable[[str], ast.Module]) -> None:
    """The recommended pair passes upstream's gate and upstream then makes every block that the workload needs."""
    ratio = load(upstream(SKO), "get_host_device_memory_usage_ratio", KVCacheSpec=Spec)
    config = SimpleNamespace(sparse_kv_offload_config=None)
    gate = load(
        upstream("vllm_ascend/worker/worker.py"),
        "NPUWorker.update_available_memory_for_sparse_kv_offload",
        get_ascend_config=lambda: config,
        get_host_device_memory_usage_ratio=ratio["get_host_device_memory_usage_ratio"],
        GiB_bytes=1 << 30,
    )["update_available_memory_for_sparse_kv_offload"]
    draw = random.Random(3)
    for _ in range(CASES):
        inp = replace(random_input(draw), keep_device_kv_cache=False)
        if inp.indexer_layers < 1:
            continue
        wanted = _sizing.size(inp)
        config.sparse_kv_offload_config = SimpleNamespace(
            enabled=True, keep_device_kv_cache=False, dram_size_per_dp_GB=wanted.recommended.dram_size_per_dp_GB
        )
        host, device = _sizing.host_page_bytes(inp), _sizing.device_page_bytes(inp)
        worker = SimpleNamespace(kv_cache_spec={"main": Spec(host, store_on_host=True), "indexer": Spec(device)})
        total = gate(worker, wanted.recommended.kv_cache_memory_bytes)
        assert total // (host + device) >= wanted.blocks


def test_hot_buffer_agrees(upstream: Callable[[str], ast.Module]) -> None:
    """Bytes that upstream would ask the allocator for, for all layers."""
    asked: list[int] = []

    class Tensor:
        def __getitem__(self, _: Any) -> Tensor:
            return self

        def view(self, _: Any) -> Tensor:
            return self

    def empty(shape: list[int], **_: Any) -> Tensor:
        asked.append(math.prod(shape))
        return Tensor()

    torch = SimpleNamespace(bfloat16=SimpleNamespace(itemsize=2), int8=None, empty=empty)
    allocate = load(upstream(SKO), "allocate_kv_offload_topk_buffer_pair", torch=torch)[
        "allocate_kv_offload_topk_buffer_pair"
    ]
    draw = random.Random(4)
    for _ in range(CASES):
        inp = random_input(draw)
        text = SimpleNamespace(kv_lora_rank=inp.kv_lora_rank, qk_rope_head_dim=inp.qk_rope_head_dim)
        config = SimpleNamespace(
            speculative_config=SimpleNamespace(num_speculative_tokens=inp.num_speculative_tokens)
            if inp.num_speculative_tokens
            else None,
            model_config=SimpleNamespace(hf_text_config=text),
            scheduler_config=SimpleNamespace(
                max_num_batched_tokens=inp.max_num_batched_tokens, max_num_seqs=inp.max_num_seqs
            ),
        )
        asked.clear()
        allocate(config, SimpleNamespace(topk_buffer_size=inp.topk_buffer_size))
        assert asked[0] * inp.kv_layers == _sizing.hot_buffer_bytes(inp)


def test_layerwise_reuse_agrees(upstream: Callable[[str], ast.Module]) -> None:
    """Buffer assignments of upstream's layout give the factor by which it scales prefill's KV budget."""
    tree = upstream(LAYOUT)
    constants = [
        t.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for t in node.targets
        if isinstance(t, ast.Name) and t.id.startswith("_")
    ]
    build = load(
        tree, *constants, "_parse_int_config", "build_layerwise_cache_layout", LayerwiseCacheLayout=SimpleNamespace
    )["build_layerwise_cache_layout"]
    draw = random.Random(5)
    reused = 0
    for _ in range(CASES):
        layers = draw.randint(1, 90)
        shared = draw.choice([None, draw.randint(1, 20)])
        independent = [draw.randint(-layers, layers - 1) for _ in range(draw.randint(0, 4))]
        extra: dict[str, Any] = {"layerwise_independent_layers": independent}
        if shared is not None:
            extra["layerwise_num_shared_buffers"] = shared
        layout = build(layers, extra)
        theirs = layers / len(layout.storage_indices) if layout.has_layer_reuse else 1.0
        assert _sizing.layerwise_reuse_factor(layers, shared, independent) == theirs
        reused += layout.has_layer_reuse
    assert reused > CASES // 10


def test_sources_of_rules_exist(upstream: Callable[[str], ast.Module], paths: list[str]) -> None:
    """Files and names of vllm-ascend that rules cite are in the version that they are about."""
    cited = {
        (path, names)
        for rule in rules.RULES.values()
        for path, names in re.findall(r"([\w/]+\.py) ((?:\w+)(?:, \w+)*)", rule.source)
    }
    found = 0
    for path, names in sorted(cited):
        files = [one for one in paths if one.endswith(f"/{path}")]
        defined = {name for one in files for name in definitions(upstream(one))}
        if files:
            assert set(names.split(", ")) <= defined, (path, names)
            found += 1
    assert found > 20


def definitions(tree: ast.Module) -> set[str]:
    """Names of all classes and functions of a file, and of what it sets on ``self``."""
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    named = {node.name for node in ast.walk(tree) if isinstance(node, kinds)}
    return named | {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


def test_variables_that_upstream_reads_are_known(upstream: Callable[[str], ast.Module]) -> None:
    table = next(
        node.value
        for node in ast.walk(upstream("vllm_ascend/envs.py"))
        if isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Dict)
    )
    names = {key.value for key in table.keys if isinstance(key, ast.Constant) and str(key.value).startswith("VLLM_")}
    assert "VLLM_ASCEND_ENABLE_FLASHCOMM1" in names
    assert not names - names_read()


def test_quantizations_are_those_that_upstream_runs(upstream: Callable[[str], ast.Module]) -> None:
    """The list in platform.py, with the names in it from utils.py."""
    constants = {
        ast.unparse(node.targets[0]): str(node.value.value)
        for node in upstream("vllm_ascend/utils.py").body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
    }
    [methods] = [
        node.value
        for node in ast.walk(upstream("vllm_ascend/platform.py"))
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "supported_quantization"
    ]
    assert isinstance(methods, ast.List)
    names = [str(one.value) if isinstance(one, ast.Constant) else constants[ast.unparse(one)] for one in methods.elts]
    assert sorted(names) == sorted(QUANTIZATIONS)
