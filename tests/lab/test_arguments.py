# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""The engine's command line: vLLM's option and config-file rules."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from vllm import arguments

from tests.lab.harness import REPO


def parse(*argv: str) -> object:
    return arguments.parse(["/model", *argv])


@pytest.mark.parametrize(
    ("argv", "name", "value"),
    [
        (["--max-model-len", "128k"], "max_model_len", 128_000),
        (["--max-model-len", "128K"], "max_model_len", 131_072),
        (["--max-model-len", "auto"], "max_model_len", -1),
        (["--compilation_config", '{"cudagraph_mode": "NONE"}'], "compilation_config", {"cudagraph_mode": "NONE"}),
        (["--no-enable-prefix-caching"], "enable_prefix_caching", False),
        (["--enable-prefix-caching"], "enable_prefix_caching", True),
        (["--additional-config.one.two", "true"], "additional_config", {"one": {"two": True}}),
        (["--kv-transfer-config", "None"], "kv_transfer_config", None),
        (["-tp", "16"], "tensor_parallel_size", 16),
        (["--tensor-parallel-size=8"], "tensor_parallel_size", 8),
        (["--served-model-name", "a", "b"], "served_model_name", ["a", "b"]),
        (["--kv-cache-memory-bytes", "8388542464"], "kv_cache_memory_bytes", 8388542464),
    ],
)  # fmt: skip
def test_values(argv: list[str], name: str, value: object) -> None:
    assert getattr(parse(*argv), name) == value


@pytest.mark.parametrize(
    "argv",
    [
        ["--no-such-option", "1"],
        ["--tensor-parallel-size", "many"],
        ["--tensor-parallel-size"],
        ["--kv-transfer-config", "{'kv_role': 'kv_consumer'}"],
        ["--speculative-config", "[1]"],
        ["--max-model-len", "1.5K"],
        ["--safetensors-load-strategy", "quickly"],
        ["--enforce-eager", "true"],
    ],
)
def test_refused(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        parse(*argv)
    assert end.value.code == 2
    assert "vllm serve: error:" in capsys.readouterr().err


def config_file(folder: Path, content: object, name: str = "engine.yaml") -> str:
    path = folder / name
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return str(path)


def test_config_file_traps(tmp_path: Path) -> None:
    content = {
        "model": "/model", "port": 29180, "kv-transfer-config": {"kv_connector": "X", "kv_role": "kv_producer"},
        "enable-prefix-caching": False, "enforce-eager": True, "api-key": [], "quantization": None,
    }  # fmt: skip
    parsed = arguments.parse(["--config", config_file(tmp_path, content), "--port", "8000"])
    assert parsed.model == "/model"
    assert parsed.port == 8000, "the command line wins"
    assert parsed.kv_transfer_config == content["kv-transfer-config"]
    assert parsed.enable_prefix_caching is None, "false is dropped"
    assert parsed.api_key is None, "an empty list vanishes"
    assert parsed.quantization is None, "null becomes the text None, which an optional option takes for none"
    parsed = arguments.parse(["--config", config_file(tmp_path, {"model": "/m", "no-enable-prefix-caching": True})])
    assert parsed.enable_prefix_caching is False


@pytest.mark.parametrize("null", [{"model": "/m", "port": None}, {"model": "/m", "no-such": 1}])
def test_config_file_refused(tmp_path: Path, null: object) -> None:
    with pytest.raises(SystemExit):
        arguments.parse(["--config", config_file(tmp_path, null)])


def test_config_file_must_be_two_arguments_and_yaml(tmp_path: Path) -> None:
    path = config_file(tmp_path, {"model": "/m", "port": 1}, "engine.json")
    with pytest.raises(ValueError, match="must be of a yaml/yml type"):
        arguments.parse(["--config", path])
    unseen = arguments.parse(["/m", f"--config={config_file(tmp_path, {'port': 1})}"])
    assert unseen.port != 1, "--config=FILE is not read"
    with pytest.raises(ValueError, match="No model specified"):
        arguments.parse(["--config", config_file(tmp_path, {"port": 1234})])


def test_versions_have_their_own_options() -> None:
    lists = {}
    for version in ("0.22.1", "0.26.0"):
        data = json.loads(
            (REPO / "plugins/plugin_utils/data" / f"vllm-serve-{version}.json").read_text(encoding="utf-8")
        )
        lists[version] = {flag for option in data["options"] for flag in option.get("flags", [])}
    assert len(lists["0.22.1"]) < len(lists["0.26.0"])
    only_new = next(iter(sorted(lists["0.26.0"] - lists["0.22.1"])))
    assert only_new not in lists["0.22.1"]
