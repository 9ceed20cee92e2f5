#!/usr/bin/python
# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)

from __future__ import annotations

DOCUMENTATION = r"""
module: pd_plan
short_description: Plan a prefill/decode-disaggregated vLLM-Ascend cluster
version_added: 0.1.0
author:
  - vllm_ascend.pd_serving contributors (@vllm-ascend)
description:
  - Takes the C(pd_*) variables of all hosts in the groups named by C(pd_groups), and what M(vllm_ascend.pd_serving.host_probe)
    saw of them, to the whole plan - every instance, engine, port, device, option, environment variable and file of every host.
  - Runs on the controller and contacts no host. Values that need a probe are marked V(<unknown: WHAT of HOST>).
  - Never fails because of findings; the caller decides what stops it.
options:
  facts:
    description:
      - Host name to what M(vllm_ascend.pd_serving.host_probe) returned as RV(vllm_ascend.pd_serving.host_probe#module:facts).
      - A host that could not be reached has the single key C(unreachable) with the reason.
      - Without facts only the inventory speaks.
    type: dict
    default: {}
  show:
    description:
      - Print the plan for people and the findings to the terminal as they are, ready to be copied, instead of returning
        RV(plan) and RV(text).
    type: bool
    default: false
attributes:
  check_mode:
    support: full
    description: Can run in check mode; changes nothing in any mode.
  diff_mode:
    support: none
    description: Changes nothing, so there is nothing to show.
notes:
  - Use it with C(run_once), since the plan is the same for every host.
seealso:
  - module: vllm_ascend.pd_serving.host_probe
"""

EXAMPLES = r"""
- name: Plan from the inventory alone
  vllm_ascend.pd_serving.pd_plan:
  run_once: true
  register: pd_planned

- name: Show what would run, host by host
  vllm_ascend.pd_serving.pd_plan:
    show: true
  run_once: true
"""

RETURN = r"""
plan:
  description: The plan. Its shape stands in docs/architecture.md.
  returned: unless O(show=true)
  type: dict
findings:
  description: What the planner and the rules found.
  returned: always
  type: list
  elements: dict
  sample:
    - rule: unknown-variable
      severity: error
      host: p1
      found: no variable is called pd_model_pth
      right: pd_model_path
      mend: write pd_model_path
      source: ""
text:
  description: The plan for people, with the equivalent C(docker run) and C(vllm serve) commands.
  returned: unless O(show=true)
  type: str
"""
