# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Host memory: total, per NUMA node, huge pages, contiguous free blocks, /dev/shm. Sizes in bytes."""

from __future__ import annotations

import os
import re
from pathlib import PurePosixPath
from typing import Any

from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._tree import Tree, why

_NODES = "/sys/devices/system/node"
# MemFabric takes the host pool of sparse KV offload in pages of 1 GiB, else of 2 MiB, which the driver must find
# physically contiguous (memfabric_hybrid hybm_vmm_based_segment.cpp, MallocFromHost).
_SMALLEST_USEFUL_BLOCK = 2 << 20


def parse_meminfo(text: str) -> dict[str, int]:
    """`/proc/meminfo` or a node's meminfo by name: kB lines as bytes, counts as they are."""
    found = {}
    for line in text.splitlines():
        match = re.fullmatch(r"(?:Node\s+[0-9]+\s+)?([\w()]+):\s+([0-9]{1,15})(\s+kB)?\s*", line.strip())
        if match:
            found[match.group(1)] = int(match.group(2)) * (1024 if match.group(3) else 1)
    return found


def parse_buddyinfo(text: str, page_bytes: int) -> list[dict[str, Any]]:
    """`/proc/buddyinfo`: per NUMA node the free bytes in blocks of at least 2 MiB, and the largest free block."""
    nodes: dict[int, dict[str, Any]] = {}
    for line in text.splitlines():
        match = re.match(r"Node\s+([0-9]{1,6}),\s+zone\s+\S+((?:\s+[0-9]{1,12})+)\s*$", line)
        if not match:
            continue
        node = nodes.setdefault(
            int(match.group(1)), {"node": int(match.group(1)), "free_bytes": 0, "largest_block_bytes": 0}
        )
        for order, count in enumerate(int(number) for number in match.group(2).split()):
            block = page_bytes << order
            if count and block >= _SMALLEST_USEFUL_BLOCK:
                node["free_bytes"] += count * block
                node["largest_block_bytes"] = max(node["largest_block_bytes"], block)
    return [nodes[number] for number in sorted(nodes)]


def memory(tree: Tree, reasons: list[str]) -> dict[str, Any]:
    """Totals, NUMA nodes and huge pages."""
    info = parse_meminfo(tree.text("/proc/meminfo", reasons) or "")
    return {
        "total_bytes": info.get("MemTotal"),
        "free_bytes": info.get("MemFree"),
        "available_bytes": info.get("MemAvailable"),
        "swap_total_bytes": info.get("SwapTotal"),
        "page_bytes": os.sysconf("SC_PAGE_SIZE"),
        "numa": _numa(tree),
        "hugepages": {
            "size_bytes": info.get("Hugepagesize"),
            "total": info.get("HugePages_Total"),
            "free": info.get("HugePages_Free"),
        },
    }


def _numa(tree: Tree) -> list[dict[str, Any]]:
    numbers = sorted(int(name[4:]) for name in tree.names(_NODES) if re.fullmatch(r"node[0-9]{1,6}", name))
    nodes = []
    for number in numbers:
        base = f"{_NODES}/node{number}"
        info = parse_meminfo(tree.text(base + "/meminfo") or "")
        nodes.append(
            {
                "node": number,
                "total_bytes": info.get("MemTotal"),
                "free_bytes": info.get("MemFree"),
                "hugepages_total": info.get("HugePages_Total"),
                "hugepages_free": info.get("HugePages_Free"),
                "cpus": tree.line(base + "/cpulist"),
            }
        )
    return nodes


def contiguous(tree: Tree) -> dict[str, Any]:
    """Free memory in blocks that can hold a 2 MiB page.

    Whether such blocks join to 1 GiB pages tells only a scan of /proc/kpageflags (`mfcli mem scan`, minutes on a host
    of 1.5 TiB); memory that caches hold does not count here, though the kernel may give it back.
    """
    reasons: list[str] = []
    nodes = parse_buddyinfo(tree.text("/proc/buddyinfo", reasons) or "", os.sysconf("SC_PAGE_SIZE"))
    if not nodes and not reasons:
        reasons.append("/proc/buddyinfo: no zone of a node in it")
    return {
        "free_bytes": sum(node["free_bytes"] for node in nodes) if nodes else None,
        "nodes": nodes,
        "reason": reasons[0] if reasons else None,
    }


def space(tree: Tree, path: str) -> dict[str, Any]:
    """Size and free space of the file system of `path`, or of its nearest existing parent: it may yet be made."""
    place = path
    while place != "/" and not tree.exists(place):
        place = str(PurePosixPath(place).parent)
    try:
        usage = os.statvfs(tree.path(place))
    except OSError as error:
        return {"total_bytes": None, "free_bytes": None, "at": place, "reason": why(place, error)}
    return {
        "total_bytes": usage.f_blocks * usage.f_frsize,
        "free_bytes": usage.f_bavail * usage.f_frsize,
        "at": place,
        "reason": None,
    }


def shm(tree: Tree) -> dict[str, int | None]:
    """/dev/shm, which MemCache's `host_shm` protocol and vLLM's worker queues fill."""
    usage = space(tree, "/dev/shm")
    here = usage["at"] == "/dev/shm"
    return {key: usage[key] if here else None for key in ("total_bytes", "free_bytes")}
