# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""What `hccn_tool` prints, and how many chips' answers become one face."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils import _hccn
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._parallel import Deadline
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._run import Runner
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._tree import Tree
from hypothesis import given
from hypothesis import strategies as st

SAMPLES = Path(__file__).parents[2] / "data" / "hccn_tool"
Sample = Callable[[str], str]
ADDRESSES = ["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"]


@pytest.mark.parametrize(
    ("parse", "name", "expected"),
    [
        (_hccn.parse_link, "link-up.txt", {"link": "UP"}),
        (_hccn.parse_link, "link-down.txt", {"link": "DOWN"}),
        (_hccn.parse_net_health, "net-health-ok.txt", {"net_health": "Success"}),
        (_hccn.parse_net_health, "net-health-fault.txt", {"net_health": "Fault"}),
        (_hccn.parse_ip, "ip.txt", {"ip": "192.0.2.200", "ip_netmask": "255.255.255.0"}),
        (_hccn.parse_ip, "ip-none.txt", {"ip": None, "ip_netmask": None}),
        (
            _hccn.parse_vnic,
            "vnic.txt",
            {"vnic": "192.0.2.210", "vnic_netmask": "255.255.0.0", "vnic_link": "UP"},
        ),
        (_hccn.parse_tls, "tls-on.txt", {"tls": True}),
        (_hccn.parse_tls, "tls-off.txt", {"tls": False}),
        (_hccn.parse_tls, "tls-preconfigured.txt", {"tls": False}),
        (_hccn.parse_tls, "tls-none.txt", {"tls": False}),
        (_hccn.parse_tls, "ip-none.txt", {"tls": None}),
        (_hccn.parse_tls, "busy.txt", {"tls": None}),
        (_hccn.parse_ping, "hccs-ping.txt", True),
        (_hccn.parse_ping, "hccs-ping-lost.txt", False),
        (_hccn.parse_ping, "hccs-ping-failed.txt", False),
        (_hccn.parse_ping, "tls-on.txt", None),
    ],
)
def test_answers(sample: Sample, parse: Callable[[str], Any], name: str, expected: Any) -> None:
    assert parse(sample(f"hccn_tool/{name}")) == expected


@given(
    st.text() | st.lists(st.sampled_from(["link status", ":", " ", "UP", "tls switch[", "]", "9", "\n"])).map("".join)
)
def test_any_text_gives_data(text: str) -> None:
    for _arguments, parse, needed in _hccn.QUESTIONS.values():
        assert set(needed) <= set(parse(text))
    assert _hccn.parse_ping(text) in (True, False, None)


# A tool that answers from the samples: chip 5 has no link, no chip tells its TLS switch, and one ping is lost.
SCRIPT = f"""
cd {SAMPLES}
case "$3" in
  -link) [ "$2" = 5 ] && cat link-down.txt || cat link-up.txt ;;
  -net_health) cat net-health-ok.txt ;;
  -ip) cat ip-none.txt; exit 1 ;;
  -vnic) cat vnic.txt ;;
  -tls) echo "The command is not supported on this product."; exit 13 ;;
  -hccs_ping) [ "$6" = 192.0.2.1 ] && cat hccs-ping.txt || cat hccs-ping-failed.txt ;;
esac
"""


def test_gather(tool: Callable[[str, str], Path], host: Callable[[dict[str, str]], Path], sample: Sample) -> None:
    tool("hccn_tool", SCRIPT)
    tree = Tree(str(host({"/etc/hccn.conf": sample("hccn_tool/hccn.conf")})))
    pings = [("hccs", "192.0.2.1"), ("hccs", "192.0.2.2")]
    face = _hccn.gather(tree, Runner(Deadline(30)), list(range(16)), pings)
    assert set(face) == set(_hccn.empty())
    assert [chip["phy_id"] for chip in face["chips"] if chip["link"] == "DOWN"] == [5]
    assert {chip["vnic"] for chip in face["chips"]} == {"192.0.2.210"}
    # No preset address is no fault; an answer missing from all chips is one reason, not sixteen.
    assert face["reasons"] == [
        f"hccn_tool -i 0-15 -tls -g: {face['tool_path']} -tls -g ended with 13: "
        "The command is not supported on this product."
    ]
    assert face["hccn_conf"]["exists"]
    assert len(face["hccn_conf"]["lines"]) == 64
    assert [(ping["phy_id"], ping["ok"], ping["reason"]) for ping in face["pings"]] == [
        (0, True, None),
        (1, False, "3 packets transmitted, 0 received, 100.00% packets loss"),
    ]


def test_a_chip_that_hangs_holds_up_nobody_and_is_asked_once(
    tool: Callable[[str, str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = tmp_path / "asked"
    tool("hccn_tool", f'[ "$2" = 1 ] && echo "$3" >> {asked} && exec sleep 60\n{SCRIPT}')
    monkeypatch.setattr(_hccn, "TIME_LIMIT_S", 1.0)
    start = time.monotonic()
    face = _hccn.gather(Tree("/nonexistent"), Runner(Deadline(30)), [0, 1], [("hccs", a) for a in ADDRESSES])
    assert time.monotonic() - start < 10  # one limit for the questions, one for the pings
    assert [chip["link"] for chip in face["chips"]] == ["UP", None]
    place = face["tool_path"]
    assert f"hccn_tool -i 1 -link -g: {place} -link -g gave no answer within 1 s" in face["reasons"]
    assert "hccn_tool -i 1: net_health, ip, vnic, tls not asked for, as it gave no answer before" in face["reasons"]
    assert asked.read_text().split() == ["-link", "-hccs_ping"]
    assert [(ping["phy_id"], ping["ok"]) for ping in face["pings"]] == [(0, True), (1, None), (0, False), (1, None)]
    assert face["pings"][3]["reason"].startswith("not made: ")


def test_all_chips_hang(tool: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    tool("hccn_tool", "exec sleep 60")
    monkeypatch.setattr(_hccn, "TIME_LIMIT_S", 1.0)
    start = time.monotonic()
    face = _hccn.gather(Tree("/nonexistent"), Runner(Deadline(30)), list(range(16)))
    assert time.monotonic() - start < 10  # not 16 limits, and not 5
    assert {chip["link"] for chip in face["chips"]} == {None}
    assert [reason.partition(":")[0] for reason in face["reasons"][1:]] == [
        "hccn_tool -i 0-15 -link -g",
        "hccn_tool -i 0-15",
    ]


# A chip serves one caller at a time: whoever comes meanwhile is turned away, as the CANN driver's tool does it.
ONE_AT_A_TIME = f"""
exec 9> "$(dirname "$0")/lock-$2"
flock --nonblock 9 || {{ cat {SAMPLES}/busy.txt; exit 11; }}
sleep 0.05
echo "$2" >> "$(dirname "$0")/served"
{SCRIPT}"""


@pytest.mark.skipif(not shutil.which("flock"), reason="the stand-in needs the flock command")
def test_a_busy_chip_is_asked_again(tool: Callable[[str, str], Path], tmp_path: Path) -> None:
    place = tool("hccn_tool", ONE_AT_A_TIME)
    # Somebody else has chip 2 for a while.
    monitor = subprocess.Popen(["flock", str(place.parent / "lock-2"), "sleep", "1"])
    face = _hccn.gather(Tree("/nonexistent"), Runner(Deadline(30)), [0, 1, 2])
    monitor.wait()
    assert [chip["link"] for chip in face["chips"]] == ["UP"] * 3
    assert not [reason for reason in face["reasons"] if "is busy" in reason]
    assert (place.parent / "served").read_text().split().count("2") == len(_hccn.QUESTIONS)


def test_a_chip_that_stays_busy_is_told(
    tool: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch, sample: Sample
) -> None:
    tool("hccn_tool", f"cat {SAMPLES}/busy.txt; exit 11")
    monkeypatch.setattr(_hccn, "PATIENCE_S", 0.5)
    face = _hccn.gather(Tree("/nonexistent"), Runner(Deadline(30)), [0])
    assert face["chips"][0]["tls"] is None
    assert sum("hccn_tool is busy, please try again." in reason for reason in face["reasons"]) == 4  # all but ip


def test_no_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_hccn, "find_tool", lambda *_arguments: None)
    face = _hccn.gather(Tree("/nonexistent"), Runner(Deadline(3)), [0, 1])
    assert face["chips"] == []
    assert face["hccn_conf"] == {"exists": False, "size_bytes": None, "lines": []}
    assert face["reasons"] == [
        "/etc/hccn.conf: No such file or directory",
        "hccn_tool is not installed: links, addresses and TLS switches of the NPUs are not known",
    ]
