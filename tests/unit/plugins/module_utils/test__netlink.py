# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Messages of rtnetlink, as bytes and as this kernel answers."""

from __future__ import annotations

import socket
import struct
import sys
from contextlib import suppress

import pytest
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils import _netlink
from hypothesis import given
from hypothesis import strategies as st


def attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + b"\0" * (-len(value) % 4)


def message(kind: int, body: bytes) -> bytes:
    return struct.pack("=IHHII", 16 + len(body), kind, 0, 1, 0) + body + b"\0" * (-len(body) % 4)


def address(family: int, prefix: int, index: int, *attributes: bytes) -> bytes:
    return message(20, struct.pack("=BBBBI", family, prefix, 0, 0, index) + b"".join(attributes))


ADDRESS = address(2, 24, 3, attribute(2, b"\xc0\0\2\x0a"), attribute(3, b"eth0\0"))
TUNNEL = address(2, 32, 4, attribute(1, b"\xc6\x33\x64\1"), attribute(2, b"\xc6\x33\x64\2"))
IPV6 = address(10, 64, 3, attribute(1, socket.inet_pton(socket.AF_INET6, "2001:db8::1")))
DONE = message(3, struct.pack("=i", 0))


def test_addresses() -> None:
    assert _netlink.parse_addresses(ADDRESS + TUNNEL + IPV6 + DONE) == [
        {"index": 3, "family": "ipv4", "address": "192.0.2.10", "prefix": 24},
        {"index": 4, "family": "ipv4", "address": "198.51.100.2", "prefix": 32},
        {"index": 3, "family": "ipv6", "address": "2001:db8::1", "prefix": 64},
    ]


def test_route() -> None:
    body = struct.pack("=BBBBBBBBI", 2, 32, 0, 0, 254, 0, 0, 1, 0)
    body += attribute(4, struct.pack("=I", 7)) + attribute(7, b"\xc0\0\2\x0a") + attribute(5, b"\xc0\0\2\1")
    assert _netlink.parse_route(message(24, body)) == {
        "index": 7,
        "source": "192.0.2.10",
        "gateway": "192.0.2.1",
        "local": False,
    }


def test_refusal_has_the_kernels_words() -> None:
    with pytest.raises(OSError, match="Network is unreachable"):
        _netlink.parse_route(message(2, struct.pack("=i", -101) + b"\0" * 16))


@given(st.binary())
def test_any_bytes_give_addresses_or_none(data: bytes) -> None:
    _netlink.parse_addresses(data)


@given(st.lists(st.tuples(st.sampled_from([2, 3, 20, 24]), st.binary(max_size=60))))
def test_any_message_gives_data_or_an_error_of_the_system(parts: list[tuple[int, bytes]]) -> None:
    data = b"".join(message(kind, body) for kind, body in parts)
    for entry in _netlink.parse_addresses(data):
        assert entry["family"] in ("ipv4", "ipv6")
    with suppress(OSError):
        _netlink.parse_route(data)


@pytest.mark.skipif(sys.platform != "linux", reason="rtnetlink is Linux'")
def test_this_kernel_answers() -> None:
    kernel = _netlink.Kernel()
    assert any(entry["address"] == "127.0.0.1" and entry["prefix"] == 8 for entry in kernel.addresses())
    route = kernel.route("127.0.0.1")
    assert route["local"]
    assert route["source"] == "127.0.0.1"
