# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Which address an engine takes for its own, as vLLM decides it (vllm/utils/network_utils.py get_ip)."""

from __future__ import annotations

import os
import socket
import warnings


def get_ip() -> str:
    """``VLLM_HOST_IP``, else the source address towards a public resolver, else ``0.0.0.0`` with a warning."""
    if os.environ.get("VLLM_HOST_IP"):
        return os.environ["VLLM_HOST_IP"]
    for family, target in ((socket.AF_INET, "8.8.8.8"), (socket.AF_INET6, "2001:4860:4860::8888")):
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((target, 80))  # a datagram socket: looks up the route, sends nothing
                return str(probe.getsockname()[0])
        except OSError:
            continue
    warnings.warn(
        "Failed to get the IP address, using 0.0.0.0 by default. The value can be set by the environment variable"
        " VLLM_HOST_IP or HOST_IP.",
        stacklevel=2,
    )
    return "0.0.0.0"
