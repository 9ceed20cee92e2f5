# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""CPUs: count, model, features."""

from __future__ import annotations

from typing import Any

from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._tree import Tree


def parse_cpuinfo(text: str) -> dict[str, Any]:
    """`/proc/cpuinfo` of aarch64 (Features) and x86 (flags).

    sve and bf16 are instruction sets that the code built at the start of a sparse-KV-offload decode is compiled for
    (sparse_kv_offload_manager.py `_build_cpp`, -march=armv8.2-a+sve+fp16+bf16); None when no feature list is shown.
    """
    count = 0
    first: dict[str, str] = {}
    for line in text.splitlines():
        key, mark, value = line.partition(":")
        key = key.strip()
        if key == "processor" and mark:
            count += 1
        if mark and value.strip():
            first.setdefault(key, value.strip())
    features = sorted(set((first.get("Features") or first.get("flags") or "").split()))
    part = " ".join(
        f"{title} {first[key]}"
        for title, key in (("implementer", "CPU implementer"), ("part", "CPU part"))
        if key in first
    )
    return {
        "count": count or None,
        "model": first.get("model name") or first.get("Model name") or part or None,
        "features": features,
        "sve": "sve" in features if features else None,
        "bf16": "bf16" in features if features else None,
    }


def cpu(tree: Tree, reasons: list[str]) -> dict[str, Any]:
    text = tree.text("/proc/cpuinfo", reasons)
    found = parse_cpuinfo(text or "")
    if text is not None and not found["features"]:
        reasons.append("/proc/cpuinfo shows no features: SVE and bf16 are not known")
    return found
