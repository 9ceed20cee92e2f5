#!/usr/bin/python
# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
from __future__ import annotations

DOCUMENTATION = r"""
module: nic_info
short_description: Network interfaces of a host, the way to its peers, and which interface should serve
version_added: 0.1.0
description:
  - Reads C(/sys/class/net) and asks the kernel over netlink; needs neither C(ip) nor root.
  - Chooses the interface that should serve, and says of each other one why it should not.
notes:
  - The choice is, in this order, what O(address) or O(nic) name; the interface that the kernel uses to most O(peers);
    the interface of the default route; the only one that is fit.
  - Never chosen are loopback, interfaces that are down, and those without a routable IPv4 address, which MemFabric
    needs. Bridges of containers, bridges without a physical port, tunnels and members of a bond are chosen only when
    asked for.
extends_documentation_fragment:
  - vllm_ascend.pd_serving.attributes.info_module
  - vllm_ascend.pd_serving.probe
  - vllm_ascend.pd_serving.probe.nic
seealso:
  - module: vllm_ascend.pd_serving.host_probe
    description: All faces of a host in one call.
author:
  - vllm_ascend.pd_serving contributors (@vllm-ascend-pd)
"""

EXAMPLES = r"""
- name: Which interface reaches the decode host?
  vllm_ascend.pd_serving.nic_info:
    peers:
      - address: 192.0.2.11
        ports: [29181]
  register: result

- name: Show the choice
  ansible.builtin.debug:
    var: result.nic.serving
"""

RETURN = r"""
nic:
  description: The network of the host. Whatever could not be read is V(null) or empty.
  returned: always
  type: dict
  contains:
    interfaces:
      description: Every interface.
      type: list
      elements: dict
      contains:
        name:
          description: Name.
          type: str
        index:
          description: Index in the kernel.
          type: int
        kind:
          description:
            - One of V(physical), V(bond), V(team), V(vlan), V(macvlan), V(ipvlan), V(vxlan), V(geneve), V(bridge),
              V(docker) (a bridge of the container engine), V(veth), V(tun) (any tunnel), V(loopback), V(virtual)
              (anything else).
          type: str
        state:
          description: Operational state as the kernel names it, such as V(up), V(down), V(unknown).
          type: str
        admin_up:
          description: Whether it is switched on.
          type: bool
        carrier:
          description: Whether the link is there; V(null) while it is switched off.
          type: bool
        speed_mbps:
          description: Speed in Mbit/s, V(null) where the driver does not tell.
          type: int
        mtu:
          description: MTU in bytes.
          type: int
        driver:
          description: Driver of a physical interface.
          type: str
        mac:
          description: MAC address.
          type: str
        master:
          description: Bond or bridge that it is a member of.
          type: str
        members:
          description: Members of a bond or bridge.
          type: list
          elements: str
        vlan:
          description: Of a VLAN, its C(id) (int) and C(parent) (str); V(null) for other kinds.
          type: dict
        bond:
          description: Of a bond, its C(mode) (str) and C(active) member (str); V(null) for other kinds.
          type: dict
        addresses:
          description: Addresses.
          type: list
          elements: dict
          contains:
            address:
              description: The address.
              type: str
            prefix:
              description: Length of the network prefix in bits.
              type: int
            family:
              description: V(ipv4) or V(ipv6).
              type: str
    routes:
      description:
        - Routes, of IPv4 those of the main table, each with C(destination) (str), C(gateway) (str, V(null) on the
          same network), C(interface) (str) and C(metric) (int).
      type: list
      elements: dict
    default_route:
      description: The default route for IPv4 that the kernel prefers, V(null) when there is none.
      type: dict
    peers:
      description: By address as given in O(peers), what is known of the way to it.
      type: dict
      contains:
        interface:
          description: Interface that the kernel uses.
          type: str
        source:
          description: Address that the kernel puts on the packets.
          type: str
        gateway:
          description: Next router, V(null) on the same network.
          type: str
        local:
          description: Whether the peer is this host itself.
          type: bool
        tcp:
          description:
            - By port (as a string), V(ok), V(refused) (the host answers, but nothing listens there or a firewall
              rejects), or another reason.
          type: dict
        path_mtu:
          description:
            - MTU of the path in bytes, as far as it is known. Only a few sizes are tried, so that with
              RV(nic.peers.path_mtu_below) it is at least this.
          type: int
        path_mtu_measured:
          description: Whether RV(nic.peers.path_mtu) was measured with packets of that size.
          type: bool
        path_mtu_below:
          description: Size in bytes of the smallest packets that were tried and lost, V(null) where none were.
          type: int
        reason:
          description: What could not be learnt, and why.
          type: str
    serving:
      description:
        - The interface that should serve, with C(name) (str), C(address) (str) and C(reason) (str); V(null) when
          there is none.
      type: dict
    refused:
      description: Every other interface, with C(name) (str) and C(reason) (str).
      type: list
      elements: dict
    reasons:
      description: What could not be read or decided, and why.
      type: list
      elements: str
  sample:
    interfaces:
      - name: enp1s0f0
        kind: physical
        state: up
        carrier: true
        speed_mbps: 200000
        mtu: 1500
        driver: hns3
        addresses: [{address: 192.0.2.10, prefix: 24, family: ipv4}]
    serving: {name: enp1s0f0, address: 192.0.2.10, reason: the kernel reaches 1 of 1 peers through it}
    refused: [{name: docker0, reason: belongs to the container engine}]
timing:
  description: Where the time went, in seconds. See RV(vllm_ascend.pd_serving.host_probe#module:timing).
  returned: always
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._faces import COMMON_OPTIONS, NIC_OPTIONS, probe


def main() -> None:
    module = AnsibleModule(argument_spec={**COMMON_OPTIONS, **NIC_OPTIONS}, supports_check_mode=True)
    result = probe(["nic"], module.params)
    module.exit_json(changed=False, nic=result["facts"]["nic"], timing=result["timing"])


if __name__ == "__main__":
    main()
