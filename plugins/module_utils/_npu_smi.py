# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""What `npu-smi` prints, as data. Pure: text in, data and reasons out, whatever the text.

Layouts differ by driver (narrow up to 25.x, wide with a further process column from 26.x) and by generation (two
chips per NPU and a Phy-ID column on A3, one chip per NPU on A2), so nothing here counts columns of characters.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._text import format_ranges

_VERSION = re.compile(r"npu-smi\s+(\S+)\s+Version:\s*(\S+)")
_NAME = re.compile(r"([0-9]{1,6})\s+(\S.*)")
_CHIP = re.compile(r"([0-9]{1,6})(?:\s+([0-9]{1,6}))?")
_USAGE = re.compile(r"([0-9]{1,12})\s*/\s*([0-9]{1,12})")
_NUMBER = re.compile(r"[0-9]{1,12}")
_IDLE = re.compile(r"No running processes found in NPU ([0-9]{1,6})")


class Info(NamedTuple):
    """`npu-smi info`: the tool's version, one entry per chip, one per process, and what could not be read."""

    version: str | None
    chips: list[dict[str, Any]]
    processes: list[dict[str, Any]]
    reasons: list[str]


def parse_info(text: str) -> Info:
    """Read the two tables of `npu-smi info`.

    Chips have npu, chip, phy_id (None where the layout has no such column), name, health, bus_id, hbm_used_mib,
    hbm_total_mib; processes have npu, chip, pid, name, hbm_mib. The tool says MB and means MiB (a 64 GiB chip
    shows 65536).
    """
    version = _VERSION.search(text)
    chips: list[dict[str, Any]] = []
    processes: list[dict[str, Any]] = []
    reasons: list[str] = []
    upper: dict[str, Any] | None = None  # the first of a chip's two rows, waiting for the second
    has_hbm = "HBM-Usage" in text
    process_columns = 0  # 0 until the table of processes begins
    for line in map(str.strip, text.splitlines()):
        if not line.startswith("|"):
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) > 1 and cells[1].lower().startswith("process id"):
            process_columns = len(cells)
        elif process_columns:
            process = _process(cells, process_columns)
            if process:
                processes.append(process)
        elif len(cells) == 3:
            lower = _CHIP.fullmatch(cells[0])
            name = _NAME.fullmatch(cells[0])
            if lower and upper:
                chips.append(_chip(upper, lower, cells, has_hbm))
                upper = None
            elif lower:
                reasons.append(f"npu-smi info: a row of chip {lower.group(1)} without its NPU's row")
            elif name:
                if upper:
                    reasons.append(_half(upper))
                upper = {"npu": int(name.group(1)), "name": name.group(2).strip(), "health": cells[1] or None}
    if upper:
        reasons.append(_half(upper))
    if not chips:
        reasons.append(f"npu-smi info shows no chip: {_complaint(text)}")
    elif not process_columns:
        reasons.append("npu-smi info shows no table of processes: the output is cut")
    else:
        # Each NPU has its processes there, or a line that it has none.
        told = {process["npu"] for process in processes} | {int(number) for number in _IDLE.findall(text)}
        untold = sorted({chip["npu"] for chip in chips} - told)
        if untold:
            reasons.append(f"npu-smi info tells no processes of NPU {format_ranges(untold)}: the output is cut")
    return Info(version.group(2) if version else None, chips, processes, reasons)


def _chip(upper: dict[str, Any], lower: re.Match[str], cells: list[str], has_hbm: bool) -> dict[str, Any]:
    usage = _USAGE.findall(cells[2])
    # The last pair of the row is HBM where the header announces it; before it stands DDR, 0 / 0 on A2 and A3.
    used, total = (int(number) for number in usage[-1]) if usage and has_hbm else (None, None)
    return {
        "npu": upper["npu"],
        "chip": int(lower.group(1)),
        "phy_id": int(lower.group(2)) if lower.group(2) else None,
        "name": upper["name"],
        "health": upper["health"],
        "bus_id": cells[1] or None,
        "hbm_used_mib": used,
        "hbm_total_mib": total,
    }


def _process(cells: list[str], columns: int) -> dict[str, Any] | None:
    if len(cells) < columns:
        return None  # "No running processes found in NPU 0"
    place = _CHIP.fullmatch(cells[0])
    after_name = columns - 3  # columns right of the name: memory, and on 26.x the pid in the container
    memory = cells[-after_name] if after_name > 0 else ""
    if not (place and place.group(2) and _NUMBER.fullmatch(cells[1])):
        return None
    return {
        "npu": int(place.group(1)),
        "chip": int(place.group(2)),
        "pid": int(cells[1]),
        "name": "|".join(cells[2 : len(cells) - max(0, after_name)]).strip() or None,
        "hbm_mib": int(memory) if _NUMBER.fullmatch(memory) else None,
    }


def _half(upper: dict[str, Any]) -> str:
    return "npu-smi info: NPU {} has one row instead of two: the output is cut".format(upper["npu"])


def _complaint(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith(("|", "+"))]
    return lines[-1][:200] if lines else "no output" if not text.strip() else "no row of a chip in the output"


def parse_mapping(text: str) -> list[dict[str, Any]]:
    """`npu-smi info -m`: npu, chip, logic_id, phy_id and name of every chip.

    Columns are found by their titles, since A2 has no `Chip Phy-ID`. Rows of the management controller (`Mcu`, with
    dashes for its ids) are left out.
    """
    titles = {
        "npu id": "npu",
        "chip id": "chip",
        "chip logic id": "logic_id",
        "chip phy-id": "phy_id",
        "chip name": "name",
    }
    columns: list[str | None] = []
    found = []
    for line in text.splitlines():
        cells = re.split(r"\s{2,}|\t", line.strip())
        if [cell.lower() for cell in cells][:2] == ["npu id", "chip id"]:
            columns = [titles.get(cell.lower()) for cell in cells]
        elif columns and len(cells) == len(columns):
            row: dict[str, Any] = {"npu": None, "chip": None, "logic_id": None, "phy_id": None, "name": None}
            for column, cell in zip(columns, cells):
                if column == "name":
                    row[column] = cell
                elif column:
                    row[column] = int(cell) if _NUMBER.fullmatch(cell) else None
            if row["npu"] is not None and row["chip"] is not None and row["logic_id"] is not None:
                found.append(row)
    return found


def parse_superpod(text: str) -> dict[str, int | None]:
    """`npu-smi info -t spod-info`: superpod_id, pod_id (server) and sdid, each None when not shown."""
    pairs: dict[str, str] = {}
    for part in re.split(r"[|\n]", text):
        key, mark, value = part.partition(":")
        if mark:
            pairs[re.sub(r"[\s_]+", "", key).lower()] = value.strip()

    def number(key: str) -> int | None:
        match = re.match(r"(?:0[xX][0-9a-fA-F]{1,12}|[0-9]{1,12})", pairs.get(key, ""))
        return int(match.group(0), 16 if match.group(0)[:2] in ("0x", "0X") else 10) if match else None

    return {"superpod_id": number("superpodid"), "pod_id": number("podid"), "sdid": number("sdid")}


def generation(chips: list[dict[str, Any]]) -> str | None:
    """`A3`, `A2` or None for anything else.

    A3 chips are named plainly `Ascend910` (or 910_93xx) and sit in pairs on an NPU; A2 chips are named 910B, one to
    an NPU (vllm-ascend setup.py get_chip_type tells them apart the same way).
    """
    names = {re.sub(r"^ascend\s*", "", str(chip["name"]).lower()) for chip in chips}
    if len(names) != 1:
        return None
    name = names.pop()
    if name.startswith("910_93") or name == "910":
        paired = any(chip["phy_id"] is not None for chip in chips) or any(chip["chip"] for chip in chips)
        return "A3" if paired or name.startswith("910_93") else None
    return "A2" if name.startswith("910b") else None


def place(row: dict[str, Any]) -> tuple[int, int]:
    """Where a row of any of the tables belongs: (npu, chip)."""
    return row["npu"], row["chip"]
