# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Config folders on the hosts: who may read them, and what vLLM's and MemCache's own reading makes of them."""

from __future__ import annotations

import sys
from pathlib import Path

from ..conftest import Service
from ..lab import ROOT


def folder(service: Service) -> str:
    (source,) = [
        mount["Source"] for mount in service.inspected["Mounts"] if mount["Destination"] == "/etc/vllm-ascend-pd"
    ]
    return str(source)


def test_folders_and_environment_files_are_private(services: list[Service]) -> None:
    for service in services:
        path = folder(service)
        assert service.host.check_output("stat --format='%%a %%U' %s", path) == "700 root"
        assert service.host.check_output("stat --format='%%a %%U' %s", f"{path}/env") == "600 root"


def test_vllm_reads_back_what_was_planned(engines: list[Service], tmp_path: Path) -> None:
    """By the option rules of this vLLM: what it would take from the file is what the plan means, and nothing else."""
    sys.path.insert(0, str(ROOT / "lab/engine"))
    from vllm import arguments

    defaults = vars(arguments.make_parser().parse_args([]))
    for service in engines:
        for engine in service.engines:
            path = tmp_path / f"{engine['name']}.yaml"
            path.write_text(service.host.file(f"{folder(service)}/{path.name}").content_string)
            parsed = vars(arguments.parse(["--config", str(path)]))
            planned = {name.replace("-", "_"): value for name, value in engine["vllm_args"].items()}
            # An option that takes several values makes a list of one.
            meant = {name: [value] if isinstance(parsed[name], list) else value for name, value in planned.items()}
            assert {name: parsed[name] for name in planned} == meant, engine["name"]
            extra = {name for name, value in parsed.items() if value != defaults[name]} - set(planned) - {"model_tag"}
            assert extra == set(), engine["name"]


def test_memcache_reads_back_what_was_planned(services: list[Service]) -> None:
    for service in services:
        for name, file in service.planned["files"].items():
            if file["format"] == "properties":
                text = service.host.file(f"{folder(service)}/{name}").content_string
                lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
                there = {key.strip(): value.strip() for key, value in (line.split("=", 1) for line in lines)}
                assert there == {key: str(value) for key, value in file["content"].items()}, (service.container, name)
