# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""A run with ``--limit``, through Ansible itself, with a Docker that is made up on the hosts that it leaves out."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from ...plugins.plugin_utils.clusters import planned

ROOT = Path(__file__).resolve().parents[4]
INSTALLED = ROOT / ".cache/collections"
OURS = "vllm-ascend-pd/memfabric"

#: community.docker.docker_host_info, as far as it is asked.
DOCKER = """
import json
from ansible.module_utils.basic import AnsibleModule
module = AnsibleModule(dict.fromkeys(["containers", "containers_all", "images", "verbose_output"], {"type": "bool"}))
module.exit_json(**json.loads(%r))
"""

PLAY = """---
- hosts: all
  gather_facts: false
  any_errors_fatal: true
  tasks:
    - ansible.builtin.include_role:
        name: vllm_ascend.pd_serving.container
        tasks_from: left_behind
        rolespec_validate: false
"""

#: A host on which decode runs from an older build.
FOUND = {
    "images": [{"Id": "sha256:1", "RepoTags": [f"{OURS}:old", "vllm-ascend-pd/decode:current"], "RepoDigests": []}],
    "containers": [{"Names": ["/pd-decode-d1"], "ImageID": "sha256:1"}],
}


def limited(folder: Path, **other: Any) -> tuple[int, str]:
    """Code and words of a run on p1 alone, that has built; ``other``: how d1 is reached."""
    collection = folder / "ansible_collections/community/docker"
    shutil.copytree(INSTALLED / "ansible_collections/community/docker", collection, copy_function=os.symlink)
    module = collection / "plugins/modules/docker_host_info.py"
    module.unlink()
    module.write_text(DOCKER % json.dumps(FOUND))
    hosts = {"p1": {"ansible_connection": "local"}, "d1": other}
    (folder / "hosts.json").write_text(json.dumps({"all": {"hosts": hosts}}))
    result = {"plan": planned(), "errors": [], "conclusion": ""}
    tags = {"vllm": "1", "memfabric": "new", "memcache": "3"}
    (folder / "vars.json").write_text(json.dumps({"plan_result": result, "container_layers": tags}))
    (folder / "play.yml").write_text(PLAY)
    playbook = Path(sys.executable).parent / "ansible-playbook"
    run = subprocess.run(
        [playbook, "play.yml", "-i", "hosts.json", "-e", "@vars.json", "--limit", "p1"],
        cwd=folder,
        env={
            **os.environ,
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_COLLECTIONS_PATH": f"{folder}:{ROOT / '.cache/dev'}:{INSTALLED}",
            "ANSIBLE_NOCOLOR": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    return run.returncode, " ".join((run.stdout + run.stderr).split())


def test_decode_that_would_stay_on_an_older_build_is_named(tmp_path: Path) -> None:
    code, said = limited(tmp_path, ansible_connection="local", ansible_python_interpreter=sys.executable)
    assert code != 0
    assert f"pd-decode-d1 on d1, which would need {OURS}:new" in said


def test_a_host_that_is_gone_keeps_nobody_from_going_on(tmp_path: Path) -> None:
    code, said = limited(tmp_path, ansible_host="127.0.0.1", ansible_port=1, ansible_ssh_retries=0)
    assert code == 0, said
    assert "ignored=1" in said or "unreachable=1" in said
