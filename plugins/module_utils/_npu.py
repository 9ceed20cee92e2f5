# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""The face `npu`: chips, their health, memory and holders, driver and SuperPod."""

from __future__ import annotations

from functools import partial
from typing import Any

from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils import _npu_smi
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._containers import Owners
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._parallel import run_all
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._run import Ran, Runner, find_tool
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._text import format_ranges, key_values
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._tree import Tree, device_nodes

INSTALL_INFO = "/etc/ascend_install.info"
INSTALL_PATH = "/usr/local/Ascend"


def empty() -> dict[str, Any]:
    """The face with nothing known."""
    return {
        "chips": [],
        "device_nodes": [],
        "generation": None,
        "driver_version": None,
        "driver_inner_version": None,
        "firmware_version": None,
        "install_path": None,
        "ascend_install_info": None,
        "npu_smi_path": None,
        "npu_smi_version": None,
        "superpod_id": None,
        "holders": {},
        "reasons": [],
    }


def gather(tree: Tree, runner: Runner, owners: Owners) -> dict[str, Any]:
    """Ask files and `npu-smi`; `owners` tells which container a process or device belongs to."""
    npu = empty()
    reasons: list[str] = npu["reasons"]
    npu["device_nodes"] = device_nodes(tree)
    npu.update(_driver(tree, reasons))
    tool = find_tool("npu-smi")
    npu["npu_smi_path"] = tool
    if tool is None:
        reasons.append("npu-smi is not installed: chips, their health and memory are not known")
    else:
        _ask(tool, runner, npu)
        _compare_with_devices(npu)
    for chip in npu["chips"]:
        for process in chip["processes"]:
            process["container"] = owners.of_process(process["pid"])
    npu["holders"] = _holders(npu["chips"], owners)
    return npu


def _driver(tree: Tree, reasons: list[str]) -> dict[str, str | None]:
    info = tree.text(INSTALL_INFO, reasons)
    base = (key_values(info or "").get("Driver_Install_Path_Param") or INSTALL_PATH).rstrip("/")
    driver = key_values(tree.text(base + "/driver/version.info", reasons) or "")
    firmware = key_values(tree.text(base + "/firmware/version.info") or "")
    return {
        "ascend_install_info": INSTALL_INFO if info is not None else None,
        "install_path": base,
        "driver_version": driver.get("Version"),
        "driver_inner_version": driver.get("Innerversion"),
        "firmware_version": firmware.get("Version"),
    }


def _ask(tool: str, runner: Runner, npu: dict[str, Any]) -> None:
    questions = {
        "info": [tool, "info"],
        "mapping": [tool, "info", "-m"],
        "superpod": _superpod(tool, 0, 0),
    }
    answers = run_all({name: partial(runner.run, argv) for name, argv in questions.items()}, runner.deadline)
    ran = {name: answer.value or Ran(None, "", "", answer.reason) for name, answer in answers.items()}
    reasons: list[str] = npu["reasons"]

    info = _npu_smi.parse_info(ran["info"].output)
    reasons.extend(text for text in [ran["info"].reason] if text)
    reasons.extend(info.reasons if ran["info"].rc is not None else [])
    npu["npu_smi_version"] = info.version
    npu["generation"] = _npu_smi.generation(info.chips)

    mapping = {_npu_smi.place(row): row for row in _npu_smi.parse_mapping(ran["mapping"].output)}
    if info.chips and not mapping:
        reasons.append("logical ids are not known: {}".format(ran["mapping"].reason or "npu-smi info -m has no table"))
    single = all(chip["chip"] == 0 for chip in info.chips)
    for chip in info.chips:
        row = mapping.get(_npu_smi.place(chip), {})
        chip["logic_id"] = row.get("logic_id")
        if chip["phy_id"] is None:
            # A2 prints no physical id: it has one chip per NPU, and the NPU's number is it.
            chip["phy_id"] = chip["npu"] if single else row.get("phy_id")
        chip["processes"] = [
            {"pid": process["pid"], "name": process["name"], "hbm_mib": process["hbm_mib"]}
            for process in info.processes
            if _npu_smi.place(process) == _npu_smi.place(chip)
        ]
    npu["chips"] = info.chips

    if npu["generation"] == "A2":  # A2 servers form no SuperPod
        return
    told = ran["superpod"]
    if info.chips and _npu_smi.place(info.chips[0]) != (0, 0) and told.rc:  # here the first NPU is another
        told = runner.run(_superpod(tool, *_npu_smi.place(info.chips[0])))
    npu["superpod_id"] = _npu_smi.parse_superpod(told.output)["superpod_id"]
    if npu["superpod_id"] is None:
        reasons.append(f"the SuperPod is not known: {told.reason or 'npu-smi info -t spod-info shows no Super Pod ID'}")


def _superpod(tool: str, npu: int, chip: int) -> list[str]:
    """One chip tells for all: a server belongs to one SuperPod."""
    return [tool, "info", "-t", "spod-info", "-i", str(npu), "-c", str(chip)]


def _compare_with_devices(npu: dict[str, Any]) -> None:
    if not npu["chips"]:
        return
    seen = {chip["phy_id"] for chip in npu["chips"]}
    unseen = [number for number in npu["device_nodes"] if number not in seen]
    absent = [number for number in sorted(seen - {None}) if number not in npu["device_nodes"]]
    if unseen:
        npu["reasons"].append(f"/dev/davinci{format_ranges(unseen)} exist, but npu-smi shows no such chips")
    if absent:
        npu["reasons"].append(f"npu-smi shows chips {format_ranges(absent)}, which have no /dev/davinci<n>")


def _holders(chips: list[dict[str, Any]], owners: Owners) -> dict[str, list[str]]:
    """Names of running containers per physical id (a string, as in any JSON mapping): by device, or by process."""
    holders: dict[str, list[str]] = {}
    for number, names in owners.by_chip().items():
        holders.setdefault(str(number), []).extend(names)
    for chip in chips:
        for process in chip["processes"]:
            if process["container"] and chip["phy_id"] is not None:
                holders.setdefault(str(chip["phy_id"]), []).append(process["container"])
    return {number: sorted(set(names)) for number, names in sorted(holders.items(), key=lambda item: int(item[0]))}
