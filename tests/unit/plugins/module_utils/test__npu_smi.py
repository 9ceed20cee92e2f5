# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Every layout of `npu-smi`, cut and garbled ones included."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils import _npu_smi
from hypothesis import given
from hypothesis import strategies as st

SAMPLES = Path(__file__).parents[2] / "data" / "npu-smi"
Sample = Callable[[str], str]


@pytest.mark.parametrize(
    ("name", "version", "chips", "generation"),
    [
        ("info-a3-25.5.1.txt", "25.5.1", 16, "A3"),
        ("info-a3-26.0.rc2-wide.txt", "26.0.rc2", 16, "A3"),
        ("info-a3-busy.txt", "25.5.1", 16, "A3"),
        ("info-a3-chip5-alarm.txt", "25.5.1", 16, "A3"),
        ("info-a2-910b3.txt", "25.0.rc1", 8, "A2"),
    ],
)
def test_layouts(sample: Sample, name: str, version: str, chips: int, generation: str) -> None:
    info = _npu_smi.parse_info(sample(f"npu-smi/{name}"))
    assert info.version == version
    assert info.reasons == []
    assert len(info.chips) == chips
    assert {chip["hbm_total_mib"] for chip in info.chips} == {65536}
    assert _npu_smi.generation(info.chips) == generation


def test_a3_chip_in_full(sample: Sample) -> None:
    assert _npu_smi.parse_info(sample("npu-smi/info-a3-25.5.1.txt")).chips[3] == {
        "npu": 1,
        "chip": 1,
        "phy_id": 3,
        "name": "Ascend910",
        "health": "OK",
        "bus_id": "0000:9B:00.0",
        "hbm_used_mib": 3211,
        "hbm_total_mib": 65536,
    }


def test_wide_and_narrow_layouts_say_the_same(sample: Sample) -> None:
    wide = _npu_smi.parse_info(sample("npu-smi/info-a3-26.0.rc2-wide.txt"))
    narrow = _npu_smi.parse_info(sample("npu-smi/info-a3-25.5.1.txt"))
    assert wide.chips == narrow.chips


def test_a2_has_no_physical_id_of_its_own(sample: Sample) -> None:
    chips = _npu_smi.parse_info(sample("npu-smi/info-a2-910b3.txt")).chips
    assert [(chip["npu"], chip["chip"], chip["phy_id"]) for chip in chips] == [(n, 0, None) for n in range(8)]


def test_alarm(sample: Sample) -> None:
    chips = _npu_smi.parse_info(sample("npu-smi/info-a3-chip5-alarm.txt")).chips
    assert {chip["phy_id"]: chip["health"] for chip in chips if chip["health"] != "OK"} == {5: "Alarm"}


def test_processes(sample: Sample) -> None:
    assert _npu_smi.parse_info(sample("npu-smi/info-a3-busy.txt")).processes == [
        {"npu": 0, "chip": 0, "pid": 1333928, "name": "VLLM::Worker", "hbm_mib": 59221},
        {"npu": 0, "chip": 1, "pid": 1333930, "name": None, "hbm_mib": 54488},
    ]


def test_processes_of_the_wide_layout() -> None:
    text = """
| NPU     Chip              | Process id    | Process name       | Process memory(MB)    | Process id in container |
+===========================+===============+======================================================================+
| 0       1                 | 4711          | VLLM|Worker        | 54488                 | 77                      |
"""
    assert _npu_smi.parse_info(text).processes == [
        {"npu": 0, "chip": 1, "pid": 4711, "name": "VLLM|Worker", "hbm_mib": 54488}
    ]


def test_no_space_before_the_slash() -> None:
    row = "| 0 Ascend910 | OK | - 36 0 / 0 |\n| 0 0 | 0000:9D:00.0 | 0 0    / 0 57784/ 65536 |\nHBM-Usage"
    assert _npu_smi.parse_info(row).chips[0]["hbm_used_mib"] == 57784


def test_no_permission(sample: Sample) -> None:
    info = _npu_smi.parse_info(sample("npu-smi/info-no-permission.txt"))
    assert info.chips == []
    assert info.reasons == [
        "npu-smi info shows no chip: dcmi model initialized failed, because the device is used. ret is -8020"
    ]


@pytest.mark.parametrize("name", sorted(path.name for path in SAMPLES.glob("info-a*.txt")))
def test_output_cut_anywhere(sample: Sample, name: str) -> None:
    whole = sample(f"npu-smi/{name}")
    chips = _npu_smi.parse_info(whole).chips
    lines = whole.splitlines()
    last = max(number for number, line in enumerate(lines) if "No running processes" in line)
    for length in range(len(lines)):
        info = _npu_smi.parse_info("\n".join(lines[:length]))
        assert info.chips == chips[: len(info.chips)]
        assert bool(info.reasons) == (length <= last), "a cut before the last NPU's processes must be told"


def test_mapping(sample: Sample) -> None:
    rows = _npu_smi.parse_mapping(sample("npu-smi/mapping-a3.txt"))
    assert [(row["npu"], row["chip"], row["logic_id"], row["phy_id"]) for row in rows] == [
        (number // 2, number % 2, number, number) for number in range(16)
    ]
    rows = _npu_smi.parse_mapping(sample("npu-smi/mapping-a2.txt"))
    assert [(row["npu"], row["logic_id"], row["phy_id"]) for row in rows] == [(n, n, None) for n in range(8)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("| Super Pod ID                 : 3          | Pod ID : 1    |", (3, 1, None)),
        ("SDID : 33882112\nSuper Pod Size : 384\nSuper Pod ID : 0\nServer Index : 4", (0, None, 33882112)),
        ("super pod id: 0x10", (16, None, None)),
        ("This device does not support querying spod-info.", (None, None, None)),
        ("", (None, None, None)),
    ],
)
def test_superpod(text: str, expected: tuple[int | None, ...]) -> None:
    assert tuple(_npu_smi.parse_superpod(text).values()) == expected


def test_superpod_sample(sample: Sample) -> None:
    assert _npu_smi.parse_superpod(sample("npu-smi/spod-info.txt"))["superpod_id"] == 3


@pytest.mark.parametrize(
    ("name", "chip", "phy_id", "expected"),
    [
        ("Ascend910", 1, 1, "A3"),
        ("Ascend910_9391", 0, None, "A3"),
        ("910B4-1", 0, None, "A2"),
        ("310P3", 0, None, None),
        ("910", 0, None, None),  # the first Ascend 910
    ],
)
def test_generation(name: str, chip: int, phy_id: int | None, expected: str | None) -> None:
    assert _npu_smi.generation([{"name": name, "chip": chip, "phy_id": phy_id}]) == expected


def test_generation_of_nothing_or_a_mixture() -> None:
    assert _npu_smi.generation([]) is None
    chips = [{"name": name, "chip": 0, "phy_id": None} for name in ("910B3", "310P3")]
    assert _npu_smi.generation(chips) is None


def _checked(text: str) -> None:
    info = _npu_smi.parse_info(text)
    assert info.chips or info.reasons
    for row in info.chips + info.processes:
        assert isinstance(row["npu"], int)
        assert isinstance(row["chip"], int)
    _npu_smi.generation(info.chips)
    _npu_smi.parse_mapping(text)
    _npu_smi.parse_superpod(text)


@given(st.text())
def test_any_text_gives_data_or_a_reason(text: str) -> None:
    _checked(text)


@given(st.lists(st.text(alphabet="|0123456789 /:-ABOKascendPNUidhp\t٣²", max_size=60), max_size=12))
def test_any_table_gives_data_or_a_reason(lines: list[str]) -> None:
    _checked("\n".join(lines))


@given(st.data())
def test_a_damaged_sample_gives_data_or_a_reason(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(path.name for path in SAMPLES.glob("*.txt"))))
    text = (SAMPLES / name).read_text()
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    _checked(text[:start] + data.draw(st.text(max_size=20)) + text[end:])
