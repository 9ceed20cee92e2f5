#!/usr/bin/python
# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
from __future__ import annotations

DOCUMENTATION = r"""
module: npu_info
short_description: NPUs of an Ascend host, their health, memory and holders
version_added: 0.1.0
description:
  - Reads C(npu-smi) in the layouts of drivers 24 to 26, on A2 and A3, the driver's version files, and the container
    engine.
  - Missing tools, missing permission and cut output give what can be known and a reason, never a failure.
extends_documentation_fragment:
  - vllm_ascend.pd_serving.attributes.info_module
  - vllm_ascend.pd_serving.probe
  - vllm_ascend.pd_serving.probe.engine
seealso:
  - module: vllm_ascend.pd_serving.host_probe
    description: All faces of a host in one call.
author:
  - vllm_ascend.pd_serving contributors (@vllm-ascend-pd)
"""

EXAMPLES = r"""
- name: Look at the NPUs
  vllm_ascend.pd_serving.npu_info:
  register: result

- name: Show which chips are not well
  ansible.builtin.debug:
    msg: "{{ result.npu.chips | rejectattr('health', 'equalto', 'OK') | map(attribute='phy_id') }}"
"""

RETURN = r"""
npu:
  description: The NPUs of the host. Whatever could not be read is V(null) or empty.
  returned: always
  type: dict
  contains:
    chips:
      description: One entry per chip, in the order of C(npu-smi info).
      type: list
      elements: dict
      contains:
        npu:
          description: Number of the NPU (the card).
          type: int
        chip:
          description: Number of the chip on the NPU.
          type: int
        phy_id:
          description: Physical id, the C(n) of C(/dev/davinci<n>).
          type: int
        logic_id:
          description: Logical id from C(npu-smi info -m).
          type: int
        name:
          description: Name as shown, such as V(Ascend910) or V(910B3).
          type: str
        health:
          description: Health as shown; V(OK) is good.
          type: str
        bus_id:
          description: PCI address.
          type: str
        hbm_total_mib:
          description: HBM in MiB.
          type: int
        hbm_used_mib:
          description: HBM in use in MiB; about 3000 when idle.
          type: int
        processes:
          description: Processes that use the chip.
          type: list
          elements: dict
          contains:
            pid:
              description: Process id on the host.
              type: int
            name:
              description: Name of the process, V(null) when not shown.
              type: str
            hbm_mib:
              description: HBM of the process in MiB.
              type: int
            container:
              description: Name of the container that the process runs in, V(null) when in none.
              type: str
    device_nodes:
      description: The C(n) of every C(/dev/davinci<n>) that exists.
      type: list
      elements: int
    generation:
      description: V(A3), V(A2), or V(null) for anything else.
      type: str
    driver_version:
      description: Version of the driver from its C(version.info).
      type: str
    driver_inner_version:
      description: The driver's C(Innerversion), which MemFabric checks.
      type: str
    firmware_version:
      description: Version of the firmware.
      type: str
    install_path:
      description: Where driver and firmware are installed.
      type: str
    ascend_install_info:
      description: Path of C(ascend_install.info), V(null) when it cannot be read.
      type: str
    npu_smi_path:
      description: Path of C(npu-smi).
      type: str
    npu_smi_version:
      description: Version that C(npu-smi info) shows.
      type: str
    superpod_id:
      description: Id of the SuperPod; hosts with the same id reach each other over HCCS. Always V(null) on A2.
      type: int
    holders:
      description:
        - Names of running containers by physical id of the chip (as a string).
        - A container holds a chip when it was given the device or uses it.
      type: dict
    reasons:
      description: What could not be read, and why.
      type: list
      elements: str
  sample:
    chips:
      - {npu: 0, chip: 0, phy_id: 0, logic_id: 0, name: Ascend910, health: OK, bus_id: "0000:9D:00.0",
         hbm_total_mib: 65536, hbm_used_mib: 3100, processes: []}
    device_nodes: [0]
    generation: A3
    driver_version: 25.5.1
    superpod_id: 3
    holders: {"0": [pd-prefill-p1]}
    reasons: []
timing:
  description: Where the time went, in seconds. See RV(vllm_ascend.pd_serving.host_probe#module:timing).
  returned: always
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._faces import (
    COMMON_OPTIONS,
    ENGINE_OPTIONS,
    probe,
)


def main() -> None:
    module = AnsibleModule(argument_spec={**COMMON_OPTIONS, **ENGINE_OPTIONS}, supports_check_mode=True)
    result = probe(["npu"], module.params)
    module.exit_json(changed=False, npu=result["facts"]["npu"], timing=result["timing"])


if __name__ == "__main__":
    main()
