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

import stat
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils import _config_folder as folders


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "mode": {"type": "str", "default": "0700"},
            "files": {"type": "dict", "required": True},
        },
        supports_check_mode=True,
        no_log=True,  # keeps the contents out of the target's syslog
    )
    path = module.params["path"]
    mode = int(module.params["mode"], 8)
    try:
        wanted = folders.parse_files(module.params["files"])
        changes = folders.compare(folders.read(path), wanted)
        same_mode = Path(path).is_dir() and stat.S_IMODE(Path(path).stat().st_mode) == mode
        if not module.check_mode and (changes or not same_mode):
            folders.apply(path, changes, mode)
    except (OSError, ValueError) as error:
        module.fail_json(msg=f"{path}: {error}")
    module.exit_json(
        changed=bool(changes) or not same_mode,
        digest=folders.digest(wanted),
        changed_files=[change.path for change in changes],
        diff=folders.diff(path, changes),
    )


if __name__ == "__main__":
    main()
