#!/usr/bin/python
# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
from __future__ import annotations

DOCUMENTATION = r"""
module: config_folder
short_description: Make a folder hold exactly the given files
version_added: 0.1.0
description:
  - Writes, changes and removes files until the folder holds the given ones and nothing else.
  - Each file is replaced atomically. The folder itself keeps its inode, so that a container that has it mounted sees
    the change.
  - One call in place of a task per file.
author:
  - vllm_ascend.pd_serving contributors (@vllm-ascend-pd)
options:
  path:
    description: The folder. Missing parents are made.
    type: path
    required: true
  mode:
    description: Permissions of the folder, octal.
    type: str
    default: "0700"
  files:
    description:
      - The files, by path relative to the folder. Each has a C(content) (text) and a C(mode) (octal, default V(0644)).
      - Files below C(secrets/) are never shown, not even with C(--diff).
    type: dict
    required: true
  beside:
    description: Further folders that have to be there, with permissions V(0755). What is in them is left alone.
    type: list
    elements: path
    default: []
attributes:
  check_mode:
    description: Can run in check mode and tells what would change.
    support: full
  diff_mode:
    description: Shows the difference of every file but secrets.
    support: full
"""

EXAMPLES = r"""
- name: The settings of one service
  vllm_ascend.pd_serving.config_folder:
    path: /etc/vllm-ascend-pd/prefill-p1
    files:
      env:
        content: "HCCL_BUFFSIZE=400\n"
        mode: "0600"
      commands/00-prefill-p1-0.argv:
        content: "vllm\nserve\n--config\n/etc/vllm-ascend-pd/prefill-p1-0.yaml\n"
"""

RETURN = r"""
digest:
  description: A name for the content; equal for equal paths, modes and contents.
  type: str
  returned: success
  sample: 3f2a9c01d2e4b5a6
changed_files:
  description: Paths of the files that were (or in check mode would be) written or removed.
  type: list
  elements: str
  returned: success
  sample: [env]
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils import _config_folder as folders

#: Permissions of folders beside it, such as those for logs.
BESIDE = 0o755


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "mode": {"type": "str", "default": "0700"},
            "files": {"type": "dict", "required": True},
            "beside": {"type": "list", "elements": "path", "default": []},
        },
        supports_check_mode=True,
        no_log=True,  # keeps the contents out of the target's syslog
    )
    path = module.params["path"]
    mode = int(module.params["mode"], 8)
    try:
        wanted = folders.parse_files(module.params["files"])
        changes = folders.compare(folders.read(path), wanted)
        lacking = folders.lacking(module.params["beside"], BESIDE)
        stale = bool(changes or folders.lacking([path], mode))
        if not module.check_mode:
            folders.provide(lacking, BESIDE)
            if stale:
                folders.apply(path, changes, mode)
    except (OSError, ValueError) as error:
        module.fail_json(msg=f"{path}: {error}")
    module.exit_json(
        changed=stale or bool(lacking),
        digest=folders.digest(wanted),
        changed_files=[change.path for change in changes],
        diff=folders.diff(path, changes),
    )


if __name__ == "__main__":
    main()
