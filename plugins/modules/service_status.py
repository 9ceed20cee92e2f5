#!/usr/bin/python
# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
from __future__ import annotations

DOCUMENTATION = r"""
module: service_status
short_description: State, progress and readiness of service containers
version_added: 0.1.0
description:
  - Asks the container engine and the services themselves what they are doing. Changes nothing.
  - Needs no Python library on the target but the standard one.
author:
  - vllm_ascend.pd_serving contributors (@vllm-ascend-pd)
options:
  services:
    description: The containers to look at.
    type: list
    elements: dict
    required: true
    suboptions:
      container:
        description: Name of the container.
        type: str
        required: true
      ready:
        description:
          - When the service counts as ready. C(kind) is V(http) (C(url), or each of C(urls), answers 2xx, and with
            C(expect=json) its body's C(key) equals C(value)), V(running), or V(exited) (the container ended with 0,
            for builders).
        type: dict
        default: {kind: running}
  tail:
    description: How many of the last log lines of each container to read.
    type: int
    default: 400
  docker_socket:
    description: Socket of the container engine.
    type: path
    default: /var/run/docker.sock
attributes:
  check_mode:
    description: Can run in check mode; never changes anything.
    support: full
  diff_mode:
    description: There is nothing to show.
    support: none
"""

EXAMPLES = r"""
- name: Is the decode engine up?
  vllm_ascend.pd_serving.service_status:
    services:
      - container: pd-decode-d1
        ready: {kind: http, url: "http://127.0.0.1:29181/health"}
  register: decode
"""

RETURN = r"""
services:
  description: One entry for each container asked for, in the same order.
  type: list
  elements: dict
  returned: success
  contains:
    container:
      description: Its name.
      type: str
    exists:
      description: Whether there is one. Where there is none, only C(state), C(ready), C(reason), C(trouble) follow.
      type: bool
    state:
      description: State as the engine says it, or V(absent).
      type: str
      sample: running
    ready:
      description: Whether it is ready.
      type: bool
    reason:
      description: Why it is not ready.
      type: str
      sample: "http://127.0.0.1:29181/health: Connection refused"
    trouble:
      description: What is wrong with a service that is meant to be up, a line for each thing; empty if nothing is.
      type: str
      sample: ""
    restarts:
      description: How often the engine restarted the container by itself.
      type: int
    exit_code:
      description: Exit code of the last end.
      type: int
    oom_killed:
      description: Whether the kernel killed it for want of memory.
      type: bool
    started_at:
      description: Time of the last start, UTC.
      type: str
    age_s:
      description: Seconds since the container was created.
      type: int
    progress:
      description: How far a start or build is, if its log tells.
      type: str
      sample: weights 45% (73/163 shards)
    last_line:
      description: Last line of the log that is not empty.
      type: str
    fatal:
      description: Lines since the last start after which a service is known not to work, each with its C(meaning).
      type: list
      elements: dict
    explanation:
      description: The lines that most likely tell why the container ended.
      type: list
      elements: str
    id:
      description: Id of the container.
      type: str
    image:
      description: Id of its image.
      type: str
    labels:
      description: Labels of the container.
      type: dict
    command:
      description: Arguments of its entry point.
      type: list
      elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._docker_api import SOCKET, DockerApi, DockerError
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._service_status import look, trouble


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "services": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "container": {"type": "str", "required": True},
                    "ready": {"type": "dict", "default": {"kind": "running"}},
                },
            },
            "tail": {"type": "int", "default": 400},
            "docker_socket": {"type": "path", "default": SOCKET},
        },
        supports_check_mode=True,
    )
    api = DockerApi(module.params["docker_socket"])
    try:
        found = [look(api, service, module.params["tail"]) for service in module.params["services"]]
    except (DockerError, KeyError, ValueError) as error:
        module.fail_json(msg=f"cannot tell the state of the services: {error}")
    module.exit_json(changed=False, services=[dict(status, trouble=trouble(status)) for status in found])


if __name__ == "__main__":
    main()
