# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""A small HTTP/1.1 server: enough for the OpenAI API, with streaming and with noticing clients that go away."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from vllm.logger import say


@dataclass
class Call:
    """One request."""

    method: str
    path: str
    query: str
    headers: dict[str, str]  # names in lower case
    body: bytes


@dataclass
class Reply:
    """One response; chunks make it a stream."""

    body: Any = None
    status: int = 200
    content_type: str = "application/json"
    chunks: AsyncIterator[bytes] | None = None
    headers: dict[str, str] = field(default_factory=dict)


Application = Callable[[Call], Awaitable[Reply]]


class _Connection:
    """Reads requests; while one is answered, watches whether the client is still there."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer, self.early = reader, writer, b""

    async def next(self) -> Call | None:
        head = self.early
        self.early = b""
        while b"\r\n\r\n" not in head:
            more = await self.reader.read(65536)
            if not more:
                return None
            head += more
        start, _, rest = head.partition(b"\r\n\r\n")
        first, *lines = start.decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ", 2)
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if "100-continue" in headers.get("expect", ""):
            self.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if "chunked" in headers.get("transfer-encoding", ""):
            body = await self._chunked(rest)
        else:
            length = int(headers.get("content-length", "0"))
            body = rest[:length]
            self.early = rest[length:]
            if len(body) < length:
                body += await self.reader.readexactly(length - len(body))
        path, _, query = target.partition("?")
        return Call(method, path, query, headers, body)

    async def _chunked(self, rest: bytes) -> bytes:
        body = b""
        while True:
            while b"\r\n" not in rest:
                rest += await self.reader.read(65536)
            size, _, rest = rest.partition(b"\r\n")
            length = int(size.split(b";")[0], 16)
            while len(rest) < length + 2:
                rest += await self.reader.read(65536)
            body, rest = body + rest[:length], rest[length + 2 :]
            if length == 0:
                self.early = rest
                return body

    async def gone(self) -> None:
        """Return when the client closes; what it sends before that is kept for the next request."""
        while True:
            more = await self.reader.read(65536)
            if not more:
                return
            self.early += more

    async def write(self, reply: Reply) -> None:
        phrase = HTTPStatus(reply.status).phrase
        headers = {"content-type": reply.content_type, "server": "uvicorn", **reply.headers}
        if reply.chunks is not None:
            headers["transfer-encoding"] = "chunked"
            body = b""
        else:
            body = (
                reply.body
                if isinstance(reply.body, bytes)
                else b""
                if reply.body is None
                else json.dumps(reply.body).encode()
            )
            headers["content-length"] = str(len(body))
        head = f"HTTP/1.1 {reply.status} {phrase}\r\n" + "".join(
            f"{name}: {value}\r\n" for name, value in headers.items()
        )
        self.writer.write(head.encode() + b"\r\n" + body)
        await self.writer.drain()
        if reply.chunks is not None:
            async for chunk in reply.chunks:
                self.writer.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
                await self.writer.drain()
            self.writer.write(b"0\r\n\r\n")
            await self.writer.drain()


async def serve(listener: socket.socket, application: Application, access_log: bool) -> asyncio.Server:
    """Serve an application on a bound socket."""

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _Connection(reader, writer)
        peer = writer.get_extra_info("peername") or ("-", 0)
        try:
            while (call := await connection.next()) is not None:
                work = asyncio.ensure_future(application(call))
                watch = asyncio.ensure_future(connection.gone())
                await asyncio.wait({work, watch}, return_when=asyncio.FIRST_COMPLETED)
                if not work.done():
                    work.cancel()
                    return
                watch.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await watch
                reply = work.result()
                if access_log:
                    phrase = HTTPStatus(reply.status).phrase
                    text = f'"{call.method} {call.path} HTTP/1.1" {reply.status} {phrase}'
                    say("APIServer", f"INFO:     {peer[0]}:{peer[1]} - {text}")
                await connection.write(reply)
                if call.headers.get("connection", "").lower() == "close":
                    return
        except (ConnectionError, ValueError, asyncio.IncompleteReadError):
            pass  # gone, or does not speak HTTP
        finally:
            writer.close()

    return await asyncio.start_server(client, sock=listener, limit=1 << 24)
