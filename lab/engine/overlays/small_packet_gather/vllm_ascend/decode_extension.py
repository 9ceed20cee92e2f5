# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Small-packet gather of the fork zd1204/vllm-ascend, branch group_aggregation_cpu; laid over that tree only.

Reads VLLM_ASCEND_ENABLE_CPU_GATHER_H2D, VLLM_ASCEND_CPU_GATHER_THREADS and VLLM_ASCEND_CPU_GATHER_BUFFER_BYTES.
"""

from __future__ import annotations

import os


def describe(eager: bool) -> str | None:
    """What a decode engine logs about it; None where it is off."""
    if os.environ.get("VLLM_ASCEND_ENABLE_CPU_GATHER_H2D", "0") != "1":
        return None
    threads = int(os.environ.get("VLLM_ASCEND_CPU_GATHER_THREADS", "4"))
    size = int(os.environ.get("VLLM_ASCEND_CPU_GATHER_BUFFER_BYTES", str(8 << 20)))
    if not eager:
        return "CPU gather H2D is eager-only: ACL graph mode falls back to discrete sparse_copy"
    return f"CPU gather H2D enabled: threads={threads}, buffer_bytes={size}"
