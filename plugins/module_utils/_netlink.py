# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Addresses and the kernel's choice of route, asked over rtnetlink: no `ip` command, no root.

Message layouts: linux/netlink.h, linux/rtnetlink.h, linux/if_addr.h of the kernel's user API.
"""

from __future__ import annotations

import os
import socket
import struct
from typing import Any, Iterator

_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_RTM_NEWADDR, _RTM_GETADDR, _RTM_NEWROUTE, _RTM_GETROUTE = 20, 22, 24, 26
_NLM_F_REQUEST, _NLM_F_DUMP = 0x1, 0x300
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_RTA_DST, _RTA_OIF, _RTA_GATEWAY, _RTA_PREFSRC = 1, 4, 5, 7
_RTN_LOCAL = 2

_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
_IFADDR = struct.Struct("=BBBBI")  # family, prefix length, flags, scope, interface index
_ROUTE = struct.Struct("=BBBBBBBBI")  # family, dst_len, src_len, tos, table, protocol, scope, type, flags
_ATTRIBUTE = struct.Struct("=HH")  # length, type

_FAMILIES: dict[int, str] = {socket.AF_INET: "ipv4", socket.AF_INET6: "ipv6"}
_SIZES: dict[int, int] = {socket.AF_INET: 4, socket.AF_INET6: 16}  # bytes of an address


def messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    """(type, payload) of every whole message; a cut tail is left out."""
    at = 0
    while at + _HEADER.size <= len(data):
        length, kind, _flags, _sequence, _port = _HEADER.unpack_from(data, at)
        if length < _HEADER.size or at + length > len(data):
            return
        yield kind, data[at + _HEADER.size : at + length]
        at += (length + 3) & ~3


def attributes(data: bytes) -> dict[int, bytes]:
    """Attributes by type; a cut tail is left out."""
    found: dict[int, bytes] = {}
    at = 0
    while at + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        if length < _ATTRIBUTE.size or at + length > len(data):
            break
        found[kind] = data[at + _ATTRIBUTE.size : at + length]
        at += (length + 3) & ~3
    return found


def _text(family: int, packed: bytes | None) -> str | None:
    size = _SIZES.get(family)
    return socket.inet_ntop(family, packed) if packed and len(packed) == size else None


def parse_addresses(data: bytes) -> list[dict[str, Any]]:
    """Every address in a dump: index of its interface, family (ipv4, ipv6), address, prefix (bits)."""
    found = []
    for kind, payload in messages(data):
        if kind != _RTM_NEWADDR or len(payload) < _IFADDR.size:
            continue
        family, prefix, _flags, _scope, index = _IFADDR.unpack_from(payload)
        values = attributes(payload[_IFADDR.size :])
        # On a point-to-point link IFA_ADDRESS is the other end; IFA_LOCAL is always this host.
        address = _text(family, values.get(_IFA_LOCAL) or values.get(_IFA_ADDRESS))
        if address:
            found.append({"index": index, "family": _FAMILIES[family], "address": address, "prefix": prefix})
    return found


def parse_route(data: bytes) -> dict[str, Any]:
    """The answer to one look-up: index of the interface, source, gateway, whether the destination is this host.

    A refusal of the kernel raises OSError with its text (`Network is unreachable`).
    """
    for kind, payload in messages(data):
        if kind == _NLMSG_ERROR and len(payload) >= 4:
            number = -struct.unpack_from("=i", payload)[0]
            raise OSError(number, os.strerror(number))
        if kind == _RTM_NEWROUTE and len(payload) >= _ROUTE.size:
            family, route_type = payload[0], payload[7]
            values = attributes(payload[_ROUTE.size :])
            interface = values.get(_RTA_OIF, b"")
            return {
                "index": struct.unpack("=I", interface)[0] if len(interface) == 4 else None,
                "source": _text(family, values.get(_RTA_PREFSRC)),
                "gateway": _text(family, values.get(_RTA_GATEWAY)),
                "local": route_type == _RTN_LOCAL,
            }
    raise OSError("the kernel gave no route")


class Kernel:
    """Questions to the running kernel. Methods raise OSError."""

    def addresses(self) -> list[dict[str, Any]]:
        return parse_addresses(_ask(_RTM_GETADDR, _NLM_F_DUMP, _IFADDR.pack(socket.AF_UNSPEC, 0, 0, 0, 0)))

    def route(self, address: str) -> dict[str, Any]:
        """The route that the kernel would take to a numeric address, policy routing included. Sends no packet."""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        packed = socket.inet_pton(family, address)
        request = _ROUTE.pack(family, len(packed) * 8, 0, 0, 0, 0, 0, 0, 0)
        request += _ATTRIBUTE.pack(_ATTRIBUTE.size + len(packed), _RTA_DST) + packed
        return parse_route(_ask(_RTM_GETROUTE, 0, request))


def _ask(kind: int, flags: int, body: bytes) -> bytes:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as channel:  # 0: NETLINK_ROUTE
        channel.settimeout(5)
        channel.bind((0, 0))
        channel.send(_HEADER.pack(_HEADER.size + len(body), kind, _NLM_F_REQUEST | flags, 1, 0) + body)
        answer = b""
        while True:
            part = channel.recv(1 << 16)
            answer += part
            kinds = [kind for kind, _payload in messages(part)]
            if not flags & _NLM_F_DUMP or _NLMSG_DONE in kinds or _NLMSG_ERROR in kinds or not kinds:
                return answer
