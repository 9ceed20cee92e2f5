# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""The config folder of a service, rendered from its entry in the plan. The launcher is its reader."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import yaml
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils import _config_folder

HEADER = "# Managed by Ansible (vllm_ascend.pd_serving). The next run undoes what is edited here.\n"

# These come from the image and from set_env.sh; the environment file would replace what they hold.
# To add to them there are the prepend lists.
PATH_LIKE = frozenset({"PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH"})


def service_folder(service: dict[str, Any], launcher: str) -> dict[str, Any]:
    """`files` (relative path -> content and mode) and their `digest` for one service of the plan.

    Names stand in their own order: another order in the inventory means nothing, and restarts nothing.
    `launcher` is the text of the launcher. ValueError names what cannot be written. Arguments from a command's
    `live_from` on do not count for the digest: the running process is told of them, and the file serves its next start.
    """
    files: dict[str, dict[str, str]] = {
        "launch": _file(launcher),
        "sources": _file(_lines("a set_env.sh", service["sources"])),
        "prepend": _file(
            _lines("a path", (f"{k}={path}" for k, paths in sorted(service["prepend"].items()) for path in paths))
        ),
        "env": _file(environment(service["env"]), "0600"),
    }
    lasting: dict[str, dict[str, str]] = {}  # files without what changes live
    for position, command in enumerate(service["commands"]):
        stem = f"commands/{position:02d}-{command['name']}"
        files[f"{stem}.argv"] = _file(_lines(f"an argument of {command['name']}", command["argv"]))
        if "live_from" in command:
            lasting[f"{stem}.argv"] = _file(_lines("an argument", command["argv"][: command["live_from"]]))
        files[f"{stem}.env"] = _file(environment(command["env"]), "0600")
    for name, file in service["files"].items():
        files[name] = _file(FORMATS[file["format"]](file["content"]))
    return {"files": files, "digest": _config_folder.digest(_config_folder.parse_files({**files, **lasting}))}


def environment(variables: dict[str, str]) -> str:
    """An environment file: `NAME=value` lines, the values taken literally by the launcher."""
    for name, value in variables.items():
        if name in PATH_LIKE:
            raise ValueError(
                f"the environment may not set [{name}]: it would lose what the image holds; use pd_prepend_paths"
            )
        if "$" in str(value):
            raise ValueError(f"[{name}={value}] holds a $: values are taken literally, nothing would expand it")
    return _lines("an environment variable", (f"{name}={value}" for name, value in sorted(variables.items())))


def properties(content: dict[str, Any]) -> str:
    """`key = value` lines, as MemCache reads them."""
    return HEADER + _lines("a property", (f"{key} = {_scalar(value)}" for key, value in sorted(content.items())))


def to_yaml(content: Any) -> str:
    """YAML as vLLM reads it: block style, keys in the order of the plan, no line folded."""
    plain = json.loads(json.dumps(content))  # drops the subclasses of str with which Ansible tags its data
    return HEADER + yaml.safe_dump(plain, sort_keys=True, default_flow_style=False, allow_unicode=True, width=1_000_000)


FORMATS: dict[str, Callable[[Any], str]] = {"yaml": to_yaml, "properties": properties, "text": str}


def _scalar(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _lines(what: str, values: Any) -> str:
    """One value per line, which is why no value may hold a line break."""
    texts = [str(value) for value in values]
    for text in texts:
        if "\n" in text or "\0" in text:
            raise ValueError(f"{what} holds a line break: [{text!r}]")
    return "".join(f"{text}\n" for text in texts)


def _file(content: str, mode: str = "0644") -> dict[str, str]:
    return {"content": content, "mode": mode}
