# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""The stages of one engine process on its chips: devices, weights, memory, host pool.

Order and words of vllm_ascend/worker/worker.py and of sparse_kv_offload_manager.py (release 0.26.0rc1).
"""

from __future__ import annotations

import importlib
import os
import socket
import time
from dataclasses import dataclass, field
from pathlib import Path

from vllm import lab_host, memory, wire
from vllm.config import VllmConfig
from vllm.lab_host import GIB, Settings
from vllm.logger import init_logger, say

from vllm_ascend.ascend_config import SparseKVOffload
from vllm_ascend.worker import libraries

try:  # a tree with the bounded host pool (vllm-ascend PR 14921) brings this module
    sparse_memory_plan = importlib.import_module("vllm_ascend.worker.sparse_memory_plan")
except ModuleNotFoundError:
    sparse_memory_plan = None

logger = init_logger("vllm_ascend.worker.worker")
_ALIGNMENT = 2 << 20


@dataclass
class Worker:
    """All ranks of one engine process."""

    config: VllmConfig
    settings: Settings
    sparse: SparseKVOffload | None
    chips: list[int] = field(default_factory=list)  # physical ids, one per local rank
    blocks: int = 0
    _held: list[socket.socket] = field(default_factory=list)

    # -- devices ---------------------------------------------------------------------------------------------------

    def init_device(self) -> None:
        """Find this process's chips and take them."""
        libraries.check_control_nodes()
        self.chips = visible_chips(self.config.parallel.chips)
        hbm = int(self.settings.hbm_gib * GIB)
        for logical, chip in enumerate(self.chips):
            holder = lab_host.occupy(chip)
            if holder is None:
                wanted = hbm * self.config.gpu_memory_utilization
                raise ValueError(
                    f"Free memory on device npu:{logical} (3.1/{hbm / GIB:.1f} GiB) on startup is less than "
                    "desired GPU "
                    f"memory utilization ({self.config.gpu_memory_utilization}, {wanted / GIB:.2f} GiB). Decrease GPU "
                    "memory utilization or reduce GPU memory used by other processes."
                )
            self._held.append(holder)

    def init_communication(self) -> None:
        """Host ports and interfaces of HCCL and Gloo."""
        for name in ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "HCCL_SOCKET_IFNAME"):
            _interface(name)
        host = os.environ.get("HCCL_IF_IP", "")
        base = int(os.environ.get("HCCL_IF_BASE_PORT", "60000"))
        if len(self.chips) < 2 and self.config.parallel.nnodes == 1:
            return
        for chip in self.chips:
            # one host port per chip, counted by its physical id: engines on other chips of the host do not collide
            try:
                self._held.append(wire.bind(host or "0.0.0.0", base + chip))
            except OSError as error:
                raise RuntimeError(
                    f"EJ0003: Failed to bind the IP port. Reason: {error}. HCCL_IF_IP={host or 'unset'}, "
                    f"HCCL_IF_BASE_PORT={base}"
                ) from error

    # -- weights ---------------------------------------------------------------------------------------------------

    def load_model(self) -> None:
        """Load shard by shard, with vLLM's progress lines."""
        model, began = self.config.model, time.monotonic()
        folder, shards = Path(model.path), model.shards
        logger.info("Starting to load model %s...", model.path)
        if not shards:
            raise RuntimeError(f"Cannot find any model weights with `{model.path}`")
        pause = self.settings.weights_seconds / len(shards)
        for done, name in enumerate(["", *shards]):
            if name:
                if not (folder / name).is_file():
                    raise FileNotFoundError(f"No such file or directory: {folder / name}")
                time.sleep(pause)
            say("Worker_TP0", _progress(done, len(shards), time.monotonic() - began))
        logger.info("Loading weights took %.2f seconds", time.monotonic() - began)
        logger.info("Loading model weights took %.4f GB", memory.weight_bytes(self.config) / GIB)

    # -- memory ----------------------------------------------------------------------------------------------------

    def determine_available_memory(self, layers_reused: float) -> None:
        """Blocks of the KV cache; with offload also the start-up gate on host memory (worker.py:627-659)."""
        config, sparse = self.config, self.sparse
        layout, hbm = memory.cache_layout(config), int(self.settings.hbm_gib * GIB)
        hot = memory.hot_buffer_bytes(config, sparse.topk_buffer_size) if sparse else 0
        if sparse:
            logger.info(
                "Sparse KV offload reserved %.2f GiB of KV offload topk buffers across %d layers for profile run.",
                hot / GIB,
                layout.main_layers,
            )
        free = memory.free_for_cache(config, hbm, hot)
        if config.arguments.kv_cache_memory_bytes:
            asked = config.arguments.kv_cache_memory_bytes
            logger.info(
                "Initial free memory %.2f GiB, reserved %.2f GiB memory for KV Cache as specified by "
                "kv_cache_memory_bytes config and skipped memory profiling.",
                hbm / GIB,
                asked / GIB,
            )
            if asked > free + hbm * (1 - config.gpu_memory_utilization):
                raise RuntimeError(
                    f"NPU out of memory. Tried to allocate {asked / GIB:.2f} GiB (NPU 0; {hbm / GIB:.2f} GiB "
                    "total capacity; "
                    f"{memory.weight_bytes(config) / GIB:.2f} GiB already allocated)"
                )
            free = asked
        else:
            if layers_reused != 1.0:
                layers = int(config.model.text["num_hidden_layers"])
                logger.info(
                    "Layerwise KV cache reuse maps %d layers onto %d buffer assignments; "
                    "scale logical KV budget by %.3f.",
                    layers,
                    round(layers / layers_reused),
                    layers_reused,
                )
            free = int(free * layers_reused)
            logger.info("Available KV cache memory: %.2f GiB", free / GIB)
        if free <= 0:
            raise ValueError(
                "No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when "
                "initializing the engine."
            )
        page = (layout.main_bytes + layout.indexer_bytes) * config.block_size
        if sparse and sparse_memory_plan is not None:
            self.blocks = sparse_memory_plan.plan(config, layout, free, sparse.pool_bytes)
        elif sparse:
            free = self._old_gate(sparse, layout.ratio, free)
            self.blocks = free // page
        else:
            self.blocks = free // page
        self._check_capacity(page, free)

    def _old_gate(self, sparse: SparseKVOffload, ratio: float, free: int) -> int:
        needed = free if sparse.keep_device_kv_cache else ratio * free
        if needed > sparse.pool_bytes:
            raise ValueError(
                f"Needed dram size ({needed / GIB} GB) is larger than user specified dram size "
                f"({sparse.dram_size_per_dp_gib} GB). Please increase sparse_kv_offload_config.dram_size_per_dp_GB if "
                "available on your device."
            )
        if not sparse.keep_device_kv_cache:
            free = int(free + needed)
            logger.info("Sparse KV offload is enabled, enlarge total available memory to %.2f GiB", free / GIB)
        return free

    def _check_capacity(self, page: int, free: int) -> None:
        config = self.config
        longest, per_block = config.model.max_model_len, config.block_size * config.parallel.prefill_context
        per_block *= config.parallel.decode_context
        tokens, needed = self.blocks * per_block, -(-longest // per_block) * page
        if needed > self.blocks * page:
            raise ValueError(
                f"To serve at least one request with the model's max seq len ({longest}), ({needed / GIB:.2f} "
                "GiB KV cache is "
                f"needed, which is larger than the available KV cache memory ({free / GIB:.2f} GiB). Try increasing "
                "`gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine."
            )
        logger.info("GPU KV cache size: %s tokens", f"{tokens:,}")
        logger.info("Maximum concurrency for %s tokens per request: %.2fx", f"{longest:,}", tokens / longest)

    # -- host pool -------------------------------------------------------------------------------------------------

    def init_host_pool(self) -> None:
        """SparseKVOffloadManager: build, allocate, and only then look at the buffer size (:361-502)."""
        sparse, parallel = self.sparse, self.config.parallel
        if sparse is None:
            return
        if parallel.nnodes > 1:
            raise RuntimeError("Sparse KV offload: the ranks of a data-parallel group must share one host")
        libraries.check_decode_compiler()
        logger.info("Sparse KV offload build cpp utils from src: sparse_kv_offload.cpp")
        logger.info(
            "SparseKVOffloadManager start init CPU KV pool with %s GB dram per dp group, it might be time "
            "consuming, please wait.",
            sparse.dram_size_per_dp_gib,
        )
        libraries.check_memfabric()
        libraries.offload_library()
        wanted, available = sparse.pool_bytes * parallel.data_local, lab_host.memory_available()
        for group in range(parallel.data_local):
            try:
                # MemFabric's store of the SHARED scene: loopback, counted by logical device id
                self._held.append(wire.bind("127.0.0.1", 8500 + group))
            except OSError as error:
                logger.error("smem store start failed: %s", error)
                raise AssertionError("Sparse KV offload offload.initialize failed.") from error
        if wanted > available:
            logger.error("HalMemCreate failed: %d GiB wanted, %d GiB available", wanted // GIB, available // GIB)
            raise AssertionError("Sparse KV offload offload.initialize failed.")
        time.sleep(self.settings.pool_seconds)
        layers = memory.cache_layout(self.config).main_layers
        target = int(self.config.model.text["num_hidden_layers"])
        logger.info("Sparse KV offload registered %s layers (%s target layers).", layers, target)
        if sparse.topk_buffer_size % self.config.block_size:
            raise ValueError(
                "Sparse KV offload topk_buffer_size must be divisible by block_size, got "
                f"{sparse.topk_buffer_size} and {self.config.block_size}"
            )
        if self.config.block_size != 128:
            raise ValueError(f"SFA kernels take block size 128 only, got {self.config.block_size} (sfa_v1.py:158)")


def visible_chips(count: int) -> list[int]:
    """Physical ids of the chips of this process.

    ASCEND_RT_VISIBLE_DEVICES counts the devices that the container shows from 0, in order of their physical ids.
    """
    present = lab_host.devices()
    chosen = os.environ.get("ASCEND_RT_VISIBLE_DEVICES")
    if chosen is not None:
        numbers = [int(part) for part in chosen.split(",") if part.strip()]
        if len(set(numbers)) != len(numbers) or any(number >= len(present) for number in numbers):
            raise RuntimeError(
                f"Invalid device ID. Set visible device failed, invalid device={chosen}, input visible "
                f"devices:{chosen}, "
                f"{len(present)} devices present. error code is 107001"
            )
        present = [present[number] for number in numbers]
    if len(present) < count:
        raise RuntimeError(
            f"SetDevice:InitializeNpu: rtSetDevice error, error code is 107001. [Error]: Invalid device ID. "
            f"{count} ranks on this node, {len(present)} devices visible."
        )
    return present[:count]


def _interface(variable: str) -> None:
    names = os.environ.get(variable, "")
    present = {name for _, name in socket.if_nameindex()}
    wanted = names.split(":")[-1].lstrip("=^").split(",") if names else []
    if wanted and not any(name == seen or seen.startswith(name) for name in wanted for seen in present):
        raise RuntimeError(f"[enforce fail at device.cc] Unable to find interface for: [{names}] ({variable})")


def _progress(done: int, total: int, elapsed: float) -> str:
    """One line of vLLM's progress bar, which tqdm starts with a carriage return."""
    left, rate = "?", "?it/s"
    if done and elapsed:
        left, rate = _clock(elapsed / done * (total - done)), f"{done / elapsed:5.2f}it/s"
    percent = f"{100 * done / total:3.0f}% Completed | {done}/{total}"
    return f"\rLoading safetensors checkpoint shards: {percent} [{_clock(elapsed)}<{left}, {rate}]"


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60:02d}:{int(seconds) % 60:02d}"
