# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""What a simulated host shows of its hardware: one small state per host, and the /proc and /sys files made from it.

An A3 server as the guides assume it: 8 cards with 2 chips each, 8 NUMA nodes, 1.5 TiB, aarch64 cores with SVE and bf16.
All files are written in place, since they are bind-mounted into running hosts and from there into their containers.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lab.layout import STATE, Host

KIB_PER_GIB = 1024 * 1024
CORES, NODES = 256, 8
FEATURES = (
    "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm jscvt fcma dcpop sha3 sm3 sm4"
    " asimddp sha512 sve asimdfhm ssbs sb dcpodp flagm2 frint svei8mm svef32mm svef64mm svebf16 i8mm bf16 dgh rng"
).split()

HEALTHY: dict[str, Any] = {
    "driver": "25.5.1",
    "layout": "narrow",  # of npu-smi's table; "wide" from driver 26 on
    "superpod": 3,
    "pod": 1,
    # physical ids of chips that are not as they should be
    "missing": [],
    "alarm": [],
    "link_down": [],
    "net_health_fault": [],
    "tls_on": [],
    "memory_gib": 1536,
    "available_gib": 1475,
    "hugepages": 0,  # of 2 MiB
    "without_features": [],  # beginnings of names
    "refused": False,  # npu-smi may not use the devices
}


def folder(host: Host) -> Path:
    return host.folder / "hardware"


def binds(host: Host) -> dict[Path, str]:
    """Which of these files stands where on the host."""
    here = folder(host)
    return {
        here / "state": "/usr/local/Ascend/driver/hardware",
        here / "meminfo": "/proc/meminfo",
        here / "cpuinfo": "/proc/cpuinfo",
        here / "node": "/sys/devices/system/node",
    }


def show(host: Host, changes: dict[str, Any]) -> None:
    """Write the files of a host whose hardware is healthy but for the changes."""
    state = {**HEALTHY, **changes, "host": host.number}
    here = folder(host)
    (here / "state").mkdir(parents=True, exist_ok=True)
    _write(here / "state" / "state.json", json.dumps(state))
    _write(here / "meminfo", _meminfo(state["memory_gib"], state["available_gib"], state["hugepages"]))
    absent = tuple(state["without_features"])
    _write(here / "cpuinfo", _cpuinfo([name for name in FEATURES if not name.startswith(absent)]))
    _nodes(here / "node", state["memory_gib"] // NODES, state["available_gib"] // NODES)
    _update_fabric()


def _update_fabric() -> None:
    """Every host knows which SuperPod the others are in: that decides who answers a ping over HCCS."""
    files = sorted((STATE / "hosts").glob("*/hardware/state/state.json"))
    states = {file: json.loads(file.read_text()) for file in files}
    fabric = {str(state["host"]): state["superpod"] for state in states.values()}
    for file, state in states.items():
        _write(file, json.dumps({**state, "fabric": fabric}, indent=1) + "\n")
        _write(file.with_name("hccn"), hccn({**state, "fabric": fabric}))


def hccn(state: dict[str, Any]) -> str:
    """What hccn_tool, a shell script, reads of the state: lists of words."""
    chips = ("missing", "link_down", "net_health_fault", "tls_on")
    values = {name.upper(): " ".join(map(str, state[name])) for name in chips}
    fabric = " ".join(f"{host}:{superpod}" for host, superpod in state["fabric"].items())
    values |= {"HOST": str(state["host"]), "SUPERPOD": str(state["superpod"]), "FABRIC": fabric}
    return "".join(f"{name}='{value}'\n" for name, value in values.items())


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        with path.open("w") as file:
            file.write(text)


def _meminfo(total: int, available: int, hugepages: int) -> str:
    kib = {
        "MemTotal": total * KIB_PER_GIB,
        "MemFree": (available - 3) * KIB_PER_GIB,
        "MemAvailable": available * KIB_PER_GIB,
        "Buffers": 412312,
        "Cached": 9 * KIB_PER_GIB,
        "SwapCached": 0,
        "Active": 6 * KIB_PER_GIB,
        "Inactive": 7 * KIB_PER_GIB,
        "SwapTotal": 0,
        "SwapFree": 0,
        "Dirty": 212,
        "AnonPages": 3 * KIB_PER_GIB,
        "Mapped": 812344,
        "Shmem": 93120,
        "Slab": 5 * KIB_PER_GIB,
        "CommitLimit": total * KIB_PER_GIB // 2,
        "Committed_AS": 8 * KIB_PER_GIB,
        "VmallocTotal": 133009506240,
        "AnonHugePages": KIB_PER_GIB,
    }
    pages = {"HugePages_Total": hugepages, "HugePages_Free": hugepages, "HugePages_Rsvd": 0, "HugePages_Surp": 0}
    rows = [f"{name + ':':<15} {value:>10} kB" for name, value in kib.items()]
    rows += [f"{name + ':':<15} {value:>7}" for name, value in pages.items()]
    return "\n".join([*rows, f"{'Hugepagesize:':<15} {2048:>7} kB", f"{'Hugetlb:':<15} {hugepages * 2048:>10} kB", ""])


def _cpuinfo(features: list[str]) -> str:
    rest = (
        f"BogoMIPS\t: 200.00\nFeatures\t: {' '.join(features)}\nCPU implementer\t: 0x48\nCPU architecture: 8\n"
        "CPU variant\t: 0x1\nCPU part\t: 0xd06\nCPU revision\t: 0\n\n"
    )
    return "".join(f"processor\t: {core}\n{rest}" for core in range(CORES))


def _nodes(here: Path, total: int, available: int) -> None:
    everyone = f"0-{NODES - 1}\n"
    for name in ("online", "possible", "has_cpu", "has_memory", "has_normal_memory"):
        _write(here / name, everyone)
    for node in range(NODES):
        first = node * CORES // NODES
        last = (node + 1) * CORES // NODES - 1
        kib = {"MemTotal": total, "MemFree": available, "MemUsed": total - available}
        kib |= {"Active(file)": 0, "Inactive(file)": 0, "SReclaimable": 0}  # vLLM for the CPU reads them
        rows = [f"Node {node} {name + ':':<15} {value * KIB_PER_GIB:>8} kB" for name, value in kib.items()]
        rows += [f"Node {node} HugePages_{name + ':':<6} {0:>5}" for name in ("Total", "Free", "Surp")]
        mine = here / f"node{node}"
        _write(mine / "meminfo", "\n".join(rows) + "\n")
        _write(mine / "cpulist", f"{first}-{last}\n")
        _write(mine / "cpumap", _cpumap(range(first, last + 1)))
        distances = (10 if other == node else 12 if other // 2 == node // 2 else 35 for other in range(NODES))
        _write(mine / "distance", " ".join(map(str, distances)) + "\n")
        for size in ("2048kB", "1048576kB"):
            for name in ("nr_hugepages", "free_hugepages", "surplus_hugepages"):
                _write(mine / "hugepages" / f"hugepages-{size}" / name, "0\n")


def _cpumap(cores: range) -> str:
    """Bit mask of cores in the kernel's notation: words of 32 bits, the highest first."""
    mask = sum(1 << core for core in cores)
    words = [f"{mask >> 32 * word & 0xFFFFFFFF:08x}" for word in reversed(range(CORES // 32))]
    return ",".join(words) + "\n"
