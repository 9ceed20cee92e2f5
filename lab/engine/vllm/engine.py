# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""One engine process: its start in vLLM's order, its data-parallel replicas, and the requests they answer."""

from __future__ import annotations

import asyncio
import importlib
import itertools
import os
import sys
import threading
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from vllm import __version__, wire
from vllm.config import VllmConfig
from vllm.failure import config_stage, process
from vllm.lab_host import Settings
from vllm.logger import init_logger
from vllm.rendezvous import Follower, Leader, Member
from vllm.utils.network_utils import get_ip
from vllm.wire import Loop, Message

if TYPE_CHECKING:  # the platform is a separate package, which may be missing
    from vllm_ascend.distributed.kv_transfer.base import Connector, Replica, Request
    from vllm_ascend.worker.worker import Worker

logger = init_logger(__name__)
_WORDS = "the prompt came over the wire and the lab answers with its digest , word by word .".split()


class RequestFailed(Exception):
    """A request that ended as an error; the API answers 500."""


@dataclass
class Generated:
    """Tokens of an answer, and kv_transfer_params for the response."""

    tokens: list[str]
    kv_transfer_params: dict[str, Any] | None


@dataclass
class Core:
    """One data-parallel replica whose scheduler runs in this process."""

    replica: Replica
    connector: Connector | None
    running: int = 0


class Engine:
    def __init__(self, arguments: Namespace) -> None:
        self.arguments = arguments
        self.loop = Loop()
        self.dead = threading.Event()
        self.serving = False
        self.error: str = ""
        self.cores: list[Core] = []
        self.counters: dict[str, float] = {}
        self.waiting = 0
        self._remote: list[tuple[Leader, Member]] = []
        self._turn = itertools.count()
        self._on_death: list[Callable[[], None]] = []

    # -- start -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """All stages up to ready; raises where the real engine would not come up."""
        try:
            from vllm_ascend import platform
            from vllm_ascend.worker import libraries
            from vllm_ascend.worker.worker import Worker
        except ModuleNotFoundError as error:
            raise RuntimeError(
                "Failed to infer device type, please set the environment variable `VLLM_LOGGING_LEVEL=DEBUG`"
            ) from error
        libraries.check_import()
        with config_stage():
            self.config = VllmConfig.of(self.arguments)
            self.sparse = platform.check_and_update_config(self.config)
        self.settings = Settings.load(self.config.model.path)
        parallel = self.config.parallel
        logger.info("Initializing a V1 LLM engine (v%s) with config: %s", __version__, self.config)
        with process(f"EngineCore_DP{parallel.data_rank}" if parallel.data > 1 else "EngineCore"):
            self._meet_data_parallel_peers()
        worker = self.worker = Worker(self.config, self.settings, self.sparse)  # kept: it holds chips and ports
        with process("Worker_TP0"):
            libraries.check_triton()
            worker.init_device()
            nodes = self._meet_nodes()
            worker.init_communication()
            worker.load_model()
            worker.determine_available_memory(self._layers_reused())
            self._make_cores(worker, nodes)
            worker.init_host_pool()
            for core in self.cores:
                if core.connector is not None:
                    core.connector.start()
        self._follow()
        self._describe()

    def _layers_reused(self) -> float:
        from vllm_ascend.distributed.kv_transfer.kv_pool.ascend_store import layers_per_buffer

        from vllm.config import KVTransferConfig

        transfer = self.config.kv_transfer
        if transfer is None:
            return 1.0
        children = transfer.extra.get("connectors", []) if transfer.kv_connector == "MultiConnector" else []
        for each in [transfer, *(KVTransferConfig.of(child) for child in children)]:
            if each is not None and each.kv_connector in ("AscendStoreConnector", "MooncakeConnectorStoreV1"):
                return layers_per_buffer(self.config, each)
        return 1.0

    def _make_cores(self, worker: Worker, nodes: list[str]) -> None:
        from vllm_ascend.distributed.kv_transfer import factory
        from vllm_ascend.distributed.kv_transfer.base import Rank, Replica

        parallel = self.config.parallel
        for local in range(parallel.data_local):
            ranks = []
            for offset in range(parallel.local_world):
                index = parallel.first_rank + offset
                pcp = index // parallel.tensor % parallel.prefill_context
                chip = worker.chips[local * parallel.local_world + offset]
                ranks.append(Rank(index, index % parallel.tensor, pcp, chip))
            replica = Replica(self.config, self.settings, self.loop, parallel.data_rank + local, ranks, nodes)
            if self._node_leader is not None:
                replica.to_followers = self._tell_followers
            transfer = self.config.kv_transfer
            self.cores.append(Core(replica, factory.make(replica, transfer) if transfer else None))

    # -- data parallelism ------------------------------------------------------------------------------------------

    def _hello(self, ids: list[int], headless: bool) -> Message:
        return {"ids": ids, "headless": headless, "shape": self.config.parallel.shape(), "host": get_ip()}

    def _meet_data_parallel_peers(self) -> None:
        self._data_leader: Leader | None = None
        self._data_follower: Follower | None = None
        parallel = self.config.parallel
        if parallel.data_local >= parallel.data or parallel.first_rank > 0:
            return  # all replicas are local, or this node only carries workers of one that another node leads
        minutes = f"within 5 minutes (lab: {self.settings.handshake_seconds:.0f} s)"
        local = list(range(parallel.data_rank, parallel.data_rank + parallel.data_local))
        if parallel.data_rank == 0:
            listener = wire.bind(parallel.data_address, parallel.data_rpc_port)
            remote_headless = not (parallel.external or parallel.hybrid)
            expected = set(range(parallel.data)) - set(local)
            self._data_leader = Leader(self.loop, listener, expected, self._hello(local, remote_headless), self.die)
            self._data_leader.wait(
                self.settings.handshake_seconds,
                {},
                "Timed out waiting for engines to send initial message on input socket; data parallel ranks "
                "{missing} did not "
                f"come {minutes}",
            )
            if remote_headless:
                self._remote = [(self._data_leader, member) for member in self._data_leader.members]
            return
        self._data_follower = Follower(
            self.loop, parallel.data_address, parallel.data_rpc_port, self._hello(local, parallel.headless), self.die
        )
        logger.info("Launching %d data parallel engine(s), with head node address tcp://%s:%d.", len(local),
                    parallel.data_address, parallel.data_rpc_port)  # fmt: skip
        self._data_follower.join(
            self.settings.handshake_seconds, f"Did not receive response from front-end process {minutes}"
        )

    # -- nodes of one replica --------------------------------------------------------------------------------------

    def _meet_nodes(self) -> list[str]:
        self._node_leader: Leader | None = None
        self._node_follower: Follower | None = None
        parallel = self.config.parallel
        if parallel.nnodes_within_dp == 1:
            return [get_ip()]
        within = parallel.node_rank % parallel.nnodes_within_dp
        late = f"after {self.settings.handshake_seconds:.0f} s (lab; vLLM: 5 minutes or more)"
        if within == 0:
            listener = wire.bind("0.0.0.0", parallel.master_port)
            expected = set(range(1, parallel.nnodes_within_dp))
            self._node_leader = Leader(self.loop, listener, expected, self._hello([0], True), self.die)
            try:  # torch's rank 0 is its own first client, at the address that the others are told
                self.loop.run(wire.ask(parallel.master_addr, parallel.master_port, {"type": "probe"}, 5))
            except (OSError, TimeoutError) as error:
                raise RuntimeError(
                    f"torch.distributed.DistNetworkError: cannot reach own master address {parallel.master_addr}"
                ) from error
            self._node_leader.wait(
                self.settings.handshake_seconds,
                {"leader": get_ip()},
                f"torch.distributed.DistStoreError: Timed out {late} waiting for clients; node ranks {{missing}} "
                "did not join",
            )
            hosts = self._node_leader.hosts()
            return [get_ip(), *(hosts[str(node)] for node in range(1, parallel.nnodes_within_dp))]
        if not parallel.headless:
            raise RuntimeError("a node with --node-rank above 0 carries workers only: start it with --headless")
        logger.info(
            "Launching vLLM (v%s) headless multiproc executor, with head node address %s:%d for "
            "torch.distributed process group.",
            __version__,
            parallel.master_addr,
            parallel.master_port,
        )
        self._node_follower = Follower(
            self.loop, parallel.master_addr, parallel.master_port, self._hello([within], True), self.die
        )
        self._node_follower.join(
            self.settings.handshake_seconds,
            "torch.distributed.DistNetworkError: The client socket has timed out "
            f"{late} while trying to connect to ({parallel.master_addr}, {parallel.master_port}).",
        )
        return []

    async def _tell_followers(self, message: Message) -> None:
        assert self._node_leader is not None
        await asyncio.gather(*(self._node_leader.ask(member, message) for member in self._node_leader.members))

    def _follow(self) -> None:
        if self._node_follower is not None:
            self._node_follower.follow(self._node_work)
        if self._data_follower is not None:
            self._data_follower.follow(self._replica_work)

    async def _node_work(self, message: Message) -> Message:
        """A message of the replica's scheduler to the workers of this node."""
        core = self.cores[0]
        if message["type"] == "hold":
            core.replica.held[message["request"]] = {**message["payload"], "pulls": len(core.replica.ranks)}
        elif message["type"] == "push":
            await core.connector.push(message)
        return {"type": "done"}

    async def _replica_work(self, message: Message) -> Message:
        """A request that the front end gave to a replica of this headless process."""
        from vllm_ascend.distributed.kv_transfer.base import Request

        try:
            result = await self._run(self._least_busy(), Request(**message["request"]))
            return {"tokens": result.tokens, "kv_transfer_params": result.kv_transfer_params}
        except RequestFailed as error:
            return {"error": str(error)}

    # -- life ------------------------------------------------------------------------------------------------------

    def _describe(self) -> None:
        try:
            decode_extension = importlib.import_module("vllm_ascend.decode_extension")
        except ModuleNotFoundError:
            pass  # only in a tree of the small-packet gather fork
        else:
            text = decode_extension.describe(self.config.enforce_eager)
            if text and self.sparse is not None:
                logger.info(text)
        logger.info("init engine (profile, create kv cache, warmup model) took %.2f s", self.settings.weights_seconds)

    def die(self, reason: str, error: BaseException | None = None) -> None:
        """The engine core is gone: running requests fail, the process ends with an error."""
        if self.dead.is_set():
            return
        self.error = reason
        logger.error("EngineCore encountered a fatal error.", exc_info=error)
        logger.error(
            "AsyncLLM output_handler failed.\nvllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an "
            "issue. See stack trace (above) for the root cause. (%s)",
            reason,
            extra={"process_name": "APIServer"},
        )
        self.dead.set()
        if not self.serving:  # the stages of the start run in another thread, which cannot be interrupted
            sys.stdout.flush()
            os._exit(1)
        for callback in self._on_death:
            callback()

    def when_dead(self, callback: Callable[[], None]) -> None:
        self._on_death.append(callback)

    # -- requests --------------------------------------------------------------------------------------------------

    def _least_busy(self) -> Core:
        return min(self.cores, key=lambda core: core.running)

    def count(self, name: str, amount: float = 1.0) -> None:
        self.counters[name] = self.counters.get(name, 0.0) + amount

    async def generate(self, request: Request) -> Generated:
        """Answer one prompt on one of the replicas, here or on a headless node."""
        if self.dead.is_set():
            raise RequestFailed(self.error)
        places = len(self.cores) + sum(len(member.ids) for _, member in self._remote)
        turn = next(self._turn) % places
        if turn < len(self.cores):
            return await self._run(self.cores[turn], request)
        turn -= len(self.cores)
        spread = [(leader, member) for leader, member in self._remote for _ in member.ids]
        leader, member = spread[turn]
        answer = await leader.ask(member, {"type": "generate", "request": vars(request)})
        if "error" in answer:
            raise RequestFailed(answer["error"])
        return Generated(answer["tokens"], answer["kv_transfer_params"])

    async def _run(self, core: Core, request: Request) -> Generated:
        from vllm_ascend.distributed.kv_transfer.base import EngineDeath, LoadFailed

        while core.running >= self.config.max_num_seqs:
            self.waiting += 1
            await asyncio.sleep(0.01)
            self.waiting -= 1
        core.running += 1
        try:
            arrived = await core.connector.load(request) if core.connector else None
            if arrived is None:
                await asyncio.sleep(min(len(request.tokens) * self.settings.token_seconds / 100, 2.0))
            else:
                self.count("external", len(request.tokens))
            answer = [
                arrived or request.digest,
                *itertools.islice(itertools.cycle(_WORDS), max(request.max_tokens - 1, 0)),
            ]
            params = await core.connector.save(request) if core.connector else None
            return Generated(answer[: request.max_tokens], params)
        except EngineDeath as error:
            self.die(str(error.args[0]), error.args[0])
            raise RequestFailed(str(error.args[0])) from error
        except LoadFailed as error:
            logger.error("KV load failure for request %s (policy: fail): %s", request.id, error)
            raise RequestFailed("Internal server error") from error
        finally:
            core.running -= 1


def digest(tokens: list[str]) -> str:
    """What stands for a prompt's KV cache, and is the first word of every answer."""
    return sha256("\x1f".join(tokens).encode()).hexdigest()[:16]
