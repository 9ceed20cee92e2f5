#!/usr/bin/python
# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
from __future__ import annotations

DOCUMENTATION = r"""
module: proxy_backends
short_description: Give a running proxy exactly the given engines, without restarting it
version_added: 0.1.0
description:
  - Adds and removes engines of upstream's standard proxy through C(/instances/add) and C(/instances/remove).
  - New engines come first, so that the proxy is never without. An engine that is taken out gets no new request, and is
    waited for until it has no request and no KV cache in hand.
  - The layerwise proxy has no such interface; it must be restarted.
author:
  - vllm_ascend.pd_serving contributors (@vllm-ascend-pd)
options:
  url:
    description: Where the proxy answers.
    type: str
    required: true
  prefill:
    description: All prefill engines that it shall have.
    type: list
    elements: dict
    required: true
    suboptions: &backend
      host:
        description: Address of the engine.
        type: str
        required: true
      port:
        description: Its HTTP port.
        type: int
        required: true
  decode:
    description: All decode engines that it shall have.
    type: list
    elements: dict
    required: true
    suboptions: *backend
  drain_timeout_s:
    description: How long an engine that is taken out may work on its last requests, seconds.
    type: int
    default: 600
attributes:
  check_mode:
    description: Can run in check mode and tells what would change. A proxy that does not run yet is no error then.
    support: full
  diff_mode:
    description: Shows the lists of engines before and after.
    support: full
"""

EXAMPLES = r"""
- name: Add a decode engine to a running proxy
  vllm_ascend.pd_serving.proxy_backends:
    url: http://10.0.1.10:8005
    prefill:
      - {host: 10.0.1.10, port: 7100}
    decode:
      - {host: 10.0.1.20, port: 7200}
      - {host: 10.0.1.21, port: 7200}
"""

RETURN = r"""
changes:
  description: Engines that were (or in check mode would be) added and removed, by side.
  type: dict
  returned: success
  sample:
    prefill: {add: [], remove: []}
    decode: {add: ["10.0.1.21:7200"], remove: []}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils import _proxy_backends as backends


def main() -> None:
    engine = {"host": {"type": "str", "required": True}, "port": {"type": "int", "required": True}}
    side = {"type": "list", "elements": "dict", "required": True, "options": engine}
    module = AnsibleModule(
        argument_spec={
            "url": {"type": "str", "required": True},
            "prefill": side,
            "decode": side,
            "drain_timeout_s": {"type": "int", "default": 600},
        },
        supports_check_mode=True,
    )
    wanted = {side: ["{host}:{port}".format(**each) for each in module.params[side]] for side in backends.SIDES}
    proxy = backends.Proxy(module.params["url"])
    try:
        there = proxy.backends()
        changes = backends.difference(there, wanted)
        changed = any(engines for entry in changes.values() for engines in entry.values())
        if changed and not module.check_mode:
            backends.reconcile(proxy, wanted, module.params["drain_timeout_s"])
    except backends.Unreachable as error:
        if not module.check_mode:
            module.fail_json(msg=str(error))
        there, changed = {side: [] for side in backends.SIDES}, False
        changes = {side: {"add": [], "remove": []} for side in backends.SIDES}
    except backends.ProxyError as error:
        module.fail_json(msg=str(error))
    result = {"changed": changed, "changes": changes}
    if changed:
        result["diff"] = {"before": _lines(there), "after": _lines(wanted)}
    module.exit_json(**result)


def _lines(engines: dict[str, list[str]]) -> str:
    return "".join(f"{side} {engine}\n" for side in backends.SIDES for engine in sorted(engines[side]))


if __name__ == "__main__":
    main()
