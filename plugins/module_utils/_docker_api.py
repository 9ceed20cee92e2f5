# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""The few read-only questions that this collection asks a Docker Engine, over its unix socket.

community.docker manages containers; probes and status modules only look, must run with nothing but the standard
library, and need several answers in one call.
"""

from __future__ import annotations

import json
import socket
from typing import Any
from urllib.parse import quote, urlencode

SOCKET = "/var/run/docker.sock"


class DockerError(Exception):
    """The engine could not be asked, or refused; the text says why."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status  # HTTP status of a refusal, None when there was no answer


class DockerApi:
    """GET requests to a Docker Engine. Every method raises DockerError and nothing else."""

    def __init__(self, path: str = SOCKET, timeout_s: float = 10.0) -> None:
        self.path = path
        self.timeout_s = timeout_s  # per read or connect, seconds

    def version(self) -> dict[str, Any]:
        return self._mapping("/version")

    def info(self) -> dict[str, Any]:
        return self._mapping("/info")

    def containers(self, stopped: bool = True, labels: list[str] | None = None) -> list[dict[str, Any]]:
        """The list entries of containers, all of them or those that carry every label (`key` or `key=value`)."""
        query = {"all": "1" if stopped else "0"}
        if labels:
            query["filters"] = json.dumps({"label": labels})
        entries = self._json("/containers/json", query)
        if not isinstance(entries, list):
            raise DockerError(f"{self.path}: /containers/json is not a list")
        return entries

    def inspect(self, name: str) -> dict[str, Any]:
        return self._mapping("/containers/{}/json".format(quote(name, safe="")))

    def logs(self, name: str, tail: int = 100, since: int = 0) -> list[str]:
        """The last `tail` lines of both streams, not older than `since` (seconds since 1970; 0: any age)."""
        query = {"stdout": "1", "stderr": "1", "tail": str(tail), "since": str(since)}
        return log_lines(self._get("/containers/{}/logs".format(quote(name, safe="")), query))

    def _mapping(self, path: str) -> dict[str, Any]:
        answer = self._json(path)
        if not isinstance(answer, dict):
            raise DockerError(f"{self.path}: {path} is not a mapping")
        return answer

    def _json(self, path: str, query: dict[str, str] | None = None) -> Any:
        try:
            return json.loads(self._get(path, query).decode("utf-8", "replace"))
        except ValueError as error:
            raise DockerError(f"{self.path}: {path} is not JSON: {error}") from error

    def _get(self, path: str, query: dict[str, str] | None = None) -> bytes:
        channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        channel.settimeout(self.timeout_s)
        try:
            channel.connect(self.path)
            status, body = _ask(channel, path + ("?" + urlencode(query) if query else ""))
        except socket.timeout as error:
            raise DockerError(f"{self.path}: no answer within {self.timeout_s:g} s") from error
        except OSError as error:
            raise DockerError(f"{self.path}: {error.strerror or error}") from error
        finally:
            channel.close()
        if status != 200:
            raise DockerError(f"{self.path}: {path} {status}: {_message(body)}", status)
        return body


def _ask(channel: socket.socket, target: str) -> tuple[int, bytes]:
    """Status and body. Raises OSError."""
    # Brings the parser of mail along, a quarter of all that a probe imports; many calls ask no engine.
    from http.client import HTTPConnection, HTTPException

    connection = HTTPConnection("localhost")
    connection.sock = channel
    try:
        connection.request("GET", target)
        response = connection.getresponse()
        return response.status, response.read()
    except HTTPException as error:
        raise OSError(f"not HTTP: {error!r}") from error


def _message(body: bytes) -> str:
    text = body.decode("utf-8", "replace").strip()
    try:
        answer = json.loads(text)
    except ValueError:
        return text[:200]
    return str(answer.get("message", text))[:200] if isinstance(answer, dict) else text[:200]


def log_lines(stream: bytes) -> list[str]:
    """Lines of a log answer.

    Without a terminal the engine frames each piece of output: one byte 0, 1 or 2 for the stream, three zero bytes,
    four bytes of length. With a terminal there is plain text. Anything that is not framed is taken as plain text.
    """
    parts = []
    at = 0
    while at < len(stream):
        head = stream[at : at + 8]
        if len(head) < 8 or head[0] > 2 or head[1:4] != b"\0\0\0":
            parts.append(stream[at:])
            break
        length = int.from_bytes(head[4:8], "big")
        parts.append(stream[at + 8 : at + 8 + length])
        at += 8 + length
    return b"".join(parts).decode("utf-8", "replace").splitlines()
