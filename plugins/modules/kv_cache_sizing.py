#!/usr/bin/python
# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
from __future__ import annotations

DOCUMENTATION = r"""
module: kv_cache_sizing
short_description: Compute the memory that a vLLM-Ascend instance needs on chips and host
version_added: 0.1.0
description:
  - Computes, from the model's C(config.json) and how it is served, the KV cache in HBM, the host pool and the top-k
    buffers of sparse KV offload, the MemCache pool, whether vllm-ascend's start-up gate will pass, and recommends
    values.
  - Only computes. It reads one file where O(model_path) is given and changes nothing.
  - Sizes are bytes, or GiB (2**30 bytes) where the name says so. What vllm-ascend calls C(dram_size_per_dp_GB) is GiB
    as well.
author:
  - vllm_ascend.pd_serving contributors (@vllm-ascend-pd-serving)
attributes:
  check_mode:
    support: full
    description: Changes nothing in any mode.
  diff_mode:
    support: none
    description: Changes nothing.
options:
  model_path:
    description: Model folder on the target; its C(config.json) is read.
    type: path
  model_config:
    description: Content of C(config.json), instead of O(model_path).
    type: dict
  settings:
    description:
      - How the model is served and on what, by the field names of C(SizingInput) in
        C(plugins/module_utils/_sizing_input.py), such as C(tensor_parallel_size), C(max_model_len), C(max_num_seqs),
        C(num_speculative_tokens), C(sparse_kv_offload), C(dram_size_per_dp_gib), C(hbm_bytes), C(weight_bytes),
        C(host_available_bytes) and C(gate).
      - A value of V(auto) takes the recommendation.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Size decode of guide 1
  vllm_ascend.pd_serving.kv_cache_sizing:
    model_path: /data/models/DeepSeek-V3.2-W8A8
    settings:
      tensor_parallel_size: 16
      max_model_len: 132096
      max_num_seqs: 4
      max_num_batched_tokens: 120
      num_speculative_tokens: 3
      sparse_kv_offload: true
  register: sizing

- name: Show what to set
  ansible.builtin.debug:
    var: sizing.sizing.recommended
"""

RETURN = r"""
sizing:
  description: All computed numbers.
  returned: success
  type: dict
  contains:
    host_need_bytes:
      description: Host pool bytes of one data-parallel rank for every request at full length.
      type: int
      returned: always
      sample: 37748441088
    device_need_bytes:
      description: KV bytes on each chip for the same.
      type: int
      returned: always
      sample: 8388542464
    host_device_ratio:
      description: Host bytes for each device byte of KV; null without offload.
      type: float
      returned: always
      sample: 4.5
    hot_buffer_bytes:
      description: Top-k hot buffers on each chip.
      type: int
      returned: always
      sample: 4680843264
    bounds:
      description: Bounds on C(dram_size_per_dp_GB).
      type: dict
      returned: always
      sample: {capacity_gib: 36, gate_gib: 36, gate_exact_gib: 36, host_limit_gib: 1368}
    recommended:
      description: Values that V(auto) takes.
      type: dict
      returned: always
      sample: {topk_buffer_size: 4096, dram_size_per_dp_GB: 36, kv_cache_memory_bytes: 8388542464}
    notes:
      description: What does not apply to this model, and why.
      type: list
      elements: str
      returned: always
"""

import json
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._sizing import size
from ..module_utils._sizing_input import SizingInput


def read_config(module: AnsibleModule) -> dict[str, Any]:
    """The model's config, given or read; fails the module with a reason."""
    if module.params["model_config"] is not None:
        given: dict[str, Any] = module.params["model_config"]
        return given
    path = Path(module.params["model_path"]) / "config.json"
    try:
        config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        module.fail_json(msg=f"cannot read the model's config {path}: {error}")
    if not isinstance(config, dict):
        module.fail_json(msg=f"{path} does not hold a JSON object")
    return config


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "model_path": {"type": "path"},
            "model_config": {"type": "dict"},
            "settings": {"type": "dict", "default": {}},
        },
        required_one_of=[("model_path", "model_config")],
        mutually_exclusive=[("model_path", "model_config")],
        supports_check_mode=True,
    )
    config = read_config(module)
    try:
        sizing = size(SizingInput.from_model(config, **module.params["settings"]))
    except (TypeError, ValueError) as error:
        module.fail_json(msg=f"cannot size this: {error}")
    module.exit_json(changed=False, sizing=sizing.as_dict())


if __name__ == "__main__":
    main()
