# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""How the processes of one deployment find each other: a leader with a port, members that must all come in time.

Used for the front end of data parallelism (vllm/v1/engine/utils.py wait_for_engine_startup, core.py startup_handshake)
and for the nodes of one replica (torch.distributed over master_addr:master_port). The connections stay open: whoever
loses one knows that the other side died.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from vllm import wire
from vllm.logger import init_logger
from vllm.wire import Loop, Message

logger = init_logger(__name__)
Lost = Callable[[str], None]
Handler = Callable[[Message], Awaitable[Message]]


@dataclass
class Member:
    """One process at the other end of a leader's connection."""

    ids: list[int]
    host: str
    writer: asyncio.StreamWriter
    answers: dict[int, asyncio.Future[Message]] = field(default_factory=dict)


class Leader:
    """Waits for members; afterwards sends them work."""

    def __init__(self, loop: Loop, listener: socket.socket, expected: set[int], hello: Message, lost: Lost) -> None:
        self.loop, self.hello, self.lost = loop, hello, lost
        self.missing = set(expected)
        self.members: list[Member] = []
        self._numbers = itertools.count()
        self._changed: asyncio.Event | None = None
        self._error: str = ""
        self._server = loop.run(self._listen(listener))

    async def _listen(self, listener: socket.socket) -> asyncio.Server:
        self._changed = asyncio.Event()
        return await asyncio.start_server(self._client, sock=listener, limit=1 << 24)

    def wait(self, seconds: float, go: Message, timeout_text: str) -> None:
        """Block until every member came, then let all go; RuntimeError if one is wrong or late."""
        self.loop.run(self._wait(seconds, go, timeout_text))

    async def _wait(self, seconds: float, go: Message, timeout_text: str) -> None:
        assert self._changed is not None
        deadline = asyncio.get_running_loop().time() + seconds
        while self.missing and not self._error:
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                raise RuntimeError(timeout_text.format(missing=sorted(self.missing)))
            try:
                await asyncio.wait_for(self._changed.wait(), left)
                self._changed.clear()
            except TimeoutError:
                continue
        if self._error:
            raise RuntimeError(self._error)
        for member in self.members:
            await wire.send(member.writer, {"type": "go", **go, "hosts": self.hosts()})

    def hosts(self) -> dict[str, str]:
        """Address of each member by its first id."""
        return {str(member.ids[0]): member.host for member in self.members}

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert self._changed is not None
        try:
            hello = await wire.receive(reader)
        except (ConnectionError, ValueError):
            writer.close()
            return
        if hello.get("type") == "probe":  # the leader looking whether its own address leads here
            await wire.send(writer, {"type": "here"})
            writer.close()
            return
        problem = self._problem(hello)
        if problem:
            self._error = self._error or problem
            await wire.send(writer, {"type": "refused", "error": problem})
            writer.close()
            self._changed.set()
            return
        member = Member(hello["ids"], hello["host"], writer)
        self.members.append(member)
        self.missing -= set(member.ids)
        await wire.send(writer, {"type": "init"})
        self._changed.set()
        try:
            while True:
                answer = await wire.receive(reader)
                future = member.answers.pop(answer["number"], None)
                if future is not None and not future.done():
                    future.set_result(answer)
        except (ConnectionError, ValueError):
            self.lost(f"connection to rank(s) {member.ids} on {member.host} lost")

    def _problem(self, hello: Message) -> str:
        ids = hello.get("ids")
        if not isinstance(ids, list):
            return "unexpected message on the rendezvous port"
        if hello["headless"] != self.hello["headless"]:
            word = "must" if self.hello["headless"] else "must not"
            mode = "unless" if self.hello["headless"] else "in"
            return f"Remote engine {ids[0]} {word} use --headless {mode} external or hybrid dp lb mode"
        unexpected = [number for number in ids if number not in self.missing]
        if unexpected:
            return f"Message from engine with unexpected data parallel rank: {unexpected[0]}"
        if hello["shape"] != self.hello["shape"]:
            different = {key: (value, self.hello["shape"].get(key)) for key, value in hello["shape"].items()
                         if value != self.hello["shape"].get(key)}  # fmt: skip
            return (
                f"Configuration mismatch detected for engine {ids[0]}. All DP workers must have identical "
                "configurations for "
                f"parameters that affect collective communication. Worker and expected values differ: {different}. "
                "Please ensure all workers are started with the same command-line arguments."
            )
        return ""

    async def ask(self, member: Member, message: Message) -> Message:
        """Send work to a member and wait for its answer."""
        number = next(self._numbers)
        member.answers[number] = asyncio.get_running_loop().create_future()
        await wire.send(member.writer, {**message, "number": number})
        return await member.answers[number]


class Follower:
    """Joins a leader, waits for all to be there, then answers what it is sent."""

    def __init__(self, loop: Loop, host: str, port: int, hello: Message, lost: Lost) -> None:
        self.loop, self.host, self.port, self.hello, self.lost = loop, host, port, hello, lost
        self.go: Message = {}
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    def join(self, seconds: float, timeout_text: str) -> None:
        self.loop.run(self._join(seconds, timeout_text))

    async def _join(self, seconds: float, timeout_text: str) -> None:
        deadline = asyncio.get_running_loop().time() + seconds
        while True:
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                raise RuntimeError(timeout_text)
            try:
                self._reader, self._writer = await asyncio.wait_for(
                    asyncio.open_connection(self.host, self.port, limit=1 << 24), min(left, 5)
                )
                await wire.send(self._writer, self.hello)
                answer = await asyncio.wait_for(wire.receive(self._reader), left)
                if answer.get("type") == "refused":
                    raise RuntimeError(answer["error"])
                self.go = await asyncio.wait_for(wire.receive(self._reader), left)
                return
            except (OSError, TimeoutError):
                await asyncio.sleep(0.3)

    def follow(self, handler: Handler) -> None:
        """Answer the leader's messages from now on."""
        self.loop.spawn(self._follow(handler))

    async def _follow(self, handler: Handler) -> None:
        assert self._reader is not None and self._writer is not None

        async def one(message: Message) -> None:
            assert self._writer is not None
            answer = await handler(message)
            await wire.send(self._writer, {**answer, "number": message["number"]})

        running: set[asyncio.Task[None]] = set()
        try:
            while True:
                task = asyncio.ensure_future(one(await wire.receive(self._reader)))
                running.add(task)
                task.add_done_callback(running.discard)
        except (ConnectionError, ValueError):
            self.lost(f"connection to the head at {self.host}:{self.port} lost")
