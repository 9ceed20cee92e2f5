# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Stand-in of torch_npu: torch.npu, and MemFabric's data plane, which needs the driver, replaced by TCP.

Refuses to load where the real one would not find its libraries, and to use a chip whose device is not there.
"""

from __future__ import annotations

import os
import types
from pathlib import Path

import torch

from torch_npu import memfabric

__version__ = "2.10.0.post4"

if not any(
    "Ascend/ascend-toolkit" in entry or "Ascend/cann" in entry
    for entry in os.environ.get("LD_LIBRARY_PATH", "").split(":")
):
    raise ImportError(
        "libascendcl.so: cannot open shared object file: No such file or directory. "
        "Please check that the cann package is installed. Please run 'source set_env.sh' in the CANN installation path."
    )

_current = 0


def set_device(device: str | int) -> None:
    global _current
    number = int(str(device).rpartition(":")[2])
    if not Path(f"/dev/davinci{number}").exists():
        raise RuntimeError(f"Invalid device ID: {number}. SetDevice failed, error code is 107001")
    _current = number


def current_device() -> int:
    return _current


def synchronize() -> None:
    """Nothing runs in the background here."""


npu = types.SimpleNamespace(set_device=set_device, current_device=current_device, synchronize=synchronize)
torch.npu = npu
memfabric.replace_data_plane()
