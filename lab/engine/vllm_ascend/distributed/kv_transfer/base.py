# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""What a KV connector works with: the ranks of a replica, a request, and how failures are told apart."""

from __future__ import annotations

import os
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from vllm import lab_host
from vllm.config import KVTransferConfig, VllmConfig
from vllm.lab_host import Settings
from vllm.utils.network_utils import get_ip
from vllm.wire import Loop, Message

LOG_INTERVAL_SECONDS = 10.0  # sfa_pd_rd2h/worker.py:77 PD_READ_WAIT_LOG_INTERVAL_SECONDS


class EngineDeath(Exception):
    """An error inside a worker's forward or the scheduler: the engine process ends (cause says why)."""


class LoadFailed(Exception):
    """KV that did not arrive; with kv_load_failure_policy fail the request ends as an error."""


@dataclass(frozen=True)
class Rank:
    """One worker: its place in the replica and its chip."""

    index: int  # rank in the replica, (pp * pcp_size + pcp) * tp_size + tp
    tp: int
    pcp: int
    chip: int


@dataclass
class Request:
    """One prompt on its way through an engine."""

    id: str  # as the API and the proxies know it: cmpl-<id>-<n> or chatcmpl-<id>
    tokens: list[str]
    digest: str  # of the tokens; stands for the KV cache
    max_tokens: int
    params: dict[str, Any] | None = None  # kv_transfer_params


@dataclass
class Replica:
    """One data-parallel replica, as far as this process holds it."""

    config: VllmConfig
    settings: Settings
    loop: Loop
    dp_rank: int
    ranks: list[Rank]
    nodes: list[str] = field(default_factory=list)  # address of each node of the replica
    to_followers: Callable[[Message], Awaitable[None]] | None = None
    held: dict[str, Message] = field(default_factory=dict)  # KV kept for a peer, by request

    @property
    def data_rank(self) -> int:
        """Rank in port formulas: vLLM sets it in the engine process for MoE models only (v1/engine/core.py)."""
        return self.dp_rank if self.config.model.is_moe else 0

    @property
    def leads(self) -> bool:
        """Whether the scheduler of the replica runs here."""
        return any(rank.index == 0 for rank in self.ranks)

    def payload(self, request: Request) -> Message:
        """The stand-in for a request's KV cache, and what both sides must agree on.

        Without /etc/hccn.conf in the container the real system starts and answers wrong tokens (va issue 7711).
        """
        config = self.config
        return {
            "digest": request.digest if hccn_visible() else secrets.token_hex(8),
            "tokens": len(request.tokens),
            "block_size": config.block_size,
            "li_c8": bool(config.additional.get("enable_sparse_li_c8")),
            "hash_seed": os.environ.get("PYTHONHASHSEED"),
            "pooled": "AscendStoreConnector" in str(config.arguments.kv_transfer_config),
        }

    def accept(self, payload: Message, request: Request) -> str:
        """The digest that arrived; LoadFailed where the peers' layouts differ."""
        config = self.config
        if payload["block_size"] != config.block_size:
            raise LoadFailed(f"block size differs: P={payload['block_size']}, D={config.block_size}")
        if payload["li_c8"] != bool(config.additional.get("enable_sparse_li_c8")):
            raise LoadFailed("indexer cache layout differs: enable_sparse_li_c8 must be the same on P and D")
        if payload["tokens"] != len(request.tokens):
            raise LoadFailed(f"{payload['tokens']} tokens arrived, {len(request.tokens)} expected")
        seed = os.environ.get("PYTHONHASHSEED")
        if self.settings.strict_hash_seed and payload["pooled"] and (seed is None or seed != payload["hash_seed"]):
            raise LoadFailed(f"block hashes differ: PYTHONHASHSEED is {payload['hash_seed']} on P and {seed} on D")
        return str(payload["digest"]) if hccn_visible() else secrets.token_hex(8)


def hccn_visible() -> bool:
    path = lab_host.at("/etc/hccn.conf")
    return path.is_file() and path.stat().st_size > 0


class Connector:
    """Base of all connectors; each method is a stage of the real one."""

    def __init__(self, replica: Replica, transfer: KVTransferConfig) -> None:
        self.replica = replica
        self.transfer = transfer
        self.host = get_ip()

    def start(self) -> None:
        """Register KV caches: listeners come up."""

    async def load(self, request: Request) -> str | None:
        """Fetch a remote prompt's KV; its digest, or None where the prompt is to be computed here."""
        return None

    async def save(self, request: Request) -> dict[str, Any] | None:
        """Hand a computed prompt's KV on; what the response carries as kv_transfer_params."""
        return None

    async def push(self, message: Message) -> None:
        """What the ranks of a node without scheduler do when the replica's prefill is done."""
