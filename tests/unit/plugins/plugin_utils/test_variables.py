# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""The table of variables and what is written from it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.variables import VARIABLES, unknown_names

ROOT = Path(__file__).resolve().parents[4]


def test_documentation_is_up_to_date() -> None:
    run = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "variables_doc"), "--check"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr


def test_role_variables_exist_for_every_role() -> None:
    for kind in ("port", "kv_port", "parallel", "instances", "vllm_args", "env", "kv_transfer_config"):
        for role in ("prefill", "decode", "engine"):
            assert f"{role}_{kind}" in VARIABLES


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("pd_model_pth", "pd_model_path"),
        ("prefil_port", None),  # not under one of our prefixes: somebody else's
        ("prefill_ports", "prefill_port"),
        ("decode_args", "decode_vllm_args"),
        ("pd_zzzzzzzzzzz", None),
        ("proxy_environment", None),
    ],
)
def test_names_that_look_like_ours(name: str, near: str | None) -> None:
    ours = name.startswith(("pd_", "prefill_", "decode_"))
    assert unknown_names([name, "pd_model_path", "ansible_host"]) == ([(name, near)] if ours else [])
