# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Turn a multi-node deployment, given as data, into an inventory that a person would write.

    .venv/bin/python tools/deployment_to_inventory.py DEPLOYMENT.json...            prints the inventory
    .venv/bin/python tools/deployment_to_inventory.py -o FOLDER DEPLOYMENT.json...  writes FOLDER/NAME.yml for each

A deployment lists its nodes and, for every engine, node, role (``prefill``, ``decode``, ``mixed``), argument list and
environment:

    {"name": ..., "source": ..., "model": ..., "npu_per_node": 16, "nodes": ["192.0.2.10", ...],
     "engines": [{"node": 0, "role": "prefill", "argv": [...], "env": {...}}, ...]}

What the planner derives (ranks, addresses, devices, both sides' sizes in the connector and more) is left out;
what all engines, or all of a role, have in common stands once. A deployment that could not start is refused with the
sum that does not add up, and a file that is none with what is wrong of it, each in one line; the others are written all
the same, and the exit code is 1. Needs the checkout's tree (``make dev``).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / ".cache" / "dev"))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools.deployments.reading import NotExpressible, checked
from tools.deployments.writing import Writer


def to_inventory(deployment: Mapping[str, Any]) -> dict[str, Any]:
    """The inventory of a deployment, as YAML data."""
    return Writer(checked(deployment)).inventory()


class _Dumper(yaml.SafeDumper):
    """Indents lists, keeps short lists on one line, writes a host without variables as nothing."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _list(dumper: yaml.SafeDumper, data: list[Any]) -> yaml.Node:
    plain = all(not isinstance(item, (dict, list)) for item in data)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=plain)


def _text(dumper: yaml.SafeDumper, data: str) -> yaml.Node:
    """What Ansible would take for a template is marked as none."""
    tag = "!unsafe" if any(opening in data for opening in ("{{", "{%", "{#")) else "tag:yaml.org,2002:str"
    return dumper.represent_scalar(tag, data)


_Dumper.add_representer(str, _text)
_Dumper.add_representer(list, _list)
_Dumper.add_representer(type(None), lambda dumper, _: dumper.represent_scalar("tag:yaml.org,2002:null", ""))


def to_yaml(deployment: Mapping[str, Any]) -> str:
    body = yaml.dump(to_inventory(deployment), Dumper=_Dumper, sort_keys=False, width=118)
    return f"---\n# {deployment['name']}\n# from {deployment.get('source', 'data')}\n{body}"


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # also bytes that are no text
        raise NotExpressible(f"no JSON: {error}") from None


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", maxsplit=1)[0])
    parser.add_argument("deployments", nargs="+", type=Path, metavar="DEPLOYMENT.json")
    parser.add_argument("-o", "--output", type=Path, metavar="FOLDER", help="write NAME.yml there instead of printing")
    arguments = parser.parse_args(argv)
    refused = 0
    for path in arguments.deployments:
        try:
            text = to_yaml(_read(path))
            if arguments.output:
                arguments.output.mkdir(parents=True, exist_ok=True)
                (arguments.output / f"{path.stem}.yml").write_text(text, encoding="utf-8")
            else:
                print(text, end="")
        except NotExpressible as refusal:
            refused += 1
            print(f"{path}: {refusal}", file=sys.stderr)
        except OSError as error:  # its file, or the one that was to be written
            refused += 1
            print(f"{error.filename}: {error.strerror}", file=sys.stderr)
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
