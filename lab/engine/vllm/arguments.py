# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""vLLM's command line: which options exist, how they parse, and how `--config FILE` becomes arguments.

The rules are those of vLLM 0.22.1 and 0.26.0, vllm/utils/argparse_utils.py (FlexibleArgumentParser) and
vllm/engine/arg_utils.py (types); the options are data, one file per version.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from vllm import __version__
from vllm.logger import init_logger

logger = init_logger(__name__)

_OPTIONS = f"vllm-serve-{__version__}.json"
# Installed trees carry the list in the package; a checkout has it where the planner keeps it: data is shared, not code.
_PLACES = (
    Path(__file__).parent / "data",
    *(parent / "plugins" / "plugin_utils" / "data" for parent in Path(__file__).parents[2:4]),
)

# The list calls every optional type "_optional_type"; what lies inside is vLLM's annotation of the field.
_OPTIONAL_JSON = {
    "speculative_config", "diffusion_config", "kv_transfer_config", "kv_events_config", "ec_transfer_config",
    "quantization_config", "pooler_config", "reasoning_config", "weight_transfer_config", "mm_processor_kwargs",
}  # fmt: skip
_OPTIONAL_INT = {
    "max_log_len", "distributed_timeout_seconds", "cpu_distributed_timeout_seconds", "max_parallel_loading_workers",
    "kv_cache_memory_bytes", "num_gpu_blocks_override", "mamba_block_size", "max_num_scheduled_tokens", "max_cpu_loras",
}  # fmt: skip


def human_readable_int(value: str) -> int:
    """``1k`` is 1,000 and ``1K`` 1,024 (argparse_utils.py human_readable_int)."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kKmMgGtT])", value.strip())
    if not match:
        return int(value)
    number, suffix = match.groups()
    power = "kmgt".index(suffix.lower()) + 1
    if suffix.islower():
        return int(float(number) * 1000**power)
    if "." in number:
        raise argparse.ArgumentTypeError(f"Decimals are not allowed with binary suffixes like {suffix}.")
    return int(number) * 1024**power


def _length(value: str) -> int:
    return -1 if value.strip().lower() in ("-1", "auto") else human_readable_int(value)


def _json(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"Value {value} cannot be converted to {json.loads}.") from error


def _mapping(value: str) -> dict[str, Any]:
    parsed = _json(value)
    if not isinstance(parsed, dict):
        raise argparse.ArgumentTypeError(f"Value {value} is not a JSON object.")
    return parsed


def _mapping_or_text(value: str) -> Any:
    return _json(value) if re.match(r"(?s)^\s*{.*}\s*$", value) else value


def _optional(inner: Callable[[str], Any]) -> Callable[[str], Any]:
    def convert(value: str) -> Any:
        if value in ("", "None"):
            return None
        try:
            return inner(value)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"Value {value} cannot be converted to {inner}.") from error

    return convert


def _converter(option: dict[str, Any]) -> Callable[[str], Any] | None:
    dest, kind = option["dest"], option.get("type")
    if kind == "_optional_type":
        if dest in _OPTIONAL_JSON:
            return _optional(_mapping)
        return _optional(human_readable_int if dest in _OPTIONAL_INT else str)
    table: dict[Any, Callable[[str], Any]] = {
        "int": int, "float": float, "str": str, "loads": _json, "_parse_type": _json, "parse_dataclass": _mapping,
        "union_dict_and_str": _mapping_or_text, "human_readable_int": human_readable_int,
        "human_readable_int_or_auto": _length,
    }  # fmt: skip
    return table.get(kind)


def _options() -> list[dict[str, Any]]:
    for place in _PLACES:
        if (place / _OPTIONS).is_file():
            return list(json.loads((place / _OPTIONS).read_text(encoding="utf-8"))["options"])
    raise FileNotFoundError(f"{_OPTIONS} stands in none of {[str(place) for place in _PLACES]}")


def make_parser() -> argparse.ArgumentParser:
    """A parser that takes exactly the options of this version of `vllm serve`."""
    parser = argparse.ArgumentParser(prog="vllm serve", usage="vllm serve [model_tag] [options]")
    for option in _options():
        flags, action = option.get("flags"), option["action"]
        if flags is None:
            parser.add_argument(option["dest"], nargs=option["nargs"], type=str)
        elif action == "BooleanOptionalAction":
            # argparse adds the --no- forms by itself
            plain = [flag for flag in flags if not flag.startswith("--no-")]
            parser.add_argument(*plain, dest=option["dest"], action=argparse.BooleanOptionalAction, default=None)
        elif action == "StoreTrueAction":
            parser.add_argument(*flags, dest=option["dest"], action="store_true")
        else:
            kind: dict[str, Any] = {
                "nargs": option.get("nargs"),
                "type": _converter(option),
                "choices": option.get("choices"),
            }
            if kind["choices"] and option.get("type") in ("int", "float"):
                kind["choices"] = [kind["type"](choice) for choice in kind["choices"]]
            kind = {key: value for key, value in kind.items() if value is not None}
            parser.add_argument(
                *flags, dest=option["dest"], action="append" if action == "AppendAction" else "store", **kind
            )
    return parser


def config_file_arguments(path: str) -> list[str]:
    """Arguments that a configuration file stands for (argparse_utils.py load_config_file, with its traps)."""
    extension = path.split(".")[-1]
    if extension not in ("yaml", "yml"):
        raise ValueError(f"Config file must be of a yaml/yml type. {extension} supplied")
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except Exception:
        logger.error("Unable to read the config file at %s. Check path correctness", path)
        raise
    arguments: list[str] = []
    for key, value in content.items():
        if isinstance(value, bool):
            arguments += [f"--{key}"] if value else []  # false is dropped, not negated
        elif isinstance(value, list):
            arguments += [f"--{key}", *map(str, value)] if value else []
        else:
            arguments += [f"--{key}", json.dumps(value) if isinstance(value, dict) else str(value)]
    return arguments


def _pull_config(argv: list[str]) -> list[str]:
    assert argv.count("--config") <= 1, "More than one config file specified!"
    index = argv.index("--config")
    if index == len(argv) - 1:
        raise ValueError("No config file specified! Please check your command-line arguments.")
    from_file = config_file_arguments(argv[index + 1])
    model_given = bool(argv) and not argv[0].startswith("-")
    if not model_given and "--model" not in from_file:
        raise ValueError(
            "No model specified! Please specify model either as a positional argument or in a config file."
        )
    head = 1 if model_given else 0
    return argv[:head] + from_file + argv[head:index] + argv[index + 2 :]


def _model_first(argv: list[str]) -> list[str]:
    """A `--model` on the command line is moved to the front, with a warning."""
    for index, argument in enumerate(argv):
        if argument == "--model" or argument.startswith("--model="):
            logger.warning(
                "With `vllm serve`, you should provide the model as a positional argument or in a config file "
                "instead of "
                "via the `--model` option. The `--model` option will be removed in a future version."
            )
            if argument == "--model":
                return [argv[index + 1], *argv[:index], *argv[index + 2 :]]
            return [argument.removeprefix("--model="), *argv[:index], *argv[index + 1 :]]
    return argv


def _merge(target: dict[str, Any], update: dict[str, Any]) -> None:
    for key, value in update.items():
        if isinstance(value, dict) and isinstance(target.get(key), dict):
            _merge(target[key], value)
        elif isinstance(value, list) and isinstance(target.get(key), list):
            target[key] += value
        else:
            target[key] = value


def _fold_dotted(argv: list[str]) -> list[str]:
    """`--additional-config.key value` becomes JSON; underscores in names become dashes."""
    plain: list[str] = []
    dotted: dict[str, dict[str, Any]] = {}
    rest = iter(argv)
    for argument in rest:
        if not argument.startswith("--"):
            plain.append(argument)
            continue
        name, equals, value = argument.partition("=")
        stem, dot, path = name.partition(".")
        stem = stem.replace("_", "-")
        if not dot:
            plain.append(stem + equals + value)
            continue
        text = value if equals else next(rest)
        if path.endswith("+"):
            path, text = path[:-1], json.dumps(text.split(","))
        try:
            parsed: Any = json.loads(text)
        except ValueError:
            parsed = text
        for key in reversed(path.split(".")):
            parsed = {key: parsed}
        _merge(dotted.setdefault(stem, {}), parsed)
    return plain + [part for name, content in dotted.items() for part in (name, json.dumps(content))]


def parse(argv: list[str]) -> argparse.Namespace:
    """The parsed command line after `vllm serve`; argparse ends the process with code 2 on what vLLM does not take."""
    argv = _model_first(argv)
    if "--config" in argv:
        argv = _pull_config(argv)
    arguments = make_parser().parse_args(_fold_dotted(argv))
    if arguments.model_tag is not None:
        arguments.model = arguments.model_tag
    return arguments


def given(arguments: argparse.Namespace) -> dict[str, Any]:
    """What was set, by destination; logged unredacted by vLLM (entrypoints/serve/utils/api_utils.py)."""
    return {name: value for name, value in vars(arguments).items() if value not in (None, False)}
