# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""The three forms of a report, on real verdicts."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils import report, report_html, rules
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.findings import (
    ERROR,
    NOT_CHECKED,
    WARNING,
    Finding,
)
from ansible_collections.vllm_ascend.pd_serving.tests.unit.plugins.plugin_utils.rules.clusters import CLUSTERS, cluster
from ansible_collections.vllm_ascend.pd_serving.tests.unit.plugins.plugin_utils.rules.examples import EXAMPLES

BROKEN = ("PD-NPU-002", "PD-SPARSE-010", "PD-PARITY-008", "PD-MMC-003")


def broken() -> tuple[dict, dict, list[Finding]]:
    """Two prefill hosts, one not reached, several faults."""
    plan, facts = cluster("sparse_2p")
    for identifier in BROKEN:
        EXAMPLES[identifier].break_(plan, facts)
    facts["p2"] = {"unreachable": "ssh: timed out"}
    return plan, facts, list(rules.judge(plan, facts).findings)


# ---- terminal ----


def test_terminal_is_sorted_and_says_what_to_do() -> None:
    _, _, findings = broken()
    text = report.terminal(findings)
    severities = [
        line.split("  ")[0] for line in text.splitlines() if re.match(r"(error|warning|not checked|info) ", line)
    ]
    order = ["error", "warning", "not checked", "info"]
    assert severities == sorted(severities, key=order.index)
    assert "chip 5 (NPU 2 chip 1) has health Alarm" in text
    assert "right: dram_size_per_dp_GB" in text
    assert "mend: set memcache_dram_size to whole GiB" in text
    assert text.endswith("are mended or waived.")


@pytest.mark.parametrize("width", [80, 120, 200])
def test_terminal_keeps_to_its_width(width: int) -> None:
    _, _, findings = broken()
    assert max(len(line) for line in report.terminal(findings, width).splitlines()) <= width


def test_same_finding_on_many_hosts_is_one_row() -> None:
    findings = [Finding("PD-HOST-003", WARNING, f"h{n:02}", "late", "right", "mend") for n in range(64)]
    text = report.terminal(findings)
    assert text.count("late") == 1 and "64 warnings." in text
    assert [row.place for row in report.rows(findings)] == ["h00, h01, h02, h03 and 60 more"]


def test_hosts_stand_in_the_order_in_which_people_count() -> None:
    findings = [Finding("PD-HOST-003", WARNING, host, "late") for host in ("p10", "p2", "p1", "d1", "p11", "10.0.0.9")]
    (row,) = report.rows(report.as_findings(findings))
    assert row.hosts == ("10.0.0.9", "d1", "p1", "p2", "p10", "p11")


def test_unchecked_rules_are_grouped_by_reason() -> None:
    _, _, findings = broken()
    rows = {row.finding.found: row for row in report.rows(findings) if row.severity == NOT_CHECKED}
    assert {"PD-NPU-002", "PD-MODEL-001"} <= set(rows["p2 was not reached"].rules)
    assert len(rows) < 4, "a host that is down is one line, not one for each rule"
    assert sum(len(row.rules) for row in rows.values()) == report.counts(findings)[NOT_CHECKED]


@pytest.mark.parametrize(
    ("severities", "words"),
    [
        ([], "Ready to launch."),
        ([WARNING], "Ready to launch, with 1 warning."),
        ([NOT_CHECKED, WARNING], "1 checks could not be made"),
        ([ERROR], "until 1 error is mended"),
        ([ERROR, ERROR], "until 2 errors are mended"),
    ],
)
def test_conclusion(severities: list[str], words: str) -> None:
    assert words in report.conclusion([Finding("X", severity, "", str(n)) for n, severity in enumerate(severities)])


def test_waived_errors_do_not_stop() -> None:
    finding = Finding("PD-MEM-006", ERROR, "d1", "512", waived="allocated on 2026-09-01")
    assert "Ready" in report.conclusion([finding])
    assert "waived: allocated on 2026-09-01" in report.terminal([finding])


# ---- JSON ----


def test_json_has_everything_and_reads_back() -> None:
    plan, _, findings = broken()
    data = json.loads(json.dumps(report.as_json(plan, findings, ["PD-X-001"])))
    assert data["ready"] is False and data["passed"] == ["PD-X-001"]
    assert report.as_findings(data["findings"]) == report.as_findings(findings)
    assert sum(data["counts"].values()) == len(findings)


# ---- HTML ----


class Outline(HTMLParser):
    """Text, open tags and every address of a page."""

    VOID = frozenset({"meta", "br", "link", "img", "hr"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [str(value) for name, value in attrs if name in ("src", "href", "action")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def outline(page: str) -> Outline:
    parsed = Outline()
    parsed.feed(page)
    parsed.close()
    assert parsed.open == []
    return parsed


@pytest.mark.parametrize("kind", sorted(CLUSTERS))
@pytest.mark.parametrize("probed", [True, False])
def test_page_is_whole_and_needs_nothing_else(kind: str, probed: bool) -> None:
    plan, facts = cluster(kind)
    seen = facts if probed else None
    page = report_html.html(plan, seen, rules.judge(plan, seen).findings, "2026-01-01")
    parsed = outline(page)
    assert parsed.links == [] and "script" not in parsed.tags and "@import" not in page and "url(h" not in page
    assert "prefers-color-scheme: dark" in page
    text = " ".join(parsed.text)
    for host in plan["hosts"]:
        assert host in text
    for port in plan["ports"]:
        assert str(port["first"]) in text


def test_page_shows_findings_and_marks_hosts() -> None:
    plan, facts, findings = broken()
    parsed = outline(report_html.html(plan, facts, findings))
    text = " ".join(" ".join(parsed.text).split())
    for part in ("Not ready", "has health Alarm", "ssh: timed out", "p2 was not reached", "A chip is not healthy"):
        assert part in text
    picture = report_html.view(plan, facts, findings)["picture"]
    marks = {box["host"]: box["mark"] for box in picture["boxes"] if box["host"]}
    assert marks == {"p1": "error", "p2": "error", "d1": "error"}
    assert len(picture["arrows"]) == 1 + 2 + 2


def test_page_fills_in_the_formula_that_a_finding_follows_from() -> None:
    shown = report_html.view(*broken())["findings"]
    by_rule = {one["rule"]: one["numbers"] for one in shown}
    assert "hot buffers = 62 layers x 16 rows" in by_rule["PD-SPARSE-010"]
    assert by_rule["PD-NPU-002"] == ""


def test_page_escapes_what_hosts_say() -> None:
    plan, facts = cluster("sparse")
    finding = Finding("PD-X-001", ERROR, "d1", "<script>alert(1)</script>")
    page = report_html.html(plan, facts, [finding])
    assert "<script>" not in page and "&lt;script&gt;" in page


def test_memory_bars_add_up() -> None:
    """The numbers of the bars are those of the sizing, and their widths those of the numbers."""
    plan, facts = cluster("sparse")
    shown = report_html.view(plan, facts, [])
    decode = next(bar for bar in shown["chip_bars"] if bar["title"].startswith("decode"))
    kinds = {part["kind"]: part for part in decode["parts"]}
    assert kinds["hot"]["bytes"] == 4_680_843_264 and kinds["kv"]["bytes"] == 8_388_542_464
    for bar in shown["chip_bars"] + shown["host_bars"]:
        assert sum(part["percent"] for part in bar["parts"]) == pytest.approx(100, abs=0.1)
    prefill = next(bar for bar in shown["host_bars"] if bar["title"] == "p1")
    assert next(part for part in prefill["parts"] if part["kind"] == "pool")["text"] == "160.0 GiB"


def test_overfull_host_is_shown_as_such() -> None:
    plan, facts = cluster("sparse")
    EXAMPLES["PD-MEM-001"].break_(plan, facts)
    facts["d1"]["host"]["memory"]["available_bytes"] = 1000 << 30
    bar = next(bar for bar in report_html.view(plan, facts, [])["host_bars"] if bar["title"] == "d1")
    assert bar["over"] == "432.0 GiB too much" and bar["limit"] < 100


def test_a_large_cluster_stays_readable() -> None:
    """Hosts beyond a dozen are counted and keep their mark, arrows are bundled, bars that are alike are drawn once."""
    plan, facts = cluster("sparse_2p")
    engine = next(e for e in plan["engines"] if e["role"] == "decode")
    for number in range(40):
        host = f"h{number}"
        plan["engines"].append({**engine, "name": f"x{number}", "host": host})
        plan["hosts"][host] = plan["hosts"]["d1"]
        facts[host] = facts["d1"]
        plan["ports"] += [{**port, "host": host} for port in plan["ports"] if port["host"] == "d1"]
    shown = report_html.view(plan, facts, [Finding("PD-NPU-002", ERROR, "h39", "chip 1")])
    boxes = {box["title"]: box["mark"] for box in shown["picture"]["boxes"]}
    assert boxes["and 29 more hosts"] == "error"
    assert len(boxes) < 20
    assert len(shown["picture"]["arrows"]) == 1 + 2 + (2 + 1 + 13)
    assert sum(arrow["head"] for arrow in shown["picture"]["arrows"]) == 1 + 2 + 13
    titles = [title for bar in shown["chip_bars"] for title in (bar["title"], *bar["others"])]
    assert sorted(titles) == sorted(f"{one['name']} on {one['host']}" for one in plan["engines"])
    assert len(shown["chip_bars"]) < 5
    assert sum(1 + len(bar["others"]) for bar in shown["host_bars"]) == len(plan["hosts"])
    page = report_html.html(plan, facts, [])
    assert "<details open>" not in page  # ports: by host, folded up where there are many
    assert "<details open>" in report_html.html(*cluster("sparse"), [])
    assert all(host in page for host in plan["hosts"])
