#!/usr/bin/python
# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
from __future__ import annotations

# The documentation of the action plugin of this name, which does all the work on the controller.

DOCUMENTATION = r"""
module: pd_wait
short_description: Wait until service containers are ready, and no longer than that makes sense
version_added: 0.1.0
description:
  - Polls M(vllm_ascend.pd_serving.service_status) until every service is ready, and shows how far each is.
  - Fails at once when a container ends or restarts, with the log lines that explain it, and when another host of the
    same task has failed.
  - A connection that is lost meanwhile is taken up again; what runs on the host goes on.
author:
  - vllm_ascend.pd_serving contributors (@vllm-ascend-pd)
options:
  services:
    description: The containers to wait for, as in M(vllm_ascend.pd_serving.service_status).
    type: list
    elements: dict
    required: true
  timeout_s:
    description: Give up after this many seconds.
    type: int
    default: 3600
  interval_s:
    description: Seconds between two looks.
    type: float
    default: 3.0
attributes:
  check_mode:
    description: Does not wait in check mode.
    support: full
  diff_mode:
    description: There is nothing to show.
    support: none
"""

EXAMPLES = r"""
- name: Wait for the decode engine
  vllm_ascend.pd_serving.pd_wait:
    services:
      - container: pd-decode-d1
        ready: {kind: http, url: "http://127.0.0.1:29181/health"}
    timeout_s: 3600
"""

RETURN = r"""
services:
  description: The last answer of M(vllm_ascend.pd_serving.service_status).
  type: list
  elements: dict
  returned: always, except in check mode
elapsed_s:
  description: How long it took, seconds.
  type: int
  returned: success
"""
