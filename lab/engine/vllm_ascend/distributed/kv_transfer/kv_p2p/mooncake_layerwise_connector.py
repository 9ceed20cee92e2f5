# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""MooncakeLayerwiseConnector: prefill pushes a prompt's KV into decode, layer by layer.

Ports and checks of vllm_ascend/distributed/kv_transfer/kv_p2p/mooncake_layerwise_connector.py, release 0.26.0rc1:
:862-873, :1013-1030, :1146-1160, :1223-1233, :2038-2086. The port formulas leave pipeline parallelism out, as there.
"""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass, field
from typing import Any

from vllm import wire
from vllm.config import KVTransferConfig
from vllm.logger import init_logger
from vllm.wire import Message

from vllm_ascend.distributed.kv_transfer.base import Connector, EngineDeath, LoadFailed, Rank, Replica, Request
from vllm_ascend.distributed.kv_transfer.kv_p2p import mooncake_common
from vllm_ascend.distributed.kv_transfer.kv_p2p.metaserver import announce

logger = init_logger("vllm_ascend.mooncake_layerwise_connector")


@dataclass
class _Incoming:
    """A request on decode and the ranks of prefill that have finished writing, per decode rank."""

    request: Request
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    payloads: list[Message] = field(default_factory=list)
    done: dict[int, set[int]] = field(default_factory=dict)


class MooncakeLayerwiseConnector(Connector):
    def __init__(self, replica: Replica, transfer: KVTransferConfig) -> None:
        super().__init__(replica, transfer)
        logger.info("Initializing Mooncake Scheduler %s", transfer.engine_id)
        parallel = replica.config.parallel
        if transfer.is_consumer:
            assert parallel.prefill_context == 1, "Prefill context parallel is not support on decoder nodes"
        mooncake_common.check_library()
        self.tensor = parallel.tensor
        self.advertised = transfer.kv_port + replica.data_rank * self.tensor
        self.ports = {
            rank.index: transfer.kv_port
            + replica.data_rank * parallel.prefill_context * self.tensor
            + rank.pcp * self.tensor
            + rank.tp
            for rank in replica.ranks
        }
        self.engines: dict[int, socket.socket] = {
            rank.index: mooncake_common.transfer_engine(replica, self.host, rank, self.ports[rank.index])
            for rank in replica.ranks
        }
        self.incoming: dict[str, _Incoming] = {}

    def start(self) -> None:
        loop = self.replica.loop
        for rank in self.replica.ranks:
            engine = self.engines[rank.index]
            loop.spawn(wire.serve(engine, self._write))
            if self.transfer.is_consumer:  # only the receiving side listens on its control ports
                control = wire.bind(self.host, self.ports[rank.index])
                logger.info("Starting listening on path: tcp://%s:%d", self.host, self.ports[rank.index])
                loop.spawn(wire.serve(control, self._control(rank, engine.getsockname()[1])))

    # -- decode ----------------------------------------------------------------------------------------------------

    def _control(self, rank: Rank, engine_port: int) -> wire.Handler:
        async def answer(message: Message) -> Message:
            if message.get("type") == "get_meta":
                return {"te_rpc_port": engine_port, "block_size": self.replica.config.block_size}
            incoming = self.incoming.get(message.get("request", ""))
            if message.get("type") == "done_sending" and incoming is not None:
                incoming.done.setdefault(rank.tp, set()).add(message["rank"])
                sides = incoming.done.values()
                if len(sides) == self.tensor and all(len(side) >= message["expected"] for side in sides):
                    incoming.arrived.set()
            return {"type": "ack"}

        return answer

    async def _write(self, message: Message) -> Message:
        """KV written into this side's memory."""
        incoming = self.incoming.get(message.get("request", ""))
        if incoming is None:
            return {"ret": -1}
        incoming.payloads.append(message["payload"])
        return {"ret": 0}

    async def load(self, request: Request) -> str | None:
        params = request.params or {}
        if not self.transfer.is_consumer or not params.get("do_remote_prefill"):
            return None
        incoming = self.incoming.setdefault(request.id, _Incoming(request))
        parallel = self.replica.config.parallel
        blocks = -(-len(request.tokens) // self.replica.config.block_size)
        logger.info("Send request: %s to proxy metaserver: %s", request.id, params.get("metaserver"))
        message = {
            "token_ids": [], "request_id": request.id, "do_remote_prefill": False, "do_remote_decode": True,
            "remote_block_ids": [list(range(1, blocks + 1))], "remote_block_size": [self.replica.config.block_size],
            "remote_engine_id": self.transfer.engine_id, "remote_host": self.host, "remote_port": self.advertised,
            "remote_tp_size": parallel.tensor, "remote_pcp_size": parallel.prefill_context,
            "remote_dcp_size": parallel.decode_context, "remote_cached_tokens": 0,
        }  # fmt: skip
        telling = asyncio.ensure_future(announce(str(params.get("metaserver")), message, retry_forever=False))
        try:
            await incoming.arrived.wait()
        finally:
            telling.cancel()
            self.incoming.pop(request.id, None)
        digests = {self.replica.accept(payload, request) for payload in incoming.payloads}
        if not digests:
            raise LoadFailed("nothing was written")
        return digests.pop()

    # -- prefill ---------------------------------------------------------------------------------------------------

    async def save(self, request: Request) -> dict[str, Any] | None:
        params = request.params or {}
        if not self.transfer.is_producer or not params.get("do_remote_decode"):
            return None
        decode = int(params["remote_tp_size"])
        if self.tensor < decode or self.tensor % decode:
            raise EngineDeath(
                AssertionError(f"prefill tp size ({self.tensor}) must be divisible by decode tp size ({decode})")
            )
        message = {
            "type": "push",
            "key": params["request_id"],
            "params": params,
            "payload": self.replica.payload(request),
        }
        if self.replica.to_followers is not None:
            await self.replica.to_followers(message)
        await self.push(message)
        return None

    async def push(self, message: Message) -> None:
        """Every rank here writes its part into its decode rank and says so."""
        await asyncio.gather(*(self._push(rank, message) for rank in self.replica.ranks))

    async def _push(self, rank: Rank, message: Message) -> None:
        params, key, payload = message["params"], message["key"], message["payload"]
        ratio = self.tensor // int(params["remote_tp_size"])
        target = rank.tp // ratio
        host, port = params["remote_host"], int(params["remote_port"]) + target
        assert params["remote_engine_id"] != self.transfer.engine_id, (
            f"Conflict engine id {params['remote_engine_id']} with local engine id {self.transfer.engine_id}."
        )
        try:
            meta = await wire.ask(host, port, {"type": "get_meta"})
            written = await wire.ask(host, int(meta["te_rpc_port"]), {"request": key, "payload": payload})
            if written.get("ret") != 0:
                raise ConnectionError("Mooncake transfer failed, ret: -1")
            expected = ratio * self.replica.config.parallel.prefill_context
            done = {"type": "done_sending", "request": key, "rank": rank.index, "expected": expected}
            await wire.ask(host, port, done)
        except (OSError, TimeoutError, KeyError) as error:
            logger.error("Query to port and kv base addr for request fail. req_id=%s, source=%s:%s, error=%s. ",
                         key, host, port, error)  # fmt: skip
