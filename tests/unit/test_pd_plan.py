# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""``pd_plan`` and ``playbooks/plan.yml`` through Ansible itself: templated variables, groups, no host contacted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible_collections.vllm_ascend.pd_serving.plugins.action.pd_plan import (
    _find_archive,
    _members,
    _out_of_sight,
)

ROOT = Path(__file__).resolve().parents[2]

INVENTORY = """---
all:
  vars:
    models: /data/models
    pd_model_path: "{{ models }}/DeepSeek-V3.2-W8A8"
    pd_served_model_name: deepseek-v3.2
    vllm_build_vllm_ascend_repo: "{{ mirror | default('https://git.example') }}/vllm-ascend.git"
    pd_nic: eth0
    pd_address: "{{ ansible_host }}"
    decode_env:
      FROM_TEMPLATE: "{{ inventory_hostname }}"
  children:
    prefill:
      vars:
        prefill_vllm_args: {max_num_seqs: 2}
      hosts:
        p1: {ansible_host: 192.0.2.1}
    decode:
      hosts:
        d1: {ansible_host: 192.0.2.2}
    proxy:
      hosts:
        p1:
    somebody_else:
      hosts:
        x1: {prefill_typo: 1}
"""


def own_playbook(folder: Path, text: str) -> Path:
    """A playbook of one test."""
    playbook = folder / "play.yml"
    playbook.write_text(text, encoding="utf-8")
    return playbook


def run_playbook(
    folder: Path, playbook: Path, inventory: str, *arguments: str, columns: str = "120"
) -> subprocess.CompletedProcess[str]:
    (folder / "hosts.yml").write_text(inventory, encoding="utf-8")
    command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", str(folder / "hosts.yml"), str(playbook)]
    command += arguments
    env = os.environ | {"ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1", "NO_COLOR": "1"}
    env["COLUMNS"] = columns
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the action returns, as the controller's later tasks see it."""
    folder = tmp_path_factory.mktemp("plan")
    playbook = own_playbook(
        folder,
        f"""---
- hosts: all
  gather_facts: false
  tasks:
    - vllm_ascend.pd_serving.pd_plan:
        facts: {{d1: {{npu: {{npu_smi_path: /usr/local/sbin/npu-smi}}}}, x1: {{unreachable: gone}}}}
      run_once: true
      register: planned
    - vllm_ascend.pd_serving.pd_plan:
        draft: true
      run_once: true
      register: draft
    - ansible.builtin.copy:
        content: "{{{{ planned | combine({{'draft': draft}}) | to_json }}}}"
        dest: {folder}/result.json
        mode: "0600"
      delegate_to: localhost
      run_once: true
""",
    )
    run = run_playbook(folder, playbook, INVENTORY)
    assert run.returncode == 0, run.stdout + run.stderr
    result: dict[str, Any] = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    return result


def test_variables_are_templated(planned: dict[str, Any]) -> None:
    plan = planned["plan"]
    assert plan["model"] == {"path": "/data/models/DeepSeek-V3.2-W8A8", "name": "deepseek-v3.2"}
    assert plan["hosts"]["d1"]["address"] == "192.0.2.2"
    decode = next(service for service in plan["services"] if service["name"] == "decode-d1")
    assert decode["env"]["FROM_TEMPLATE"] == "d1"


def test_group_variables_count(planned: dict[str, Any]) -> None:
    options = {engine["role"]: engine["vllm_args"]["max-num-seqs"] for engine in planned["plan"]["engines"]}
    assert options == {"prefill": 2, "decode": 4}


def test_what_rules_ask_of_roles_variables_is_read(planned: dict[str, Any]) -> None:
    assert planned["plan"]["settings"]["vllm_build_vllm_ascend_repo"] == "https://git.example/vllm-ascend.git"


def test_facts_are_used(planned: dict[str, Any]) -> None:
    unknown = [(item["what"], item["host"]) for item in planned["plan"]["unknowns"]]
    assert ("path of npu-smi", "p1") in unknown
    assert ("path of npu-smi", "d1") not in unknown


def test_hosts_outside_the_groups_are_nobodys_business(planned: dict[str, Any]) -> None:
    assert set(planned["plan"]["hosts"]) == {"p1", "d1"}
    assert "unknown-variable" not in [finding["rule"] for finding in planned["findings"]]


def test_nothing_changes_and_rules_have_judged(planned: dict[str, Any]) -> None:
    assert planned["changed"] is False
    assert [finding["rule"] for finding in planned["findings"] if finding["rule"].startswith("PD-")]
    assert planned["text"].startswith("Profile sparse_kv_offload")


def test_what_stops_a_run_is_told_by_its_rules(planned: dict[str, Any]) -> None:
    stopping = [one["rule"] for one in planned["findings"] if one["severity"] == "error" and not one["waived"]]
    assert stopping
    assert planned["errors"] == sorted(set(stopping))


def test_a_draft_is_the_plan_alone(planned: dict[str, Any]) -> None:
    assert set(planned["draft"]["plan"]["probe"]) == {"p1", "d1"}
    assert not {"findings", "errors", "text", "conclusion"} & set(planned["draft"])


TWO_PLAYS = """---
- hosts: p1
  gather_facts: false
  tasks: &tasks
    - ansible.builtin.import_role:
        name: vllm_ascend.pd_serving.plan
        tasks_from: make
      vars:
        plan_report_dir: ""
        plan_show: nothing
- hosts: p1:d1
  gather_facts: false
  tasks: *tasks
- hosts: d1
  gather_facts: false
  tasks:
    - ansible.builtin.assert:
        that: plan_result.plan.hosts | length == 2
"""


def test_a_later_play_takes_the_plan_of_an_earlier_one(tmp_path: Path) -> None:
    """No host is probed twice, and hosts that join later have the plan too. Both hosts are this machine."""
    playbook = own_playbook(tmp_path, TWO_PLAYS)
    local = "ansible_connection: local, ansible_python_interpreter: '{{ ansible_playbook_python }}', pd_address:"
    inventory = INVENTORY
    for number in (1, 2):
        inventory = inventory.replace(f"ansible_host: 192.0.2.{number}", f"{local} 127.0.0.{number}")
    run = run_playbook(tmp_path, playbook, inventory)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.count("Probe this host]") == 1
    assert run.stdout.count("=> (item=d1)") == 1


def test_playbook_plan_prints_and_contacts_no_host(tmp_path: Path) -> None:
    """The addresses are from the documentation range: contacting them would fail or hang."""
    run = run_playbook(tmp_path, ROOT / "playbooks" / "plan.yml", INVENTORY.replace("pd_nic", "pd_nick"))
    assert run.returncode == 0, run.stdout + run.stderr
    assert "\nvllm serve /data/models/DeepSeek-V3.2-W8A8 \\\n  --host 0.0.0.0 \\\n  --port 29180 \\\n" in run.stdout
    assert "no variable is called pd_nick" in run.stdout
    assert "unreachable=0" in run.stdout


UNDEFINED = INVENTORY.replace(
    "ansible_host: 192.0.2.2",
    "ansible_host: 192.0.2.2, decode_port: '{{ my_port }}', pd_log_dir: '{{ 1 | no_filter }}', pd_devices: [0, 0]",
).replace("pd_address:", "pd_image_archive: '{{ nowhere.archive }}'\n    pd_image_source: archive\n    pd_address:")


def test_templates_that_cannot_be_filled_in_are_findings_among_all_others(tmp_path: Path) -> None:
    """Ansible before 2.19 leaves an undefined name as it is written; what has a type is told of it all the same."""
    run = run_playbook(tmp_path, ROOT / "playbooks" / "plan.yml", UNDEFINED, columns="200")
    assert run.returncode == 0, run.stdout + run.stderr
    told = [line.split(maxsplit=3) for line in run.stdout.splitlines() if line.startswith("error ")]
    assert ("device-list", "d1") in [(rule, host) for _severity, rule, host, _text in told]
    template = {text.split()[0]: (host, text) for _severity, rule, host, text in told if rule == "variable-template"}
    assert {name: host for name, (host, _text) in template.items()} == {
        "decode_port": "d1",
        "pd_log_dir": "d1",
        "pd_image_archive": "cluster",
    }
    assert template["decode_port"][1] == "decode_port cannot be templated: 'my_port' is undefined"
    assert "variable-partner" not in run.stdout  # it is set, if to nothing


@pytest.mark.parametrize(("said", "one"), [("", True), (", ansible_port: 2222", False)])
def test_two_names_of_one_machine_are_told_before_any_is_contacted(tmp_path: Path, said: str, one: bool) -> None:
    inventory = INVENTORY.replace("ansible_host: 192.0.2.2", f"ansible_host: 192.0.2.1{said}")
    inventory = inventory.replace("    pd_address:", "    own_address:")
    run = run_playbook(tmp_path, ROOT / "playbooks" / "plan.yml", inventory)
    assert run.returncode == 0, run.stdout + run.stderr
    assert ("p1 and d1 are one machine: both have ansible_host 192.0.2.1" in run.stdout) == one


def test_a_name_without_its_prefix_is_told_unless_another_variable_uses_it(tmp_path: Path) -> None:
    stated = "vllm_args: {max_num_seqs: 2}\n    max_model_len: 65536\n    topk_buffer_size: 8192\n    env: lab\n"
    stated += "    pd_topk_buffer_size: '{{ topk_buffer_size }}'\n    length: '{{ max_model_len * 2 }}'\n"
    run = run_playbook(
        tmp_path, ROOT / "playbooks" / "plan.yml", INVENTORY.replace("pd_nic:", f"{stated}    pd_nic:", 1)
    )
    assert run.returncode == 0, run.stdout + run.stderr
    told = [line for line in run.stdout.splitlines() if "no variable is called" in line]
    assert [" ".join(line.split()) for line in told] == [
        "warning unknown-variable cluster no variable is called vllm_args (on 2 hosts: p1, d1)"
    ]


@pytest.mark.parametrize("columns", ["80", "130"])
def test_the_table_is_as_wide_as_the_terminal(tmp_path: Path, columns: str) -> None:
    run = run_playbook(tmp_path, ROOT / "playbooks" / "plan.yml", INVENTORY, columns=columns)
    lines = run.stdout.splitlines()
    table = lines[next(n for n, line in enumerate(lines) if line.startswith("SEVERITY")) :]
    assert len(table[1]) == int(columns)
    assert max(len(line) for line in table[: table.index("")]) <= int(columns)


def test_a_report_that_cannot_be_made_ends_nothing(tmp_path: Path) -> None:
    """The findings stand, and the want of a page is told."""
    (tmp_path / "no_folder").write_text("")
    playbook = own_playbook(
        tmp_path,
        """---
- hosts: all
  gather_facts: false
  tasks:
    - vllm_ascend.pd_serving.pd_plan:
        facts: {d1: {host: {memory: {total_bytes: [much]}}}}
        show: findings
        report_dir: "{{ folder }}"
      run_once: true
""",
    )
    run = run_playbook(tmp_path, playbook, INVENTORY, "-e", f"folder={tmp_path}/no_folder")
    assert run.returncode == 0, run.stdout + run.stderr
    assert "The report was not written: " in run.stdout + run.stderr and "PD-HOST-001" in run.stdout


def test_explain_needs_no_inventory(tmp_path: Path) -> None:
    run = run_playbook(tmp_path, ROOT / "playbooks" / "explain.yml", "all: {}\n", "-e", "rule=pd-mem-001", columns="80")
    assert run.returncode == 0, run.stdout + run.stderr
    assert "PD-MEM-001  the host's memory does not hold its services  [error]" in run.stdout
    assert "no host is planned" in run.stdout
    why = run.stdout.partition("[error]\n\n")[2].partition("\nSource: ")[0]
    assert why and max(map(len, why.splitlines())) <= 80


def test_variables_that_the_plan_cannot_see_are_found(tmp_path: Path) -> None:
    """Vars of a play: one that nothing else sets, one that overrides, and one that says what the inventory says."""
    playbook = own_playbook(
        tmp_path,
        """---
- hosts: all
  gather_facts: false
  vars:
    pd_log_dir: /var/log/mine
    decode_env: {FROM_PLAY: "1"}
    pd_served_model_name: deepseek-v3.2
  tasks:
    - vllm_ascend.pd_serving.pd_plan:
        show: findings
      run_once: true
""",
    )
    run = run_playbook(tmp_path, playbook, INVENTORY)
    assert run.returncode == 0, run.stdout + run.stderr
    said = " ".join(run.stdout.split())
    assert "variable-ignored" in said
    names = ("pd_log_dir", "decode_env", "pd_served_model_name", "pd_address")
    assert [name for name in names if f"{name} is set in vars" in said] == ["pd_log_dir", "decode_env"]


def test_defaults_of_roles_are_nobodys_statement() -> None:
    """A role that plans as its dependency has its own defaults in sight, which hostvars never hold."""

    class HostVars(dict[str, dict[str, Any]]):
        raw_get = dict.__getitem__

    task_vars = {"vllm_build_soc_version": "ascend910_9391", "ansible_host": "192.0.2.9", "pd_log_dir": "/var/log/mine"}
    known = {"inventory_hostname": "p1", "hostvars": HostVars(p1={"ansible_host": "192.0.2.1"})}
    assert [finding.found.split()[0] for finding in _out_of_sight({**task_vars, **known})] == ["pd_log_dir"]


@pytest.mark.parametrize(
    ("source", "archive", "missing"),
    [
        ("archive", "{folder}/there.tar", False),
        ("archive", "{folder}/absent.tar", True),
        ("archive", "{folder}", True),
        ("archive", "there.tar", False),
        ("archive", "absent.tar", True),
        ("archive", ".", True),
        ("archive", "elsewhere.tar", True),
        ("archive", None, False),  # said by the plan
        ("pull", "{folder}/absent.tar", False),
    ],
)
def test_an_archive_that_is_not_here_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, archive: str | None, missing: bool
) -> None:
    (tmp_path / "there.tar").touch()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "elsewhere.tar").touch()
    monkeypatch.chdir(tmp_path / "elsewhere")  # where nobody looks
    stated = archive and archive.format(folder=tmp_path)
    settings = {"pd_image_source": source, "pd_image_archive": stated}
    loader = DataLoader()
    loader.set_basedir(str(tmp_path))  # the playbook's folder
    findings = _find_archive(settings, lambda folder, name: str(loader.path_dwim_relative_stack([], folder, name)))
    assert [finding.severity for finding in findings] == ["error"] * missing
    if source == "archive" and archive and not missing:
        assert settings["pd_image_archive"] == str(tmp_path / "there.tar")


def test_an_archive_beside_the_playbook_is_found_and_its_whole_path_kept(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "image.tar").touch()
    playbook = own_playbook(
        tmp_path,
        f"""---
- hosts: p1
  gather_facts: false
  tasks:
    - vllm_ascend.pd_serving.pd_plan:
      register: planned
    - ansible.builtin.assert:
        that: planned.plan.settings.pd_image_archive == '{tmp_path}/files/image.tar'
""",
    )
    stated = "    pd_nic: eth0\n    pd_image_source: archive\n    pd_image_archive: image.tar"
    run = run_playbook(tmp_path, playbook, INVENTORY.replace("    pd_nic: eth0", stated))
    assert run.returncode == 0, run.stdout + run.stderr


def test_hosts_are_those_of_the_groups_or_all_if_nobody_is_in_one() -> None:
    groups = {"all": ["p1", "x1"], "prefill": ["p1"], "web": ["x1"]}
    assert _members({"p1": {}, "x1": {}}, groups) == ["p1"]
    assert _members({"p1": {}, "x1": {}}, {"all": ["p1", "x1"], "prefil": ["p1"]}) == ["p1", "x1"]
