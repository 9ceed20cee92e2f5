# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""What is sent to targets works, and says the same, under every Python found from 3.8 to 3.13."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils import _faces

DATA = Path(__file__).parents[2] / "data"
UTILS = Path(_faces.__file__).parent

# Imports every file of module_utils, then gives every sample to every parser: the result of each pair.
SCRIPT = """
import importlib, json, pathlib, sys
base = "ansible_collections.vllm_ascend.pd_serving.plugins.module_utils."
utils, data = map(pathlib.Path, sys.argv[1:])
for path in sorted(utils.glob("_*.py")):
    importlib.import_module(base + path.stem)
parsers = {
    name + "." + function: getattr(sys.modules[base + name], function)
    for name, functions in {
        "_npu_smi": ["parse_info", "parse_mapping", "parse_superpod"],
        "_hccn": ["parse_link", "parse_net_health", "parse_ip", "parse_vnic", "parse_tls", "parse_ping"],
        "_nics": ["parse_routes"],
        "_memory": ["parse_meminfo"],
        "_cpu": ["parse_cpuinfo"],
        "_system": ["parse_hosts", "parse_input_chain"],
        "_text": ["key_values", "parse_ranges", "mask_credentials"],
        "_run": ["last_line"],
    }.items()
    for function in functions
}
samples = {p.name: p.read_text() for folder in ("npu-smi", "hccn_tool") for p in sorted((data / folder).iterdir())}
samples["empty"] = ""
results = {parser + " " + name: parse(text) for parser, parse in parsers.items() for name, text in samples.items()}
merged = sys.modules[base + "_model"].merged_config
results.update({p.name: merged(json.loads(p.read_text())) for p in sorted((data / "models").iterdir())})
faces = sys.modules[base + "_faces"]
options = {"timeout_s": 20, "docker_socket": "/nonexistent", "peers": [{"address": "127.0.0.1", "ports": [1]}],
           "ping_hccs": [], "ping_roce": [], "pings_only": False, "paths": ["/etc/hosts"],
           "disk_paths": ["/"], "model_paths": []}
facts = faces.probe(faces.FACES, options)["facts"]
results["interfaces"] = [entry["name"] for entry in facts["nic"]["interfaces"]]
results["shape"] = {face: sorted(facts[face]) for face in faces.FACES}
results["failures"] = [r for f in ("npu", "nic", "hccn", "host") for r in facts[f]["reasons"] if "Error" in r]
json.dump(results, sys.stdout)
"""


def run(python: Path | str, collection_path: Path) -> dict[str, Any]:
    argv = [str(python), "-W", "error", "-c", SCRIPT, str(UTILS), str(DATA)]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(collection_path), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    results: dict[str, Any] = json.loads(done.stdout)
    return results


@pytest.fixture(scope="module")
def here(collection_path: Path) -> dict[str, Any]:
    return run(sys.executable, collection_path)


def test_some_target_python_is_here(interpreters: dict[int, Path]) -> None:
    assert interpreters, "no Python from 3.8 to 3.13 on PATH or kept by pyenv"


@pytest.mark.parametrize("minor", range(8, 14))
def test_same_results(minor: int, interpreters: dict[int, Path], collection_path: Path, here: dict[str, Any]) -> None:
    if minor not in interpreters:
        pytest.skip(f"no Python 3.{minor} here")
    there = run(interpreters[minor], collection_path)
    assert there["failures"] == []
    assert there == here


def test_only_the_standard_library_is_imported() -> None:
    own = "ansible_collections.vllm_ascend.pd_serving.plugins.module_utils"
    for path in sorted(UTILS.glob("_*.py")):
        for line in path.read_text().splitlines():
            words = line.split()
            if words[:1] in (["import"], ["from"]) and len(words) > 1 and not words[1].startswith((own, "._")):
                assert words[1].split(".")[0] in sys.stdlib_module_names, f"{path.name}: {line}"
