# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""The serving interface: every way to choose it, every reason to refuse one."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._nic_choice import choose
from hypothesis import given
from hypothesis import strategies as st

Interface = dict[str, Any]


def nic(name: str, *addresses: str, **traits: Any) -> Interface:
    return {
        "name": name,
        "kind": "physical",
        "state": "up",
        "admin_up": True,
        "carrier": True,
        "master": None,
        "members": [],
        "addresses": [{"address": a, "family": "ipv6" if ":" in a else "ipv4"} for a in addresses],
        **traits,
    }


def way(interface: str | None, source: str | None = None, local: bool = False) -> dict[str, Any]:
    return {"interface": interface, "source": source, "local": local}


LO = nic("lo", "127.0.0.1", "::1", kind="loopback", state="unknown")
ETH = nic("enp1s0f0", "192.0.2.10", "2001:db8::10")
MANAGEMENT = nic("eth9", "198.51.100.10")
DOCKER = nic("docker0", "172.17.0.1", kind="docker", carrier=True)


def test_the_kernels_way_to_the_peers_wins_over_the_default_route() -> None:
    peers = {"192.0.2.11": way("enp1s0f0", "192.0.2.10"), "192.0.2.10": way("lo", local=True)}
    choice = choose([LO, MANAGEMENT, ETH, DOCKER], peers, "eth9")
    assert choice.serving == {
        "name": "enp1s0f0",
        "address": "192.0.2.10",
        "reason": "the kernel reaches 1 of 1 peers through it",
    }
    assert choice.refused == [
        {"name": "docker0", "reason": "belongs to the container engine"},
        {"name": "eth9", "reason": "fit, but enp1s0f0 is preferred: the kernel reaches 1 of 1 peers through it"},
        {"name": "lo", "reason": "loopback: no other host reaches it"},
    ]
    assert choice.cause is None


def test_most_peers_decide() -> None:
    peers = {"a": way("eth9"), "b": way("enp1s0f0"), "c": way("enp1s0f0")}
    serving = choose([ETH, MANAGEMENT], peers, None).serving
    assert serving is not None
    assert serving["reason"] == "the kernel reaches 2 of 3 peers through it"


def test_an_unfit_way_to_the_peers_is_not_taken() -> None:
    tun = nic("tun0", "10.8.0.2", kind="tun")
    choice = choose([tun, ETH], {"10.9.0.1": way("tun0", "10.8.0.2")}, "enp1s0f0")
    assert choice.serving == {"name": "enp1s0f0", "address": "192.0.2.10", "reason": "it carries the default route"}


def test_the_address_that_the_kernel_uses_to_the_peers() -> None:
    many = nic("bond0", "192.0.2.10", "203.0.113.10", kind="bond", members=["eth0", "eth1"])
    member = nic("eth0", master="bond0")
    choice = choose([many, member], {"203.0.113.11": way("bond0", "203.0.113.10")}, None)
    assert choice.serving is not None
    assert choice.serving["address"] == "203.0.113.10"
    assert choice.refused == [{"name": "eth0", "reason": "no address"}]


@pytest.mark.parametrize("default", [None, "gone"])
def test_no_default_route_and_one_fit_interface(default: str | None) -> None:
    serving = choose([LO, ETH, DOCKER], {}, default).serving
    assert serving == {"name": "enp1s0f0", "address": "192.0.2.10", "reason": "the only interface that is fit"}


def test_no_default_route_and_several_fit_interfaces() -> None:
    choice = choose([ETH, MANAGEMENT], {}, None)
    assert choice.serving is None
    assert choice.cause == (
        "enp1s0f0, eth9 are fit, and neither peers nor a default route tell which serves: set pd_nic"
    )


@pytest.mark.parametrize(
    ("interface", "reason"),
    [
        (LO, "loopback: no other host reaches it"),
        (nic("x", "192.0.2.1", state="down"), "down (state down)"),
        (nic("x", "192.0.2.1", admin_up=False, state="unknown"), "down (state unknown)"),
        (nic("x", "192.0.2.1", carrier=False), "no carrier"),
        (nic("x"), "no address"),
        (nic("x", "2001:db8::10", "fe80::1"), "only IPv6 addresses, MemFabric needs IPv4"),
        (nic("x", "169.254.3.4"), "only a link-local address (169.254.3.4)"),
        (nic("x", "192.0.2.1", kind="docker"), "belongs to the container engine"),
        (nic("x", "192.0.2.1", kind="tun"), "tunnel (VPN)"),
        (nic("x", "192.0.2.1", master="bond0"), "member of bond0"),
        (
            nic("virbr0", "192.0.2.1", kind="bridge", members=["vnet0"]),
            "bridge without a physical port: only virtual machines or containers reach it",
        ),
    ],
)
def test_refused(interface: Interface, reason: str) -> None:
    choice = choose([interface, nic("vnet0", kind="veth")], {}, interface["name"])
    assert choice.serving is None
    assert {"name": interface["name"], "reason": reason} in choice.refused
    assert choice.cause == "no interface is fit to serve"


@pytest.mark.parametrize(
    "interface",
    [
        nic("br0", "192.0.2.1", kind="bridge", members=["enp1s0f0", "vnet0"]),
        nic("bond0.7", "192.0.2.1", kind="vlan"),
        nic("bond0", "192.0.2.1", kind="bond", members=["enp1s0f0"]),
        nic("eth0", "192.0.2.1", kind="veth"),  # the only NIC inside another network namespace
        nic("eth0", "192.0.2.1", state="unknown", carrier=None),  # some drivers do not tell
    ],
)
def test_fit(interface: Interface) -> None:
    serving = choose([interface, nic("enp1s0f0", master=interface["name"])], {}, None).serving
    assert serving is not None
    assert serving["name"] == interface["name"]


@pytest.mark.parametrize(
    ("name", "address", "serving"),
    [
        ("eth9", None, ("eth9", "198.51.100.10")),
        (None, "198.51.100.10", ("eth9", "198.51.100.10")),
        ("eth9", "198.51.100.10", ("eth9", "198.51.100.10")),
        ("docker0", None, ("docker0", "172.17.0.1")),  # odd, but whoever asks may know why
    ],
)
def test_asked_for(name: str | None, address: str | None, serving: tuple[str, str]) -> None:
    choice = choose([LO, ETH, MANAGEMENT, DOCKER], {"192.0.2.11": way("enp1s0f0")}, "enp1s0f0", name, address)
    assert choice.serving == {"name": serving[0], "address": serving[1], "reason": "asked for"}


@pytest.mark.parametrize(
    ("name", "address", "cause"),
    [
        ("lo", None, "lo was asked for, but cannot serve: loopback: no other host reaches it"),
        ("eth7", None, "eth7 was asked for, but there is no such interface (there are enp1s0f0, eth9, lo)"),
        (None, "127.0.0.1", "127.0.0.1 was asked for, but no other host reaches it"),
        (None, "192.0.2.99", "192.0.2.99 was asked for, but no interface has it"),
        ("eth9", "192.0.2.10", "192.0.2.10 was asked for, but enp1s0f0, not eth9, has it"),
    ],
)
def test_asked_for_in_vain(name: str | None, address: str | None, cause: str) -> None:
    choice = choose([LO, ETH, MANAGEMENT], {}, "enp1s0f0", name, address)
    assert choice.serving is None
    assert choice.cause == cause
    assert len(choice.refused) == 3


NAMES = st.sampled_from(["lo", "eth0", "eth1", "br0", "bond0"])
ADDRESSES = st.lists(st.sampled_from(["192.0.2.1", "169.254.1.1", "127.0.0.1", "2001:db8::1", "0.0.0.0"]), max_size=3)
INTERFACES = st.builds(
    lambda name, addresses, kind, state, carrier, master, members: nic(
        name, *addresses, kind=kind, state=state, carrier=carrier, master=master, members=members
    ),
    NAMES,
    ADDRESSES,
    st.sampled_from(["physical", "bond", "bridge", "docker", "tun", "veth", "loopback", "virtual"]),
    st.sampled_from(["up", "down", "unknown", None]),
    st.sampled_from([True, False, None]),
    st.none() | NAMES,
    st.lists(NAMES, max_size=2),
)


WAYS = st.builds(way, st.none() | NAMES, st.none() | st.just("192.0.2.1"), st.booleans())


@given(
    st.lists(INTERFACES, unique_by=lambda interface: interface["name"]),
    st.dictionaries(
        st.text(max_size=3), st.builds(way, st.none() | NAMES, st.none() | st.just("192.0.2.1"), st.booleans())
    ),
    st.none() | NAMES,
    st.none() | NAMES,
    st.none() | st.sampled_from(["192.0.2.1", "127.0.0.1", "192.0.2.9"]),
)
def test_every_host_gives_a_choice_or_a_cause(
    interfaces: list[Interface],
    peers: dict[str, Any],
    default: str | None,
    name: str | None,
    address: str | None,
) -> None:
    choice = choose(interfaces, peers, default, name, address)
    assert (choice.serving is None) == (choice.cause is not None)
    told = {entry["name"] for entry in choice.refused} | ({choice.serving["name"]} if choice.serving else set())
    assert told == {interface["name"] for interface in interfaces}
    if choice.serving:
        assert not choice.serving["address"].startswith(("127.", "169.254.", "0."))
