# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Options of ``vllm serve``: any spelling to one meaning, and the meaning to a config file that vLLM reads right.

Meaning: a mapping from the option's long name without dashes to its value as JSON data, booleans as true and false, so
that two spellings of the same thing compare equal. The tables under ``data/`` come from the real parsers.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

_DATA = Path(__file__).parent / "data"

#: vLLM's FlexibleArgumentParser reads ``-O3`` and ``-O=3`` as the level of the compilation config.
_OPTIMISE = "-O"
#: The one option in whose configuration vLLM takes keys with dashes too (``create_speculative_config``).
_DASHED = "speculative-config"


class OptionError(ValueError):
    """An argument list that vLLM would not take."""


@dataclass(frozen=True)
class Option:
    """One option. ``kind``: value, boolean (has a ``no-`` form), flag (has none), list, or append (once per item)."""

    name: str
    kind: str
    type: str  # str, int, float, or "auto": whatever the word looks like
    json: bool
    choices: tuple[Any, ...]
    flags: tuple[str, ...]  # every spelling, without dashes
    bare: bool  # may stand without its value, as --hf-token

    @classmethod
    def from_parser(cls, data: Mapping[str, Any]) -> Option:
        """Read one option as argparse describes it."""
        flags = tuple(flag.lstrip("-") for flag in data["flags"])
        name = next(flag[2:] for flag in data["flags"] if flag.startswith("--"))
        reader = data.get("type") or "str"
        kind = _KINDS.get(data["action"], "list" if data.get("nargs") == "+" else "value")
        is_json = kind == "value" and (reader in _JSON_READERS or name.endswith(_JSON_NAMES))
        number = "str" if kind in ("list", "append") else _NUMBER_READERS.get(reader, "str")
        return cls(name, kind, number, is_json, tuple(data.get("choices") or ()), flags, data.get("nargs") == "?")


_KINDS = {
    "BooleanOptionalAction": "boolean",
    "StoreTrueAction": "flag",
    "LoRAParserAction": "list",
    "AppendAction": "append",
}
#: Readers of argparse types that take JSON. ``_optional_type`` wraps another reader, so there the name must tell.
_JSON_READERS = {"loads", "parse_dataclass", "union_dict_and_str", "_parse_type"}
_JSON_NAMES = ("-config", "-kwargs", "-overrides")
_NUMBER_READERS = {
    "int": "int",
    "float": "float",
    "human_readable_int": "int",
    "human_readable_int_or_auto": "int",
    "_optional_type": "auto",
}


class OptionTable:
    """The options of one version of ``vllm serve``."""

    def __init__(self, version: str, options: Sequence[Mapping[str, Any]]) -> None:
        self.version = version
        self._options: dict[str, Option] = {}
        self._spellings: dict[str, tuple[str, bool]] = {}  # spelling without dashes -> (name, negated)
        for option in (Option.from_parser(data) for data in options if data.get("flags")):
            self._options[option.name] = option
            for flag in option.flags:
                self._spellings[flag] = (option.name, option.kind == "boolean" and flag == f"no-{option.name}")

    def __contains__(self, name: str) -> bool:
        return name in self._options

    def get(self, name: str) -> Option | None:
        return self._options.get(name)

    def resolve(self, spelling: str) -> tuple[str, bool]:
        """Long name and whether the spelling negates it; an unknown one comes back tidied but unchanged."""
        tidy = spelling.lstrip("-").replace("_", "-")
        return self._spellings.get(tidy, (tidy, False))

    def nearest(self, name: str) -> str | None:
        near = difflib.get_close_matches(name, list(self._spellings), n=1, cutoff=0.6)
        return near[0] if near else None

    # ---- to meaning ----

    def normalise(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Names in any spelling -> meaning. ``None`` stays: it removes an option in the layer below."""
        result: dict[str, Any] = {}
        for spelling, value in options.items():
            name, negated = self.resolve(str(spelling))
            if negated and isinstance(value, bool):
                value = not value
            result[name] = self.value(name, value)
        return result

    def twice(self, options: Mapping[str, Any]) -> list[list[str]]:
        """Spellings of one option, or of a key in it, that stand beside each other: which one wins is chance."""
        found: dict[str, list[str]] = {}
        for spelling, value in options.items():
            name = self.resolve(str(spelling))[0]
            found.setdefault(name, []).append(str(spelling))
            data = self._data(name, value)
            for key in data if name == _DASHED and isinstance(data, Mapping) else ():
                found.setdefault(f"{name}.{_underscored(key)}", []).append(f"{name}.{key}")
        return [spellings for spellings in found.values() if len(spellings) > 1]

    def value(self, name: str, value: Any) -> Any:
        """One value as JSON data of the option's type; what does not fit is left for the rules to judge."""
        data = self._data(name, value)
        if name == _DASHED and isinstance(data, Mapping):
            return {_underscored(key): inner for key, inner in data.items()}
        return data

    def _data(self, name: str, value: Any) -> Any:
        option = self._options.get(name)
        if isinstance(value, str):
            text = value.strip()
            if option is None or option.json or text[:1] in ("{", "["):
                data = _json_or_none(text)
                if data is not None and (option is None or option.json or isinstance(data, (dict, list))):
                    return data
            return value if option is None else _typed(option.type, value)
        return list(value) if isinstance(value, tuple) else value

    def parse(self, argv: Sequence[str]) -> dict[str, Any]:
        """An argument list after ``vllm serve`` -> meaning. As in argparse the last of two equal options wins."""
        result: dict[str, Any] = {}
        queue = list(argv)
        while queue:
            token = queue.pop(0)
            if not _is_option(token):
                if "model" in result:
                    raise OptionError(f"{token!r} belongs to no option, and {result['model']!r} is the model already")
                result["model"] = token
                continue
            token, has_value, inline = token.partition("=") if not token.startswith(_OPTIMISE) else (token, "", "")
            if token.startswith(_OPTIMISE):
                self._optimise(token, queue, result)
                continue
            spelling, _dot, path = token.lstrip("-").partition(".")
            name, negated = self.resolve(spelling)
            option = self._options.get(name)
            if path:  # --speculative-config.method mtp
                value = inline if has_value else _take(queue, token)
                _set_path(result, name, path, _json_or_text(value))
            elif option is not None and option.kind in ("boolean", "flag"):
                result[name] = not negated
            elif option is not None and option.kind == "list":
                values = [inline] if has_value else []
                while queue and not _is_option(queue[0]):
                    values.append(queue.pop(0))
                result[name] = [self.value(name, value) for value in values]
            elif option is not None and option.kind == "append":
                result.setdefault(name, []).append(inline if has_value else _take(queue, token))
            elif option is not None and option.bare and not has_value and (not queue or _is_option(queue[0])):
                result[name] = True
            elif option is None and not has_value:  # of another version: take what follows, let the caller report it
                words = []
                while queue and not _is_option(queue[0]):
                    words.append(self.value(name, queue.pop(0)))
                result[name] = words if len(words) > 1 else (words or [True])[0]
            else:
                result[name] = self.value(name, inline if has_value else _take(queue, token))
        return result

    def _optimise(self, token: str, queue: list[str], result: dict[str, Any]) -> None:
        rest = token[len(_OPTIMISE) :]
        if rest.startswith("."):
            path, has_value, inline = rest[1:].partition("=")
            _set_path(result, "compilation-config", path, _json_or_text(inline if has_value else _take(queue, token)))
            return
        level = rest.lstrip("=") or _take(queue, token)
        name = "optimization-level" if "optimization-level" in self._options else "compilation-config"
        data = _json_or_text(level)
        result[name] = data if name == "optimization-level" or isinstance(data, dict) else {"mode": data}

    # ---- from meaning ----

    def config_file(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Meaning -> the mapping of the file that ``vllm serve --config`` reads.

        vLLM 0.22.1 and 0.26.0 drop a false boolean in silence, pass null as the word "None", drop an empty list, and
        spread a list over several words, which an option that takes JSON does not understand.
        """
        result: dict[str, Any] = {}
        for name, value in options.items():
            option = self._options.get(name)
            if value is None or value == []:
                continue
            if value is False:
                if option is None or option.kind == "boolean":
                    result[f"no-{name}"] = True
            elif isinstance(value, (list, tuple)) and option is not None and option.json and option.kind == "value":
                result[name] = json.dumps(list(value))
            elif (
                isinstance(value, (list, tuple)) and option is not None and option.kind == "append" and len(value) == 1
            ):
                result[name] = value[0]  # of several the file can carry none: vLLM reads further words as arguments
            else:
                result[name] = value
        return result

    def argv(self, options: Mapping[str, Any]) -> list[str]:
        """Meaning -> argument list, model first: what a person would type."""
        result = [str(options["model"])] if options.get("model") is not None else []
        for name, value in options.items():
            if name == "model" or value is None or value == []:
                continue
            option = self._options.get(name)
            if value is True:
                result.append(f"--{name}")
            elif value is False:
                if option is None or option.kind == "boolean":
                    result.append(f"--no-{name}")
            elif isinstance(value, dict):
                result += [f"--{name}", json.dumps(value)]
            elif isinstance(value, (list, tuple)) and option is not None and option.kind == "append":
                result += [word for item in value for word in (f"--{name}", str(item))]
            elif isinstance(value, (list, tuple)):
                spread = option is not None and option.kind == "list" and not option.json
                result += [f"--{name}", *(map(str, value) if spread else [json.dumps(list(value))])]
            else:
                result += [f"--{name}", str(value)]
        return result


def _is_option(token: str) -> bool:
    """A word that starts an option, as argparse has it: a dash, but no negative number and no blank in the name."""
    if not token.startswith("-") or token == "-" or " " in token.partition("=")[0]:
        return False
    try:
        float(token)
    except ValueError:
        return True
    return False


def _take(queue: list[str], token: str) -> str:
    if not queue or _is_option(queue[0]):
        raise OptionError(f"{token} wants a value" + (f", not {queue[0]}" if queue else ""))
    return queue.pop(0)


def _underscored(key: Any) -> str:
    return str(key).replace("-", "_")


def _json_or_none(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _json_or_text(text: str) -> Any:
    data = _json_or_none(text)
    return text if data is None else data


def _typed(kind: str, value: str) -> Any:
    """A word as the number that vLLM reads in it, where it reads one."""
    text = value.strip()
    for convert, kinds in ((int, ("int", "auto")), (float, ("int", "float", "auto"))):
        if kind in kinds:
            try:
                return convert(text)
            except ValueError:
                continue
    return value


def _set_path(result: dict[str, Any], name: str, path: str, value: Any) -> None:
    target = result.setdefault(name, {})
    *parents, last = path.split(".")
    for parent in parents:
        target = target.setdefault(parent, {})
    target[last] = value


@cache
def versions() -> tuple[str, ...]:
    """vLLM versions whose options are known, oldest first."""
    found = [path.stem.removeprefix("vllm-serve-") for path in _DATA.glob("vllm-serve-*.json")]
    return tuple(sorted(found, key=lambda text: [int(part) for part in text.split(".")]))


def known_version(version: str) -> str:
    """The version itself, if its options are known; else the nearest older known one (else the oldest)."""
    known = versions()
    wanted = _numbers(version)
    older = [candidate for candidate in known if _numbers(candidate) <= wanted]
    return older[-1] if older else known[0]


def is_known(version: str) -> bool:
    """Whether the options of this very release are known."""
    return _numbers(version) == _numbers(known_version(version))


@cache
def option_table(version: str) -> OptionTable:
    """The table of a version, or of the nearest that is known."""
    chosen = known_version(version)
    data = json.loads((_DATA / f"vllm-serve-{chosen}.json").read_text(encoding="utf-8"))
    return OptionTable(chosen, data["options"])


def _numbers(version: str) -> list[int]:
    """``0.26.0rc1`` -> [0, 26, 0]: enough to order releases."""
    numbers = []
    for part in version.split(".")[:3]:
        digits = ""
        for character in part:
            if not character.isdigit():
                break
            digits += character
        numbers.append(int(digits or 0))
    return numbers
