# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""The hosts of the inventory under test, over SSH."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import testinfra

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
INVENTORY = os.environ.get("PD_INVENTORY", str(ROOT / "inventories/lab"))
# Ansible has the host keys checked against the lab's; paramiko as testinfra uses it would only warn.
SSH_CONFIG = "Host *\n  User root\n  StrictHostKeyChecking no\n"


def inventory() -> dict[str, Any]:
    """The inventory as `ansible-inventory --list` tells it."""
    argv = [str(BIN / "ansible-inventory"), "--inventory", INVENTORY, "--list"]
    listing: dict[str, Any] = json.loads(subprocess.run(argv, cwd=ROOT, capture_output=True, check=True).stdout)
    return listing


def connect(folder: Path) -> dict[str, Any]:
    """A testinfra host for every host of the inventory. `folder` takes the SSH settings."""
    config = folder / "ssh_config"
    config.write_text(SSH_CONFIG)
    return {
        name: testinfra.get_host(
            f"paramiko://{variables.get('ansible_host', name)}",
            ssh_config=str(config),
            ssh_identity_file=str(ROOT / ".lab/ssh/id_ed25519"),
        )
        for name, variables in inventory()["_meta"]["hostvars"].items()
    }


def environ(host: Any, container: str, pattern: str) -> dict[str, str]:
    """Environment, from the kernel, of the container's process whose command line matches."""
    for line in host.check_output("docker top %s -eo pid,args", container).splitlines():
        pid, arguments = line.split(maxsplit=1)
        if re.search(pattern, arguments):
            text = host.check_output("tr '\\0' '\\n' < /proc/%s/environ", pid)
            return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    raise AssertionError(f"{container} runs nothing like {pattern}")


def start_playbook(
    *arguments: str, stdout: int = subprocess.DEVNULL, inventory: str = INVENTORY
) -> subprocess.Popen[str]:
    """A playbook run from the checkout on the inventory under test (or another), in a process group of its own."""
    return subprocess.Popen(
        [str(BIN / "ansible-playbook"), "--inventory", inventory, *arguments],
        cwd=ROOT,
        env={
            **os.environ,
            "ANSIBLE_FORCE_COLOR": "0",
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        },
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def ansible_playbook(*arguments: str, inventory: str = INVENTORY) -> str:
    """Output of a playbook run. A failure is raised with all of it."""
    process = start_playbook(*arguments, stdout=subprocess.PIPE, inventory=inventory)
    output = process.communicate()[0]
    if process.returncode != 0:
        raise AssertionError(f"{' '.join(arguments)} ended with {process.returncode}\n{output}")
    return output


def changed(output: str) -> dict[str, int]:
    """host -> tasks that changed something, from the recap of a playbook run."""
    return {host: int(count) for host, count in re.findall(r"^(\S+)\s*: ok=\d+\s+changed=(\d+)", output, re.MULTILINE)}


def plan(folder: Path) -> dict[str, Any]:
    """The plan of the inventory under test, with what the hosts show."""
    destination = folder / "plan.json"
    ansible_playbook(
        str(ROOT / "tests/integration/plan.yml"), "--extra-vars", json.dumps({"plan_file": str(destination)})
    )
    made: dict[str, Any] = json.loads(destination.read_text())
    return made
