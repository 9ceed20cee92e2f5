# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""The face `nic` from /sys shown as a folder, and from the kernel of a network namespace."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils import _nics
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._netlink import Kernel
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._parallel import Deadline
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._run import Runner
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._tree import Tree
from hypothesis import given
from hypothesis import strategies as st

Host = Callable[[dict[str, str]], Path]
ROUTES = (
    "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
    "eth9\t00000000\t016433C6\t0003\t0\t0\t200\t00000000\t0\t0\t0\n"
    "enp1s0f0\t00000000\t010200C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
    "enp1s0f0\t000200C0\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0\n"
)


class StandIn(Kernel):
    """A kernel with given addresses and one route for all peers but those it does not know."""

    def __init__(self, addresses: list[dict[str, Any]], index: int = 2, source: str = "192.0.2.10") -> None:
        self._addresses, self._index, self._source = addresses, index, source

    def addresses(self) -> list[dict[str, Any]]:
        return self._addresses

    def route(self, address: str) -> dict[str, Any]:
        if address.startswith("203.0.113."):
            raise OSError(101, "Network is unreachable")
        local = address.startswith("127.")
        return {"index": 1 if local else self._index, "source": self._source, "gateway": None, "local": local}


def net(name: str, index: int, **files: str) -> dict[str, str]:
    """Files of one interface; further ones by name, `__` for a slash."""
    usual = {"flags": "0x1003", "operstate": "up", "carrier": "1", "mtu": "1500", "type": "1", "ifindex": str(index)}
    usual.update(iflink=str(index), address="02:00:00:00:00:01", uevent=f"INTERFACE={name}\n")
    usual.update({file.replace("__", "/"): content for file, content in files.items()})
    return {f"/sys/class/net/{name}/{file}": content for file, content in usual.items()}


@pytest.mark.parametrize(
    ("kind", "name", "files"),
    [
        ("loopback", "lo", {"type": "772"}),
        ("physical", "enp1s0f0", {"device__driver": "-> ../../../../bus/pci/drivers/hns3"}),
        ("bond", "bond0", {"bonding__mode": "802.3ad 4", "uevent": "DEVTYPE=bond"}),
        ("vlan", "enp1s0f0.7", {"uevent": "DEVTYPE=vlan", "iflink": "2"}),
        ("bridge", "br0", {"bridge__bridge_id": "8000.0"}),
        ("docker", "docker0", {"bridge__bridge_id": "8000.0"}),
        ("docker", "br-0123456789ab", {"bridge__bridge_id": "8000.0"}),
        ("tun", "tun0", {"tun_flags": "0x1001", "type": "65534"}),
        ("tun", "wg0", {"uevent": "DEVTYPE=wireguard", "type": "65534"}),
        ("veth", "veth12", {"iflink": "9"}),
        ("macvlan", "mv0", {"uevent": "DEVTYPE=macvlan", "iflink": "2"}),
        ("virtual", "dummy0", {}),
    ],
)
def test_kinds(host: Host, kind: str, name: str, files: dict[str, str]) -> None:
    assert _nics.interface(Tree(str(host(net(name, 3, **files)))), name)["kind"] == kind


def test_traits(host: Host) -> None:
    root = host(
        {
            **net("enp1s0f0", 2, speed="200000", device__driver="-> ../drivers/hns3", master="-> ../bond0"),
            **net("eth1", 3, speed="-1", carrier="", operstate="down", flags="0x1002", mtu="what"),
            **net(
                "bond0", 4, bonding__mode="802.3ad 4\n", bonding__slaves="enp1s0f0 eth1\n", bonding__active_slave="\n"
            ),
            **net("bond0.7", 5, uevent="DEVTYPE=vlan\nINTERFACE=bond0.7\n"),
            **net("br0", 6, bridge__bridge_id="8000.0", brif__eth1="x"),
            "/proc/net/vlan/bond0.7": "bond0.7  VID: 7\t REORDER_HDR: 1\nDevice: bond0\n",
            "/sys/class/net/bonding_masters": "bond0\n",
        }
    )
    seen = {entry["name"]: entry for entry in _nics.interfaces(Tree(str(root)), StandIn([]), [])}
    assert sorted(seen) == ["bond0", "bond0.7", "br0", "enp1s0f0", "eth1"]
    physical = seen["enp1s0f0"]
    assert (physical["driver"], physical["speed_mbps"], physical["master"]) == ("hns3", 200000, "bond0")
    off = seen["eth1"]
    assert (off["speed_mbps"], off["carrier"], off["admin_up"], off["mtu"]) == (None, None, False, None)
    assert seen["bond0"]["members"] == ["enp1s0f0", "eth1"]
    assert seen["bond0"]["bond"] == {"mode": "802.3ad", "active": None}
    assert seen["bond0.7"]["vlan"] == {"id": 7, "parent": "bond0"}
    assert seen["br0"]["members"] == ["eth1"]


@pytest.mark.skipif(sys.byteorder != "little", reason="the sample was taken on a little-endian machine")
def test_routes() -> None:
    routes = _nics.parse_routes(ROUTES)
    assert routes[2] == {"destination": "192.0.2.0/24", "gateway": None, "interface": "enp1s0f0", "metric": 100}
    assert _nics.default_route(routes) == {
        "destination": "0.0.0.0/0",
        "gateway": "192.0.2.1",
        "interface": "enp1s0f0",
        "metric": 100,
    }
    assert _nics.default_route(routes[2:]) is None


NONE6 = "0" * 32
ROUTES6 = f"""\
20010db8{"0" * 24} 40 {NONE6} 00 {NONE6} 00000100 00000001 00000000 00000001     eth0
fe80{"0" * 28} 40 {NONE6} 00 {NONE6} 00000100 00000001 00000000 00000001     eth0
{NONE6} 00 {NONE6} 00 20010db8{"0" * 23}1 00000400 00000002 00000000 00000003     eth0
{NONE6} 00 {NONE6} 00 {NONE6} ffffffff 00000001 00000000 00200200       lo
20010db8{"0" * 23}2 80 {NONE6} 00 {NONE6} 00000000 00000003 00000000 80200001     eth0
ff00{"0" * 28} 08 {NONE6} 00 {NONE6} 00000100 00000004 00000000 00000001     eth0
"""


def test_routes_of_ipv6() -> None:
    assert _nics.parse_routes6(ROUTES6) == [
        {"destination": "2001:db8::/64", "gateway": None, "interface": "eth0", "metric": 256},
        {"destination": "fe80::/64", "gateway": None, "interface": "eth0", "metric": 256},
        {"destination": "::/0", "gateway": "2001:db8::1", "interface": "eth0", "metric": 1024},
    ]


@given(
    st.text()
    | st.lists(st.text(alphabet="0123456789ABCDEF \t-eth٣", max_size=80)).map("\n".join)
    | st.lists(st.sampled_from([*ROUTES6.split(), NONE6, "xyz"])).map(" ".join)
)
def test_any_text_gives_routes_or_none(text: str) -> None:
    for route in _nics.parse_routes("header\n" + text) + _nics.parse_routes6(text):
        assert "/" in route["destination"]


@pytest.mark.skipif(sys.byteorder != "little", reason="the sample was taken on a little-endian machine")
def test_gather(host: Host) -> None:
    root = host({**net("lo", 1, type="772"), **net("enp1s0f0", 2, device__vendor="x"), "/proc/net/route": ROUTES})
    addresses = [
        {"index": 1, "family": "ipv4", "address": "127.0.0.1", "prefix": 8},
        {"index": 2, "family": "ipv6", "address": "2001:db8::10", "prefix": 64},
        {"index": 2, "family": "ipv4", "address": "192.0.2.10", "prefix": 24},
    ]
    with socket.create_server(("127.0.0.1", 0)) as server:
        open_port = server.getsockname()[1]
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            closed_port = unused.getsockname()[1]
            peers = [
                {"address": "127.0.0.1", "ports": [open_port, closed_port]},
                {"address": "203.0.113.9", "ports": [1]},
            ]
            face = _nics.gather(Tree(str(root)), Runner(Deadline(20)), peers, kernel=StandIn(addresses))
    assert set(face) == set(_nics.empty())
    assert face["peers"]["127.0.0.1"]["tcp"] == {str(open_port): "ok", str(closed_port): "refused"}
    assert face["peers"]["127.0.0.1"]["local"]
    assert face["peers"]["203.0.113.9"] == {
        **face["peers"]["203.0.113.9"],
        "interface": None,
        "tcp": {"1": "no route: Network is unreachable"},
        "reason": "no route: Network is unreachable",
    }
    assert face["serving"] == {"name": "enp1s0f0", "address": "192.0.2.10", "reason": "it carries the default route"}
    assert face["interfaces"][0]["addresses"] == [
        {"address": "2001:db8::10", "prefix": 64, "family": "ipv6"},
        {"address": "192.0.2.10", "prefix": 24, "family": "ipv4"},
    ]


def test_nothing_to_see() -> None:
    face = _nics.gather(Tree("/nonexistent"), Runner(Deadline(5)), kernel=StandIn([]))
    assert face["serving"] is None
    assert face["reasons"] == [
        "/sys/class/net: No such file or directory",
        "/proc/net/route: No such file or directory",
        "no interface is fit to serve",
    ]


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


@pytest.fixture
def namespaces() -> Iterator[tuple[str, str]]:
    """Two hosts on one wire, the near one with a bridge for containers and a second NIC without a peer."""
    if os.geteuid() != 0 or not shutil.which("ip"):
        pytest.skip("network namespaces need root and the ip command")
    near, far = f"pdnear{os.getpid()}", f"pdfar{os.getpid()}"
    try:
        for name in (near, far):
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        ip("-n", near, "link", "add", "wire0", "mtu", "9000", "type", "veth", "peer", "name", "eth0", "netns", far)
        ip("-n", near, "link", "add", "docker0", "type", "bridge")
        ip("-n", near, "addr", "add", "192.0.2.1/24", "dev", "wire0")
        ip("-n", near, "addr", "add", "172.17.0.1/16", "dev", "docker0")
        ip("-n", far, "addr", "add", "192.0.2.2/24", "dev", "eth0")
        ip("-n", near, "addr", "add", "2001:db8::1/64", "dev", "wire0", "nodad")
        ip("-n", far, "addr", "add", "2001:db8::2/64", "dev", "eth0", "nodad")
        for name, device in ((near, "wire0"), (near, "docker0"), (far, "eth0")):
            ip("-n", name, "link", "set", device, "up")
        yield near, far
    finally:
        for name in (near, far):
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


PROBE = """
import json
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils import _faces
peers = [{"address": address, "ports": [7], "ping": True} for address in ("192.0.2.2", "2001:db8::2")]
options = {"timeout_s": 20, "peers": peers}
print(json.dumps(_faces.probe(["nic"], options)["facts"]["nic"]))
"""


def test_a_real_network(namespaces: tuple[str, str], collection_path: Path) -> None:
    near, _far = namespaces
    argv = ["ip", "netns", "exec", near, sys.executable, "-c", PROBE]
    environment = dict(os.environ, PYTHONPATH=str(collection_path))
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=True)
    face = json.loads(done.stdout)
    peer = face["peers"]["192.0.2.2"]
    assert (peer["interface"], peer["source"], peer["tcp"]) == ("wire0", "192.0.2.1", {"7": "refused"})
    assert face["default_route"] is None
    assert face["serving"]["name"] == "wire0"
    assert [entry["name"] for entry in face["refused"]] == ["docker0", "lo"]
    peer6 = face["peers"]["2001:db8::2"]
    assert (peer6["interface"], peer6["source"], peer6["tcp"]) == ("wire0", "2001:db8::1", {"7": "refused"})
    assert "2001:db8::/64" in [route["destination"] for route in face["routes"]]
    # The far end takes 1500 bytes at most; only a measurement shows that, since the near end says 9000.
    for seen in (peer, peer6):
        if shutil.which("ping"):
            assert (seen["path_mtu"], seen["path_mtu_measured"], seen["path_mtu_below"]) == (1500, True, 9000)
        else:
            assert (seen["path_mtu"], seen["path_mtu_measured"]) == (9000, False)
            assert seen["reason"] == "path MTU not measured: ping is not installed"
