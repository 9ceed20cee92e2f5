# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""AscendStoreConnector: the prefix cache pool behind prefill, through MemCache.

Checks of vllm_ascend/distributed/kv_transfer/kv_pool/ascend_store (release 0.26.0rc1): pool_scheduler.py:169-174,
layerwise_cache_layout.py:114-160, backend/memcache_backend.py, and of MemCache 1.2's local configuration.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import socket
from fractions import Fraction
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from vllm import lab_host
from vllm.config import KVTransferConfig, VllmConfig
from vllm.lab_host import GIB
from vllm.logger import init_logger

from vllm_ascend.distributed.kv_transfer.base import Connector, Replica, Request

logger = init_logger("vllm_ascend.ascend_store")

_BACKENDS = ("mooncake", "memcache", "yuanrong")
_PROTOCOLS = (
    "host_rdma",
    "host_urma",
    "host_tcp",
    "host_shm",
    "device_rdma",
    "device_sdma",
    "device_urma",
    "device_uboe",
)
_UNITS = {
    "": 1,
    "B": 1,
    "K": 1 << 10,
    "KB": 1 << 10,
    "M": 1 << 20,
    "MB": 1 << 20,
    "G": 1 << 30,
    "GB": 1 << 30,
    "T": 1 << 40,
    "TB": 1 << 40,
}


class AscendStoreConnector(Connector):
    def __init__(self, replica: Replica, transfer: KVTransferConfig) -> None:
        super().__init__(replica, transfer)
        backend = transfer.extra.get("backend", "mooncake")
        self.backend = str(backend).lower()
        if self.backend not in _BACKENDS:
            raise ValueError(f"Unsupported KV pool backend: {backend}")
        layers_per_buffer(replica.config, transfer)
        if self.backend == "mooncake" and not os.environ.get("MOONCAKE_CONFIG_PATH"):
            raise ValueError("The environment variable 'MOONCAKE_CONFIG_PATH' is not set.")
        if self.backend == "memcache":
            _join_memcache(len(replica.ranks), replica.config.parallel)
        self.known: set[str] = set()

    async def save(self, request: Request) -> dict[str, Any] | None:
        self.known.add(request.digest)
        return None


def layers_per_buffer(config: VllmConfig, transfer: KVTransferConfig) -> float:
    """By how much layerwise buffer reuse stretches prefill's KV budget (worker.py:597-615); 1.0 without reuse."""
    extra = transfer.extra
    if str(extra.get("backend", "mooncake")).lower() != "memcache" or not extra.get("use_layerwise", False):
        return 1.0
    layers = int(config.model.text["num_hidden_layers"])
    shared = _count(extra, "layerwise_num_shared_buffers", layers)
    _count(extra, "layerwise_prefetch_layers", 1)
    independent = extra.get("layerwise_independent_layers", [0])
    if isinstance(independent, str) and independent.strip().lower() == "all":
        independent = list(range(layers))
    if not isinstance(independent, list):
        raise TypeError("layerwise_independent_layers must be a list of integers or 'all'")
    alone = {int(index) + (layers if int(index) < 0 else 0) for index in independent}
    for index in alone:
        if not 0 <= index < layers:
            raise ValueError(
                f"layerwise_independent_layers contains out-of-range layer index {index}; valid range is [0, "
                f"{layers - 1}]"
            )
    if layers - len(alone) <= shared:
        return 1.0
    return layers / (len(alone) + shared)


def _count(extra: dict[str, Any], key: str, default: int) -> int:
    value = extra.get(key, default)
    if isinstance(value, bool):
        raise TypeError(f"{key} must be an integer, got bool")
    try:
        number = int(value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{key} must be an integer, got {value!r}") from error
    if number < 1:
        raise ValueError(f"{key} must be at least 1")
    return number


def _join_memcache(ranks: int, parallel: Any) -> None:
    """Every worker's `store.init`: read the local configuration, find Meta, give memory."""
    if importlib.util.find_spec("memcache_hybrid") is None:
        raise ImportError(
            "Please install memcache by following the instructions of memfabric_hybrid to run vLLM with "
            "MemcacheConnector."
        )
    if not any("memcache_hybrid" in entry for entry in os.environ.get("LD_LIBRARY_PATH", "").split(":")):
        raise ImportError("libmf_memcache.so: cannot open shared object file: No such file or directory")
    path = os.environ.get("MMC_LOCAL_CONFIG_PATH")
    if not path:
        logger.error("MMC_LOCAL_CONFIG_PATH is not set")
        raise AssertionError("assert res == 0 (DistributedObjectStore.init: MMC_LOCAL_CONFIG_PATH is not set)")
    problem = _local_problem(_properties(Path(path)), ranks, parallel.world * parallel.data)
    if problem:
        logger.error("mmc init failed: %s", problem)
        raise AssertionError(f"assert res == 0 (DistributedObjectStore.init: {problem})")


def _properties(path: Path) -> dict[str, str]:
    if not path.is_file():
        raise AssertionError(f"assert res == 0 (DistributedObjectStore.init: cannot read {path})")
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    pairs = (line.partition("=") for line in lines if line and not line.startswith(("#", ";")))
    return {key.strip(): value.strip() for key, _, value in pairs}


def _local_problem(values: dict[str, str], local_ranks: int, all_ranks: int) -> str:
    """What is wrong with a mmc-local.conf for so many ranks; empty if nothing."""
    prefix = "ock.mmc.local_service."
    protocol = values.get(prefix + "protocol", "host_rdma")
    if protocol not in _PROTOCOLS:
        return f"{prefix}protocol: {protocol!r} is none of {', '.join(_PROTOCOLS)}"
    size = _bytes(values.get(prefix + "dram.size", "1GB"))
    if size is None:
        return f"{prefix}dram.size: cannot be read"
    if size == 0:
        return f"{prefix}dram.size and hbm.size are both 0"
    if size % GIB:
        return f"{prefix}dram.size: in A3 environment all protocols must be aligned to 1GB"
    world = int(values.get(prefix + "world_size", "256"))
    if not 1 <= world <= 1024 or world < all_ranks:
        return f"{prefix}world_size: {world} is less than the {all_ranks} ranks"
    wanted = size * local_ranks
    if protocol == "host_shm":
        free = shutil.disk_usage(lab_host.at("/dev/shm")).free
        if wanted > free:
            return f"shared memory: {wanted // GIB} GiB wanted on /dev/shm, {free / GIB:.2f} GiB free"
    if wanted > lab_host.memory_available():
        return f"host memory: {wanted // GIB} GiB wanted, {lab_host.memory_available() // GIB} GiB available"
    for key in ("ock.mmc.meta_service_url", prefix + "config_store_url"):
        url = values.get(key, "")
        if not _answers(url):
            return f"cannot connect to {key}={url or 'unset'}"
    return ""


def _bytes(text: str) -> int | None:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]{0,2})", text)
    if not match or match.group(2).upper() not in _UNITS:
        return None
    return int(Fraction(match.group(1)) * _UNITS[match.group(2).upper()])


def _answers(url: str) -> bool:
    parts = urlsplit(url)
    if parts.scheme != "tcp" or not parts.hostname or not parts.port:
        return False
    try:
        socket.create_connection((parts.hostname, parts.port), timeout=5).close()
    except OSError:
        return False
    return True
