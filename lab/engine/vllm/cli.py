# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""The `vllm` command: `serve` and `bench serve`."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import traceback
from argparse import Namespace

from vllm import __version__, arguments, http
from vllm.failure import ConfigRefused
from vllm.logger import init_logger, say

logger = init_logger(__name__)


def main() -> int:
    argv = sys.argv[1:]
    if argv[:1] in (["--version"], ["-v"]):
        print(__version__)
        return 0
    if argv[:1] == ["serve"]:
        return serve(argv[1:])
    if argv[:2] == ["bench", "serve"]:
        from vllm import bench

        return bench.main(argv[2:])
    print(
        f"usage: vllm [-h] [-v] {{serve,bench}} ...\nvllm: error: invalid choice: {' '.join(argv[:1])!r}",
        file=sys.stderr,
    )
    return 2


def serve(argv: list[str]) -> int:
    """Start one engine process and stay until it is told to end or its engine dies.

    Where the engine dies under an API server, that shuts down in order and ends with 0, as vLLM's does.
    """
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: _terminated(stop))
    parsed = arguments.parse(argv)
    try:
        return _serve(parsed, stop)
    except SystemExit:
        raise
    except ConfigRefused as error:
        _report(error.__cause__, f"pydantic_core._pydantic_core.ValidationError: {error}")
    except BaseException as error:
        _report(error)
    os._exit(1)  # threads of a half-started engine must not hold the process


def _report(error: BaseException | None, last: str = "") -> None:
    """The traceback that ends the API server."""
    lines = traceback.format_exception(error) if error else []
    say("APIServer", "".join([*lines, last]).rstrip(), sys.stderr)


_ready = threading.Event()


def _terminated(stop: threading.Event) -> None:
    if _ready.is_set():
        stop.set()
    else:
        logger.info("Received SIGTERM while starting, shutting down.")
        sys.stdout.flush()
        os._exit(0)


def _serve(parsed: Namespace, stop: threading.Event) -> int:
    from vllm.engine import Engine

    headless = bool(parsed.headless)
    logger.info("vLLM API server version %s", __version__)
    logger.info("non-default args: %s", arguments.given(parsed))
    listener = None if headless else _bind(parsed)
    engine = Engine(parsed)
    engine.start()
    engine.when_dead(stop.set)
    if listener is not None:
        from vllm.api_server import ApiServer

        host, port = listener.getsockname()[:2]
        logger.info("Supported tasks: ['generate']")
        logger.info("Starting vLLM server on http://%s:%d", host, port)
        say(
            "APIServer", f"INFO:     Started server process [{os.getpid()}]\nINFO:     Waiting for application startup."
        )
        listener.listen(2048)
        engine.loop.run(http.serve(listener, ApiServer(engine), not parsed.disable_uvicorn_access_log))
        say("APIServer", "INFO:     Application startup complete.")
    engine.serving = True
    _ready.set()
    stop.wait()
    say("APIServer", "INFO:     Shutting down\nINFO:     Application shutdown complete.")
    if engine.dead.is_set():
        threading.Event().wait(0.5)  # let running requests get their errors
        logger.error("Engine core died unexpectedly: %s", engine.error)
    say("APIServer", f"INFO:     Finished server process [{os.getpid()}]")
    sys.stderr.flush()
    os._exit(1 if engine.dead.is_set() and headless else 0)


def _bind(parsed: Namespace) -> socket.socket:
    """The API's socket is bound before anything is configured, and listens only when the engine is ready."""
    listener = socket.socket(socket.AF_INET6 if ":" in (parsed.host or "") else socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((parsed.host or "", parsed.port or 8000))
    return listener


if __name__ == "__main__":
    sys.exit(main())
