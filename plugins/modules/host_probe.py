#!/usr/bin/python
# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
from __future__ import annotations

DOCUMENTATION = r"""
module: host_probe
short_description: Everything that a plan and its checks need to know of a host, in one call
version_added: 0.1.0
description:
  - Returns the faces C(npu), C(nic), C(hccn), C(host) and C(model), each as the module of that face does, read side
    by side under one time limit.
  - Only looks. It never judges what it sees and never changes anything.
  - Whatever is missing, not permitted or odd gives what can be known and a reason in the face's C(reasons); the
    module fails only on wrong options.
options:
  faces:
    description: Which faces to return.
    type: list
    elements: str
    choices: [npu, nic, hccn, host, model]
    default: [npu, nic, hccn, host, model]
extends_documentation_fragment:
  - vllm_ascend.pd_serving.attributes.info_module
  - vllm_ascend.pd_serving.probe
  - vllm_ascend.pd_serving.probe.engine
  - vllm_ascend.pd_serving.probe.nic
  - vllm_ascend.pd_serving.probe.hccn
  - vllm_ascend.pd_serving.probe.host
  - vllm_ascend.pd_serving.probe.model
seealso:
  - module: vllm_ascend.pd_serving.npu_info
  - module: vllm_ascend.pd_serving.nic_info
  - module: vllm_ascend.pd_serving.hccn_info
  - module: vllm_ascend.pd_serving.host_info
  - module: vllm_ascend.pd_serving.model_info
author:
  - vllm_ascend.pd_serving contributors (@vllm-ascend-pd)
"""

EXAMPLES = r"""
- name: Probe the host
  vllm_ascend.pd_serving.host_probe:
    peers:
      - address: 192.0.2.11
        ports: [29181, 20050]
    paths: [/etc/hccn.conf, /usr/local/dcmi]
    disk_paths: [/data/models]
    model_paths: [/data/models/DeepSeek-V3.2-W8A8]
    controller_epoch_s: "{{ now().timestamp() }}"
  register: result

- name: Only the NPUs and what holds them
  vllm_ascend.pd_serving.host_probe:
    faces: [npu]
  register: result
"""

RETURN = r"""
facts:
  description: What was seen. A face that was not asked for is absent.
  returned: always
  type: dict
  contains:
    schema:
      description: Version of this structure.
      type: int
    npu:
      description: See RV(vllm_ascend.pd_serving.npu_info#module:npu).
      type: dict
    nic:
      description: See RV(vllm_ascend.pd_serving.nic_info#module:nic).
      type: dict
    hccn:
      description: See RV(vllm_ascend.pd_serving.hccn_info#module:hccn).
      type: dict
    host:
      description: See RV(vllm_ascend.pd_serving.host_info#module:host).
      type: dict
    model:
      description: See RV(vllm_ascend.pd_serving.model_info#module:model).
      type: dict
  sample: {schema: 1, npu: {generation: A3}, nic: {serving: {name: enp1s0f0, address: 192.0.2.10}}}
timing:
  description: Where the time went, in seconds.
  returned: always
  type: dict
  contains:
    total_s:
      description: Seconds from start to answer, the start of Python not counted.
      type: float
    faces:
      description: Seconds per face (float). They run side by side, so that the sum exceeds the total.
      type: dict
    tools:
      description:
        - By name of each command that was run, the number of C(calls) (int), the seconds inside it summed over calls
          C(busy_s) (float), and the seconds from the first start to the last end C(wall_s) (float).
      type: dict
  sample:
    total_s: 1.9
    faces: {npu: 1.8, nic: 0.1, hccn: 1.2, host: 0.2, model: 0.3}
    tools:
      npu-smi: {calls: 3, busy_s: 3.9, wall_s: 1.8}
      hccn_tool: {calls: 80, busy_s: 17.2, wall_s: 1.2}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._faces import (
    COMMON_OPTIONS,
    ENGINE_OPTIONS,
    FACES,
    HCCN_OPTIONS,
    HOST_OPTIONS,
    MODEL_OPTIONS,
    NIC_OPTIONS,
    probe,
)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "faces": {"type": "list", "elements": "str", "choices": list(FACES), "default": list(FACES)},
            **COMMON_OPTIONS,
            **ENGINE_OPTIONS,
            **NIC_OPTIONS,
            **HCCN_OPTIONS,
            **HOST_OPTIONS,
            **MODEL_OPTIONS,
        },
        supports_check_mode=True,
    )
    module.exit_json(changed=False, **probe(module.params["faces"], module.params))


if __name__ == "__main__":
    main()
