# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Action side of ``pd_plan``: takes the inventory to plain JSON data, plans, judges, reports. Contacts no host."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils import (
    commands,
    report,
    report_html,
    report_json,
    rules,
)
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.facts import well_formed
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.findings import ERROR, Finding
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.planner import WAY, plan
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.role_variables import role_variables
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.variables import (
    VARIABLES,
    lacks_prefix,
    may_be_misspelt,
)

#: All that is read; the SSH address finds the way to a peer, and two names of one machine.
_READ = {*VARIABLES, *role_variables(), *WAY}
#: Columns of the table. Asked while this is imported, before a worker has no terminal any more; a log has no columns.
_WIDTH = min(160, shutil.get_terminal_size((120, 24)).columns)
#: Names of the two files of a report, in the folder that the user names.
_REPORT = "preflight"


class ActionModule(ActionBase):
    """Plan once for the whole cluster; the caller sets ``run_once``."""

    _requires_connection = False
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _unused, arguments = self.validate_argument_spec(
            argument_spec={
                "facts": {"type": "dict", "default": {}},
                "draft": {"type": "bool", "default": False},
                "show": {"type": "str", "choices": ["nothing", "findings", "plan"], "default": "nothing"},
                "explain": {"type": "str", "default": ""},
                "report_dir": {"type": "str", "default": ""},
            },
        )
        task_vars = task_vars or {}
        facts = {host: well_formed(seen) for host, seen in _plain(arguments["facts"]).items()}
        groups = _plain(task_vars["groups"])
        inventory, failed = _inventory(task_vars["hostvars"], groups)
        made = plan(inventory, groups, facts, failed)
        if arguments["draft"]:
            return result | {"changed": False, "plan": made}
        told = [*_out_of_sight(task_vars), *_find_archive(made["settings"], self._find_needle)]
        made["findings"] += [finding.as_dict() for finding in told]
        verdict = rules.judge(made, facts or None)
        findings = list(verdict.findings)
        result |= {
            "changed": False,
            "findings": [finding.as_dict() for finding in findings],
            "errors": sorted({finding.rule for finding in findings if finding.stops}),
            "conclusion": report.conclusion(findings),
        }
        # What is shown is shown as it is: callbacks would escape the lines that people copy.
        if arguments["explain"]:
            text = rules.explain(arguments["explain"], made, facts or None, findings, _WIDTH)
            self._display.display(text)
        if arguments["show"] == "plan":
            # Not returned besides: Ansible takes longer to carry the plan of a large cluster around than it takes to
            # make it.
            self._display.display(f"{commands.describe(made)}\n{report.terminal(findings, _WIDTH)}")
            return result
        if arguments["show"] == "findings":
            self._display.display(report.terminal(findings, _WIDTH))
        if arguments["report_dir"]:
            written = self._write_report(Path(arguments["report_dir"]), made, facts, verdict)
            result |= {"report": str(written) if written else None}
        return result | {"plan": made, "text": commands.describe(made)}

    def _write_report(
        self, folder: Path, made: Mapping[str, Any], facts: Mapping[str, Any], verdict: rules.Verdict
    ) -> Path | None:
        """The page's path. A report that cannot be written is no reason to stop a deployment."""
        page = folder / f"{_REPORT}.html"
        made_at = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")
        try:
            data = report_json.as_json(made, verdict.findings, verdict.passed, facts, verdict.skipped)
            text = report_html.html(made, facts, verdict.findings, made_at)
            folder.mkdir(parents=True, exist_ok=True)
            # What hosts say may be no UTF-8.
            page.write_text(text, encoding="utf-8", errors="backslashreplace")
            text = json.dumps(data | {"made_at": made_at}, indent=1)
            page.with_suffix(".json").write_text(f"{text}\n", encoding="utf-8")
        except Exception as error:  # odd facts as well as a full disk: the verdict stands without its page
            self._display.warning(f"The report was not written: {type(error).__name__}: {error}")
            return None
        self._display.display(f"Report: {page.resolve()} (for machines: {_REPORT}.json beside it)")
        return page.resolve()


def _members(hostvars: Mapping[str, Mapping[str, Any]], groups: Mapping[str, list[str]]) -> list[str]:
    """Hosts of the groups that somebody's ``pd_groups`` names. Others may hold anything, so they are not looked at,
    unless there is nobody else who could say which profile has no hosts.
    """
    names = set(VARIABLES["pd_groups"].default.values())
    for host in hostvars:
        if "pd_groups" in hostvars[host]:
            stated, _why = _templated(hostvars[host], "pd_groups")
            names |= {str(name) for name in stated.values()} if isinstance(stated, dict) else set()
    found = {host for name in names for host in groups.get(name, ())}
    return [host for host in groups["all"] if host in found or not found]


def _out_of_sight(task_vars: Mapping[str, Any]) -> Iterator[Finding]:
    """Variables with another value here than in the inventory: ``vars`` of a play, block, role or task.

    They hold for the hosts of one play, while the plan is made once for the whole cluster and kept.
    """
    seen = task_vars["hostvars"].raw_get(task_vars["inventory_hostname"])  # both before templates are filled in
    for name in sorted(VARIABLES.keys() & task_vars.keys()):  # the others have defaults in roles
        if name not in seen or task_vars[name] != seen[name]:
            yield Finding(
                "variable-ignored",
                ERROR,
                "",
                f"{name} is set in vars of a play, block, role or task, where the plan does not read it",
                "a variable of the inventory",
                f"put {name} into the inventory, group_vars, host_vars or -e",
            )


def _find_archive(settings: dict[str, Any], find: Callable[[str, str], str]) -> list[Finding]:
    """The image archive's whole path in the settings, or a finding if it is not on the controller.

    ``find`` is Ansible's own search, which ``copy`` would make: of a relative path beside the playbook. It is made here
    once, since every role would look beside itself as well.
    """
    archive = settings["pd_image_archive"]
    if settings["pd_image_source"] != "archive" or not archive:
        return []
    where = ""
    try:
        found = find("files", archive)
        if Path(found).is_file():
            settings["pd_image_archive"] = found
            return []
    except AnsibleError:
        where = "" if archive.startswith(("/", "~")) else ", neither beside the playbook nor in files there"
    return [
        Finding(
            "variable-partner",
            ERROR,
            "",
            f"pd_image_archive {archive} is no file on this machine{where}, from where it is copied to the hosts",
            "an image archive, as docker save writes it",
            "correct pd_image_archive, or save the image there",
        )
    ]


def _inventory(
    hostvars: Mapping[str, Mapping[str, Any]], groups: Mapping[str, list[str]]
) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, str]]]:
    """The planner's variables of every host, templated, names that only look like them without their value; and why
    others cannot be templated.
    """
    result: dict[str, dict[str, Any]] = {}
    failed: dict[str, dict[str, str]] = {}
    for host in _members(hostvars, groups):
        variables = hostvars[host]
        strangers = [name for name in variables if may_be_misspelt(name)]
        result[host] = dict.fromkeys(name for name in strangers if not _used(name, host, hostvars))
        failed[host] = {}
        for name in variables:
            if name not in _READ:
                continue
            value, why = _templated(variables, name)
            if why:
                failed[host][name] = why
            else:
                result[host][name] = value
    return result, failed


def _used(name: str, host: str, hostvars: Any) -> bool:
    """Whether another variable takes its value from one that would be ours with a prefix."""
    if not lacks_prefix(name):
        return False
    text = json.dumps(hostvars.raw_get(host), default=str)  # as it is written, before templates are filled in
    return re.search(rf"\{{[{{%][^{{}}]*\b{re.escape(name)}\b", text) is not None


def _templated(variables: Mapping[str, Any], name: str) -> tuple[Any, str]:
    """A host's variable, or why there is none: it is templated as it is looked up."""
    try:
        return _plain(variables[name]), ""
    except Exception as error:  # an undefined name, a filter that is none, or whatever a filter raises
        lines = str(error).strip().splitlines() or [type(error).__name__]
        return None, lines[0]


def _plain(value: Any) -> Any:
    """Without Ansible's tagged types, which are subclasses of str, dict and list that carry their origin along."""
    return json.loads(json.dumps(value, default=str))
