# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Model, parallel and KV transfer configuration, and what vLLM itself refuses about them."""

from __future__ import annotations

import json
import os
import uuid
from argparse import Namespace
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vllm import __version__
from vllm.logger import init_logger

logger = init_logger(__name__)

_ROLES = ("kv_producer", "kv_both", "kv_consumer", "kv_both")


@dataclass
class ModelConfig:
    """What a model folder says."""

    path: str
    text: dict[str, Any]  # the text part of config.json
    architecture: str
    max_model_len: int
    weight_bytes: int
    shards: list[str]

    @property
    def is_moe(self) -> bool:
        return any("expert" in key for key in self.text)

    @property
    def uses_mla(self) -> bool:
        return "kv_lora_rank" in self.text

    @classmethod
    def load(cls, path: str, wanted_length: int | None, quantization: str | None) -> ModelConfig:
        """Read a model folder; refuses what vLLM refuses (transformers_utils/config.py, config/model.py)."""
        folder = Path(path)
        if not (folder / "config.json").is_file():
            raise ValueError(
                f"Invalid repository ID or local directory specified: '{path}'.\n"
                "Please verify the following requirements:\n"
                "1. Provide a valid Hugging Face repository ID.\n"
                "2. Specify a local directory that contains a recognized configuration file."
            )
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        text = config.get("text_config", config)
        longest = text.get("max_position_embeddings", 0)
        length = wanted_length if wanted_length not in (None, -1) else longest
        if longest and length > longest and os.environ.get("VLLM_ALLOW_LONG_MAX_MODEL_LEN") != "1":
            raise ValueError(
                f"User-specified max_model_len ({length}) is greater than the derived max_model_len "
                f"(max_position_embeddings={float(longest)} or model_max_length=None in model's config.json). "
                "To allow overriding this maximum, set the env var VLLM_ALLOW_LONG_MAX_MODEL_LEN=1."
            )
        if quantization == "ascend" and not list(folder.glob("quant_model_*.json")):
            raise ValueError(
                f"Could not locate quant_model_description.json in {path}, which --quantization ascend needs."
            )
        shards, size = _weights(folder)
        names = config.get("architectures") or ["Unknown"]
        logger.info("Resolved architecture: %s", names[0])
        logger.info("Using max model len %d", length)
        return cls(path, text, names[0], int(length), size, shards)


def _weights(folder: Path) -> tuple[list[str], int]:
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        content = json.loads(index.read_text(encoding="utf-8"))
        shards = sorted(set(content.get("weight_map", {}).values()))
        size = int(content.get("metadata", {}).get("total_size", 0))
    else:
        shards = sorted(path.name for path in folder.glob("*.safetensors"))
        size = 0
    return shards, size or sum((folder / name).stat().st_size for name in shards if (folder / name).is_file())


@dataclass
class ParallelConfig:
    """Sizes and places of one engine process (vllm/config/parallel.py, vllm/engine/arg_utils.py)."""

    tensor: int
    pipeline: int
    prefill_context: int
    decode_context: int
    data: int
    data_local: int
    data_rank: int  # the first local data-parallel rank
    external: bool
    hybrid: bool
    data_address: str
    data_rpc_port: int
    nnodes: int
    node_rank: int
    master_addr: str
    master_port: int
    headless: bool
    expert: bool
    interleave: int

    @property
    def world(self) -> int:
        """Ranks of one data-parallel replica."""
        return self.tensor * self.pipeline * self.prefill_context

    @property
    def nnodes_within_dp(self) -> int:
        return 1 if self.nnodes == 1 else max(self.nnodes // max(self.data // self.data_local, 1), 1)

    @property
    def local_world(self) -> int:
        """Ranks of one replica on this node."""
        return self.world // self.nnodes_within_dp

    @property
    def first_rank(self) -> int:
        """First rank on this node within its replica."""
        return (self.node_rank % self.nnodes_within_dp) * self.local_world

    @property
    def chips(self) -> int:
        """Chips that this process drives."""
        return self.local_world * self.data_local

    def shape(self) -> dict[str, int | bool]:
        """What every process of one deployment must agree on."""
        return {
            "tensor_parallel_size": self.tensor,
            "pipeline_parallel_size": self.pipeline,
            "data_parallel_size": self.data,
            "prefill_context_parallel_size": self.prefill_context,
            "decode_context_parallel_size": self.decode_context,
            "enable_expert_parallel": self.expert,
            "nnodes": self.nnodes,
        }

    @classmethod
    def of(cls, arguments: Namespace, model: ModelConfig) -> ParallelConfig:
        a = arguments
        tensor, pipeline, data = a.tensor_parallel_size or 1, a.pipeline_parallel_size or 1, a.data_parallel_size or 1
        nnodes, node_rank = a.nnodes or 1, a.node_rank or 0
        rank, start, local, hybrid = a.data_parallel_rank, a.data_parallel_start_rank, a.data_parallel_size_local, False
        external = bool(a.data_parallel_external_lb) or rank is not None
        _one_mode(a, external)
        inferred = 0
        if nnodes > 1:
            total = data * pipeline * tensor
            assert total % nnodes == 0, f"world_size={total} must be divisible by nnodes={nnodes}."
            assert node_rank < nnodes, f"node_rank={node_rank} must be less than nnodes={nnodes}."
            inferred = node_rank * (total // nnodes) // (pipeline * tensor)
            if local is None and not external:
                local = max(total // nnodes // (pipeline * tensor), 1)
        if data > 1 and external and not model.is_moe and _version() >= (0, 26):
            raise ValueError(
                "Non-MoE models do not support external data parallel mode. For external load balancing, launch "
                "independent "
                "vLLM instances without --data-parallel-* arguments."
            )
        if external:
            assert rank is not None, (
                "data_parallel_rank or node_rank must be specified if data_parallel_external_lb is enable."
            )
            assert local in (1, None), "data_parallel_size_local must be 1 or None when data_parallel_rank is set"
            local = 1
        elif local is not None:
            hybrid = bool(a.data_parallel_hybrid_lb) or (bool(start) and not a.headless)
            if hybrid and local == 1:
                external, hybrid = True, False
            if local == data:
                hybrid = False
            rank = start or inferred
        else:
            local, rank = data, 0
        self = cls(
            tensor=tensor,
            pipeline=pipeline,
            prefill_context=a.prefill_context_parallel_size or 1,
            decode_context=a.decode_context_parallel_size or 1,
            data=data,
            data_local=local,
            data_rank=rank,
            external=external,
            hybrid=hybrid,
            data_address=a.data_parallel_address or a.master_addr or "127.0.0.1",
            data_rpc_port=a.data_parallel_rpc_port or 29550,
            nnodes=nnodes,
            node_rank=node_rank,
            master_addr=a.master_addr or "127.0.0.1",
            master_port=a.master_port or 29501,
            headless=bool(a.headless),
            expert=bool(a.enable_expert_parallel),
            interleave=a.cp_kv_cache_interleave_size or 1,
        )
        self._check()
        return self

    def _check(self) -> None:
        if self.data_local > self.data:
            raise ValueError(
                f"data_parallel_size_local ({self.data_local}) must be <= data_parallel_size ({self.data})"
            )
        if self.data <= 1 and self.external:
            raise ValueError("data_parallel_external_lb can only be set when data_parallel_size > 1")
        if not 0 <= self.data_rank < self.data:
            raise ValueError(f"data_parallel_rank ({self.data_rank}) must be in the range [0, {self.data})")
        pcp, dcp = self.prefill_context, self.decode_context
        if _version() >= (0, 26) and pcp > 1:
            if self.data > 1:
                raise ValueError("PCP does not support data parallelism yet.")
            if dcp not in (1, pcp, self.tensor * pcp):
                raise ValueError(
                    "When PCP is enabled, DCP must be disabled, span the PCP axis, or span the full TP x PCP axis. "
                    f"Got TP={self.tensor}, PCP={pcp}, DCP={dcp}."
                )
        elif self.tensor % dcp:
            raise ValueError(f"tp_size={self.tensor} must be divisible by dcp_size={dcp}.")
        if self.headless and self.hybrid:
            raise ValueError("data_parallel_hybrid_lb is not applicable in headless mode")


def _one_mode(arguments: Namespace, external: bool) -> None:
    """serve.py takes one way of load balancing, and no API servers where there is no API."""
    hybrid = bool(arguments.data_parallel_hybrid_lb) or arguments.data_parallel_start_rank is not None
    if arguments.headless and arguments.api_server_count:
        raise ValueError(
            f"--api-server-count={arguments.api_server_count} cannot be used with --headless "
            "(no API servers are started in headless mode)."
        )
    if external and hybrid:
        raise ValueError("Cannot use more than one data parallel load balancing mode.")


def _version() -> tuple[int, int]:
    major, minor = __version__.split(".")[:2]
    return int(major), int(minor)


@dataclass
class KVTransferConfig:
    """`--kv-transfer-config` (vllm/config/kv_transfer.py); unknown top-level keys are refused, as pydantic does."""

    kv_connector: str | None = None
    kv_role: str | None = None
    engine_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    kv_port: int = 14579
    kv_rank: int | None = None
    kv_parallel_size: int = 1
    kv_ip: str = "127.0.0.1"
    kv_buffer_device: str = "npu"
    kv_buffer_size: float = 1e9
    kv_connector_extra_config: dict[str, Any] = field(default_factory=dict)
    kv_connector_module_path: str | None = None
    enable_permute_local_kv: bool = False
    kv_load_failure_policy: str = "fail"

    def __post_init__(self) -> None:
        self.kv_port = int(self.kv_port)
        self.engine_id = str(self.engine_id)
        if self.kv_role is not None and self.kv_role not in _ROLES:
            raise ValueError(f"Unsupported kv_role: {self.kv_role}. Supported roles are {_ROLES}")
        if self.kv_connector is not None and self.kv_role is None:
            raise ValueError(f"Please specify kv_role when kv_connector is set, supported roles are {_ROLES}")
        if self.kv_load_failure_policy not in ("fail", "recompute"):
            raise ValueError("kv_load_failure_policy: Input should be 'recompute' or 'fail'")

    @property
    def is_producer(self) -> bool:
        return self.kv_connector is not None and self.kv_role in ("kv_producer", "kv_both")

    @property
    def is_consumer(self) -> bool:
        return self.kv_connector is not None and self.kv_role in ("kv_consumer", "kv_both")

    @property
    def extra(self) -> dict[str, Any]:
        return self.kv_connector_extra_config

    @classmethod
    def of(cls, given: dict[str, Any] | None) -> KVTransferConfig | None:
        if given is None:
            return None
        unknown = set(given) - set(cls.__dataclass_fields__)
        if unknown:
            raise ValueError(f"{sorted(unknown)[0]}: Unexpected keyword argument")
        return cls(**given)


@dataclass
class VllmConfig:
    """All that the stages after argument parsing look at."""

    arguments: Namespace = field(repr=False)  # what was given stands in the log already
    model: ModelConfig
    parallel: ParallelConfig
    kv_transfer: KVTransferConfig | None
    additional: dict[str, Any]
    block_size: int
    max_num_seqs: int
    max_num_batched_tokens: int
    gpu_memory_utilization: float
    speculative_tokens: int
    enforce_eager: bool
    served_names: list[str]

    @classmethod
    def of(cls, a: Namespace) -> VllmConfig:
        model = ModelConfig.load(a.model or "Qwen/Qwen3-0.6B", a.max_model_len, a.quantization)
        speculative = a.speculative_config or {}
        additional = a.additional_config or {}
        if not isinstance(additional, dict):
            raise ValueError("additional_config: Input should be a valid dictionary")
        if speculative and "num_speculative_tokens" not in speculative:
            raise ValueError(
                "num_speculative_tokens must be provided with speculative model unless the draft model config has it."
            )
        self = cls(
            arguments=a,
            model=model,
            parallel=ParallelConfig.of(a, model),
            kv_transfer=KVTransferConfig.of(a.kv_transfer_config),
            additional=additional,
            block_size=a.block_size or 128,
            max_num_seqs=a.max_num_seqs or 256,
            max_num_batched_tokens=a.max_num_batched_tokens or 8192,
            gpu_memory_utilization=a.gpu_memory_utilization or 0.9,
            speculative_tokens=int(speculative.get("num_speculative_tokens", 0)),
            enforce_eager=bool(a.enforce_eager),
            served_names=a.served_model_name or [model.path],
        )
        if not 0 < self.gpu_memory_utilization <= 1:
            raise ValueError("gpu_memory_utilization: Input should be greater than 0 and less than or equal to 1")
        if self.max_num_batched_tokens < model.max_model_len and a.enable_chunked_prefill is False:
            raise ValueError(
                f"max_num_batched_tokens ({self.max_num_batched_tokens}) is smaller than max_model_len "
                f"({model.max_model_len}). This effectively limits the maximum sequence length to "
                "max_num_batched_tokens "
                "and makes vLLM reject longer sequences. Please increase max_num_batched_tokens or decrease "
                "max_model_len."
            )
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise ValueError(
                f"max_num_batched_tokens ({self.max_num_batched_tokens}) must be greater than or equal to max_num_seqs "
                f"({self.max_num_seqs})."
            )
        return self
