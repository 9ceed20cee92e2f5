# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Reads the user's variables out of an inventory: defaults, types, choices, agreement between hosts."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._text import mask_credentials
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.findings import ERROR, WARNING, Finding
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.plan_rules import PLAN_RULES
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.profiles import Profile
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.role_variables import role_variables
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.variables import (
    BUILT,
    FROM_PROFILE,
    OWN_PREFIXES,
    ROLES,
    VARIABLES,
    Variable,
    unknown_names,
)

AUTO = "auto"


class Report:
    """Findings of the planner; the same one on many hosts becomes one."""

    def __init__(self) -> None:
        self._hosts: dict[Finding, dict[str, None]] = {}

    def add(
        self,
        rule: str,
        found: str,
        right: str = "",
        mend: str = "",
        *hosts: str,
        severity: str = ERROR,
    ) -> None:
        """No hosts: the whole cluster."""
        if rule not in PLAN_RULES:
            raise KeyError(rule)
        finding = Finding(rule=rule, severity=severity, host="", found=found, right=right, mend=mend)
        self._hosts.setdefault(finding, {}).update(dict.fromkeys(hosts or ("",)))

    def findings(self) -> list[Finding]:
        result = []
        for finding, hosts in self._hosts.items():
            named = [host for host in hosts if host]
            fields = dict(vars(finding), host=named[0] if len(named) == 1 else "")
            if len(named) > 1:
                fields["found"] = f"{finding.found} (on {len(named)} hosts: {some(named)})"
            result.append(Finding(**fields))
        return result


def some(names: Sequence[str], most: int = 4) -> str:
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown}, …"


class Settings:
    """Values of the variables in ``variables.py``; anything else in the inventory is none of the planner's business."""

    def __init__(
        self,
        inventory: Mapping[str, Mapping[str, Any]],
        report: Report,
        failed: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        """``failed``: host -> variables that cannot be templated, and why; to all else they are not set."""
        self._inventory = inventory
        self._failed = failed or {}
        self.report = report
        self._cluster: dict[str, Any] = {}
        self._checked: dict[tuple[str, str], Any] = {}
        self.hosts: list[str] = list(inventory)

    def limit_to(self, hosts: Sequence[str]) -> None:
        """Only these hosts belong to the cluster; cluster-wide values are read from them alone."""
        self.hosts = list(hosts)
        self._cluster.clear()

    def of_host(self, host: str, name: str, default: Any = None) -> Any:
        """The host's own value, ``default`` where it says nothing."""
        return _first(self._own(host, name), default, name)

    def _own(self, host: str, name: str) -> Any:
        """What the host states, in the variable's type; ``None``: nothing, or nothing that can be used."""
        key = (host, name)
        if key not in self._checked:
            raw = self._inventory.get(host, {}).get(name)
            variable = VARIABLES[name] if name in VARIABLES else role_variables()[name]
            unset = raw is None or (raw == "" and variable.default in (None, ""))
            self._checked[key] = None if unset else self._typed(variable, raw, host)
        return self._checked[key]

    def mentions(self, name: str) -> bool:
        """Whether a host of the cluster has a variable of this name, ours or not."""
        return any(name in self._inventory.get(host, {}) for host in self.hosts)

    def fails(self, name: str) -> bool:
        """Whether a host of the cluster states it by a template that cannot be filled in, which is told."""
        return any(name in self._failed.get(host, {}) for host in self.hosts)

    def is_set(self, host: str, name: str) -> bool:
        return self._own(host, name) is not None

    def cluster(self, name: str, default: Any = None) -> Any:
        """The one value of the cluster."""
        if name not in self._cluster:
            stated = {host: self.of_host(host, name) for host in self.hosts if self.is_set(host, name)}
            self._compare(name, stated)
            self._cluster[name] = next(iter(stated.values()), None)
        return _first(self._cluster[name], default, name)

    def check_builds(self) -> None:
        """Report what is to be built where hosts do not agree, also where only some of them say it: what one host
        builds serves all, and what each builds for itself must be the same.
        """
        for name in BUILT:
            self._compare(name, {host: self._inventory[host].get(name) for host in self.hosts})

    def check_partner(self, name: str, chooser: str, choice: str) -> None:
        """Report ``name`` where ``chooser`` asks for it and it is missing, or where nothing reads it."""
        stated, chosen = self.cluster(name) is not None, self.cluster(chooser) == choice
        if chosen and not stated and not self.fails(name):
            self.report.add(
                "variable-partner",
                f"{chooser} is {choice}, but {name} is not set",
                VARIABLES[name].meaning,
                f"set {name}, or another {chooser}",
            )
        elif stated and not chosen:
            self.report.add(
                "variable-partner",
                f"{name} is set, but {chooser} is {self.cluster(chooser)}, so nothing reads it",
                f"{chooser}: {choice}",
                f"set {chooser}: {choice}, or remove {name}",
                severity=WARNING,
            )

    def _compare(self, name: str, values: Mapping[str, Any]) -> None:
        """Report a value that is not the same on all these hosts; ``None``: not set."""
        sides: list[tuple[Any, list[str]]] = []
        for host, value in values.items():
            side = next((hosts for other, hosts in sides if other == value), None)
            if side is None:
                sides.append((value, [host]))
            else:
                side.append(host)
        if len(sides) > 1:
            listing = "; ".join(
                f"{some(hosts)}: {'not set' if value is None else mask_credentials(repr(value))}"
                for value, hosts in sides
            )
            self.report.add(
                "variable-differs",
                f"{name} differs between hosts ({listing})",
                "one value for the whole cluster",
                f"set {name} in group_vars/all only",
            )

    def check_values(self, roles: Sequence[str]) -> None:
        """Report every value that is none of its variable's, also where nothing comes to read it; of other roles than
        these a variable is not ours.
        """
        others = tuple(f"{role}_" for role in ROLES if role not in roles)
        for host in self.hosts:
            for name, why in self._failed.get(host, {}).items():
                if not name.startswith(others):
                    self.report.add(
                        "variable-template",
                        f"{name} cannot be templated: {why}",
                        "a template of which every name is defined on this host",
                        f"correct {name}, or define what it names",
                        host,
                    )
            for name in self._inventory.get(host, {}):
                if name in role_variables() or (name in VARIABLES and not name.startswith(others)):
                    self._own(host, name)

    def check_names(self) -> None:
        """Report variables that look like ours but are not. Under a prefix that others use too it is a warning, unless
        it is MemCache's: nobody else sets its memory.
        """
        seen: dict[str, list[str]] = {}
        for host in self.hosts:
            for name in self._inventory.get(host, {}):
                seen.setdefault(name, []).append(host)
        for name, near in unknown_names(seen):
            severity = ERROR if name.startswith((*OWN_PREFIXES, "memcache_")) else WARNING
            for host in seen[name]:
                self.report.add(
                    "unknown-variable",
                    f"no variable is called {name}",
                    near or "",
                    f"write {near}" if near else "remove it, or see docs/variables.md",
                    host,
                    severity=severity,
                )

    def _typed(self, variable: Variable, value: Any, host: str) -> Any:
        """The value in its type; reported and ignored if it has another. Instead of a word that is none of its choices
        the nearest is taken, so that nothing is told that a mere typing error entails.
        """
        name = variable.name
        try:
            typed = _convert(variable, value)
        except ValueError as error:
            self.report.add(
                "variable-type", f"{name} is {value!r}: {error}", _expected(variable), f"correct {name}", host
            )
            return None
        if variable.choices and typed not in variable.choices:
            near = difflib.get_close_matches(typed, variable.choices, n=1)
            self.report.add(
                "variable-choice",
                f"{name} is {value!r}",
                f"one of {', '.join(variable.choices)}",
                f"write {near[0]}" if near else f"correct {name}",
                host,
            )
            return near[0] if near else None
        return typed


def _first(stated: Any, default: Any, name: str) -> Any:
    """What is stated, else what the asker would have, else the variable's own default."""
    fallback = VARIABLES[name].default
    return next(
        (value for value in (stated, default, fallback) if value is not None and value is not FROM_PROFILE), None
    )


_TYPES = {
    "bool": "true or false",
    "int": "a whole number",
    "int_or_auto": "a whole number or auto",
    "path": "a path from the root on",
    "dict": "a mapping, such as {name: value}",
    "list": "a list, such as [one, another]",
}


def _expected(variable: Variable) -> str:
    """What can be written instead of a value of the wrong type."""
    text = _TYPES.get(variable.type, "a word")
    if variable.example[1]:
        text = f"such as {variable.example[1]}"
    if variable.unit:
        text += f" of {variable.unit}"
    if variable.least:
        text += f" from {variable.least} on"
    if variable.default is FROM_PROFILE:
        return f"{text} (default: the profile's)"
    return f"{text} (default: {str(variable.default).lower()})" if variable.default not in (None, {}, []) else text


_BOOLEANS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


def _convert(variable: Variable, value: Any) -> Any:
    """A value as YAML, ``-e`` or Jinja gave it, in the variable's type."""
    kind = variable.type
    if kind == "bool":
        if isinstance(value, bool):
            return value
        if str(value).lower() in _BOOLEANS:
            return _BOOLEANS[str(value).lower()]
        raise ValueError("not true or false")
    if kind in ("int", "int_or_auto"):
        if kind == "int_or_auto" and value == AUTO:
            return AUTO
        if isinstance(value, bool) or not _is_int(value):
            raise ValueError("not a whole number" + (" and not auto" if kind == "int_or_auto" else ""))
        if len(str(value)) > 18:
            raise ValueError("larger than anything it could mean")
        if int(value) < variable.least:
            raise ValueError("negative" if int(value) < 0 else f"less than {variable.least}")
        return int(value)
    if kind == "dict":
        if not isinstance(value, Mapping):
            raise ValueError("not a mapping")
        return value
    if kind == "list":
        if isinstance(value, (str, Mapping)) or not isinstance(value, Sequence):
            raise ValueError("not a list")
        return list(value)
    if isinstance(value, (Mapping, list)):
        raise ValueError("not a word")
    if not str(value).strip():
        raise ValueError("empty")
    if kind == "path" and not variable.relative and not str(value).startswith("/"):
        raise ValueError("not a path from the root on")
    if variable.example[0] and not re.fullmatch(variable.example[0], str(value)):
        raise ValueError("not of the form that it has")
    return str(value)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) or (isinstance(value, str) and value.strip().lstrip("-").isdigit())


def profile_default(profile: Profile, name: str) -> Any:
    """What the profile says for the variables whose default is its own."""
    return {
        "pd_vllm_version": profile.vllm,
        "pd_vllm_ascend_version": profile.vllm_ascend,
        "pd_build": profile.build,
        "pd_container_privileged": profile.privileged,
    }[name]
