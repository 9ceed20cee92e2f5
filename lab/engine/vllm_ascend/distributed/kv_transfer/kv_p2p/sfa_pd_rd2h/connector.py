# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""SfaRemoteD2HConnector: decode pulls a prompt's KV from prefill through MemFabric, announced over its control ports.

Ports, checks and failures of vllm_ascend/distributed/kv_transfer/kv_p2p/sfa_pd_rd2h (release 0.26.0rc1): scheduler.py
:240-256 and :340-372, worker.py:82-95, :116-125 and :549-569, connector.py:79-86.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
from dataclasses import dataclass, field
from typing import Any

from vllm import wire
from vllm.config import KVTransferConfig
from vllm.logger import init_logger
from vllm.wire import Message

from vllm_ascend.ascend_config import sparse_kv_offload
from vllm_ascend.distributed.kv_transfer.base import (
    LOG_INTERVAL_SECONDS,
    Connector,
    EngineDeath,
    LoadFailed,
    Rank,
    Replica,
    Request,
)
from vllm_ascend.distributed.kv_transfer.kv_p2p.metaserver import announce
from vllm_ascend.distributed.kv_transfer.kv_p2p.sfa_pd_rd2h.protocol import BATCH_KV_TRANSFER_PARAMS
from vllm_ascend.worker import libraries

logger = init_logger("vllm_ascend.sfa_pd_rd2h")


@dataclass
class _Destination:
    """A request on decode that waits for its KV, and which prefill ranks delivered to which decode rank."""

    request: Request
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    members: dict[int, set[int]] = field(default_factory=dict)
    digests: set[str] = field(default_factory=set)
    error: str = ""


class SfaRemoteD2HConnector(Connector):
    def __init__(self, replica: Replica, transfer: KVTransferConfig) -> None:
        super().__init__(replica, transfer)
        offload = sparse_kv_offload(replica.config) is not None
        if transfer.is_producer:
            assert not offload, (
                "SfaRemoteD2HConnector producer (P) must run with sparse_kv_offload_config.enabled=false."
            )
        if transfer.is_consumer:
            assert offload, "SfaRemoteD2HConnector consumer (D) must run with sparse_kv_offload_config.enabled=true."
        backend = transfer.extra.get("transfer_backend")
        if backend is None:
            raise ValueError(
                'SfaRemoteD2HConnector requires kv_connector_extra_config["transfer_backend"] to be set '
                '(currently only "memfabric" is supported).'
            )
        side = "P" if transfer.is_producer else "D"
        if backend != "memfabric":
            raise RuntimeError(
                f"SfaRemoteD2HConnector {side} side supports MemFabric pull only (set transfer_backend=memfabric)."
            )
        self.tensor = replica.config.parallel.tensor
        self.port = transfer.kv_port + replica.data_rank * self.tensor
        if transfer.is_consumer and not 1 <= self.port + self.tensor - 1 <= 65535:
            raise ValueError(
                f"SFAPD D-side highest TP control-plane port must be in [1, 65535], got {self.port + self.tensor - 1}"
            )
        libraries.check_memfabric()
        self.sessions = {rank.index: self._transfer_engine(rank) for rank in replica.ranks}
        self.waiting: dict[str, _Destination] = {}

    def _transfer_engine(self, rank: Rank) -> socket.socket:
        """A worker's MemFabric engine: the first free port of its range, on an address that the peer can reach."""
        start, end = _range_end("START", 9000), _range_end("END", 65535)
        if _is_address(self.host):
            for port in range(start, end + 1):
                try:
                    listener = wire.bind(self.host, port)
                except OSError as error:
                    if error.errno == 98:  # taken: the next one
                        continue
                    break
                role = "Prefill" if self.transfer.is_producer else "Decode"
                logger.info(
                    "MemFabric TransferEngine initialize: store_url=tcp://%s, unique_id=%s:%d, role=%s, device_id=%d",
                    self.host,
                    self.host,
                    port,
                    role,
                    rank.chip,
                )
                return listener
        raise RuntimeError(
            f"MemFabric TransferEngine initialization failed with ret_value=-1; hostname={self.host!r} must be a "
            "numeric "
            "IPv4 address reachable by the peer"
        )

    def start(self) -> None:
        loop = self.replica.loop
        for listener in self.sessions.values():
            loop.spawn(wire.serve(listener, self._read))
        if not self.transfer.is_consumer:
            return
        for rank in self.replica.ranks:
            logger.info("MembPull read thread listening on: tcp://%s:%d", self.host, self.port + rank.tp)
            try:
                listener = wire.bind(self.host, self.port + rank.tp)
            except OSError as error:
                raise RuntimeError("SFAPD D-side read thread failed during startup") from error
            loop.spawn(wire.serve(listener, self._pull))
        logger.info(
            "SFAPDRD2H D DP topology: host=%s, kv_port=%d, data_parallel_rank=%d, tp_size=%d, TP control-plane "
            "ports=[%d..%d]",
            self.host, self.transfer.kv_port, self.replica.dp_rank, self.tensor, self.port, self.port + self.tensor - 1,
        )  # fmt: skip

    # -- decode ----------------------------------------------------------------------------------------------------

    async def load(self, request: Request) -> str | None:
        if not self.transfer.is_consumer:
            return None
        params = request.params or {}
        if not params.get("do_remote_prefill"):
            short = len(request.tokens) <= 1 + self.replica.config.speculative_tokens
            if short:
                return "garbage"  # classified as decode: answers without a KV cache behind it
            raise EngineDeath(
                RuntimeError(
                    "Sparse KV offload received a prefill/mixed batch without keep_device_kv_cache=True; a "
                    "PD-disaggregated "
                    "decode node only accepts decode requests"
                )
            )
        destination = self.waiting.setdefault(request.id, _Destination(request))
        parallel = self.replica.config.parallel
        message = {
            "request_id": request.id, "do_remote_prefill": False, "do_remote_decode": True,
            "remote_engine_id": self.transfer.engine_id, "remote_host": self.host, "remote_port": self.port,
            "remote_tp_size": parallel.tensor, "remote_pcp_size": parallel.prefill_context,
            "remote_dcp_size": parallel.decode_context, "remote_cached_tokens": 0,
        }  # fmt: skip
        telling = asyncio.ensure_future(announce(str(params.get("metaserver")), message, retry_forever=True))
        try:
            await destination.arrived.wait()
        finally:
            telling.cancel()
            self.waiting.pop(request.id, None)
        if destination.error:
            raise LoadFailed(destination.error)
        return destination.digests.pop()

    async def _pull(self, message: Message) -> Message:
        """One prefill rank says that its part is readable; read it and acknowledge."""
        destination = self.waiting.get(message.get("request", ""))
        if destination is None:
            logger.error("MembPull has no destination blocks on D for request %s", message.get("request"))
            return {"type": "read_failed"}
        host, _, port = message["session"].rpartition(":")
        try:
            payload = await wire.ask(host, int(port), {"request": message["request"]})
            if "digest" not in payload:
                raise LoadFailed("source buffer is gone")
            destination.digests.add(self.replica.accept(payload, destination.request))
        except (OSError, TimeoutError, LoadFailed) as error:
            logger.error(
                "MemFabric batch_transfer_sync_read failed (ret=-1) for session %s: %s", message["session"], error
            )
            destination.error = str(error)
            destination.arrived.set()
            return {"type": "read_failed"}
        members = destination.members.setdefault(message["decode_rank"], set())
        members.add(message["rank"])
        complete = len(destination.members) == self.tensor and all(
            len(delivered) == message["ratio"] for delivered in destination.members.values()
        )
        if complete:
            destination.arrived.set()
        return {"type": "read_done"}

    # -- prefill ---------------------------------------------------------------------------------------------------

    async def _read(self, message: Message) -> Message:
        return self.replica.held.get(message.get("request", ""), {"error": "unknown"})

    async def save(self, request: Request) -> dict[str, Any] | None:
        params = request.params or {}
        if not self.transfer.is_producer or not params.get("do_remote_decode"):
            return None
        if BATCH_KV_TRANSFER_PARAMS in params:
            params = params[BATCH_KV_TRANSFER_PARAMS].get(request.id)
            if params is None:
                raise EngineDeath(RuntimeError(f"SFA PD batch metadata does not contain request {request.id!r}"))
        decode = params.get("remote_tp_size") or self.tensor
        if self.tensor < decode or self.tensor % decode:
            raise EngineDeath(
                ValueError(
                    "SFAPD requires P tensor parallel size to be greater than or equal to, and divisible by, D tensor "
                    f"parallel size; got P={self.tensor}, D={decode}"
                )
            )
        key = params["request_id"]
        self.replica.held[key] = self.replica.payload(request)
        try:
            await asyncio.gather(
                *(self._offer(rank, key, params, self.tensor // decode) for rank in self.replica.ranks)
            )
        finally:
            self.replica.held.pop(key, None)
        return None

    async def _offer(self, rank: Rank, key: str, params: dict[str, Any], ratio: int) -> None:
        """Tell the decode rank of this prefill rank; wait for its read without an end, as upstream does."""
        listener = self.sessions[rank.index].getsockname()
        decode_rank = rank.tp // ratio
        message = {
            "type": "read_ready", "request": key, "rank": rank.tp, "decode_rank": decode_rank, "ratio": ratio,
            "session": f"{listener[0]}:{listener[1]}",
        }  # fmt: skip
        waited = 0.0
        while True:
            try:
                answer = await wire.ask(params["remote_host"], int(params["remote_port"]) + decode_rank, message)
                if answer.get("type") != "read_done":
                    logger.error("SFAPD read failed on D for request %s, tp_rank=%d", key, rank.tp)
                return
            except (OSError, TimeoutError) as error:
                if waited % LOG_INTERVAL_SECONDS == 0:
                    logger.warning("SFAPD P still waits for D reads of request %s (%.0f s): %s", key, waited, error)
                await asyncio.sleep(1.0)
                waited += 1.0


def _range_end(which: str, default: int) -> int:
    """An end of the port range that MemFabric chooses from; the longer name is that of older releases."""
    name = f"CONFIG_STORE_PORT_{which}"
    return int(os.environ.get(f"MF_{name}") or os.environ.get(f"MEMFABRIC_HYBRID_{name}") or default)


def _is_address(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.version == 4 and not address.is_unspecified
