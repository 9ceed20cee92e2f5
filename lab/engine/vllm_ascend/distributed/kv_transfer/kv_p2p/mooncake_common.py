# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""What both Mooncake connectors share: the transfer engine's port and a request's parallel sizes."""

from __future__ import annotations

import importlib.util
import random
import socket

from vllm import wire
from vllm.config import KVTransferConfig

from vllm_ascend.distributed.kv_transfer.base import Rank, Replica

# AscendDirectTransport takes ports from [20000, 20000 + 1000 * chips of the node) at random.
_BAND_START, _BAND_PER_CHIP = 20000, 1000


def check_library() -> None:
    if importlib.util.find_spec("mooncake") is None:
        raise ImportError(
            "Please install mooncake by following the instructions at "
            "https://github.com/kvcache-ai/Mooncake/blob/main/doc/en/build.md to run vLLM with MooncakeConnector."
        )


def transfer_engine(replica: Replica, host: str, rank: Rank, control_port: int) -> socket.socket:
    """The data port of one worker."""
    first = _BAND_START + rank.chip * _BAND_PER_CHIP
    if replica.settings.mooncake_ports == "worst" and _BAND_START <= control_port < _BAND_START + 16 * _BAND_PER_CHIP:
        return _bind(host, control_port)
    for _ in range(20):
        try:
            return wire.bind(host, first + random.randrange(_BAND_PER_CHIP))
        except OSError as error:
            if error.errno != 98:
                raise RuntimeError(f"TransferEngine initialization failed with ret_value: -1 ({error})") from error
    raise RuntimeError("TransferEngine initialization failed with ret_value: -1 (no free port)")


def _bind(host: str, port: int) -> socket.socket:
    try:
        return wire.bind(host, port)
    except OSError as error:
        raise RuntimeError(f"TransferEngine initialization failed with ret_value: -1 ({error})") from error


def side_sizes(transfer: KVTransferConfig) -> tuple[int, int]:
    """Tensor parallel sizes of prefill and decode; all four sizes must be told (mooncake_connector.py:2153-2172)."""
    prefill, decode = transfer.extra.get("prefill", {}), transfer.extra.get("decode", {})
    assert "tp_size" in prefill
    assert "dp_size" in prefill
    assert "tp_size" in decode
    assert "dp_size" in decode
    assert decode.get("pp_size", 1) == 1, "decode pp size must be 1"
    return int(prefill["tp_size"]), int(decode["tp_size"])
