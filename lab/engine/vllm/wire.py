# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""The engine's network plumbing: one event loop in a thread, listeners, and JSON lines over TCP.

Stands where vLLM and its connectors use ZeroMQ; addresses, ports and who connects to whom are theirs.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from vllm.logger import init_logger

logger = init_logger(__name__)
T = TypeVar("T")
Message = dict[str, Any]
Handler = Callable[[Message], Awaitable[Message]]


class Loop:
    """An event loop in its own thread; the start-up stages run in the main thread and hand work to it."""

    def __init__(self) -> None:
        self.asyncio = asyncio.new_event_loop()
        threading.Thread(target=self.asyncio.run_forever, daemon=True, name="loop").start()

    def run(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Wait for a coroutine from outside the loop."""
        return asyncio.run_coroutine_threadsafe(work, self.asyncio).result(timeout)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        """Start a coroutine and do not wait."""
        asyncio.run_coroutine_threadsafe(work, self.asyncio)


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; raises the OSError of a taken port or foreign address."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(128)
    except OverflowError as error:
        listener.close()
        raise OSError(f"port {port} is not in [0, 65535]") from error
    except OSError as error:
        listener.close()
        raise OSError(error.errno, f"{error.strerror} (addr='tcp://{host}:{port}')") from None
    return listener


async def send(writer: asyncio.StreamWriter, message: Message) -> None:
    writer.write(json.dumps(message).encode() + b"\n")
    await writer.drain()


async def receive(reader: asyncio.StreamReader) -> Message:
    """The next message; ConnectionError when the peer is gone."""
    line = await reader.readline()
    if not line:
        raise ConnectionError("the peer closed the connection")
    return dict(json.loads(line))


async def serve(listener: socket.socket, handler: Handler) -> None:
    """Answer every message that arrives at a listener with what the handler makes of it."""

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                await send(writer, await handler(await receive(reader)))
        except (ConnectionError, ValueError):
            pass  # the peer went away, or is not one of ours (a port scan): nothing to answer
        finally:
            writer.close()

    await asyncio.start_server(client, sock=listener, limit=1 << 24)


async def ask(host: str, port: int, message: Message, timeout: float = 30.0) -> Message:
    """One question, one answer; OSError or TimeoutError if there is none."""
    reader, writer = await asyncio.wait_for(asyncio.open_connection(host, port, limit=1 << 24), 5)
    try:
        await send(writer, message)
        return await asyncio.wait_for(receive(reader), timeout)
    finally:
        writer.close()
