# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Sizing runs on targets: the same numbers under every Python found from 3.8 to 3.13."""

from __future__ import annotations

import json
import subprocess
from dataclasses import asdict
from pathlib import Path

import pytest
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils import _sizing

MODEL = Path(__file__).parents[2] / "data" / "models" / "GLM-5.2-W8A8.json"
SETTINGS = {"sparse_kv_offload": True, "max_model_len": 131072, "max_num_seqs": 4, "num_speculative_tokens": 3}
SCRIPT = """
import json, sys
sys.path.insert(0, sys.argv[1])
from module_utils._sizing import size
from module_utils._sizing_input import SizingInput
config = json.load(open(sys.argv[2]))
print(json.dumps(size(SizingInput.from_model(config, **json.loads(sys.argv[3]))).as_dict()))
"""


@pytest.mark.parametrize("minor", range(8, 14))
def test_same_numbers(minor: int, interpreters: dict[int, Path]) -> None:
    if minor not in interpreters:
        pytest.skip(f"no Python 3.{minor} here")
    expected = _sizing.size(_sizing.SizingInput.from_model(json.loads(MODEL.read_text()), **SETTINGS))
    arguments = [str(Path(_sizing.__file__).parents[1]), str(MODEL), json.dumps(SETTINGS)]
    done = subprocess.run([interpreters[minor], "-c", SCRIPT, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == json.loads(json.dumps(asdict(expected)))
