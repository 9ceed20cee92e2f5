# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""What `hccn_tool` prints, and how many chips' answers become one face."""

from __future__ import annotations

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
        (_hccn.parse_tls, "ip-none.txt", {"tls": None}),
        (_hccn.parse_ping, "hccs-ping.txt", True),
        (_hccn.parse_ping, "hccs-ping-lost.txt", False),
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


# A tool that answers from the samples: chip 5 has no link, and no chip tells its TLS switch.
SCRIPT = f"""
cd {SAMPLES}
case "$3" in
  -link) [ "$2" = 5 ] && cat link-down.txt || cat link-up.txt ;;
  -net_health) cat net-health-ok.txt ;;
  -ip) cat ip-none.txt; exit 1 ;;
  -vnic) cat vnic.txt ;;
  -tls) echo "hccn_tool is busy, try again later."; exit 2 ;;
  -hccs_ping) [ "$6" = 192.0.2.1 ] && cat hccs-ping.txt || cat hccs-ping-lost.txt ;;
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
        f"hccn_tool -i 0-15 -tls -g: {face['tool_path']} -tls -g ended with 2: hccn_tool is busy, try again later."
    ]
    assert face["hccn_conf"]["exists"]
    assert len(face["hccn_conf"]["lines"]) == 64
    assert [(ping["phy_id"], ping["ok"], ping["reason"]) for ping in face["pings"]] == [
        (0, True, None),
        (1, False, "3 packets transmitted, 0 received, 100.00% packet loss"),
    ]


def test_a_chip_that_hangs_holds_up_nobody(tool: Callable[[str, str], Path]) -> None:
    tool("hccn_tool", f'[ "$2" = 1 ] && exec sleep 60\n{SCRIPT}')
    face = _hccn.gather(Tree("/nonexistent"), Runner(Deadline(3)), [0, 1])
    assert [chip["link"] for chip in face["chips"]] == ["UP", None]
    assert any(reason.startswith("hccn_tool -i 1 -link -g: ") for reason in face["reasons"])


def test_no_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_hccn, "find_tool", lambda *_arguments: None)
    face = _hccn.gather(Tree("/nonexistent"), Runner(Deadline(3)), [0, 1])
    assert face["chips"] == []
    assert face["hccn_conf"] == {"exists": False, "size_bytes": None, "lines": []}
    assert face["reasons"] == [
        "/etc/hccn.conf: No such file or directory",
        "hccn_tool is not installed: links, addresses and TLS switches of the NPUs are not known",
    ]
