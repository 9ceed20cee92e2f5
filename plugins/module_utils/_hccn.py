# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""The face `hccn`: link, health, addresses and TLS switch of every NPU's own port, as `hccn_tool` tells them."""

from __future__ import annotations

import re
import time
from functools import partial
from typing import Any, Callable, Mapping, Sequence

from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._parallel import run_all
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._run import Ran, Runner, find_tool, last_line
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._text import format_ranges
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._tree import Tree

CONF = "/etc/hccn.conf"
TOOL_FOLDER = "/usr/local/Ascend/driver/tools"
_ADDRESS = r"([0-9a-fA-F:.]{2,45})"
# What hccn_tool says while the chip serves another caller: a monitor, or a ping of another host. Ends with an error.
_BUSY = re.compile(r"hccn_tool is busy|device is occupied", re.IGNORECASE)
PATIENCE_S = 10.0  # for how long a busy chip is asked again
TIME_LIMIT_S = 20.0  # of one call; it usually takes a fraction of a second


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
    """`tls switch[0](0:disable, 1:enable)` gives tls False; so does a chip without a certificate, which has no TLS."""
    switch = _search(r"tls switch\s*\[\s*([01])\s*\]", text)
    if switch is None:
        return {"tls": False if re.search("no certificate found", text, re.IGNORECASE) else None}
    return {"tls": switch == "1"}


_COUNTS = re.compile(r"([0-9]{1,6})\s+packets? transmitted\s*,\s*([0-9]{1,6})\s+(?:packets? )?received.{0,60}", re.I)


def parse_ping(text: str) -> bool | None:
    """Whether any packet came back, None when the output does not say."""
    counts = _COUNTS.search(text)
    return int(counts.group(2)) > 0 if counts else None


def why_lost(ran: Ran | None) -> str:
    """Why a ping has no answer, in the tool's words."""
    if ran is None:
        return "not made: the chip gave no answer before, or the time was up"
    counts = _COUNTS.search(ran.output)
    return ran.reason or (counts.group(0).strip() if counts else last_line(ran.output))


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
    calls = {
        chip: [[tool, "-i", str(chip), *arguments] for arguments, _parse, _needed in QUESTIONS.values()]
        for chip in chips
    }
    answers = _by_chip(runner, calls)
    found: dict[int, dict[str, Any]] = {chip: {"phy_id": chip} for chip in chips}
    silent: dict[tuple[str, str], list[int]] = {}  # (question, cause) -> chips, so that 16 chips give one reason
    for number, (arguments, parse, needed) in enumerate(QUESTIONS.values()):
        for chip in chips:
            ran = answers[chip][number]
            fields = parse(ran.output if ran else "")
            found[chip].update(fields)
            # Without an address preset the tool says so and ends with an error: that is an answer.
            if ran and (ran.rc is None or any(fields[name] is None for name in needed)):
                cause = ran.reason or f"cannot be read: {last_line(ran.output)}"
                silent.setdefault((" ".join(arguments), cause.replace(f"-i {chip} ", "")), []).append(chip)
    for (arguments_text, cause), numbers in silent.items():
        reasons.append(f"hccn_tool -i {format_ranges(numbers)} {arguments_text}: {cause}")
    unasked: dict[str, list[int]] = {}
    for chip in chips:
        names = ", ".join(name for name, ran in zip(QUESTIONS, answers[chip]) if ran is None)
        if names:
            unasked.setdefault(names, []).append(chip)
    for names, numbers in unasked.items():
        reasons.append(f"hccn_tool -i {format_ranges(numbers)}: {names} not asked for, as it gave no answer before")
    return [found[chip] for chip in chips]


def _by_chip(runner: Runner, calls: Mapping[int, Sequence[Sequence[str]]]) -> dict[int, list[Ran | None]]:
    """What every call of every chip did; None: not made, or not finished under the deadline.

    All chips side by side, but the calls to one chip in turn: a chip serves one caller at a time and turns others
    away (CANN driver, hccn_tool UDA_TOOL_SYS_BUSY_ERR). After a call without an answer nothing more is asked of the
    chip, so that one that hangs costs one time limit and not one for each question.
    """
    answers: dict[int, list[Ran | None]] = {chip: [None] * len(own) for chip, own in calls.items()}

    def ask(chip: int) -> None:
        for number, argv in enumerate(calls[chip]):
            ran = answers[chip][number] = _patiently(runner, argv)
            if ran.rc is None:
                return

    run_all({chip: partial(ask, chip) for chip in calls}, runner.deadline)
    return answers


def _patiently(runner: Runner, argv: Sequence[str]) -> Ran:
    """Run a command, again after a pause while it is turned away as busy."""
    end = time.monotonic() + runner.deadline.within(PATIENCE_S)
    pause = 0.1
    while True:
        ran = runner.run(argv, TIME_LIMIT_S)
        if not _BUSY.search(ran.output) or time.monotonic() + pause > end:
            return ran
        time.sleep(pause)
        pause = min(2 * pause, 1.0)


def _ping(tool: str, runner: Runner, chips: Sequence[int], pings: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """Ping every address from one chip of this host: the first address from the first chip, and so on round."""
    switch = {"hccs": "-hccs_ping", "roce": "-ping"}
    order: dict[int, list[tuple[str, str]]] = {}
    for number, (method, address) in enumerate(pings):
        order.setdefault(chips[number % len(chips)], []).append((method, address))
    calls = {
        chip: [[tool, "-i", str(chip), switch[method], "-g", "address", address] for method, address in own]
        for chip, own in order.items()
    }
    report = []
    for chip, answers in _by_chip(runner, calls).items():
        for (method, address), ran in zip(order[chip], answers):
            answered = parse_ping(ran.output) if ran else None
            reason = None if answered else why_lost(ran)
            report.append({"phy_id": chip, "method": method, "address": address, "ok": answered, "reason": reason})
    return sorted(report, key=lambda ping: (ping["method"], ping["address"]))
