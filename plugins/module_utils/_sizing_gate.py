# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""What vllm-ascend itself decides about memory at start, in its own arithmetic.

Short names of its files as in ``_sizing``. PR14921 is the later pull request "Bound sparse KV offload memory by NPU,
DRAM and workload limits".
"""

from __future__ import annotations

from collections.abc import Sequence

GIB = 1 << 30
#: What CONFIG ``SparseKVOffloadConfig`` takes where the user says nothing.
DEFAULT_TOPK_BUFFER_SIZE = 4096
DEFAULT_DRAM_GIB = 128
#: The gate of 0.26.0rc1 (WORKER ``update_available_memory_for_sparse_kv_offload``): host need follows from free HBM.
GATE_AVAILABLE = "available"
#: The gate of PR14921 (``plan_sparse_kv_offload_memory``): the smallest of HBM, DRAM and workload decides.
GATE_PLANNED = "planned"


def gate_needed_bytes(
    host_page_bytes: int, device_page_bytes: int, available_bytes: int, keep_device_kv_cache: bool = False
) -> float:
    """What the gate of 0.26.0rc1 wants of ``dram_size_per_dp_GB``, in its own float arithmetic (WORKER:628-640)."""
    if keep_device_kv_cache:
        return available_bytes
    return host_page_bytes / device_page_bytes * available_bytes


def gate_passes(needed_bytes: float, dram_gib: int) -> bool:
    """The comparison of the gate of 0.26.0rc1 (WORKER:641); it counts no alignment."""
    return not needed_bytes > dram_gib * GIB


def gate_min_dram_gib(needed_bytes: float) -> int:
    """The smallest ``dram_size_per_dp_GB`` that the gate of 0.26.0rc1 lets pass."""
    dram = max(0, int(needed_bytes // GIB))
    return dram if gate_passes(needed_bytes, dram) else dram + 1


def planned_blocks(
    *,
    available_bytes: int,
    device_page_bytes: int,
    host_page_bytes: int,
    dram_gib: int,
    align_bytes: int,
    workload: int,
) -> tuple[int, str]:
    """Blocks that PR14921 would allocate and the limit that decided: ``npu``, ``dram``, ``workload``. 0: it refuses."""
    limits = {
        "workload": workload,
        "npu": available_bytes // device_page_bytes,
        "dram": max(0, (dram_gib * GIB - align_bytes) // host_page_bytes),
    }
    name = min(limits, key=lambda key: limits[key])
    return limits[name], name


def layerwise_reuse_factor(num_layers: int, shared_buffers: int | None, independent: Sequence[int]) -> float:
    """By how much layerwise buffer reuse multiplies prefill's logical KV budget (LAYOUT, WORKER ``factor``)."""
    if not num_layers or shared_buffers is None:
        return 1.0
    own = len({layer % num_layers for layer in independent})
    reused = num_layers - own
    if reused <= shared_buffers:
        return 1.0
    return num_layers / (own + shared_buffers)
