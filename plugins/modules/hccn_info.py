#!/usr/bin/python
# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
from __future__ import annotations

DOCUMENTATION = r"""
module: hccn_info
short_description: Network ports of the NPUs of an Ascend host
version_added: 0.1.0
description:
  - Asks C(hccn_tool) about link, health, addresses and TLS switch of every NPU, and reads C(/etc/hccn.conf).
  - NPUs are asked side by side, each one question at a time, and again for some seconds while C(hccn_tool) says that it
    is busy. One that does not answer does not hold up the others, and is asked nothing more.
notes:
  - C(hccn_tool) of recent drivers adds a line C(tls_enable_N) to C(/etc/hccn.conf) by itself when it is first asked for
    the TLS switch of chip N, whoever asks.
  - Of 16 chips with 0.1 to 0.5 s a call it takes 0.5 to 2.5 s; a call that hangs is ended after 20 s, and
    O(timeout_s) bounds everything.
extends_documentation_fragment:
  - vllm_ascend.pd_serving.attributes.info_module
  - vllm_ascend.pd_serving.probe
  - vllm_ascend.pd_serving.probe.hccn
seealso:
  - module: vllm_ascend.pd_serving.host_probe
    description: All faces of a host in one call.
author:
  - vllm_ascend.pd_serving contributors (@vllm-ascend-pd)
"""

EXAMPLES = r"""
- name: Look at the NPUs' network ports
  vllm_ascend.pd_serving.hccn_info:
  register: result

- name: Ping the NPUs of another host over HCCS
  vllm_ascend.pd_serving.hccn_info:
    ping_hccs: [192.0.2.210, 192.0.2.211]
"""

RETURN = r"""
hccn:
  description: The NPUs' network. Whatever could not be read is V(null) or empty.
  returned: always
  type: dict
  contains:
    tool_path:
      description: Path of C(hccn_tool).
      type: str
    chips:
      description: One entry per NPU that was asked.
      type: list
      elements: dict
      contains:
        phy_id:
          description: Physical id of the chip.
          type: int
        link:
          description: V(UP) or V(DOWN).
          type: str
        net_health:
          description: Health as shown; V(Success) is good.
          type: str
        ip:
          description: Address for RoCE. V(null) is no fault where only HCCS is used.
          type: str
        ip_netmask:
          description: Netmask of RV(hccn.chips[].ip).
          type: str
        vnic:
          description: Address of the virtual NIC, which HCCS pings go to.
          type: str
        vnic_netmask:
          description: Netmask of RV(hccn.chips[].vnic).
          type: str
        vnic_link:
          description: V(UP) or V(DOWN).
          type: str
        tls:
          description:
            - Whether the TLS switch is on. It must be the same on all hosts. A chip without a certificate has none on.
          type: bool
    hccn_conf:
      description: The file C(/etc/hccn.conf).
      type: dict
      contains:
        exists:
          description: Whether it exists.
          type: bool
        size_bytes:
          description: Size in bytes, V(null) when it cannot be read.
          type: int
        lines:
          description: Its lines that are not blank.
          type: list
          elements: str
    pings:
      description: One entry per address in O(ping_hccs) and O(ping_roce).
      type: list
      elements: dict
      contains:
        phy_id:
          description: Chip that the ping was sent from.
          type: int
        method:
          description: V(hccs) or V(roce).
          type: str
        address:
          description: Address that was pinged.
          type: str
        ok:
          description: Whether a packet came back, V(null) when the tool did not say.
          type: bool
        reason:
          description: Why not.
          type: str
    reasons:
      description: What could not be read, and why.
      type: list
      elements: str
  sample:
    tool_path: /usr/local/Ascend/driver/tools/hccn_tool
    chips:
      - {phy_id: 0, link: UP, net_health: Success, ip: 192.0.2.200, ip_netmask: 255.255.255.0, vnic: 192.0.2.210,
         vnic_netmask: 255.255.0.0, vnic_link: UP, tls: false}
    hccn_conf: {exists: true, size_bytes: 84, lines: [address_0=192.0.2.200]}
    pings: []
    reasons: []
timing:
  description: Where the time went, in seconds. See RV(vllm_ascend.pd_serving.host_probe#module:timing).
  returned: always
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._faces import COMMON_OPTIONS, HCCN_OPTIONS, probe


def main() -> None:
    module = AnsibleModule(argument_spec={**COMMON_OPTIONS, **HCCN_OPTIONS}, supports_check_mode=True)
    result = probe(["hccn"], module.params)
    module.exit_json(changed=False, hccn=result["facts"]["hccn"], timing=result["timing"])


if __name__ == "__main__":
    main()
