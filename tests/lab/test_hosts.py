# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""What a simulated host shows, against samples in the real layouts; parts of the lab that need no running lab."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lab import faults, hardware, layout, models
from lab.depot import server
from lab.hosts import npu_smi, runtime_shim

DATA = Path(__file__).parents[1] / "unit" / "data"
STATE: dict[str, Any] = {**hardware.HEALTHY, "host": 1, "fabric": {"1": 3, "2": 3, "3": 4}}


def sample(name: str) -> str:
    return (DATA / name).read_text().rstrip("\n")


@pytest.mark.parametrize(
    ("changes", "file"),
    [
        ({}, "info-a3-25.5.1.txt"),
        ({"alarm": [5]}, "info-a3-chip5-alarm.txt"),
        ({"driver": "26.0.rc2", "layout": "wide"}, "info-a3-26.0.rc2-wide.txt"),
    ],
)
def test_npu_smi_prints_the_real_layout(monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], file: str) -> None:
    monkeypatch.setattr(npu_smi, "processes", dict)
    assert npu_smi.info({**STATE, **changes}) == sample(f"npu-smi/{file}")


def test_npu_smi_shows_who_holds_a_chip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(npu_smi, "processes", lambda: {0: [(1333928, "VLLM::Worker", 59221)]})
    shown = npu_smi.info(STATE).splitlines()
    (row,) = [line for line in sample("npu-smi/info-a3-busy.txt").splitlines() if "1333928" in line]
    assert row in shown
    assert any("31          0    / 0          62321/ 65536" in line for line in shown)


def test_npu_smi_spod_info() -> None:
    assert npu_smi.superpod(STATE) == sample("npu-smi/spod-info.txt")


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["/usr/bin/python3", "/usr/local/bin/vllm", "serve", "--config", "decode.yaml"], True),
        (["bash", "/etc/vllm-ascend-pd/launch", "vllm", "serve"], False),
        (["/usr/bin/python3", "/usr/local/bin/vllm", "bench", "serve"], False),
    ],
)
def test_what_an_engine_is(argv: list[str], expected: bool) -> None:
    assert npu_smi.is_engine(argv) is expected


def hccn_tool(folder: Path, changes: dict[str, Any], *arguments: str) -> str:
    """The script's output, on a machine below the folder."""
    for name, text in {
        "usr/local/Ascend/driver/hardware/hccn": hardware.hccn({**STATE, **changes}),
        "etc/hccn.conf": "address_0=10.90.1.10\nnetmask_0=255.255.255.0\n",
        "dev/davinci0": "",
        "dev/davinci1": "",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    script = Path(layout.SOURCE) / "hosts" / "hccn_tool"
    ran = subprocess.run(
        [str(script), *arguments], env={"HCCN_ROOT": str(folder), "PATH": os.defpath}, capture_output=True, text=True
    )
    assert ran.stderr == ""
    return ran.stdout.rstrip("\n")


@pytest.mark.parametrize(
    ("question", "changes", "file"),
    [
        ("link", {}, "link-up.txt"),
        ("link", {"link_down": [0]}, "link-down.txt"),
        ("net_health", {}, "net-health-ok.txt"),
        ("net_health", {"net_health_fault": [0]}, "net-health-fault.txt"),
        ("tls", {}, "tls-off.txt"),
        ("tls", {"tls_on": [0]}, "tls-on.txt"),
    ],
)
def test_hccn_tool_prints_the_real_layout(tmp_path: Path, question: str, changes: dict[str, Any], file: str) -> None:
    assert hccn_tool(tmp_path, changes, "-i", "0", f"-{question}", "-g") == sample(f"hccn_tool/{file}")


def test_hccn_tool_knows_addresses_and_refuses_the_rest(tmp_path: Path) -> None:
    assert hccn_tool(tmp_path, {}, "-i", "0", "-ip", "-g") == "ipaddr:10.90.1.10\nnetmask:255.255.255.0"
    assert "no ip was preset" in hccn_tool(tmp_path, {}, "-i", "1", "-ip", "-g")
    assert "vnic ipaddr:10.89.1.11\n" in hccn_tool(tmp_path, {}, "-i", "1", "-vnic", "-g")
    assert hccn_tool(tmp_path, {"missing": [1]}, "-i", "1", "-link", "-g") == "The device 1 is not exist!"
    assert hccn_tool(tmp_path, {}, "-i", "2", "-link", "-g") == "The device 2 is not exist!"
    assert "Invalid argument" in hccn_tool(tmp_path, {}, "-i", "0", "-fec", "-g")


@pytest.mark.parametrize(
    ("method", "address", "answers"),
    [
        ("hccs_ping", "10.89.2.10", True),
        ("hccs_ping", "10.89.3.10", False),  # another SuperPod
        ("ping", "10.90.3.10", True),
        ("hccs_ping", "10.89.9.10", False),  # no such host
        ("hccs_ping", "10.89.2.26", False),  # no such chip
        ("hccs_ping", "10.88.0.12", False),  # a host's address, not a chip's
    ],
)
def test_who_answers_a_ping(tmp_path: Path, method: str, address: str, answers: bool) -> None:
    shown = hccn_tool(tmp_path, {}, "-i", "0", f"-{method}", "-g", "address", address)
    assert ("3 packets transmitted, 3 received" in shown) is answers
    assert ("0 received" in shown) is not answers


def test_shim_asks_for_less_where_root_may_less() -> None:
    process: dict[str, Any] = {
        "capabilities": {"bounding": ["CAP_SYS_ADMIN", "CAP_SYS_RESOURCE"]},
        "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 1 << 40, "soft": 1 << 40}],
        "oomScoreAdj": -500,
    }
    runtime_shim.restrain(process)
    assert process["capabilities"] == {"bounding": ["CAP_SYS_ADMIN"]}
    assert process["rlimits"][0]["soft"] < 1 << 40
    assert process["oomScoreAdj"] == 0


@pytest.mark.parametrize("prefix", ["", "/https://github.com", "/https://mirror.example/https://github.com", "/a/../b"])
def test_depot_finds_a_repository_behind_any_prefix(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, prefix: str
) -> None:
    repository = tmp_path / "git" / "vllm-project" / "vllm.git"
    repository.mkdir(parents=True)
    monkeypatch.setattr(server, "CONTENT", tmp_path)
    assert server.repository_and_rest(f"{prefix}/vllm-project/vllm.git/info/refs") == (repository, "/info/refs")
    assert server.repository_and_rest(f"{prefix}/vllm-project/vllm/git-upload-pack") == (repository, "/git-upload-pack")
    assert server.repository_and_rest(f"{prefix}/vllm-project/other.git/info/refs") is None


def test_shard_files_add_up_to_the_index(tmp_path: Path) -> None:
    models.make(tmp_path, tmp_path / "stamp")
    for model in models.MODELS:
        folder = tmp_path / model.name
        index = json.loads((folder / "model.safetensors.index.json").read_text())
        data = 0
        for file in folder.glob("*.safetensors"):
            with file.open("rb") as shard:
                header = int.from_bytes(shard.read(8), "little")
                tensors = json.loads(shard.read(header))
            assert max(end for _begin, end in (t["data_offsets"] for t in tensors.values())) + 8 + header == (
                file.stat().st_size
            )
            assert {name for name, shard_name in index["weight_map"].items() if shard_name == file.name} == set(tensors)
            data += file.stat().st_size - 8 - header
        assert data == index["metadata"]["total_size"] == model.size


@pytest.mark.parametrize("name", ["model_shard_missing", "model_shard_short", "model_missing"])
def test_faults_of_model_files_leave_them_as_they_were(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    monkeypatch.setattr(layout, "STATE", tmp_path)
    host = layout.Host(1)
    models.make(host.folder / "data" / "models", host.folder / "stamp")

    def files() -> dict[str, int]:
        return {str(file): file.stat().st_size for file in (host.folder / "data").rglob("*") if file.is_file()}

    before = files()
    faults.switch(host, name, None, on=True)
    assert files() != before
    assert name in faults.active(host)
    faults.switch(host, name, None, on=False)
    assert files() == before
    assert not faults.active(host)


def test_hardware_of_a_fault_is_known_hardware() -> None:
    for name, fault in faults.FAULTS.items():
        if fault.hardware:
            assert fault.hardware(fault.value).keys() <= hardware.HEALTHY.keys(), name
        assert bool(fault.on) == bool(fault.off), name
        assert fault.hardware or fault.on, name
