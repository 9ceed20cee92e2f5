# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Small clusters for tests: inventories, facts, and short ways into a plan."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.planner import plan

DATA = Path(__file__).resolve().parents[2] / "data"
MODEL = "/data/models/DeepSeek-V3.2-W8A8"

Plan = dict[str, Any]


def facts_of(address: str, nic: str = "enp1s0f0", chips: int = 16, **paths: bool) -> dict[str, Any]:
    """What a healthy A3 host shows, as far as the planner reads it; ``paths``: path -> exists."""
    return {
        "nic": {"serving": {"name": nic, "address": address, "reason": "asked for"}},
        "npu": {
            "device_nodes": list(range(chips)),
            "npu_smi_path": "/usr/local/sbin/npu-smi",
            "chips": [{"phy_id": chip, "hbm_total_mib": 65536} for chip in range(chips)],
        },
        "host": {
            "memory": {"available_bytes": 1400 << 30},
            "paths": {path: {"exists": exists} for path, exists in paths.items()},
            "ephemeral_ports": [32768, 60999],
            "reserved_ports": [],
        },
        "model": {MODEL: {"config": MODEL_CONFIG, "shards": {"bytes": 690 << 30}}},
    }


#: DeepSeek-V3.2, as published.
MODEL_CONFIG: dict[str, Any] = {
    "num_hidden_layers": 61,
    "num_nextn_predict_layers": 1,
    "hidden_size": 7168,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "q_lora_rank": 1536,
    "v_head_dim": 128,
    "index_head_dim": 128,
    "index_topk": 2048,
    "n_routed_experts": 256,
    "moe_intermediate_size": 2048,
    "n_shared_experts": 1,
    "first_k_dense_replace": 3,
    "intermediate_size": 18432,
    "vocab_size": 129280,
}


def cluster(
    prefill: int = 1, decode: int = 1, hosts: Mapping[str, Mapping[str, Any]] | None = None, **variables: Any
) -> tuple[dict[str, dict[str, Any]], dict[str, list[str]]]:
    """Inventory and groups: hosts p1.., d1.. with addresses; ``hosts`` adds variables of single hosts."""
    names = [f"p{i + 1}" for i in range(prefill)] + [f"d{i + 1}" for i in range(decode)]
    inventory: dict[str, dict[str, Any]] = {}
    for number, name in enumerate(names):
        own = {"pd_address": f"10.0.1.{10 + number}", "pd_nic": "enp1s0f0", "pd_model_path": MODEL}
        inventory[name] = {**own, **variables, **((hosts or {}).get(name) or {})}
    groups = {"prefill": names[:prefill], "decode": names[prefill:], "proxy": names[:1]}
    return inventory, groups


def aggregated(hosts: int = 1, **variables: Any) -> Plan:
    """A plan without prefill and decode."""
    names = [f"e{i + 1}" for i in range(hosts)]
    inventory = {
        name: {
            "pd_profile": "aggregated",
            "pd_model_path": MODEL,
            "pd_address": f"10.0.1.{10 + number}",
            "pd_nic": "eth0",
            **variables,
        }
        for number, name in enumerate(names)
    }
    return plan(inventory, {"engine": names})


def planned(*args: Any, **kwargs: Any) -> Plan:
    """The plan of ``cluster(...)`` without facts."""
    return plan(*cluster(*args, **kwargs))


def engine(made: Plan, name: str) -> dict[str, Any]:
    return next(item for item in made["engines"] if item["name"] == name)


def service(made: Plan, name: str, host: str | None = None) -> dict[str, Any]:
    return next(item for item in made["services"] if item["name"] == name and host in (None, item["host"]))


def environment(made: Plan, name: str) -> dict[str, str]:
    """What the process of an engine finds."""
    own = engine(made, name)
    return {**service(made, own["service"], own["host"])["env"], **own["env"]}


def rules(made: Plan, severity: str = "error") -> list[str]:
    return [finding["rule"] for finding in made["findings"] if finding["severity"] == severity]


def found(made: Plan, rule: str) -> dict[str, Any]:
    """The one finding of a rule."""
    findings = [finding for finding in made["findings"] if finding["rule"] == rule]
    assert len(findings) == 1, json.dumps(made["findings"], indent=1)
    return dict(findings[0])
