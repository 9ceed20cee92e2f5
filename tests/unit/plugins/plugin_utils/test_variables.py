# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""The table of variables and what is written from it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.role_variables import role_variables
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.variables import (
    BUILT,
    ROLE_DEFAULTS,
    SHARED_PREFIXES,
    VARIABLES,
    Variable,
    unknown_names,
)
from ansible_collections.vllm_ascend.pd_serving.tests.unit.plugins.plugin_utils.clusters import aggregated, planned

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
        # the prefix itself is misspelt
        ("prefil_port", "prefill_port"),
        ("decod_vllm_args", "decode_vllm_args"),
        ("memcahe_dram_size", "memcache_dram_size"),
        ("PD_PROFILE", "pd_profile"),
        ("Proxy_port", "proxy_port"),
        ("PD_log_dir", "pd_log_dir"),
        ("pd-log_dir", "pd_log_dir"),
        ("pdlog_dir", "pd_log_dir"),
        ("pdLogDir", "pd_log_dir"),
        ("_pd_log_dir", "pd_log_dir"),
        ("dp_log_dir", "pd_log_dir"),
        ("decodePort", "decode_port"),
        # the prefix is missing
        ("vllm_args", "pd_vllm_args"),
        ("topk_buffer_size", "pd_topk_buffer_size"),
        ("dram_size_per_dp_GB", "pd_dram_size_per_dp_gb"),
        ("kv_transfer_config", "pd_kv_transfer_config"),
        ("kv_port", "prefill_kv_port or decode_kv_port"),
        ("dram_size", "memcache_dram_size"),
        ("memcache_dram", "memcache_dram_size"),
        ("tensor_parallel_size", "prefill_parallel or decode_parallel"),
        ("gpu-memory-utilization", "pd_vllm_args: {gpu_memory_utilization: ...}"),
        ("num_speculative_tokens", "pd_vllm_args: {speculative_config: {num_speculative_tokens: ...}}"),
        ("sparse_kv_offload_config", "decode_vllm_args: {additional_config: {sparse_kv_offload_config: ...}}"),
        # somebody else's
        ("env", None),
        ("port", None),
        ("nic", None),
        ("devices", None),
        ("parallel", None),
        ("seed", None),
        ("block_size", None),
        ("image_size", None),
        ("http_host", None),
        ("memcache_port", None),
        ("dp_model_path", None),  # beside pd_model_path
        ("dp_address", None),
        ("dp_master_port", None),
        ("model_path", None),
        ("model_name", None),
        ("log_dir", None),
        ("served_model_name", None),
        ("pod_devices", None),
        ("haproxy_port", None),
        ("sproxy_port", None),
        ("env_port", None),
        ("code_env", None),
        ("http_proxy", None),
        ("prefill_ports", "prefill_port"),
        ("decode_args", "decode_vllm_args"),
        ("pd_zzzzzzzzzzz", None),
        # under prefixes that others use too, only what is much like one of ours
        ("proxy_environment", None),
        ("proxy_host", None),
        ("memcached_port", None),
        ("proxy_prot", "proxy_port"),
        ("memcache_dram_szie", "memcache_dram_size"),
        ("memcache_dram_sizes", "memcache_dram_size"),
        ("engine_vllm_arg", "engine_vllm_args"),
        ("container_pip_indexurl", "container_pip_index_url"),
    ],
)
def test_names_that_look_like_ours(name: str, near: str | None) -> None:
    told = near or name.startswith(("pd_", "prefill_", "decode_"))
    assert unknown_names([name, "pd_model_path", "memcache_repo", "ansible_host"]) == ([(name, near)] if told else [])


def test_what_is_stated_under_our_name_is_a_name_of_the_users_without_a_prefix() -> None:
    assert unknown_names(["vllm_args", "pd_vllm_args"]) == []


def defaults(role: Path) -> set[str]:
    return set(yaml.safe_load((role / "defaults/main.yml").read_text()) or {})


def test_variables_of_roles_are_known() -> None:
    own = set.union(*(defaults(path) for path in (ROOT / "roles").iterdir() if (path / "defaults/main.yml").exists()))
    assert {name for name in own if name.startswith(SHARED_PREFIXES)} == set(ROLE_DEFAULTS)


def test_all_that_goes_into_an_image_must_be_alike_on_all_hosts() -> None:
    """All that the building roles are set up by, but for the way to the sources."""
    own = set.union(*(defaults(ROOT / "roles" / role) for role in ("vllm_build", "memfabric", "memcache")))
    assert {name for name in own if not name.endswith("_git_prefix")} == set(BUILT)


def test_what_roles_register_is_not_taken_for_a_typing_error() -> None:
    """hostvars hold it too."""
    text = "".join(path.read_text() for path in (ROOT / "roles").glob("**/*.yml"))
    names = set(re.findall(r"^\s*(?:register: )?(\w+)(?::.*)?$", text, re.MULTILINE))
    assert len(names) > 200
    assert [name for name in unknown_names(names) if not name[0].startswith(("pd_", "prefill_", "decode_"))] == []


# ---- bounds ----


def impossible() -> list[tuple[str, Any]]:
    """For every variable of a kind that has bounds what lies beyond them."""
    found: list[tuple[str, Any]] = []
    for variable in (*VARIABLES.values(), *role_variables().values()):
        if variable.type in ("int", "int_or_auto"):
            found += [(variable.name, number) for number in {-1, variable.least - 1}]
        elif variable.type == "path" and not variable.relative:
            found += [(variable.name, "relative/folder")]
        if variable.type in ("str", "path") and variable.default is not None and not variable.choices:
            found += [(variable.name, empty) for empty in ("", " ") if empty != variable.default]
    return [*found, ("pd_log_max_size", "0"), ("pd_log_max_size", "10x"), ("pd_log_max_size", "-1m")]


def told(name: str, value: Any) -> list[dict[str, Any]]:
    plan = aggregated if name.startswith("engine_") else planned
    return [one for one in plan(**{name: value})["findings"] if one["rule"] == "variable-type"]


@pytest.mark.parametrize(("name", "value"), impossible(), ids=str)
def test_what_a_variable_cannot_mean_is_told(name: str, value: Any) -> None:
    findings = told(name, value)
    assert [one["mend"] for one in findings] == [f"correct {name}"]
    assert findings[0]["found"].startswith(f"{name} is {value!r}: ")


@pytest.mark.parametrize(
    ("name", "value", "rule", "right"),
    [
        ("memfabric_method", "sorce", "variable-choice", "one of source, wheel, preinstalled"),
        ("container_git_ssl_verify", "nope", "variable-type", "true or false (default: true)"),
        ("container_keep_builds", "two", "variable-type", "a whole number"),
        ("vllm_build_extra_packages", "x", "variable-type", "a list"),
        ("container_pip_index_url", "mirror.example/simple", "variable-type", "such as http"),
    ],
)
def test_variables_of_roles_are_looked_at_before_their_role_begins(
    name: str, value: Any, rule: str, right: str
) -> None:
    findings = [one for one in planned(**{name: value})["findings"] if name in one["found"]]
    assert [(one["rule"], one["severity"]) for one in findings] == [(rule, "error")]
    assert findings[0]["right"].startswith(right)


def test_the_sweep_is_of_all_variables_of_a_kind() -> None:
    assert {"pd_log_dir", "pd_base_dir", "pd_image_size", "pd_log_max_files", "container_transfer_dir"} < {
        name for name, _value in impossible()
    }
    assert len(impossible()) > 60


@pytest.mark.parametrize("variable", [*VARIABLES.values(), *role_variables().values()], ids=lambda one: one.name)
def test_the_default_and_the_least_are_no_mistake(variable: Variable) -> None:
    values = [variable.default] if isinstance(variable.default, (int, str)) else []
    values += [variable.least] if variable.type == "int" else []
    values = [value for value in values if not str(value).startswith("(")]
    assert [told(variable.name, value) for value in values] == [[] for _value in values]


@pytest.mark.parametrize(
    "name",
    [name for name, one in VARIABLES.items() if one.type in ("str", "path") and one.default is None],
)
def test_an_empty_text_leaves_to_be_derived_what_is_derived(name: str) -> None:
    assert planned(**{name: ""}) == planned(**{name: None})
