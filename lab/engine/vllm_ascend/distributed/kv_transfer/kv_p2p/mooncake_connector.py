# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""MooncakeConnectorV1: prefill keeps a prompt's KV, decode fetches it from the ports it was told.

Ports and checks of vllm_ascend/distributed/kv_transfer/kv_p2p/mooncake_connector.py, release 0.26.0rc1: :1700-1707,
:2053-2133, :2153-2172; the answer of prefill :1987-2005; decode's read :1415-1430 and :759-763.
"""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Any

from vllm import wire
from vllm.config import KVTransferConfig
from vllm.logger import init_logger
from vllm.wire import Message

from vllm_ascend.distributed.kv_transfer.base import Connector, LoadFailed, Replica, Request
from vllm_ascend.distributed.kv_transfer.kv_p2p import mooncake_common

logger = init_logger("vllm_ascend.mooncake_connector")


class MooncakeConnector(Connector):
    def __init__(self, replica: Replica, transfer: KVTransferConfig) -> None:
        super().__init__(replica, transfer)
        logger.info("Initializing Mooncake Scheduler %s", transfer.engine_id)
        prefill, decode = mooncake_common.side_sizes(transfer)
        if prefill < decode:
            raise ValueError(
                f"prefill_tp_size: {prefill} must be greater than or equal to the decode_tp_size: {decode}"
            )
        parallel = replica.config.parallel
        assert not (parallel.pipeline > 1 and parallel.prefill_context > 1), "pp and pcp cannot open in same time"
        mooncake_common.check_library()
        self.engine_id = transfer.engine_id
        if parallel.data > 1:
            self.engine_id += f"_dp{replica.dp_rank}"
        self.port = transfer.kv_port + replica.data_rank * parallel.world
        self.engines: dict[int, socket.socket] = {
            rank.index: mooncake_common.transfer_engine(replica, self.host, rank, self.port + rank.index)
            for rank in replica.ranks
        }

    def start(self) -> None:
        loop = self.replica.loop
        for rank in self.replica.ranks:
            engine = self.engines[rank.index]
            control = wire.bind(self.host, self.port + rank.index)
            logger.info("Starting listening on path: tcp://%s:%d", self.host, self.port + rank.index)
            loop.spawn(wire.serve(engine, self._read))
            loop.spawn(wire.serve(control, self._control(engine.getsockname()[1])))

    def _control(self, engine_port: int) -> wire.Handler:
        async def answer(message: Message) -> Message:
            if message.get("type") == "get_meta":
                return {"engine_id": self.engine_id, "te_rpc_port": engine_port}
            if message.get("type") == "done_recving":
                kept = self.replica.held.get(message["request"])
                if kept is not None:
                    kept["pulls"] -= 1
                    if kept["pulls"] <= 0:
                        self.replica.held.pop(message["request"], None)
                return {"type": "ack"}
            return {"error": "unknown message"}

        return answer

    async def _read(self, message: Message) -> Message:
        return self.replica.held.get(message.get("request", ""), {"error": "unknown"})

    # -- prefill ---------------------------------------------------------------------------------------------------

    async def save(self, request: Request) -> dict[str, Any] | None:
        if not self.transfer.is_producer or not (request.params or {}).get("do_remote_decode"):
            return None
        parallel = self.replica.config.parallel
        kept = {**self.replica.payload(request), "pulls": len(self.replica.ranks)}
        self.replica.held[request.id] = kept
        if self.replica.to_followers is not None:
            await self.replica.to_followers({"type": "hold", "request": request.id, "payload": kept})
        # decode that never comes: freed after a while, and the late read then fails
        limit = float(os.environ.get("VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT", "480"))
        asyncio.get_running_loop().call_later(limit, self.replica.held.pop, request.id, None)
        blocks = -(-len(request.tokens) // self.replica.config.block_size)
        logger.info("Delaying free of %d blocks for request %s", blocks, request.id)
        per_node = parallel.world // max(len(self.replica.nodes), 1)
        return {
            "do_remote_prefill": True, "do_remote_decode": False, "remote_block_ids": [list(range(1, blocks + 1))],
            "remote_engine_id": self.engine_id, "remote_request_id": request.id, "remote_host": self.host,
            "remote_port": self.port, "remote_pcp_size": parallel.prefill_context,
            "remote_dcp_size": parallel.decode_context, "remote_ptp_size": parallel.tensor,
            "remote_multi_nodes_meta_mapping": {
                str(index): {"host": self.replica.nodes[index // per_node], "handshake_port": self.port + index}
                for index in range(parallel.world) if self.replica.nodes
            },
            "num_prompt_blocks": blocks,
        }  # fmt: skip

    # -- decode ----------------------------------------------------------------------------------------------------

    async def load(self, request: Request) -> str | None:
        params = request.params or {}
        if not self.transfer.is_consumer or not params.get("do_remote_prefill"):
            return None
        needed = ("remote_engine_id", "remote_host", "remote_port", "remote_request_id")
        if not params.get("remote_block_ids") or not all(key in params for key in needed):
            logger.warning("Got invalid KVTransferParams. params=%s. ", params)
            return None
        tensor = self.replica.config.parallel.tensor
        prefill = int(params["remote_ptp_size"])
        ranks = prefill * int(params["remote_pcp_size"])
        spread = int(params["remote_pcp_size"]) * int(params["remote_dcp_size"]) > 1
        # with context parallelism every prefill rank holds a part; else MLA's replicas are read once per decode rank
        sources = list(range(ranks)) if spread else [rank * (prefill // tensor) for rank in range(tensor)]
        digests = await asyncio.gather(*(self._pull(request, params, index) for index in sources))
        rest = set(range(ranks)) - set(sources)
        await asyncio.gather(*(self._done(params, index) for index in rest))
        return digests[0]

    def _peer(self, params: dict[str, Any], index: int) -> tuple[str, int]:
        entry = (params.get("remote_multi_nodes_meta_mapping") or {}).get(str(index))
        return (entry["host"] if entry else params["remote_host"]), int(params["remote_port"]) + index

    async def _pull(self, request: Request, params: dict[str, Any], index: int) -> str:
        host, port = self._peer(params, index)
        try:
            meta = await wire.ask(host, port, {"type": "get_meta"})
            assert meta["engine_id"] != self.engine_id, (
                f"Conflict engine id {meta['engine_id']} with local engine id {self.engine_id}."
            )
            payload = await wire.ask(host, int(meta["te_rpc_port"]), {"request": params["remote_request_id"]})
            if "digest" not in payload:
                raise LoadFailed("Mooncake transfer failed, ret: -1")
            digest = self.replica.accept(payload, request)
        except (OSError, TimeoutError, AssertionError, KeyError) as error:
            logger.error("Failed to transfer KV cache for request %s from %s:%d: %s", request.id, host, port, error)
            raise LoadFailed(str(error)) from error
        await self._done(params, index)
        return digest

    async def _done(self, params: dict[str, Any], index: int) -> None:
        host, port = self._peer(params, index)
        try:
            await wire.ask(host, port, {"type": "done_recving", "request": params["remote_request_id"]})
        except (OSError, TimeoutError) as error:
            logger.error("Failed to send done recving signal to %s:%d: %s", host, port, error)
