# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""One preflight tells every fault of every host at once, changes nothing, and gets through without a host."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from .. import lab, snapshot

LAB = lab.ROOT / "lab" / "lab"
PREFILL, DECODE = (lab.inventory()[role]["hosts"][0] for role in ("prefill", "decode"))
MODEL = "DeepSeek-V3.2-W8A8"


@dataclass(frozen=True)
class Case:
    """A fault, and the finding that it must give: rule, severity, host ("": the cluster), what it must say."""

    host: str
    fault: str
    rule: str
    severity: str
    says: tuple[str, ...]
    told_of: str | None = None  # where the finding stands, if not with the host

    @property
    def place(self) -> str:
        return self.host if self.told_of is None else self.told_of


CASES = [
    Case(PREFILL, "chip_alarm=5", "PD-NPU-002", "error", ("chip 5", "Alarm")),
    Case(PREFILL, "tls_on", "PD-NPU-008", "error", (f"on: {PREFILL}", f"off: {DECODE}"), told_of=""),
    Case(PREFILL, "model_shard_missing", "PD-MODEL-002", "error", ("00007",)),
    Case(PREFILL, "port_taken=29180", "PD-PORT-004", "error", ("29180",)),
    Case(PREFILL, "clock_skew=+300", "PD-HOST-003", "warning", ("+30",)),
    Case(PREFILL, "hosts_pitfall", "PD-NIC-010", "info", ("127.0.1.1",)),
    Case(DECODE, "superpod_other=4", "PD-NPU-006", "error", (f"SuperPod 4: {DECODE}",), told_of=""),
    Case(DECODE, "npu_busy=3", "PD-NPU-003", "error", ("chips 3",)),
    Case(DECODE, "link_down=7", "PD-NPU-007", "warning", ("chips 7",)),
    Case(DECODE, "ascend_install_info_missing", "PD-NPU-010", "error", ("missing",)),
    Case(DECODE, "hccn_conf_missing", "PD-NPU-009", "warning", ("missing",)),
    Case(DECODE, "low_memory=24", "PD-MEM-001", "error", ("24",)),
    Case(DECODE, "no_sve", "PD-HOST-006", "error", ("sve",)),
    Case(DECODE, "docker_stopped", "PD-HOST-005", "error", ("docker.sock",)),
    Case(DECODE, "small_mtu=1280", "PD-NIC-007", "warning", (f"path MTU to {DECODE}", "1500"), told_of=PREFILL),
]


@dataclass(frozen=True)
class Run:
    """What a preflight printed and reported."""

    code: int
    output: str
    report: dict[str, Any]
    page: str

    def findings(self, rule: str, host: str) -> list[dict[str, Any]]:
        return [one for one in self.report["findings"] if (one["rule"], one["host"]) == (rule, host)]


def preflight(folder: Path) -> Run:
    with pytest.MonkeyPatch.context() as patch:
        # A connection that is up already would still have the environment of its start (clock_skew).
        patch.setenv("ANSIBLE_SSH_CONTROL_PATH_DIR", str(folder / "ssh"))
        process = lab.start_playbook(
            str(lab.ROOT / "playbooks/preflight.yml"),
            "--extra-vars",
            json.dumps({"plan_report_dir": str(folder)}),
            stdout=subprocess.PIPE,
        )
    output = process.communicate(timeout=300)[0]
    report = json.loads((folder / "preflight.json").read_text())
    return Run(process.returncode, output, report, (folder / "preflight.html").read_text())


def switch(host: str, fault: str, state: str) -> None:
    subprocess.run([str(LAB), "fault", host, fault, state], check=True)


def clear() -> None:
    for host in (PREFILL, DECODE):
        subprocess.run([str(LAB), "fault", host, "clear"], check=True)


@pytest.fixture(scope="module")
def faulty(hosts: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Run, Any, Any]]:
    """One preflight under all faults at once, and what the hosts were like before and after it."""
    clear()
    try:
        for case in CASES:
            switch(case.host, case.fault, "on")
        before = snapshot.take(hosts)
        run = preflight(tmp_path_factory.mktemp("faulty"))
        yield run, before, snapshot.take(hosts)
    finally:
        clear()


def test_both_hosts_are_reached(faulty: tuple[Run, Any, Any]) -> None:
    found = [one for one in faulty[0].report["findings"] if one["rule"] == "PD-HOST-001"]
    assert found == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.fault.split("=")[0])
def test_every_fault_is_told_with_its_host_and_number(faulty: tuple[Run, Any, Any], case: Case) -> None:
    run = faulty[0]
    own = run.findings(case.rule, case.place)
    assert [
        one for one in own if one["severity"] == case.severity and all(word in one["found"] for word in case.says)
    ], own or run.report["findings"]
    assert all(one["mend"] for one in own)


def test_they_stand_in_one_table_sorted_by_severity(faulty: tuple[Run, Any, Any]) -> None:
    run = faulty[0]
    table = run.output[run.output.index("SEVERITY") :]
    words = [line.split("  ")[0] for line in table.splitlines() if line.startswith(("error ", "warning ", "info "))]
    order = ["error", "warning", "info"]
    assert words and words == sorted(words, key=order.index)
    assert all(case.rule in table for case in CASES)
    assert all(case.rule in run.page for case in CASES)


def test_the_run_says_that_nothing_may_start(faulty: tuple[Run, Any, Any]) -> None:
    run = faulty[0]
    assert run.code != 0
    assert run.report["ready"] is False
    assert run.report["conclusion"] in run.output


def test_nothing_changes_on_the_hosts(faulty: tuple[Run, Any, Any]) -> None:
    run, before, after = faulty
    assert after == before
    assert "changed=0" in run.output
    assert not [line for line in run.output.splitlines() if "changed=" in line and "changed=0" not in line]


# Its sshd is stopped; all of it is stopped, so that connections are taken and nothing ever comes back.
@pytest.mark.parametrize("fault", ["ssh_down", "hung"])
def test_a_host_that_is_gone_is_a_finding_and_the_other_is_checked(fault: str, tmp_path: Path) -> None:
    clear()
    try:
        switch(PREFILL, "chip_alarm=5", "on")
        switch(DECODE, fault, "on")
        start = time.monotonic()
        run = preflight(tmp_path)
    finally:
        clear()
    assert time.monotonic() - start < 180  # two time limits of 90 s for what is asked of a host
    assert [one["severity"] for one in run.findings("PD-HOST-001", DECODE)] == ["error"]
    assert "chip 5" in run.findings("PD-NPU-002", PREFILL)[0]["found"]
    assert {one["severity"] for one in run.report["findings"] if one["host"] == DECODE} <= {
        "error",
        "not checked",
        "info",
    }


def test_without_faults_it_is_ready(tmp_path: Path) -> None:
    clear()
    run = preflight(tmp_path)
    assert [one for one in run.report["findings"] if one["severity"] == "error"] == []
    assert (run.code, run.report["ready"]) == (0, True), run.output
    assert run.report["counts"]["not checked"] == 0
    assert len(run.report["passed"]) > 100
