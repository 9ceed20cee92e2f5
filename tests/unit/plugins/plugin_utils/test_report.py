# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""The three forms of a report, on real verdicts."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils import (
    planner,
    report,
    report_html,
    report_json,
    rules,
)
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.findings import (
    ERROR,
    NOT_CHECKED,
    WARNING,
    Finding,
)
from ansible_collections.vllm_ascend.pd_serving.tests.unit.plugins.plugin_utils.rules.clusters import CLUSTERS, cluster
from ansible_collections.vllm_ascend.pd_serving.tests.unit.plugins.plugin_utils.rules.examples import EXAMPLES

ROOT = Path(__file__).resolve().parents[4]
BROKEN = ("PD-NPU-002", "PD-SPARSE-010", "PD-PARITY-008", "PD-MMC-003", "PD-MEM-001")


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


@pytest.mark.parametrize("width", [80, 120])
def test_terminal_counts_cells_not_characters(width: int) -> None:
    """Chinese has two cells for a character and no spaces; the columns after a Chinese name stay in line."""
    long = "芯片五的健康状态是警报。请检查驱动程序和固件版本。" * 4
    findings = [
        Finding("gather-without-graphs", NOT_CHECKED, "主机一号服务器的名字很长很长", long, "健康"),
        Finding("PD-NPU-002", ERROR, "p1", "short"),
    ]
    lines = report.terminal(findings, width).splitlines()
    assert max(map(report.cells, lines)) <= width
    assert "".join(lines).count("。") == long.count("。"), "nothing is cut"
    start = lines[0].index("WHAT IS")
    for line in lines:
        if "right: " in line:
            assert report.cells(line[: line.index("right: ")]) == start


def test_paths_stay_whole() -> None:
    path = "/data" + "/folder" * 20
    assert f" {path}\n" in report.terminal([Finding("PD-X-001", ERROR, "p1", f"look at {path} again")], 80)


def test_what_hosts_say_does_not_steer_the_terminal() -> None:
    finding = Finding("PD-X-001", ERROR, "p1\x1b[2J", "ok\x1b[31m\x07\u202e\r", "a\nb\u3000c")
    text = report.terminal([finding])
    assert "\x1b" not in text and "\x07" not in text and "\u202e" not in text
    assert "ok\\x1b[31m\\x07\\u202e" in text and "right: a b c" in text and "\r" not in text
    told = rules.explain("PD-NPU-002", *cluster("sparse"), [replace(finding, rule="PD-NPU-002")])
    assert "\x1b" not in told and "\r" not in told and "\\x1b[31m" in told


def test_what_is_no_utf8_can_be_shown() -> None:
    finding = Finding("PD-X-001", ERROR, "p1", "\udcff")
    assert b"\\udcff" in report.terminal([finding]).encode()
    assert b"\\udcff" in report_html.html(*cluster("sparse"), [finding]).encode()


def test_a_title_is_not_told_of_what_nobody_has_seen() -> None:
    """``A firewall is on`` would be false of a host that could not be looked at, and of a rule that crashed."""
    findings = [
        Finding("PD-NIC-011", NOT_CHECKED, "d1", "a firewall is on: host.firewall of d1 is not known"),
        Finding("PD-NPU-002", ERROR, "d1", "the rule itself failed: KeyError: 'x'"),
    ]
    text = report.terminal(findings)
    assert "A firewall is on" not in text and "not checked: PD-NIC-011: a firewall is on" in text
    assert "A chip is not healthy" not in text
    shown = report_html.view(*cluster("sparse"), findings)["findings"]
    assert [one["title"] for one in shown] == ["", ""]
    assert shown[1]["unchecked"] == [("PD-NIC-011", "a firewall is on")] and shown[1]["why"] == []


def test_what_one_face_does_not_tell_is_one_row_for_all_hosts() -> None:
    plan, facts = cluster("sparse_2p")
    for host in ("p1", "p2"):
        facts[host]["nic"].update(interfaces=[], peers={}, reasons=["the probe of this face failed: no ip"])
    rows = report.rows(rules.judge(plan, facts).findings)
    own = [row for row in rows if row.severity == NOT_CHECKED and "nic." in row.finding.found]
    assert [row.hosts for row in own] == [("p1", "p2")]
    assert (
        own[0].finding.found.startswith("nic.interfaces, ") and "of each of them is not known" in own[0].finding.found
    )


def test_a_host_that_others_wait_for_keeps_its_name() -> None:
    """d1's address is missing, to d1 and to p1; nothing is missing of p1."""
    missing = [Finding("PD-NIC-005", NOT_CHECKED, host, "serving address of d1 is not known") for host in ("d1", "p1")]
    (row,) = report.rows(missing)
    assert row.hosts == ("d1", "p1") and row.finding.found == "serving address of d1 is not known"


def test_same_finding_on_many_hosts_is_one_row() -> None:
    findings = [Finding("PD-HOST-003", WARNING, f"h{n:02}", "late", "right", "mend") for n in range(64)]
    text = report.terminal(findings)
    assert text.count("late") == 1 and "64 warnings." in text
    assert [row.place for row in report.rows(findings)] == ["h00 to h63"]


def test_what_one_rule_finds_twice_on_a_host_is_one_row() -> None:
    findings = [
        Finding("PD-HOST-009", WARNING, host, f"/etc/{name} is missing", "present", "install it")
        for host in ("p1", "p2")
        for name in ("a", "b", "c")
    ]
    findings.append(Finding("PD-HOST-009", WARNING, "p2", "/etc/d is missing", "present", "install it"))
    shared, own = report.rows(report.as_findings(findings))
    assert (shared.hosts, shared.more) == (("p1", "p2"), ("/etc/b is missing", "/etc/c is missing"))
    assert (own.hosts, own.finding.found, own.more) == (("p2",), "/etc/d is missing", ())
    text, page = report.terminal(findings), report_html.html(*cluster("sparse"), findings)
    assert text.count("install it") == 2 and "also: /etc/c is missing" in text and "7 warnings." in text
    assert "<dd>/etc/c is missing</dd>" in page


def test_no_host_is_lost_where_the_column_only_counts() -> None:
    findings = [Finding("PD-HOST-003", WARNING, f"h{n}", "late") for n in range(0, 20, 2)]
    (row,) = report.rows(report.as_findings(findings))
    assert row.place == "h0, h2, h4, h6 and 6 more"
    every = "h0, h2, h4, h6, h8, h10, h12, h14, h16, h18"
    assert f"hosts: {every}" in report.terminal(findings)
    assert every in report_html.html(*cluster("sparse"), findings)
    assert report.runs(["a08", "a09", "a10", "b1", "b2", "c"]) == ["a08 to a10", "b1", "b2", "c"]


def test_hosts_stand_in_the_order_in_which_people_count() -> None:
    findings = [Finding("PD-HOST-003", WARNING, host, "late") for host in ("p10", "p2", "p1", "d1", "p11", "10.0.0.9")]
    (row,) = report.rows(report.as_findings(findings))
    assert row.hosts == ("10.0.0.9", "d1", "p1", "p2", "p10", "p11")
    for host, rule in (("p2", "PD-NPU-001"), ("p10", "PD-NPU-001"), ("p1", "PD-NPU-002"), ("p3", "PD-NPU-002")):
        findings.append(Finding(rule, NOT_CHECKED, host, f"no chip of {host} was seen"))
    assert report.rows(report.as_findings(findings))[-1].hosts == ("p1", "p2", "p3", "p10")


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
        ([NOT_CHECKED, WARNING], "1 check could not be made"),
        ([ERROR], "until 1 error is mended"),
        ([ERROR, ERROR], "until 2 errors are mended"),
    ],
)
def test_conclusion(severities: list[str], words: str) -> None:
    assert words in report.conclusion([Finding("X", severity, "", str(n)) for n, severity in enumerate(severities)])


def test_waived_errors_do_not_stop() -> None:
    finding = Finding("PD-MEM-006", ERROR, "d1", "512", waived="allocated on 2026-09-01")
    assert report.conclusion([finding]) == "Ready to launch (1 error waived)."
    assert "waived: allocated on 2026-09-01" in report.terminal([finding])


# ---- JSON ----


def test_json_has_everything_and_reads_back() -> None:
    plan, facts, findings = broken()
    data = json.loads(json.dumps(report_json.as_json(plan, findings, ["PD-X-001"], facts, ["PD-X-002"])))
    assert data["ready"] is False and (data["passed"], data["skipped"]) == (["PD-X-001"], ["PD-X-002"])
    assert report.as_findings(data["findings"]) == report.as_findings(findings)
    assert sum(data["counts"].values()) == len(findings)
    assert data["explained"].keys() == {finding.rule for finding in findings}
    told = data["explained"]["PD-MEM-001"]
    assert "allocated in full" in told["why"] and told["source"] and told["title"]
    assert any("1400.0 GiB + 32.0 GiB for the system = 1432.0 GiB" in line for line in told["numbers"])
    memory = {bar["name"]: bar for bar in data["memory"]["hosts"]}
    assert memory["d1"]["over_bytes"] == 32 << 30 and memory["d1"]["free_bytes"] == 0
    assert memory["p2"]["unknown"] == "p2 was not reached"
    assert {engine["name"] for engine in data["engines"]} == {"prefill-p1-0", "prefill-p2-0", "decode-d1-0"}
    assert {"from": "clients", "to": "PD proxy"}.items() <= data["links"][0].items()


def test_json_keys_are_documented() -> None:
    """Every key, also of what is nested, stands in docs/preflight.md."""
    plan, facts, findings = broken()
    data = report_json.as_json(plan, findings, [], facts)
    documented = set(re.findall(r"`(\w+)`", (ROOT / "docs" / "preflight.md").read_text()))
    keys = {*data, *data["findings"][0], *data["links"][0], *data["engines"][0], *data["ports"][0], *data["memory"]}
    keys |= {*data["explained"]["PD-MEM-001"], *data["memory"]["hosts"][0], *data["memory"]["hosts"][0]["parts"][0]}
    assert keys - documented == set()


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
    assert len(picture["arrows"]) == 1 + 2 + 2 + 5


def test_page_fills_in_the_formula_that_a_finding_follows_from() -> None:
    shown = report_html.view(*broken())["findings"]
    by_rule = {one["rule"]: one["numbers"] for one in shown}
    assert "1400.0 GiB + 32.0 GiB for the system = 1432.0 GiB <= 1400.0 GiB" in by_rule["PD-MEM-001"]
    assert "p1" not in by_rule["PD-MEM-001"], "other hosts are no part of this finding"
    assert by_rule["PD-NPU-002"] == ""


@pytest.mark.parametrize("rule", ["unknown-variable", "PD-WAIVE-002"])
def test_what_no_rule_finds_is_explained_too(rule: str) -> None:
    (shown,) = report_html.view(*cluster("sparse"), [Finding(rule, ERROR, "", "x")])["findings"]
    assert len(shown["why"][0]) > 50 and shown["source"]


def test_page_escapes_what_hosts_say() -> None:
    plan, facts = cluster("sparse")
    script = "<script>alert(1)</script>"
    facts["p1"] = {"unreachable": script}
    facts["d1"]["host"]["reasons"] = [script]
    plan["hosts"][script] = {**plan["hosts"]["d1"], "address": script, "nic": script}
    plan["model"]["name"] = script
    plan["ports"].append({**plan["ports"][0], "owner": script, "purpose": script})
    page = report_html.html(plan, facts, [Finding("PD-X-001", ERROR, script, script, script, script)])
    assert "<script>" not in page and page.count("&lt;script&gt;") > 8


@pytest.mark.parametrize(
    ("severities", "colour"),
    [([], "ok"), ([WARNING], "warning"), ([WARNING, NOT_CHECKED], "not-checked"), ([ERROR, NOT_CHECKED], "error")],
)
def test_what_was_not_looked_at_is_not_green(severities: list[str], colour: str) -> None:
    findings = [Finding("PD-X-001", severity, "", "x") for severity in severities]
    assert report_html.view(*cluster("sparse"), findings)["verdict"] == colour


def test_what_a_probe_could_not_read_stands_with_its_host() -> None:
    plan, facts = cluster("sparse")
    facts["d1"]["npu"]["reasons"] = ["npu-smi is not installed"]
    assert "npu-smi is not installed" in report_html.html(plan, facts, [])


def test_page_can_be_printed_and_read_out() -> None:
    page = report_html.html(*broken())
    assert "@media print" in page and "details-content" in page and "print-color-adjust" in page
    assert page.count("<th>") == 0 and page.count('<th scope="col">') >= 4
    for name in ("aria-label", 'lang="en"', "focus-visible"):
        assert name in page


def test_every_fact_may_be_missing() -> None:
    """Each in turn, as a probe says it: null. There is a page, and JSON, all the same."""
    plan, whole = cluster("sparse")
    paths: list[tuple[str, ...]] = [(face, key) for face in ("npu", "nic", "hccn", "host") for key in whole["d1"][face]]
    paths += [("host", "memory", key) for key in whole["d1"]["host"]["memory"]]
    paths += [("model", plan["model"]["path"], key) for key in whole["d1"]["model"][plan["model"]["path"]]]
    paths += [(face,) for face in whole["d1"]]
    for path in paths:
        facts = json.loads(json.dumps(whole))
        target = facts["d1"]
        for key in path[:-1]:
            target = target[key]
        target[path[-1]] = None
        findings = rules.judge(plan, facts).findings
        assert "decode-d1-0" in report_html.html(plan, facts, findings), path
        json.dumps(report_json.as_json(plan, findings, [], facts))


@pytest.mark.parametrize("groups", [{}, {"prefill": ["p1"]}])
def test_a_plan_that_could_not_be_made_has_a_page(groups: dict[str, list[str]]) -> None:
    made = planner.plan({"p1": {"pd_profile": "sparse_kv_offload"}} if groups else {}, groups, {})
    findings = rules.judge(made, None).findings
    text = " ".join(outline(report_html.html(made, None, findings)).text)
    assert "Not ready" in text and "no host was contacted" in text
    assert report_json.as_json(made, findings)["ready"] is False


# ---- topology ----


def test_who_talks_to_whom() -> None:
    plan, facts = cluster("sparse_2p")
    said = {(one["from"], one["to"]): one for one in report_json.as_json(plan, [], [], facts)["links"]}
    assert said["PD proxy", "prefill"]["at"] == ["http://192.0.2.10:29180", "http://192.0.2.11:29180"]
    assert said["PD proxy", "decode"]["at"] == ["http://192.0.2.20:29181"]
    assert said["decode", "PD proxy"]["at"] == ["http://192.0.2.10:21600"], "layerwise: decode asks for prefill"
    assert "SfaRemoteD2HConnector" in said["prefill", "decode"]["what"] and "HCCS" in said["prefill", "decode"]["what"]
    assert said["prefill", "MetaService"]["at"] == ["192.0.2.10:5000"]
    text = " ".join(outline(report_html.html(plan, facts, [])).text)
    assert "asks for its prompts to be prefilled" in text and "MetaService" in text


def test_hosts_of_one_instance_have_one_arrow() -> None:
    """Only the first host of an instance over several answers HTTP; the picture and the list say so."""
    plan, facts = cluster("context_parallel")
    shown = report_html.view(plan, facts, [])
    boxes = {box["title"]: box for box in shown["picture"]["boxes"]}
    assert "one instance with p1" in boxes["prefill p2"]["lines"] and boxes["prefill p2"]["http"] is False
    assert "192.0.2.10:8004" in boxes["prefill p1"]["lines"] and "TP16 PCP2 DCP8" in boxes["prefill p1"]["lines"]
    into = [
        arrow for arrow in shown["picture"]["arrows"] if arrow["head"] and arrow["x2"] == boxes["prefill p1"]["x"] - 6
    ]
    assert len(into) == 1
    assert ("p2", "p1", "192.0.2.10:7001") in {(one["from"], one["to"], one["at"]) for one in shown["links"]}
    said = {(one["from"], one["to"]) for one in shown["links"]}
    assert ("decode", "PD proxy") not in said, "the standard proxy asks both sides itself"


# ---- memory ----


def test_memory_bars_add_up() -> None:
    """The numbers of the bars are those of the sizing, and their widths those of the numbers."""
    plan, facts = cluster("sparse")
    shown = report_html.view(plan, facts, [])
    decode = next(bar for bar in shown["chip_bars"] if bar["title"].startswith("decode"))
    assert decode["title"] == "decode-d1-0, each of 16 chips on d1" and decode["total"] == "64.0 GiB"
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


def test_memory_that_is_not_known_is_said_to_be() -> None:
    plan, facts = cluster("sparse")
    facts["d1"]["model"] = {}
    facts["p1"]["host"]["memory"]["total_bytes"] = None
    shown = report_html.view(plan, facts, [])
    chips = {bar["title"]: bar["unknown"] for bar in shown["chip_bars"]}
    assert (
        "was not looked at on d1" in chips["decode-d1-0 on d1"] and chips["prefill-p1-0, each of 16 chips on p1"] == ""
    )
    hosts = {bar["title"]: bar["unknown"] for bar in shown["host_bars"]}
    assert "total_bytes of p1 is not known" in hosts["p1"] and "was not looked at on d1" in hosts["d1"]
    assert "not known: host.memory.total_bytes of p1" in report_html.html(plan, facts, [])


def test_chips_without_an_engine_have_a_bar() -> None:
    plan, facts = cluster("sparse")
    for place in (next(e for e in plan["engines"] if e["role"] == "prefill"),):
        place["devices"] = list(range(14))
    facts["p1"]["npu"]["chips"][15]["hbm_used_mib"] = 20480
    bar = report_html.view(plan, facts, [])["chip_bars"][-1]
    assert bar["title"] == "2 chips without an engine (14, 15) on p1" and bar["used"] == "20.0 GiB"


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
    assert len(shown["picture"]["arrows"]) == 1 + 2 + (2 + 1 + 13) + (4 + 13)
    assert sum(arrow["head"] for arrow in shown["picture"]["arrows"]) == 1 + 2 + 13 + 13
    titles = [title for bar in shown["chip_bars"] for title in (bar["title"], *bar["others"])]
    assert sorted(titles) == sorted(f"{one['name']}, each of 16 chips on {one['host']}" for one in plan["engines"])
    assert len(shown["chip_bars"]) < 5 and len(shown["host_bars"]) < 5
    assert sum(1 + len(bar["others"]) for bar in shown["host_bars"]) == len(plan["hosts"])
    page = report_html.html(plan, facts, [])
    assert "<details open>" not in page  # ports: by host, folded up where there are many
    assert "<details open>" in report_html.html(*cluster("sparse"), [])
    assert all(host in page for host in plan["hosts"])
