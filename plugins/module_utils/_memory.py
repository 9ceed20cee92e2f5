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
_ZONE = r"Node\s+([0-9]{1,6}),\s+zone\s+\S+"  # how a line of /proc/buddyinfo begins


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
    for number, counts in _zones(_ZONE, text):
        node = nodes.setdefault(int(number), {"node": int(number), "free_bytes": 0, "largest_block_bytes": 0})
        for block, count in _blocks(counts, page_bytes):
            node["free_bytes"] += count * block
            node["largest_block_bytes"] = max(node["largest_block_bytes"], block)
    return [nodes[number] for number in sorted(nodes)]


def parse_block_limit(text: str, page_bytes: int) -> int | None:
    """The largest block that the kernel's lists in `/proc/buddyinfo` can hold, free or not; 4 to 512 MiB."""
    orders = [len(counts) for _node, counts in _zones(_ZONE, text)]
    return page_bytes << (max(orders) - 1) if orders else None


def parse_pagetypeinfo(text: str, page_bytes: int) -> dict[str, int]:
    """`/proc/pagetypeinfo`: free bytes in blocks of at least 2 MiB by what they are kept for (Movable, CMA, ...).

    At least: the kernel stops counting at 100000 blocks of one size (`>100000`).
    """
    kinds: dict[str, int] = {}
    for kind, counts in _zones(r"Node\s+[0-9]{1,6},\s+zone\s+\S+\s+type\s+(\S+)", text):
        size = sum(block * count for block, count in _blocks(counts, page_bytes))
        kinds[kind] = kinds.get(kind, 0) + size
    return kinds


def _zones(start: str, text: str) -> list[tuple[str, list[int]]]:
    """(what `start` captures, free blocks by order) of every line that begins so and ends with nothing but counts."""
    matches = (re.match(start + r"((?:\s+>?[0-9]{1,12}){1,24})\s*$", line) for line in text.splitlines())
    return [(match.group(1), [int(n) for n in re.findall("[0-9]+", match.group(2))]) for match in matches if match]


def _blocks(counts: list[int], page_bytes: int) -> list[tuple[int, int]]:
    """(size in bytes, number) of the free blocks that can hold a page of 2 MiB."""
    sizes = [(page_bytes << order, count) for order, count in enumerate(counts) if count]
    return [(size, count) for size, count in sizes if size >= _SMALLEST_USEFUL_BLOCK]


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
            "pools": _pools(tree, "/sys/kernel/mm"),
        },
    }


def _pools(tree: Tree, base: str) -> list[dict[str, Any]]:
    """Huge pages of every size that the kernel offers; /proc/meminfo tells of the default size only."""
    folder = base + "/hugepages"
    names = (re.fullmatch(r"hugepages-([0-9]{1,9})kB", name) for name in tree.names(folder))
    pools = [
        {
            "size_bytes": int(name.group(1)) << 10,
            "total": tree.number(f"{folder}/{name.group(0)}/nr_hugepages"),
            "free": tree.number(f"{folder}/{name.group(0)}/free_hugepages"),
        }
        for name in names
        if name
    ]
    return sorted(pools, key=lambda pool: int(pool["size_bytes"] or 0))


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
                "hugepage_pools": _pools(tree, base),
                "cpus": tree.line(base + "/cpulist"),
            }
        )
    return nodes


def contiguous(tree: Tree) -> dict[str, Any]:
    """Free memory in blocks that can hold a 2 MiB page.

    Whether such blocks join to 1 GiB pages the kernel's lists cannot tell, as they end at `limit_bytes`: that takes a
    scan of /proc/kpageflags (`mfcli mem scan`, minutes on a host of 1.5 TiB). Memory that caches hold does not count
    here, though the kernel may give it back.
    """
    reasons: list[str] = []
    page_bytes = os.sysconf("SC_PAGE_SIZE")
    text = tree.text("/proc/buddyinfo", reasons) or ""
    nodes = parse_buddyinfo(text, page_bytes)
    if not nodes and not reasons:
        reasons.append("/proc/buddyinfo: no zone of a node in it")
    return {
        "free_bytes": sum(node["free_bytes"] for node in nodes) if nodes else None,
        "limit_bytes": parse_block_limit(text, page_bytes),
        "nodes": nodes,
        # Only root may read it.
        "kinds": parse_pagetypeinfo(tree.text("/proc/pagetypeinfo") or "", page_bytes) or None,
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
