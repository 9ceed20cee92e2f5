# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""``playbooks/preflight.yml`` through Ansible: hosts broken in every way are findings, and the rest goes on.

The first host, on which what runs once would run, cannot be reached; the second has no Python; on the third, which is
this machine, npu-smi never comes back.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def inventory(closed: int) -> dict[str, Any]:
    here = {"ansible_connection": "local"}
    return {
        "all": {"vars": {"pd_profile": "sparse_kv_offload", "pd_model_path": "/data/models/DeepSeek-V3.2-W8A8"}},
        "prefill": {"hosts": {"p1": {"pd_address": "192.0.2.1", "ansible_host": "127.0.0.1", "ansible_port": closed}}},
        "decode": {
            "hosts": {
                "d1": {**here, "pd_address": "192.0.2.2", "ansible_python_interpreter": "/nonexistent/python"},
                "d2": {**here, "ansible_python_interpreter": sys.executable},
            }
        },
        "proxy": {"hosts": {"p1": {}}},
    }


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    folder = tmp_path_factory.mktemp("preflight")
    tool = folder / "npu-smi"
    tool.write_text("#!/bin/sh\nexec sleep 3600\n")
    tool.chmod(0o755)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # and nobody listens
        (folder / "hosts.json").write_text(json.dumps(inventory(unused.getsockname()[1])))
        done = subprocess.run(
            [
                Path(sys.executable).parent / "ansible-playbook",
                ROOT / "playbooks" / "preflight.yml",
                "-i",
                "hosts.json",
            ],
            cwd=folder,
            env={
                **os.environ,
                "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
                "ANSIBLE_NOCOLOR": "1",
                "PATH": f"{folder}:{os.environ['PATH']}",
            },
            capture_output=True,
            text=True,
            check=False,
        )
    # Where the user started Ansible, and nowhere else.
    report = json.loads((folder / "reports" / "preflight.json").read_text())
    assert (folder / "reports" / "preflight.html").exists()
    assert not (ROOT / "playbooks" / "reports").exists()
    return done, report


def errors(report: dict[str, Any], rule: str) -> dict[str, dict[str, Any]]:
    """What the rule found, by host."""
    return {one["host"]: one for one in report["findings"] if (one["rule"], one["severity"]) == (rule, "error")}


def test_hosts_that_cannot_be_asked_are_findings(run: Any) -> None:
    gone = errors(run[1], "PD-HOST-001")
    assert sorted(gone) == ["d1", "p1"]
    assert "Connection refused" in gone["p1"]["found"]
    assert "/nonexistent/python" in gone["d1"]["found"]


def test_a_tool_that_hangs_is_a_finding_with_host_and_mend(run: Any) -> None:
    hung = errors(run[1], "PD-NPU-004")
    assert list(hung) == ["d2"]
    assert "npu-smi info gave no answer within 20 s" in hung["d2"]["found"]
    assert "where npu-smi hangs" in hung["d2"]["mend"]
    assert run[1]["probes"]["d2"]["total_s"] < 60


def test_the_host_that_can_be_asked_is_checked(run: Any) -> None:
    judged = {one["rule"] for one in run[1]["findings"] if one["host"] == "d2" and one["severity"] != "not checked"}
    assert {"PD-MODEL-001", "PD-NPU-001"} <= judged


def test_all_of_it_in_one_table_and_nothing_changed(run: Any) -> None:
    done, report = run
    assert done.returncode == 2, done.stdout + done.stderr
    assert report["ready"] is False and report["conclusion"] in done.stdout
    words = re.findall(r"^(error|warning|not checked|info)  ", done.stdout, re.MULTILINE)
    assert words == sorted(words, key=["error", "warning", "not checked", "info"].index)
    assert re.findall(r"changed=(\d+)", done.stdout) == ["0"] * 3
