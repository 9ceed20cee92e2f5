# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""What vLLM takes inside the options of ``vllm serve`` that hold a configuration, by version.

Its configurations are dataclasses that forbid keys which are no field (vllm/config/utils.py ``config``). The tables
under ``data/`` are read from their sources by ``tools/vllm_configs``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from .options import known_version

_DATA = Path(__file__).parent / "data"


@dataclass(frozen=True)
class Entry:
    """One key of a configuration, known or not."""

    path: tuple[str, ...]
    value: Any
    fields: Mapping[str, Any]  # of its configuration -> None, choices, or the configuration inside

    @property
    def key(self) -> str:
        return self.path[-1]

    @property
    def known(self) -> bool:
        return self.key in self.fields

    @property
    def choices(self) -> list[Any] | None:
        """What the value may be, where that is a closed list."""
        field = self.fields.get(self.key)
        found = field.get("any_case") if isinstance(field, Mapping) else field
        return found if isinstance(found, list) else None

    @property
    def is_choice(self) -> bool:
        """Whether vLLM takes the value; of one that is neither word nor number it may convert more than is known."""
        choices = self.choices
        if choices is None or not isinstance(self.value, (str, int)) or self.value in choices:
            return True
        any_case = isinstance(self.fields[self.key], Mapping)
        return any_case and _folded(self.value) in {_folded(one) for one in choices}


def _folded(word: Any) -> str:
    return str(word).lower().replace("-", "_")


class OptionConfigs:
    """The configurations of one version of vLLM."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.version = str(data["vllm"])
        self._options: Mapping[str, str] = data["options"]
        self._classes: Mapping[str, Mapping[str, Any]] = data["classes"]

    def stated(self, options: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """The options among these that hold a configuration, and have one."""
        for name, value in options.items():
            if name in self._options and value not in (None, "", "None"):
                yield name, value

    def entries(self, option: str, value: Any) -> Iterator[Entry]:
        """Every key of an option's configuration and of those inside it."""
        yield from self._entries(self._options[option], value, ())

    def _entries(self, name: str, value: Any, above: tuple[str, ...]) -> Iterator[Entry]:
        fields = self._classes[name]
        for key, inner in value.items() if isinstance(value, Mapping) else ():
            entry = Entry((*above, str(key)), inner, fields)
            yield entry
            if isinstance(fields.get(entry.key), str):
                yield from self._entries(fields[entry.key], inner, entry.path)


@cache
def option_configs(version: str) -> OptionConfigs:
    """The configurations of a version; of one that is not known, as the options (``options.option_table``)."""
    data = _DATA / f"vllm-configs-{known_version(version)}.json"
    return OptionConfigs(json.loads(data.read_text(encoding="utf-8")))
