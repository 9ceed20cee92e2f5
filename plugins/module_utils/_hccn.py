# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""The face `hccn`: link, health, addresses and TLS switch of every NPU's own port, as `hccn_tool` tells them."""

from __future__ import annotations

import re
from functools import partial
from typing import Any, Callable, Sequence

from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._parallel import run_all
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._run import Ran, Runner, find_tool, last_line
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._text import format_ranges
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._tree import Tree

CONF = "/etc/hccn.conf"
TOOL_FOLDER = "/usr/local/Ascend/driver/tools"
_ADDRESS = r"([0-9a-fA-F:.]{2,45})"


def empty() -> dict[str, Any]:
    """The face with nothing known."""
    return {
        "tool_path": None,
        "chips": [],
        "hccn_conf": {"exists": False, "size_bytes": None, "lines": []},
        "pings": [],
        "reasons": [],
    }


def _search(pattern: str, text: str) -> str | None:
    match = re.search(pattern, text, re.IGNORECASE)
    return match.group(1) if match else None


def parse_link(text: str) -> dict[str, Any]:
    """`link status: UP` gives link UP."""
    link = _search(r"\blink status\s*:\s*(\w+)", text)
    return {"link": link.upper() if link else None}


def parse_net_health(text: str) -> dict[str, Any]:
    """`net health status: Success` gives net_health Success; Fault, Init and others as they are printed."""
    return {"net_health": _search(r"net health status\s*:\s*(\S[^\r\n]{0,60})", text)}


def parse_ip(text: str) -> dict[str, Any]:
    """Address and netmask for RoCE; None for both on ports used by HCCS only, which need none."""
    return {
        "ip": _search(r"\bipaddr\s*:\s*" + _ADDRESS, text),
        "ip_netmask": _search(r"\bnetmask\s*:\s*" + _ADDRESS, text),
    }


def parse_vnic(text: str) -> dict[str, Any]:
    """Address, netmask and link of the virtual NIC that HCCS pings go to."""
    link = _search(r"vnic link status\s*:\s*(\w+)", text)
    return {
        "vnic": _search(r"vnic ipaddr\s*:\s*" + _ADDRESS, text),
        "vnic_netmask": _search(r"vnic netmask\s*:\s*" + _ADDRESS, text),
        "vnic_link": link.upper() if link else None,
    }


def parse_tls(text: str) -> dict[str, Any]:
    """`tls switch[0](0:disable, 1:enable)` gives tls False."""
    switch = _search(r"tls switch\s*\[\s*([01])\s*\]", text)
    return {"tls": None if switch is None else switch == "1"}


def parse_ping(text: str) -> bool | None:
    """Whether any packet came back, None when the output does not say."""
    counts = re.search(r"([0-9]{1,6})\s+packets? transmitted\s*,\s*([0-9]{1,6})\s+(?:packets? )?received", text, re.I)
    return int(counts.group(2)) > 0 if counts else None


# Question -> arguments of hccn_tool, parser, and the fields without which the answer counts as unreadable.
QUESTIONS: dict[str, tuple[list[str], Callable[[str], dict[str, Any]], Sequence[str]]] = {
    "link": (["-link", "-g"], parse_link, ["link"]),
    "net_health": (["-net_health", "-g"], parse_net_health, ["net_health"]),
    "ip": (["-ip", "-g"], parse_ip, []),
    "vnic": (["-vnic", "-g"], parse_vnic, ["vnic"]),
    "tls": (["-tls", "-g"], parse_tls, ["tls"]),
}


def gather(
    tree: Tree,
    runner: Runner,
    chips: Sequence[int],
    pings: Sequence[tuple[str, str]] = (),
    pings_only: bool = False,
) -> dict[str, Any]:
    """Ask about `chips` (physical ids); `pings` are (method, address) with method `hccs` or `roce`."""
    hccn = empty()
    reasons: list[str] = hccn["reasons"]
    hccn["hccn_conf"] = _conf(tree, reasons)
    tool = find_tool("hccn_tool", [TOOL_FOLDER])
    hccn["tool_path"] = tool
    if tool is None:
        reasons.append("hccn_tool is not installed: links, addresses and TLS switches of the NPUs are not known")
        return hccn
    if not chips:
        reasons.append("hccn_tool was not asked: no /dev/davinci<n> exists and npu_count_hint is not given")
        return hccn
    if not pings_only:
        hccn["chips"] = _ask(tool, runner, chips, reasons)
    hccn["pings"] = _ping(tool, runner, chips, pings)
    return hccn


def _conf(tree: Tree, reasons: list[str]) -> dict[str, Any]:
    text = tree.text(CONF, reasons)
    if text is None:
        return {"exists": tree.exists(CONF), "size_bytes": None, "lines": []}
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return {"exists": True, "size_bytes": len(text.encode("utf-8")), "lines": lines}


def _ask(tool: str, runner: Runner, chips: Sequence[int], reasons: list[str]) -> list[dict[str, Any]]:
    # Ordered by question, so that calls that run side by side ask different chips.
    tasks = {
        (question, chip): partial(runner.run, [tool, "-i", str(chip), *arguments])
        for question, (arguments, _parse, _needed) in QUESTIONS.items()
        for chip in chips
    }
    found: dict[int, dict[str, Any]] = {chip: {"phy_id": chip} for chip in chips}
    silent: dict[tuple[str, str], list[int]] = {}  # (question, cause) -> chips, so that 16 chips give one reason
    answers = run_all(tasks, runner.deadline)
    for question, (arguments, parse, needed) in QUESTIONS.items():
        for chip in chips:
            outcome = answers[question, chip]
            ran = outcome.value or Ran(None, "", "", outcome.reason)
            fields = parse(ran.output)
            found[chip].update(fields)
            # Without an address preset the tool says so and may end with an error: that is an answer.
            if any(fields[name] is None for name in needed) or ran.rc is None:
                cause = ran.reason or f"cannot be read: {last_line(ran.output)}"
                silent.setdefault((" ".join(arguments), cause.replace(f"-i {chip} ", "")), []).append(chip)
    for (arguments_text, cause), numbers in silent.items():
        reasons.append(f"hccn_tool -i {format_ranges(numbers)} {arguments_text}: {cause}")
    return [found[chip] for chip in chips]


def _ping(tool: str, runner: Runner, chips: Sequence[int], pings: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """Ping every address from one chip of this host: the first address from the first chip, and so on round."""
    switch = {"hccs": "-hccs_ping", "roce": "-ping"}
    tasks = {}
    for number, (method, address) in enumerate(pings):
        chip = chips[number % len(chips)]
        argv = [tool, "-i", str(chip), switch[method], "-g", "address", address]
        tasks[chip, method, address] = partial(runner.run, argv)
    report = []
    for (chip, method, address), outcome in run_all(tasks, runner.deadline).items():
        ran = outcome.value or Ran(None, "", "", outcome.reason)
        answered = parse_ping(ran.output)
        reason = None if answered else (ran.reason or last_line(ran.output))
        report.append({"phy_id": chip, "method": method, "address": address, "ok": answered, "reason": reason})
    return sorted(report, key=lambda ping: (ping["method"], ping["address"]))
