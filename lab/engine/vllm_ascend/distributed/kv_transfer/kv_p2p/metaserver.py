# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""A layerwise decode engine telling the proxy's metaserver that it is ready for a prompt."""

from __future__ import annotations

import asyncio
import json
from urllib.parse import urlsplit

from vllm.logger import init_logger
from vllm.wire import Message

logger = init_logger("vllm_ascend.metaserver")


async def post(url: str, message: Message) -> int:
    """POST a message; the HTTP status, or OSError where nobody answers. No time limit, as upstream has none."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port or 80)
    try:
        body = json.dumps(message).encode()
        head = (
            f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        writer.write(head.encode() + body)
        await writer.drain()
        status = await reader.readline()
        if not status:
            raise ConnectionError("the metaserver closed the connection")
        return int(status.split()[1])
    finally:
        writer.close()


async def announce(url: str, message: Message, retry_forever: bool) -> None:
    """Three tries at once; then either again every second for ever (RD2H scheduler.py:395-490), or an error in the log.

    An HTTP error counts as delivered: the prompt then never arrives and the request hangs.
    """
    while True:
        for attempt in range(1, 4):
            try:
                status = await post(url, message)
            except OSError as error:
                logger.error(
                    "Metaserver transport failed: url=%s, retry=%d, error=%s: %s",
                    url,
                    attempt,
                    type(error).__name__,
                    error,
                )
                continue
            if status >= 400:
                logger.warning(
                    "Metaserver returned HTTP %d for request %s; treating it as delivered for legacy-proxy "
                    "compatibility",
                    status,
                    message.get("request_id"),
                )
            return
        if not retry_forever:
            logger.error("Access metaserver fail. url=%s", url)
            return
        logger.error("Access metaserver failed for request %s; retrying in 1.0 seconds", message.get("request_id"))
        await asyncio.sleep(1.0)
