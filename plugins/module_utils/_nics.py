# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""The face `nic`: interfaces, routes, and which interface should serve; the way to the peers is in _peers."""

from __future__ import annotations

import re
import socket
import struct
from pathlib import PurePath
from typing import Any, Sequence

from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._netlink import Kernel
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._nic_choice import choose
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._peers import ways
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._run import Runner
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._tree import Tree

_NET = "/sys/class/net"
_IFF_UP = 0x1
_LOOPBACK_TYPE = 772  # ARPHRD_LOOPBACK
_RTF_GATEWAY = 0x2
_RTF_NO_WAY_OUT = 0x80100200  # of IPv6: local, anycast, reject
# Names that Docker gives its bridges: docker0, docker_gwbridge, br-<first 12 digits of the network's id>.
_DOCKER_NAME = re.compile(r"docker\w*|br-[0-9a-f]{12}|podman[0-9]+|cni[0-9-]\w*")


def empty() -> dict[str, Any]:
    """The face with nothing known."""
    return {
        "interfaces": [],
        "routes": [],
        "default_route": None,
        "peers": {},
        "serving": None,
        "refused": [],
        "reasons": [],
    }


def gather(
    tree: Tree,
    runner: Runner,
    peers: Sequence[dict[str, Any]] = (),
    nic: str | None = None,
    address: str | None = None,
    kernel: Kernel | None = None,
) -> dict[str, Any]:
    """Look at all interfaces and, with `peers` ({address, ports, ping}), at the way to each."""
    kernel = kernel or Kernel()
    face = empty()
    reasons: list[str] = face["reasons"]
    face["interfaces"] = interfaces(tree, kernel, reasons)
    # ipv6_route is absent where IPv6 is off, which is no fault.
    face["routes"] = parse_routes(tree.text("/proc/net/route", reasons) or "") + parse_routes6(
        tree.text("/proc/net/ipv6_route") or ""
    )
    face["default_route"] = default_route(face["routes"])
    names = {interface["index"]: interface["name"] for interface in face["interfaces"]}
    mtus = {interface["name"]: interface["mtu"] for interface in face["interfaces"]}
    face["peers"] = ways(peers, names, mtus, kernel, runner)
    default = face["default_route"]["interface"] if face["default_route"] else None
    face["serving"], face["refused"], cause = choose(face["interfaces"], face["peers"], default, nic, address)
    if cause:
        reasons.append(cause)
    return face


# ---- interfaces ----------------------------------------------------------------------------------------------------


def interfaces(tree: Tree, kernel: Kernel, reasons: list[str]) -> list[dict[str, Any]]:
    """Every interface as /sys/class/net shows it, with its addresses."""
    found = [interface(tree, name) for name in tree.names(_NET, reasons) if tree.exists(_NET + "/" + name + "/flags")]
    try:
        addresses = kernel.addresses()
    except OSError as error:
        addresses = []
        reasons.append(f"addresses of the interfaces: {error.strerror or error}")
    for entry in found:
        entry["addresses"] = [
            {"address": item["address"], "prefix": item["prefix"], "family": item["family"]}
            for item in addresses
            if item["index"] == entry["index"]
        ]
    return found


def interface(tree: Tree, name: str) -> dict[str, Any]:
    """One interface without its addresses."""
    base = _NET + "/" + name
    kind = _kind(tree, name)
    carrier = tree.number(base + "/carrier")  # EINVAL while the interface is down
    speed = tree.number(base + "/speed")
    return {
        "name": name,
        "index": tree.number(base + "/ifindex"),
        "kind": kind,
        "state": tree.line(base + "/operstate"),
        "admin_up": bool(_hexadecimal(tree.line(base + "/flags")) & _IFF_UP),
        "carrier": None if carrier is None else carrier == 1,
        "speed_mbps": speed if speed is not None and speed > 0 else None,
        "mtu": tree.number(base + "/mtu"),
        "driver": PurePath(tree.link(base + "/device/driver") or "").name or None,
        "mac": tree.line(base + "/address"),
        "master": PurePath(tree.link(base + "/master") or "").name or None,
        "members": _members(tree, base),
        "vlan": _vlan(tree, name) if kind == "vlan" else None,
        "bond": _bond(tree, base) if kind == "bond" else None,
        "addresses": [],
    }


def _hexadecimal(text: str | None) -> int:
    try:
        return int(text or "0", 16)
    except ValueError:
        return 0


def _kind(tree: Tree, name: str) -> str:
    base = _NET + "/" + name
    declared = re.search(r"^DEVTYPE=(\w+)", tree.text(base + "/uevent") or "", re.MULTILINE)
    if tree.number(base + "/type") == _LOOPBACK_TYPE:
        return "loopback"
    if tree.exists(base + "/bonding"):
        return "bond"
    if tree.exists(base + "/bridge"):
        return "docker" if _DOCKER_NAME.fullmatch(name) else "bridge"
    if tree.exists(base + "/tun_flags") or (declared and declared.group(1) in ("wireguard", "ppp", "gre")):
        return "tun"
    if declared and declared.group(1) in ("vlan", "macvlan", "ipvlan", "team", "vxlan", "geneve"):
        return declared.group(1)
    if tree.exists(base + "/device"):
        return "physical"
    # A veth names no type; it is the one virtual interface whose other end has an index of its own.
    peer, own = tree.number(base + "/iflink"), tree.number(base + "/ifindex")
    return "veth" if peer is not None and peer != own and peer != 0 else "virtual"


def _members(tree: Tree, base: str) -> list[str]:
    bonded = (tree.line(base + "/bonding/slaves") or "").split()
    return sorted(bonded) or tree.names(base + "/brif")


def _vlan(tree: Tree, name: str) -> dict[str, Any]:
    text = tree.text("/proc/net/vlan/" + name) or ""
    number = re.search(r"\bVID:\s*([0-9]{1,5})", text)
    parent = re.search(r"^Device:\s*(\S+)", text, re.MULTILINE)
    return {"id": int(number.group(1)) if number else None, "parent": parent.group(1) if parent else None}


def _bond(tree: Tree, base: str) -> dict[str, Any]:
    return {
        "mode": (tree.line(base + "/bonding/mode") or "").split(" ")[0] or None,
        "active": tree.line(base + "/bonding/active_slave"),
    }


# ---- routes --------------------------------------------------------------------------------------------------------


def parse_routes(text: str) -> list[dict[str, Any]]:
    """IPv4 routes of the main table from /proc/net/route; lines that are none are passed over."""
    found = []
    for line in text.splitlines()[1:]:
        fields = line.split()
        try:
            destination, gateway, mask = (_address(fields[number]) for number in (1, 2, 7))
            flags, metric = int(fields[3], 16), int(fields[6])
        except (IndexError, ValueError):
            continue
        bits = bin(struct.unpack("!I", socket.inet_aton(mask))[0]).count("1")
        found.append(
            {
                "destination": f"{destination}/{bits}",
                "gateway": gateway if flags & _RTF_GATEWAY else None,
                "interface": fields[0],
                "metric": metric,
            }
        )
    return found


def parse_routes6(text: str) -> list[dict[str, Any]]:
    """IPv6 routes from /proc/net/ipv6_route, without those to this host itself and to multicast groups."""
    found = []
    for line in text.splitlines():
        fields = line.split()
        try:
            destination, gateway = (
                socket.inet_ntop(socket.AF_INET6, bytes.fromhex(fields[number])) for number in (0, 4)
            )
            bits, metric, flags = int(fields[1], 16), int(fields[5], 16), int(fields[8], 16)
            name = fields[9]
        except (IndexError, ValueError):
            continue
        if flags & _RTF_NO_WAY_OUT or name == "lo" or fields[0].startswith("ff"):
            continue
        found.append(
            {
                "destination": f"{destination}/{bits}",
                "gateway": gateway if flags & _RTF_GATEWAY else None,
                "interface": name,
                "metric": metric,
            }
        )
    return found


def _address(digits: str) -> str:
    """`0100A8C0` as `192.168.0.1`: the kernel prints the number in the byte order of the machine."""
    return socket.inet_ntoa(struct.pack("=I", int(digits, 16) & 0xFFFFFFFF))


def default_route(routes: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """The default route for IPv4 that the kernel prefers: the lowest metric."""
    defaults = [route for route in routes if route["destination"] == "0.0.0.0/0"]
    return min(defaults, key=lambda route: route["metric"]) if defaults else None
