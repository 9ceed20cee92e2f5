# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Stand-in for npu-smi on an A3 host: `info`, `info -m`, `info -l` and `info -t spod-info` in the real tool's layouts.

What it shows comes from the host's hardware state and from the processes that really run there: an engine
(`vllm serve`) holds the chips that it can see and that ASCEND_RT_VISIBLE_DEVICES leaves it, and uses their HBM.
"""

import json
import os
import re
import signal
import sys
from itertools import pairwise

HARDWARE = "/usr/local/Ascend/driver/hardware/state.json"
CARDS, CHIPS_PER_CARD = 8, 2
HBM_TOTAL = 65536  # MB
ENGINE_MEMORY = 54488  # MB that an engine's worker takes of a chip; chips differ a little
PROCESS_TITLES = ("Process name", "Process memory(MB)", "Process id in container")
FOREIGN_JOB = "pretrain_gpt.py"  # what the fault npu_busy runs


class Layout:
    """Widths of one generation's table. Its first two columns are always alike."""

    def __init__(self, version, values, process):
        self.version = version  # column of the second version number in the title
        self.values = values  # widths of the first two of the three values in the last column
        self.process = process  # widths of the columns behind the process id
        self.rest = sum(process) + 2 * len(process) + len(process) - 1
        self.width = 27 + 1 + 15 + 1 + self.rest
        self.line = "+" + "-" * self.width + "+"
        self.columns = f"+{'-' * 27}+{'-' * 15}+{'-' * self.rest}+"
        self.double = self.columns.replace("-", "=")

    def full(self, text):
        return f"| {text:<{self.width - 1}}|"

    def row(self, left, middle, *values):
        first, second = self.values
        return (
            f"| {left:<26}| {middle:<14}| {f'{values[0]:<{first}}{values[1]:<{second}}{values[2]}':<{self.rest - 1}}|"
        )

    def process_row(self, chip, pid, *values):
        last = "| ".join(f"{value:<{width + 1}}" for value, width in zip(values, self.process, strict=False))
        return f"| {chip:<26}| {pid:<14}| {last}|"


NARROW = Layout(33, (12, 18), (24, 23))
WIDE = Layout(44, (21, 24), (18, 21, 23))


def processes():
    """{chip: [(pid, name, MB)]} of everything on this host that holds a chip."""
    held = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            argv = read(f"/proc/{entry}/cmdline").rstrip("\0").split("\0")
            name = "VLLM::Worker" if is_engine(argv) else "python3" if FOREIGN_JOB in argv else None
            if name is None or holds_through_parent(entry):
                continue
            for chip in chips_of(entry):
                held.setdefault(chip, []).append((int(entry), name, ENGINE_MEMORY + 37 * chip))
        except OSError:
            continue  # ended meanwhile
    return held


def is_engine(argv):
    """Whether this is the command line of `vllm serve` itself, not of a shell that was told to run it."""
    if os.path.basename(argv[0]) in ("bash", "sh", "docker", "tini", "docker-init", "sudo"):
        return False
    return any(os.path.basename(program) == "vllm" and verb == "serve" for program, verb in pairwise(argv))


def holds_through_parent(pid):
    """Helpers that an engine forked have its command line, but their parent is the one shown."""
    parent = re.search(r"^PPid:\s*(\d+)", read(f"/proc/{pid}/status"), re.M).group(1)
    return parent != "0" and is_engine(read(f"/proc/{parent}/cmdline").rstrip("\0").split("\0"))


def chips_of(pid):
    """Physical ids: device nodes of its container, in order, and of these the ones that the variable names."""
    nodes = (re.fullmatch(r"davinci(\d+)", name) for name in os.listdir(f"/proc/{pid}/root/dev"))
    chips = sorted(int(match.group(1)) for match in nodes if match)
    for setting in read(f"/proc/{pid}/environ").split("\0"):
        if setting.startswith("ASCEND_RT_VISIBLE_DEVICES="):
            chosen = setting.partition("=")[2].split(",")
            return [chips[int(index)] for index in chosen if index.strip().isdigit() and int(index) < len(chips)]
    return chips


def read(path):
    with open(path, errors="replace") as file:
        return file.read()


def info(state):
    table = WIDE if state["layout"] == "wide" else NARROW
    held = processes()
    lines = [
        table.line,
        table.full(f"{'npu-smi ' + state['driver']:<{table.version}}Version: {state['driver']}"),
        table.columns,
        table.row("NPU   Name", "Health", "Power(W)", "Temp(C)", "Hugepages-Usage(page)"),
        table.row("Chip  Phy-ID", "Bus-Id", "AICore(%)", "Memory-Usage(MB)", "HBM-Usage(MB)"),
        table.double,
    ]
    for card in cards(state):
        chips = [chip_rows(table, state, held, card, place) for place in places(state, card)]
        for rows in chips[:-1]:
            lines += [*rows, table.line]
        lines += [*chips[-1], table.double]
    lines += [
        table.columns,
        table.process_row("NPU     Chip", "Process id", *PROCESS_TITLES),
        table.double,
    ]
    for card in cards(state):
        rows = [
            table.process_row(f"{card:<8}{place}", pid, name, memory, "NA")
            for place in places(state, card)
            for pid, name, memory in held.get(card * CHIPS_PER_CARD + place, [])
        ]
        lines += [*(rows or [table.full(f"No running processes found in NPU {card}")]), table.double]
    return "\n".join(lines)


def chip_rows(table, state, held, card, place):
    chip = card * CHIPS_PER_CARD + place
    mine = held.get(chip, [])
    used = 3100 + 37 * chip % 300 + sum(memory for _pid, _name, memory in mine)
    health = "Alarm" if chip in state["alarm"] else "OK"
    power = "-" if place else f"{165.0 + card:.1f}"  # the card's, shown with its first chip
    bus = f"0000:{0x9D - 4 * card + 2 * place:02X}:00.0"
    return [
        table.row(f"{card:<6}Ascend910", health, power, 36, "0    / 0"),
        table.row(f"{place:<6}{chip}", bus, 31 if mine else 0, "0    / 0", f"{used:<5}/ {HBM_TOTAL}"),
    ]


def cards(state):
    return [card for card in range(CARDS) if places(state, card)]


def places(state, card):
    return [place for place in range(CHIPS_PER_CARD) if card * CHIPS_PER_CARD + place not in state["missing"]]


def mapping(state):
    rows = [("NPU ID", "Chip ID", "Chip Logic ID", "Chip Phy-ID", "Chip Name")]
    logic = 0
    for card in cards(state):
        for place in places(state, card):
            rows.append((card, place, logic, card * CHIPS_PER_CARD + place, "Ascend910"))
            logic += 1
        rows.append((card, CHIPS_PER_CARD, "-", "-", "Mcu"))
    return "\n".join("\t" + "".join(f"{value:<31}" for value in row) for row in rows)


def listing(state):
    lines = [f"\t{'Total Count':<31}: {len(cards(state))}"]
    for card in cards(state):
        lines += ["", f"\t{'NPU ID':<31}: {card}", f"\t{'Chip Count':<31}: {len(places(state, card))}"]
    return "\n".join(lines)


def superpod(state):
    version = state["driver"]
    rule = f"+{'-' * 31}+{'-' * 59}+"
    return "\n".join(
        [
            f"+{'-' * 91}+",
            f"| {'npu-smi ' + version:<44}{'Version: ' + version:<46}|",
            rule,
            f"| {'Super Pod ID':<29}: {state['superpod']:<11}| {'Pod ID : ' + str(state['pod']):<46}|",
            rule,
        ]
    )


def main(argv):
    with open(HARDWARE) as file:
        state = json.load(file)
    if state["refused"]:
        return (
            "DrvMngGetConsoleLogLevel failed. (g_conLogLevel=3)\n"
            "dcmi model initialized failed, because the device is used. ret is -8020"
        ), 1
    if argv in (["-v"], ["--version"]):
        return f"npu-smi version: {state['driver']}", 0
    if argv in ([], ["-h"], ["--help"]):
        return "Usage: npu-smi info [-l | -m | -t spod-info -i <card id> -c <chip id>]\n       npu-smi -v | -h", 0
    if argv[:1] != ["info"]:
        return f"Error parameter of {argv[0]}", 1
    simple = {(): info, ("-m",): mapping, ("-l",): listing}.get(tuple(argv[1:]))
    if simple:
        return simple(state), 0
    options = dict(zip(argv[1::2], argv[2::2], strict=False))
    if options.get("-t") != "spod-info":
        return "This device does not support querying " + str(options.get("-t")) + ".", 1
    card, place = options.get("-i", ""), options.get("-c", "0")
    if not card.isdigit() or int(card) >= CARDS or place not in ("0", "1"):
        return "The parameter of -i or -c is invalid.", 1
    if int(card) * CHIPS_PER_CARD + int(place) in state["missing"]:
        return "The chip does not exist.", 1
    return superpod(state), 0


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # end quietly in front of `head`
    output, status = main(sys.argv[1:])
    print(output)
    sys.exit(status)
