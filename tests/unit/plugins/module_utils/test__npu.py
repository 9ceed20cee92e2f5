# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""The face `npu` from a host shown as a folder and an `npu-smi` shown as a script."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils import _npu
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._containers import Owners
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._parallel import Deadline
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._run import Runner
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._tree import Tree

SAMPLES = Path(__file__).parents[2] / "data" / "npu-smi"
ID = "0123456789abcdef" * 4
Tool = Callable[[str, str], Path]
Host = Callable[[dict[str, str]], Path]


def script(info: str, mapping: str = "mapping-a3.txt", superpod: str = "cat spod-info.txt") -> str:
    return f'cd {SAMPLES}\ncase "$2" in "") cat {info} ;; -m) cat {mapping} ;; -t) {superpod} ;; esac'


def files(chips: int) -> dict[str, str]:
    return {
        "/etc/ascend_install.info": "UserName=HwHiAiUser\nDriver_Install_Path_Param=/usr/local/Ascend\n",
        "/usr/local/Ascend/driver/version.info": (SAMPLES / "version.info").read_text(),
        "/usr/local/Ascend/firmware/version.info": "Version=7.8.0.5.216\n",
        "/dev/davinci_manager": "",
        **{f"/dev/davinci{number}": "" for number in range(chips)},
    }


def look(root: Path, containers: list[dict[str, Any]] | None = None, seconds: float = 20) -> dict[str, Any]:
    tree = Tree(str(root))
    face = _npu.gather(tree, Runner(Deadline(seconds)), Owners(tree, containers or []))
    assert set(face) == set(_npu.empty())
    return face


def test_a3(tool: Tool, host: Host) -> None:
    place = tool("npu-smi", script("info-a3-25.5.1.txt"))
    face = look(host(files(16)))
    assert face["reasons"] == []
    assert face["npu_smi_path"] == str(place)
    assert face["device_nodes"] == list(range(16))
    assert [chip["phy_id"] for chip in face["chips"]] == [chip["logic_id"] for chip in face["chips"]] == list(range(16))
    assert {name: face[name] for name in ("generation", "superpod_id", "holders")} == {
        "generation": "A3",
        "superpod_id": 3,
        "holders": {},
    }
    assert (face["driver_version"], face["driver_inner_version"]) == ("25.5.1", "V100R001C25SPC001B210")
    assert (face["firmware_version"], face["npu_smi_version"]) == ("7.8.0.5.216", "25.5.1")


def test_the_superpod_of_a_host_whose_first_npu_is_not_0(tool: Tool, host: Host) -> None:
    """As in a virtual machine that was given half of the NPUs."""
    half = 'sed "/^| 0     Asc/,/^| 3     Asc/{/^| 3     Asc/!d}" info-a3-25.5.1.txt'
    tool("npu-smi", f'[ "$3" = spod-info ] && [ "$5" != 3 ] && exit 3\n{script("INFO").replace("cat INFO", half)}')
    face = look(host(files(16)))
    assert face["chips"][0]["npu"] == 3
    assert face["superpod_id"] == 3


def test_a2_has_no_superpod_and_that_is_no_fault(tool: Tool, host: Host) -> None:
    tool("npu-smi", script("info-a2-910b3.txt", "mapping-a2.txt", "echo not supported; exit 1"))
    face = look(host(files(8)))
    assert face["reasons"] == []
    assert face["generation"] == "A2"
    assert [chip["phy_id"] for chip in face["chips"]] == list(range(8))


def test_holders_by_process_and_by_device(tool: Tool, host: Host) -> None:
    tool("npu-smi", script("info-a3-busy.txt"))
    inside = f"0::/system.slice/docker-{ID}.scope\n"
    root = host({**files(16), "/proc/1333928/cgroup": inside, "/proc/1333930/cgroup": "0::/\n"})
    by_device = {"id": "f" * 64, "name": "other", "state": "running", "chips": [1, 15]}
    stopped = {"id": "e" * 64, "name": "stopped", "state": "exited", "chips": [2]}
    face = look(root, [{"id": ID, "name": "pd-decode", "state": "running", "chips": []}, by_device, stopped])
    assert face["chips"][0]["processes"] == [
        {"pid": 1333928, "name": "VLLM::Worker", "hbm_mib": 59221, "container": "pd-decode"}
    ]
    assert face["chips"][1]["processes"][0]["container"] is None
    assert face["holders"] == {"0": ["pd-decode"], "1": ["other"], "15": ["other"]}


def test_no_permission(tool: Tool, host: Host) -> None:
    tool("npu-smi", "cat " + str(SAMPLES / "info-no-permission.txt") + ">&2; exit 255")
    face = look(host(files(16)))
    assert face["chips"] == []
    assert len(face["device_nodes"]) == 16
    assert any("because the device is used. ret is -8020" in reason for reason in face["reasons"])


def test_fewer_chips_than_device_nodes(tool: Tool, host: Host) -> None:
    tool("npu-smi", f'cd {SAMPLES}; [ "$2" ] || sed -n "/^| 7     Asc/,/^+--.*+-/!p" info-a3-25.5.1.txt')
    face = look(host(files(16)))
    assert len(face["chips"]) == 14
    assert "/dev/davinci14-15 exist, but npu-smi shows no such chips" in face["reasons"]


def test_a_device_node_is_missing(tool: Tool, host: Host) -> None:
    tool("npu-smi", script("info-a3-25.5.1.txt"))
    assert look(host(files(15)))["reasons"] == ["npu-smi shows chips 15, which have no /dev/davinci<n>"]


def test_a_host_without_npus(monkeypatch: pytest.MonkeyPatch, host: Host) -> None:
    monkeypatch.setattr(_npu, "find_tool", lambda *_arguments: None)
    face = look(host({"/dev/null": ""}))
    assert face["reasons"] == [
        "/etc/ascend_install.info: No such file or directory",
        "/usr/local/Ascend/driver/version.info: No such file or directory",
        "npu-smi is not installed: chips, their health and memory are not known",
    ]


def test_a_driver_that_hangs(tool: Tool, host: Host) -> None:
    tool("npu-smi", "sleep 60")
    start = time.monotonic()
    face = look(host(files(16)), seconds=1)
    assert time.monotonic() - start < 20
    assert any("gave no answer within" in reason for reason in face["reasons"])
    assert face["driver_version"] == "25.5.1"
