# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Listening sockets and their owners, the ephemeral port range and the ports reserved from it."""

from __future__ import annotations

import os
import re
import socket
import struct
from typing import Any

from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._containers import Owners
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._text import parse_ranges
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._tree import Tree

# State column: TCP sockets that listen; UDP sockets that are bound and not connected.
_WAITING = {"tcp": "0A", "tcp6": "0A", "udp": "07", "udp6": "07"}
_IPV4 = "/proc/sys/net/ipv4"


def parse_sockets(text: str, protocol: str) -> list[dict[str, Any]]:
    """Waiting sockets of /proc/net/<protocol> (tcp, tcp6, udp, udp6): address, port, protocol, inode."""
    found = []
    for line in text.splitlines()[1:]:
        fields = line.split()
        try:
            local, state, inode = fields[1], fields[3], int(fields[9])
            digits, port = local.split(":")
            address = _address(digits)
            number = int(port, 16)
        except (IndexError, ValueError):
            continue
        if state == _WAITING[protocol] and 0 < number < 65536:
            found.append({"address": address, "port": number, "protocol": protocol.rstrip("6"), "inode": inode})
    return found


def _address(digits: str) -> str:
    """`0100007F` as `127.0.0.1`: the kernel prints 32-bit words in the byte order of the machine."""
    if len(digits) not in (8, 32):
        raise ValueError(f"not an address: {digits}")
    words = [int(digits[at : at + 8], 16) for at in range(0, len(digits), 8)]
    family = socket.AF_INET if len(words) == 1 else socket.AF_INET6
    return socket.inet_ntop(family, struct.pack(f"={len(words)}I", *words))


def listeners(tree: Tree, owners: Owners, reasons: list[str]) -> list[dict[str, Any]]:
    """Every waiting socket with the process and the container behind it, as far as this user may see them."""
    found = []
    for protocol in _WAITING:
        # tcp6 and udp6 are absent where IPv6 is off, which is no fault.
        found.extend(parse_sockets(tree.text("/proc/net/" + protocol) or "", protocol))
    if not tree.exists("/proc/net/tcp"):
        reasons.append("/proc/net/tcp is absent: listening sockets are not known")
    holders = _holders(tree, {entry["inode"] for entry in found})
    for entry in found:
        pid = holders.get(entry.pop("inode"))
        entry["pid"] = pid
        entry["process"] = tree.line(f"/proc/{pid}/comm") if pid is not None else None
        entry["container"] = owners.of_process(pid) if pid is not None else None
    if any(entry["pid"] is None for entry in found) and os.geteuid() != 0:
        reasons.append("owners of some listening sockets are not known: this needs root")
    return sorted(found, key=lambda entry: (entry["protocol"], entry["port"], entry["address"]))


def _holders(tree: Tree, wanted: set[int]) -> dict[int, int]:
    """Process id by socket inode."""
    found: dict[int, int] = {}
    for pid in tree.names("/proc"):
        if not re.fullmatch(r"[0-9]{1,9}", pid) or len(found) == len(wanted):
            continue
        folder = f"/proc/{pid}/fd"
        for descriptor in tree.names(folder):
            match = re.fullmatch(r"socket:\[([0-9]{1,15})\]", tree.link(folder + "/" + descriptor) or "")
            if match and int(match.group(1)) in wanted:
                found.setdefault(int(match.group(1)), int(pid))
    return found


def ephemeral_ports(tree: Tree, reasons: list[str]) -> list[int] | None:
    """[first, last] port that the kernel hands out by itself."""
    text = tree.text(_IPV4 + "/ip_local_port_range", reasons)
    numbers = re.findall(r"[0-9]{1,5}", text or "")
    return [int(numbers[0]), int(numbers[1])] if len(numbers) >= 2 else None


def reserved_ports(tree: Tree, reasons: list[str]) -> list[list[int]]:
    """[first, last] of every range that the kernel does not hand out."""
    text = tree.text(_IPV4 + "/ip_local_reserved_ports", reasons)
    return [list(part) for part in parse_ranges(text or "")]
