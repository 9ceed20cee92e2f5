# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Small-packet gather of the fork zd1204/vllm-ascend: that this file exists is what tells the fork from upstream.

Upstream reads none of these variables: setting them there changes nothing (guide 1, section 4).
"""

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class CpuGather:
    """Settings of the gather; buffer_bytes is the floor of the packed buffer."""

    enabled: bool
    threads: int
    buffer_bytes: int


def from_environment() -> CpuGather:
    return CpuGather(
        enabled=os.environ.get("VLLM_ASCEND_ENABLE_CPU_GATHER_H2D", "0") == "1",
        threads=int(os.environ.get("VLLM_ASCEND_CPU_GATHER_THREADS", "4")),
        buffer_bytes=int(os.environ.get("VLLM_ASCEND_CPU_GATHER_BUFFER_BYTES", str(8 << 20))),
    )
