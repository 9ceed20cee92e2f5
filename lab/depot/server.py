# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""What the depot container runs: Debian's docker-registry, and over HTTP git repositories, pip index and files.

    /git/<any prefix>/<owner>/<repo>.git   smart git, read-only, through git's own http-backend
    /simple/                               pip index (PEP 503)
    /files/                                plain files

It also answers DNS, with "no such name": Docker's own resolver passes on to it what it does not know.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

CONTENT = Path("/depot")
PORT = 8080
GIT_SERVICES = ("/info/refs", "/git-upload-pack", "/HEAD", "/objects/")
FOLDERS = {"/simple/": "pip/simple/", "/files/": "files/"}


def repository_and_rest(path: str) -> tuple[Path, str] | None:
    """Split a URL path below /git/ into the repository that it means, whatever stands before it, and git's own part."""
    for service in GIT_SERVICES:
        head, found, tail = path.partition(service)
        if found:
            parts = [part for part in head.split("/") if part not in ("", ".", "..")]
            if len(parts) < 2:
                return None
            repository = CONTENT / "git" / parts[-2] / (parts[-1].removesuffix(".git") + ".git")
            return (repository, found + tail) if repository.is_dir() else None
    return None


class Handler(SimpleHTTPRequestHandler):
    """Static files, and git through CGI."""

    protocol_version = "HTTP/1.1"

    def __init__(self, *args: object) -> None:
        super().__init__(*args, directory=str(CONTENT))  # type: ignore[arg-type]

    def translate_path(self, path: str) -> str:
        path = unquote(urlsplit(path).path)
        for prefix, folder in FOLDERS.items():
            if path.startswith(prefix):
                return super().translate_path(f"/{folder}{path.removeprefix(prefix)}")
        return str(CONTENT / "nothing")

    def do_GET(self) -> None:
        if self.path.startswith("/git/"):
            self._git()
        else:
            super().do_GET()

    def do_POST(self) -> None:
        if self.path.startswith("/git/"):
            self._git()
        else:
            self.send_error(HTTPStatus.METHOD_NOT_ALLOWED)

    def _git(self) -> None:
        url = urlsplit(self.path)
        found = repository_and_rest(unquote(url.path).removeprefix("/git"))
        if not found:
            self.send_error(HTTPStatus.NOT_FOUND, "no such repository in the depot")
            return
        repository, rest = found
        headers, body = run_git(
            {
                "GIT_PROJECT_ROOT": str(repository),
                "GIT_HTTP_EXPORT_ALL": "1",
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                "PATH_INFO": rest,
                "QUERY_STRING": url.query,
                "REQUEST_METHOD": self.command,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "REMOTE_ADDR": self.client_address[0],
            },
            self._body(),
        )
        self.send_response(int(headers.pop("Status", "200").split()[0]))
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        chunks = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)


def run_git(variables: dict[str, str], body: bytes) -> tuple[dict[str, str], bytes]:
    """One CGI call; the answers of repositories this small fit in memory."""
    variables = {**variables, "CONTENT_LENGTH": str(len(body)), "PATH": os.environ["PATH"], "HOME": "/nonexistent"}
    # The repositories belong to whoever made the depot's content, which git would otherwise refuse to serve.
    safe = ["git", "-c", "safe.directory=*", "http-backend"]
    done = subprocess.run(safe, input=body, env=variables, stdout=subprocess.PIPE, check=False)
    head, _blank, answer = done.stdout.partition(b"\r\n\r\n")
    lines = (line.partition(":") for line in head.decode().splitlines())
    return {name: value.strip() for name, _colon, value in lines}, answer


def deny_names() -> None:
    """Without an answer every look-up of an outside name on a host would last ten seconds."""
    no_such_name = b"\x81\x83"  # flags: response, recursion desired and available, NXDOMAIN
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("0.0.0.0", 53))
        while True:
            query, client = server.recvfrom(4096)
            end = query.index(b"\0", 12) + 5  # the question: name, type, class
            server.sendto(query[:2] + no_such_name + b"\0\1" + b"\0" * 6 + query[12:end], client)


def main() -> None:
    registry = subprocess.Popen(["docker-registry", "serve", "/server/registry.yml"])
    server = ThreadingHTTPServer(("0.0.0.0", PORT), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    threading.Thread(target=deny_names, daemon=True).start()
    sys.exit(registry.wait())  # Docker restarts the container


if __name__ == "__main__":
    main()
