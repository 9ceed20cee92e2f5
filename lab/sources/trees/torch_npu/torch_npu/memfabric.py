# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""What of the installed memfabric_hybrid needs a chip and its driver: reads between processes, and the host pool.

The names, the argument order and the ports are MemFabric 1.2's; the bytes travel over TCP.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import socket
import threading
from pathlib import Path

# Where MemFabric looks for the driver's version (hybm_gva_version.cpp).
INSTALL_INFO = Path("/etc/ascend_install.info")


def driver_is_visible() -> bool:
    lines = INSTALL_INFO.read_text().splitlines() if INSTALL_INFO.is_file() else []
    paths = [line.partition("=")[2].strip() for line in lines if line.startswith("Driver_Install_Path_Param=")]
    return bool(paths) and Path(paths[0], "driver", "version.info").is_file()


class TransferEngine:
    """Serves reads of registered memory on the address that names the session, and reads from other sessions."""

    def __init__(self) -> None:
        self._memory: dict[int, int] = {}
        self._listener: socket.socket | None = None

    def initialize(
        self, _store_url, session_id, _role, _device_id, _data_op_type=None, store_server_role="Decode"
    ) -> int:
        if not driver_is_visible():
            return -1
        first = int(os.environ.get("MF_CONFIG_STORE_PORT_START", "9000"))
        last = int(os.environ.get("MF_CONFIG_STORE_PORT_END", "65535"))
        for port in range(first, last + 1):
            try:
                self._listener = socket.create_server((session_id, port))
            except OSError:
                continue
            threading.Thread(target=self._serve, daemon=True).start()
            return 0
        return -1

    def get_rpc_port(self) -> int:
        return self._listener.getsockname()[1] if self._listener else 0

    def register_memory(self, address: int, size: int) -> int:
        self._memory[address] = size
        return 0

    def batch_transfer_sync_read(self, session: str, local: list[int], peer: list[int], lengths: list[int]) -> int:
        host, _colon, port = session.rpartition(":")
        try:
            with (
                socket.create_connection((host, int(port)), timeout=10) as connection,
                connection.makefile("rwb") as file,
            ):
                for target, source, length in zip(local, peer, lengths, strict=True):
                    file.write(json.dumps([source, length]).encode() + b"\n")
                    file.flush()
                    content = file.read(length)
                    if len(content) != length:
                        return -1
                    ctypes.memmove(target, content, length)
        except OSError:
            return -1
        return 0

    def destroy(self) -> None:
        if self._listener:
            self._listener.close()
            self._listener = None

    unInitialize = destroy

    def _serve(self) -> None:
        while self._listener:
            try:
                connection, _peer = self._listener.accept()
            except OSError:
                return  # closed
            with connection, connection.makefile("rwb") as file:
                for line in file:
                    source, length = json.loads(line)
                    if self._memory.get(source, 0) < length:
                        break  # not registered: the reader sees a short answer
                    file.write(ctypes.string_at(source, length))
                    file.flush()


_pool: dict[int, mmap.mmap] = {}


def _initialize(_config) -> int:
    library = Path(os.environ.get("MEMFABRIC_HYBRID_EXTEND_LIB_PATH", "/nowhere"), "libmf_hybm_accoffload.so")
    return 0 if driver_is_visible() and library.is_file() and library.stat().st_size else -1


def _malloc(size: int, _flags: int = 0) -> int:
    memory = mmap.mmap(-1, size)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    _pool[address] = memory
    return address


def _nothing(*_arguments) -> int:
    return 0


def replace_data_plane() -> None:
    """Put the stand-ins into memfabric_hybrid, if it is installed."""
    try:
        import memfabric_hybrid
    except ImportError:
        return
    memfabric_hybrid.TransferEngine = TransferEngine
    offload = getattr(memfabric_hybrid, "offload", None)
    if offload:
        offload.initialize, offload.malloc, offload.free, offload.uninitialize = (
            _initialize,
            _malloc,
            _nothing,
            _nothing,
        )
