# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""The face `host` and its parts, from a host shown as a folder."""

from __future__ import annotations

import itertools
import json
import platform
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils import (
    _cpu,
    _host,
    _memory,
    _sockets,
    _system,
    _text,
)
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._containers import Containers, Owners, nothing
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._parallel import Deadline
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._run import Runner
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._tree import Tree
from hypothesis import given
from hypothesis import strategies as st

Host = Callable[[dict[str, str]], Path]
little_endian = pytest.mark.skipif(sys.byteorder != "little", reason="the sample was taken on a little-endian machine")
GIB = 1 << 30
ID = "0123456789abcdef" * 4

MEMINFO = """MemTotal:       1610612736 kB
MemFree:        1500000000 kB
MemAvailable:   1503238553 kB
SwapTotal:             0 kB
HugePages_Total:      10
HugePages_Free:        4
Hugepagesize:     524288 kB
DirectMap2M:  what
"""
CPUINFO = """processor	: 0
BogoMIPS	: 200.00
Features	: fp asimd evtstrm aes sve bf16 i8mm
CPU implementer	: 0x48
CPU part	: 0xd02

processor	: 1
Features	: fp asimd
"""
TCP = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:2134 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4242 1 0 100 0 0 10 0
   1: 0A0200C0:71FC 0B0200C0:D2F0 01 00000000:00000000 00:00000000 00000000     0        0 4243 1 0 20 4 30 10 -1
   2: 00000000:71FC 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4244 1 0 100 0 0 10 0
"""
TCP6 = TCP.splitlines()[0] + (
    "\n   0: 00000000000000000000000000000000:0016 00000000000000000000000000000000:0000 0A 00000000:00000000"
    " 00:00000000 00000000     0        0 4245 1 0 100 0 0 10 0\n"
)


def test_meminfo() -> None:
    info = _memory.parse_meminfo(MEMINFO)
    assert info["MemTotal"] == 1536 * GIB
    assert (info["Hugepagesize"], info["HugePages_Total"]) == (512 << 20, 10)
    assert "DirectMap2M" not in info
    assert _memory.parse_meminfo("Node 1 MemFree:   4 kB\nNode 1 HugePages_Free:  2")["MemFree"] == 4096


@pytest.mark.parametrize(
    ("page", "free", "largest"),
    [
        (4096, (2 << 20) * 3 + (4 << 20) * 2, 4 << 20),
        (65536, (2 << 20) * 5 + (4 << 20) * 1 + (8 << 20) * 1 + 3 * (32 << 20) + 2 * (64 << 20), 64 << 20),
    ],
)
def test_buddyinfo(page: int, free: int, largest: int) -> None:
    text = "Node 0, zone   Normal      9      8      7      0      0      5      1      1      0      3      2\n"
    assert _memory.parse_buddyinfo(text, page) == [{"node": 0, "free_bytes": free, "largest_block_bytes": largest}]


@pytest.mark.parametrize(("page", "columns", "limit"), [(4096, 11, 4 << 20), (65536, 14, 512 << 20), (65536, 0, None)])
def test_the_largest_block_that_the_kernel_can_show(page: int, columns: int, limit: int | None) -> None:
    """Never 1 GiB, so that nobody takes a large free_bytes for pages of 1 GiB."""
    text = f"Node 0, zone      DMA\nNode 0, zone   Normal{'  0' * columns}\n"
    assert _memory.parse_block_limit(text, page) == limit


def test_pagetypeinfo() -> None:
    text = """Page block order: 9
Pages per block:  512

Free pages count per migrate type at order       0      1      2      3      4      5      6      7      8      9     10
Node    0, zone      DMA, type    Unmovable      0      0      0      0      0      0      0      0      1      0      0
Node    0, zone   Normal, type    Unmovable   2846   2444   1760   1135    386    108     73    102     25      2      1
Node    0, zone   Normal, type   Movable      1   6587    730    182     65     31     15      6    498    569 >100000
Node    1, zone   Normal, type      Movable      1      0      0      0      0      0      0      0      0      1      0
Node    1, zone   Normal, type          CMA      0      0      0      0      0      0      0      0      0      0      3

Number of blocks type     Unmovable      Movable  Reclaimable   HighAtomic      Isolate
Node 0, zone      DMA            1            7            0            0            0
"""
    assert _memory.parse_pagetypeinfo(text, 4096) == {
        "Unmovable": 2 * (2 << 20) + (4 << 20),
        "Movable": 570 * (2 << 20) + 100000 * (4 << 20),
        "CMA": 3 * (4 << 20),
    }
    assert _memory.parse_pagetypeinfo("", 4096) == {}


def test_cpuinfo_of_aarch64() -> None:
    assert _cpu.parse_cpuinfo(CPUINFO) == {
        "count": 2,
        "model": "implementer 0x48 part 0xd02",
        "features": ["aes", "asimd", "bf16", "evtstrm", "fp", "i8mm", "sve"],
        "sve": True,
        "bf16": True,
    }


def test_cpuinfo_of_x86_and_of_nothing() -> None:
    cpu = _cpu.parse_cpuinfo("processor\t: 0\nmodel name\t: AMD EPYC\nflags\t\t: fpu avx512_bf16\n")
    assert (cpu["model"], cpu["sve"], cpu["bf16"]) == ("AMD EPYC", False, False)
    assert _cpu.parse_cpuinfo("")["sve"] is None


@little_endian
def test_sockets() -> None:
    assert _sockets.parse_sockets(TCP, "tcp") == [
        {"address": "127.0.0.1", "port": 8500, "protocol": "tcp", "inode": 4242},
        {"address": "0.0.0.0", "port": 29180, "protocol": "tcp", "inode": 4244},
    ]
    assert _sockets.parse_sockets(TCP6, "tcp6") == [{"address": "::", "port": 22, "protocol": "tcp", "inode": 4245}]


@little_endian
def test_listeners_and_their_owners(host: Host) -> None:
    root = host(
        {
            "/proc/net/tcp": TCP,
            "/proc/net/tcp6": TCP6,
            "/proc/77/fd/3": "-> socket:[4244]",
            "/proc/77/comm": "vllm\n",
            "/proc/77/cgroup": f"0::/docker/{ID}\n",
            "/proc/812/fd/5": "-> socket:[4245]",
            "/proc/812/comm": "sshd\n",
            "/proc/812/cgroup": "0::/system.slice/ssh.service\n",
        }
    )
    tree = Tree(str(root))
    owners = Owners(tree, [{"id": ID, "name": "pd-decode", "state": "running", "chips": []}])
    assert [tuple(entry.values()) for entry in _sockets.listeners(tree, owners, [])] == [
        ("::", 22, "tcp", 812, "sshd", None),
        ("127.0.0.1", 8500, "tcp", None, None, None),
        ("0.0.0.0", 29180, "tcp", 77, "vllm", "pd-decode"),
    ]


@pytest.mark.parametrize(
    ("text", "ranges"),
    [
        ("", []),
        ("\n", []),
        ("8080,9148\n", [[8080, 8080], [9148, 9148]]),
        ("20000-30000,50000-50100", [[20000, 30000], [50000, 50100]]),
        ("1-x, 7", [[7, 7]]),
    ],
)
def test_reserved_ports(host: Host, text: str, ranges: list[list[int]]) -> None:
    tree = Tree(str(host({"/proc/sys/net/ipv4/ip_local_reserved_ports": text})))
    assert _sockets.reserved_ports(tree, []) == ranges


def test_ephemeral_ports(host: Host) -> None:
    tree = Tree(str(host({"/proc/sys/net/ipv4/ip_local_port_range": "32768\t60999\n"})))
    assert _sockets.ephemeral_ports(tree, []) == [32768, 60999]
    reasons: list[str] = []
    assert _sockets.ephemeral_ports(Tree("/nonexistent"), reasons) is None
    assert len(reasons) == 1


def test_files_of_proc_sys_are_read_on_this_kernel() -> None:
    reasons: list[str] = []
    assert _sockets.ephemeral_ports(Tree(), reasons) is not None
    assert reasons == []


@pytest.mark.parametrize(
    ("line", "addresses", "loopback"),
    [
        ("127.0.1.1 a3-01.example.org a3-01", ["127.0.1.1"], True),
        ("192.0.2.10 a3-01  # us", ["192.0.2.10"], False),
        ("192.0.2.10 A3-01.example.org", ["192.0.2.10"], False),
        ("# 127.0.1.1 a3-01", [], False),
        ("::1 a3-01", ["::1"], True),
    ],
)
def test_hosts_file(host: Host, line: str, addresses: list[str], loopback: bool) -> None:
    tree = Tree(str(host({"/etc/hosts": f"127.0.0.1 localhost\n{line}\n"})))
    found = _system.hosts_file(tree, "a3-01.example.org" if "A3" in line else "a3-01", [])
    assert (found["own_addresses"], found["own_name_on_loopback"]) == (addresses, loopback)
    assert found["localhost_addresses"] == ["127.0.0.1"]


def test_proxies(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        _system.os, "environ", {"HTTP_PROXY": "http://user:pa55@192.0.2.9:3128/", "no_proxy": "localhost"}
    )
    tree = Tree(str(host({"/etc/environment": 'PATH="/usr/bin"\nexport https_proxy="http://192.0.2.9:3128"\n'})))
    assert _system.proxies(tree, {"no_proxy": "example.org"}) == {
        "environment": {"http_proxy": "http://***@192.0.2.9:3128/", "no_proxy": "localhost"},
        "etc_environment": {"https_proxy": "http://192.0.2.9:3128"},
        "engine": {"no_proxy": "example.org"},
    }


def test_paths(tmp_path: Path, host: Host) -> None:
    root = host({"/etc/hccn.conf": "address_0=1\n", "/usr/local/dcmi/": "", "/dangling": "-> nowhere"})
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(root / "sock"))
    tree = Tree(str(root))
    assert _system.describe_path(tree, "/etc/hccn.conf")["size_bytes"] == 12
    assert _system.describe_path(tree, "/usr/local/dcmi")["kind"] == "directory"
    assert _system.describe_path(tree, "/sock")["kind"] == "socket"
    for absent in ("/dangling", "/nowhere"):
        assert _system.describe_path(tree, absent) == {
            "exists": False,
            "kind": None,
            "size_bytes": None,
            "mode": None,
            "reason": None,
        }
    assert _system.describe_path(tree, "/etc/hccn.conf/below")["reason"] == "/etc/hccn.conf/below: Not a directory"
    assert _system.describe_path(Tree(), "/dev/null")["kind"] == "char_device"


def test_space_of_a_folder_that_does_not_exist_yet(host: Host) -> None:
    tree = Tree(str(host({"/data/": ""})))
    usage = _memory.space(tree, "/data/models/x")
    assert usage["at"] == "/data"
    assert usage["total_bytes"] >= usage["free_bytes"] > 0
    assert _memory.shm(tree) == {"total_bytes": None, "free_bytes": None}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("-P INPUT DROP\n-A INPUT -i lo -j ACCEPT\n-A INPUT -p tcp --dport 22 -j ACCEPT\n", ("DROP", 2)),
        ("-P INPUT ACCEPT\n", ("ACCEPT", 0)),
        ("iptables: Permission denied", (None, None)),
    ],
)
def test_input_chain(text: str, expected: tuple[str | None, int | None]) -> None:
    assert _system.parse_input_chain(text) == expected


CHAINS = """{"nftables": [{"metainfo": {"version": "1.0.6", "json_schema_version": 1}},
 {"chain": {"family": "inet", "table": "filter", "name": "input", "handle": 1, "type": "filter", "hook": "input",
  "prio": 0, "policy": "drop"}},
 {"chain": {"family": "inet", "table": "filter", "name": "output", "handle": 2, "type": "filter", "hook": "output",
  "prio": 0, "policy": "accept"}},
 {"chain": {"family": "inet", "table": "filter", "name": "ours", "handle": 3}}]}"""


def test_nft_chains() -> None:
    assert _system.parse_nft_chains(CHAINS) == [
        {"family": "inet", "table": "filter", "name": "input", "policy": "drop"}
    ]
    assert _system.parse_nft_chains("Operation not permitted") == []


BUILTIN = f"/lib/modules/{platform.release()}/modules.builtin"


@pytest.mark.parametrize(
    "shows",
    [
        {"/proc/modules": "", "/sys/module/nf_tables/": ""},
        {"/proc/modules": "", BUILTIN: "kernel/net/netfilter/nf_tables.ko\n"},
        {"/proc/": ""},
    ],
    ids=["loaded", "built in", "a kernel that takes no modules"],
)
def test_firewall_with_nft_alone(
    host: Host, tool: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch, shows: dict[str, str]
) -> None:
    place = tool("nft", f"cat <<'END'\n{CHAINS}\nEND")
    monkeypatch.setattr(_system, "find_tool", lambda name: str(place) if name == "nft" else None)
    seen = _system.firewall(Tree(str(host(shows))), Runner(Deadline(10)))
    assert [chain["policy"] for chain in seen["nft_input"]] == ["drop"]
    assert (seen["input_policy"], seen["reason"]) == (None, None)


@pytest.mark.parametrize(
    ("builtin", "more"),
    [
        ({BUILTIN: "kernel/net/ipv4/tcp_cubic.ko\n"}, ""),
        ({}, f"; {BUILTIN}: No such file or directory"),
    ],
)
def test_firewall_that_asking_would_load(
    host: Host, tool: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch, builtin: dict[str, str], more: str
) -> None:
    place = tool("nft", f"cat <<'END'\n{CHAINS}\nEND")
    monkeypatch.setattr(_system, "find_tool", lambda name: str(place) if name == "nft" else None)
    seen = _system.firewall(Tree(str(host({"/proc/modules": "", **builtin}))), Runner(Deadline(10)))
    nothing = "input chains not read: no filter table is loaded into the kernel or known to be built into it"
    assert (seen["nft_input"], seen["reason"]) == ([], nothing + more)


@given(
    st.recursive(
        st.none() | st.integers() | st.sampled_from(["input", "chain"]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["nftables", "chain", "hook", "policy", "name"]), inner)
        ),
    )
)
def test_any_json_gives_chains_or_none(value: Any) -> None:
    assert isinstance(_system.parse_nft_chains(json.dumps({"nftables": value})), list)
    assert isinstance(_system.parse_nft_chains(json.dumps(value)), list)


def test_clock() -> None:
    assert _system.clock(None)["offset_s"] is None
    now = _system.clock(None)["epoch_s"]
    assert now is not None
    offset = _system.clock(now - 100)["offset_s"]
    assert offset is not None
    assert 100 <= offset < 110


def gather(root: Path, containers: Containers, **options: Any) -> dict[str, Any]:
    tree = Tree(str(root))
    face = _host.gather(tree, Runner(Deadline(20)), containers, Owners(tree, containers.entries), **options)
    assert set(face) == set(_host.empty())
    return face


def test_gather(host: Host) -> None:
    root = host(
        {
            "/proc/meminfo": MEMINFO,
            "/proc/cpuinfo": CPUINFO,
            "/proc/buddyinfo": "Node 0, zone Normal 0 0 0 0 0 0 0 0 0 0 512\n",
            "/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages": "8\n",
            "/sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages": "3\n",
            "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": "0\n",
            "/sys/devices/system/node/node1/hugepages/hugepages-1048576kB/free_hugepages": "2\n",
            "/proc/net/tcp": TCP.splitlines()[0],
            "/proc/sys/net/ipv4/ip_local_port_range": "32768 60999",
            "/proc/sys/net/ipv4/ip_local_reserved_ports": "",
            "/sys/devices/system/node/node1/meminfo": "Node 1 MemTotal: 8 kB\nNode 1 MemFree: 4 kB\n",
            "/sys/devices/system/node/node1/cpulist": "80-159\n",
            "/etc/hosts": "",
            "/etc/os-release": 'ID="openEuler"\nVERSION_ID="24.03"\nPRETTY_NAME="openEuler 24.03 (LTS)"\n',
            "/var/lib/docker/": "",
        }
    )
    engine = {**nothing(None).engine, "root_dir": "/var/lib/docker"}
    face = gather(root, Containers(engine, {}, [], []), paths=["/etc/hosts"], disk_paths=["/data"])
    assert face["reasons"] == []
    assert face["os"] == {"id": "openEuler", "version": "24.03", "name": "openEuler 24.03 (LTS)"}
    assert face["memory"]["total_bytes"] == 1536 * GIB
    assert [(node["node"], node["free_bytes"], node["cpus"]) for node in face["memory"]["numa"]] == [
        (1, 4096, "80-159")
    ]
    assert face["memory"]["hugepages"] == {
        "size_bytes": 512 << 20,
        "total": 10,
        "free": 4,
        "pools": [
            {"size_bytes": 2 << 20, "total": 0, "free": None},
            {"size_bytes": GIB, "total": 8, "free": 3},
        ],
    }
    assert face["memory"]["numa"][0]["hugepage_pools"] == [{"size_bytes": GIB, "total": None, "free": 2}]
    assert face["contiguous"]["kinds"] is None  # for root only, and absent here
    assert set(face["disks"]) == {"/data", "/var/lib/docker"}
    assert face["paths"]["/etc/hosts"]["exists"]


def test_nothing_can_be_read() -> None:
    face = gather(Path("/nonexistent"), nothing("/var/run/docker.sock: Permission denied"), disk_paths=["/data"])
    for start in ("container engine: ", "/proc/meminfo: ", "/proc/cpuinfo: ", "/proc/net/tcp ", "/etc/hosts: "):
        assert any(reason.startswith(start) for reason in face["reasons"]), start
    assert face["memory"]["total_bytes"] is None
    assert face["disks"]["/data"]["reason"]
    assert face["contiguous"]["reason"]


FREE = "Node    0, zone   Normal, type      Movable      1   6587 >100000"
WORDS = [*TCP, *MEMINFO.splitlines(), *CPUINFO.splitlines(), *FREE.split(), FREE, "\n"]


@given(st.text() | st.lists(st.sampled_from(WORDS)).map("".join))
def test_any_text_gives_data_or_nothing(text: str) -> None:
    _memory.parse_meminfo(text)
    _memory.parse_buddyinfo(text, 4096)
    _memory.parse_block_limit(text, 4096)
    _memory.parse_pagetypeinfo(text, 4096)
    _cpu.parse_cpuinfo(text)
    for protocol in ("tcp", "tcp6", "udp", "udp6"):
        for entry in _sockets.parse_sockets("header\n" + text, protocol):
            assert 0 < entry["port"] < 65536
    _system.parse_hosts(text)
    _system.parse_input_chain(text)
    _system.parse_nft_chains(text)
    _text.key_values(text)
    _text.mask_credentials(text)
    _text.parse_ranges(text)


@given(st.sets(st.integers(0, 50)))
def test_ranges_there_and_back(numbers: set[int]) -> None:
    ranges = _text.parse_ranges(_text.format_ranges(numbers))
    assert {number for low, high in ranges for number in range(low, high + 1)} == numbers
    assert all(low > high + 1 for (_, high), (low, _) in itertools.pairwise(ranges))
