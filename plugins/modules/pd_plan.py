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
  - Takes the C(pd_*) variables of all hosts in the groups named by C(pd_groups), and what
    M(vllm_ascend.pd_serving.host_probe) saw of them, to the whole plan - every instance, engine, port, device, option,
    environment variable and file of every host.
  - "Runs on the controller and contacts no host. Values that need a probe are marked V(<unknown: WHAT of HOST>)."
  - Never fails because of findings; the caller decides what stops it.
options:
  facts:
    description:
      - Host name to what M(vllm_ascend.pd_serving.host_probe) returned as
        RV(vllm_ascend.pd_serving.host_probe#module:facts).
      - A host that could not be reached has the single key C(unreachable) with the reason.
      - Without facts only the inventory speaks.
    type: dict
    default: {}
  draft:
    description:
      - Only make the plan, which says what each host is to be asked; apply no rule, and return RV(plan) alone.
    type: bool
    default: false
  show:
    description:
      - What to print to the terminal as it is, ready to be copied.
      - V(findings) is one table, sorted by severity, with what to do.
      - V(plan) is the plan for people and the findings; RV(plan) and RV(text) are then not returned.
    type: str
    choices: [nothing, findings, plan]
    default: nothing
  explain:
    description: Id of a rule to explain on the terminal, with the numbers of this cluster in its formulas.
    type: str
    default: ""
  report_dir:
    description:
      - Folder on the controller for C(preflight.html), a page that needs nothing else, and C(preflight.json). It is
        made if it is missing. Relative to the folder in which Ansible was started. Empty, no report is written.
      - A report that cannot be written gives a warning.
    type: str
    default: ""
attributes:
  check_mode:
    support: full
    description: Can run in check mode; changes no host in any mode. The report is written in check mode too.
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
    show: plan
  run_once: true

- name: Explain a rule
  vllm_ascend.pd_serving.pd_plan:
    explain: PD-SPARSE-011
  run_once: true
"""

RETURN = r"""
plan:
  description: The plan. Its shape stands in docs/architecture.md.
  returned: unless O(show=plan)
  type: dict
findings:
  description: What the planner and the rules found.
  returned: unless O(draft)
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
errors:
  description: Ids of the rules that stop a deployment, as their errors are not waived.
  returned: unless O(draft)
  type: list
  elements: str
  sample: [unknown-variable]
conclusion:
  description: The findings in one sentence.
  returned: unless O(draft)
  type: str
  sample: "Ready to launch, with 2 warnings."
report:
  description: Path of the page that was written, V(null) where that was not possible.
  returned: when O(report_dir) is set and O(show) is not V(plan)
  type: str
  sample: /srv/cluster/reports/preflight.html
text:
  description: The plan for people, with the equivalent C(docker run) and C(vllm serve) commands.
  returned: unless O(draft) or O(show=plan)
  type: str
"""
