#!/usr/bin/python
# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
from __future__ import annotations

DOCUMENTATION = r"""
module: model_info
short_description: What a model folder holds
version_added: 0.1.0
description:
  - Reads a model's configuration, index, quantisation description and tokenizer files, and whether every weight file
    is there.
  - Of the weights only headers are read, and nothing in the folder is changed.
extends_documentation_fragment:
  - vllm_ascend.pd_serving.attributes.info_module
  - vllm_ascend.pd_serving.probe
  - vllm_ascend.pd_serving.probe.model
seealso:
  - module: vllm_ascend.pd_serving.host_probe
    description: All faces of a host in one call.
author:
  - vllm_ascend.pd_serving contributors (@vllm-ascend-pd)
"""

EXAMPLES = r"""
- name: Look at the model
  vllm_ascend.pd_serving.model_info:
    model_paths: [/data/models/DeepSeek-V3.2-W8A8]
  register: result

- name: Show weight files that are missing
  ansible.builtin.debug:
    msg: "{{ result.model['/data/models/DeepSeek-V3.2-W8A8'].shards.missing }}"
"""

RETURN = r"""
model:
  description:
    - By path as given in O(model_paths), what the folder holds. Whatever could not be read is V(null) or empty.
  returned: always
  type: dict
  contains:
    exists:
      description: Whether the folder exists and can be read.
      type: bool
    config:
      description:
        - The fields of C(config.json) that matter for sizing, under their own names. Where the file has a nested part
          for the language model (C(text_config) and the like), that part's value is taken.
      type: dict
    architectures:
      description: Architectures.
      type: list
      elements: str
    torch_dtype:
      description: Data type, such as V(bfloat16).
      type: str
    quantization:
      description:
        - V(null) when there is no sign of quantisation. Otherwise C(files) (list, the descriptions found), C(method)
          (str, from C(config.json)), C(settings) (dict, such as C(model_quant_type)) and C(tensors) (dict, number of
          tensors by kind of quantisation).
      type: dict
    tokenizer:
      description: Files of the tokenizer that exist.
      type: list
      elements: str
    indexes:
      description: Names of the indexes (C(*.safetensors.index.json)) that exist.
      type: list
      elements: str
    shards:
      description: Weight files that the index names, or all there are where no index is.
      type: dict
      contains:
        count:
          description: Number of files that there should be.
          type: int
        sizes:
          description: By name of each that is there, its size in bytes (int).
          type: dict
        missing:
          description: Names of those that are not there.
          type: list
          elements: str
        bytes:
          description: Size in bytes of those that are there; the weights.
          type: int
        declared_bytes:
          description: Size in bytes of all tensors as the index declares it, V(null) when it does not.
          type: int
        lfs_pointers:
          description: Names of files that are Git LFS pointers in place of weights.
          type: list
          elements: str
        short:
          description:
            - Safetensors files that end before their data does, with C(name) (str), C(size_bytes) (int) and
              C(expected_bytes) (int).
          type: list
          elements: dict
        unreadable:
          description:
            - Safetensors files that cannot be read or have no header, such as one of zeros alone, with C(name) (str),
              C(size_bytes) (int) and C(reason) (str).
          type: list
          elements: dict
    total_bytes:
      description: Size in bytes of all files directly in the folder.
      type: int
    digests:
      description: By name, the SHA-256 (str) of configuration, index, quantisation description and tokenizer files.
      type: dict
    digest:
      description:
        - SHA-256 over RV(model.digests) and over name and size of the weight files. Equal digests on two hosts mean
          the same model, as far as can be told without reading the weights. V(null) when a file cannot be read.
      type: str
    reasons:
      description: What could not be read or is missing.
      type: list
      elements: str
  sample:
    /data/models/DeepSeek-V3.2-W8A8:
      exists: true
      config: {model_type: deepseek_v32, num_hidden_layers: 61, kv_lora_rank: 512, qk_rope_head_dim: 64}
      architectures: [DeepseekV32ForCausalLM]
      torch_dtype: bfloat16
      quantization:
        files: [quant_model_description.json]
        method: null
        settings: {model_quant_type: W8A8_DYNAMIC}
        tensors: {W8A8_DYNAMIC: 91991}
      tokenizer: [tokenizer.json, tokenizer_config.json]
      indexes: [model.safetensors.index.json]
      shards:
        count: 2
        sizes: {model-00001-of-00002.safetensors: 5368709120, model-00002-of-00002.safetensors: 4294967296}
        missing: []
        bytes: 9663676416
        declared_bytes: 9663676000
      reasons: []
timing:
  description: Where the time went, in seconds. See RV(vllm_ascend.pd_serving.host_probe#module:timing).
  returned: always
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._faces import COMMON_OPTIONS, MODEL_OPTIONS, probe


def main() -> None:
    module = AnsibleModule(argument_spec={**COMMON_OPTIONS, **MODEL_OPTIONS}, supports_check_mode=True)
    result = probe(["model"], module.params)
    module.exit_json(changed=False, model=result["facts"]["model"], timing=result["timing"])


if __name__ == "__main__":
    main()
