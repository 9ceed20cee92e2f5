# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""What stands in a service's config folder, and what is refused before it is written."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.service_folder import service_folder


def folder(**changes: Any) -> dict[str, Any]:
    service = {
        "sources": ["/cann/set_env.sh", "/nnal/set_env.sh --cxx_abi=1"],
        "prepend": {"LD_LIBRARY_PATH": ["/first", "/second"]},
        "env": {"PYTHONHASHSEED": "0", "TEXT": "a 'b'"},
        "commands": [
            {"name": "d-0", "argv": ["vllm", "serve"], "env": {"RANK": "0"}},
            {"name": "d-1", "argv": ["vllm", "serve"], "env": {"RANK": "1"}},
        ],
        "files": {},
        **changes,
    }
    return service_folder(service, "#!launcher\n")


def contents(**changes: Any) -> dict[str, str]:
    return {name: file["content"] for name, file in folder(**changes)["files"].items()}


def test_files_that_the_launcher_reads() -> None:
    assert contents() == {
        "launch": "#!launcher\n",
        "sources": "/cann/set_env.sh\n/nnal/set_env.sh --cxx_abi=1\n",
        "prepend": "LD_LIBRARY_PATH=/first\nLD_LIBRARY_PATH=/second\n",
        "env": "PYTHONHASHSEED=0\nTEXT=a 'b'\n",
        "commands/00-d-0.argv": "vllm\nserve\n",
        "commands/00-d-0.env": "RANK=0\n",
        "commands/01-d-1.argv": "vllm\nserve\n",
        "commands/01-d-1.env": "RANK=1\n",
    }


def test_environment_files_are_for_root_alone() -> None:
    modes = {name: file["mode"] for name, file in folder()["files"].items()}
    assert {name for name, mode in modes.items() if mode == "0600"} == {
        "env",
        "commands/00-d-0.env",
        "commands/01-d-1.env",
    }


def test_engine_file_reads_back_as_it_was_meant() -> None:
    content = {
        "model": "/data/models/a b",
        "no-enable-prefix-caching": True,
        "kv-transfer-config": {"kv_port": 20050, "kv_connector_extra_config": {"connectors": [{"a": [0]}]}},
        "served-model-name": "0123",
        "long": "x " * 200,
    }
    text = contents(files={"e.yaml": {"format": "yaml", "content": content}})["e.yaml"]
    assert text.startswith("# Managed by Ansible")
    assert yaml.safe_load(text) == content


def test_another_order_in_the_inventory_is_no_change() -> None:
    def made(names: list[str], engine: dict[str, Any]) -> dict[str, Any]:
        files = {
            "e.yaml": {"format": "yaml", "content": engine},
            "m.conf": {"format": "properties", "content": dict.fromkeys(names, 1)},
        }
        prepend = {f"{name}_PATH": ["/b", "/a"] for name in names}
        return folder(env=dict.fromkeys(names, "1"), prepend=prepend, files=files)

    transfer = {"kv_port": 1, "kv_connector": "x"}
    turned = dict(reversed(transfer.items()))
    assert made(["A", "B"], {"model": "m", "kv": transfer}) == made(["B", "A"], {"kv": turned, "model": "m"})


def test_properties() -> None:
    content = {"ock.mmc.local_service.dram.size": "10G", "ock.mmc.tls.enable": False, "n": 256}
    text = contents(files={"m.conf": {"format": "properties", "content": content}})["m.conf"]
    assert text.splitlines()[1:] == ["n = 256", "ock.mmc.local_service.dram.size = 10G", "ock.mmc.tls.enable = false"]


@pytest.mark.parametrize("name", ["PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH"])
def test_paths_of_the_image_cannot_be_replaced(name: str) -> None:
    with pytest.raises(ValueError, match="pd_prepend_paths"):
        folder(env={name: "/x"})


@pytest.mark.parametrize(
    "changes",
    [
        {"env": {"A": "$HOME"}},
        {"env": {"A": "x\nB=y"}},
        {"sources": ["/a\n/b"]},
        {"prepend": {"PATH": ["/a\nX=/b"]}},
        {"commands": [{"name": "d-0", "argv": ["a\nb"], "env": {}}]},
        {"files": {"m.conf": {"format": "properties", "content": {"a": "1\nb = 2"}}}},
    ],
)
def test_what_would_be_read_as_something_else_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"\[.*\]"):
        folder(**changes)


def test_digest_follows_every_part() -> None:
    digests = {
        folder()["digest"],
        folder(sources=[])["digest"],
        folder(prepend={})["digest"],
        folder(env={"PYTHONHASHSEED": "1", "TEXT": "a 'b'"})["digest"],
        folder(commands=[])["digest"],
        folder(files={"a": {"format": "text", "content": "x"}})["digest"],
    }
    assert len(digests) == 6
    assert folder()["digest"] == folder()["digest"]
