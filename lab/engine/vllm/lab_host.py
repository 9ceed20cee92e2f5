# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""What the simulated engine sees of its host, and the lab's own settings.

Nothing here is vLLM's. Paths of the host stand below one root, `/` but for tests; settings come from a file, never from
the environment, so that the environment of an engine in the lab is exactly that of an engine on an A3.
"""

from __future__ import annotations

import json
import os
import re
import socket
import stat
from dataclasses import dataclass, fields
from hashlib import sha256
from pathlib import Path

GIB = 1 << 30
# The driver's folder is bind-mounted into every engine container; a lab host may show its memory and CPU there, since
# /proc of a nested container is that of the real machine.
_SHOWN = "/usr/local/Ascend/driver/lab-host"


def at(path: str) -> Path:
    """Where an absolute path of the host lies."""
    return Path(os.environ.get("LAB_ENGINE_ROOT", "/")) / path.lstrip("/")


@dataclass
class Settings:
    """Lab settings: `/etc/lab-engine.json`, then `lab-engine.json` in the model folder. In seconds unless named."""

    weights_seconds: float = 3.0
    pool_seconds: float = 0.5
    # vLLM waits five minutes (v1/engine/core.py HANDSHAKE_TIMEOUT_MINS); the lab less.
    handshake_seconds: float = 40.0
    token_seconds: float = 0.002
    hbm_gib: float = 64.0
    # "random": a port of the device's thousand, as Mooncake's AscendDirectTransport; "worst": one that collides.
    mooncake_ports: str = "random"
    # Upstream asks for one PYTHONHASHSEED everywhere (kv_pool.md) but only loses cache hits; the lab fails the request.
    strict_hash_seed: bool = True

    @classmethod
    def load(cls, model: str) -> Settings:
        values: dict[str, object] = {}
        for path in (at("/etc/lab-engine.json"), Path(model) / "lab-engine.json"):
            if path.is_file():
                values.update(json.loads(path.read_text(encoding="utf-8")))
        unknown = set(values) - {field.name for field in fields(cls)}
        if unknown:
            raise ValueError(f"lab-engine.json: unknown settings {sorted(unknown)}")
        return cls(**values)  # type: ignore[arg-type]


def _host_file(name: str) -> str:
    shown = at(f"{_SHOWN}/{name}")
    return (shown if shown.is_file() else at(f"/proc/{name}")).read_text(encoding="utf-8")


def memory_available() -> int:
    """Bytes of host memory that can be had (MemAvailable)."""
    match = re.search(r"^MemAvailable:\s+(\d+) kB", _host_file("meminfo"), re.MULTILINE)
    return int(match.group(1)) * 1024 if match else 0


def cpu_features() -> set[str]:
    """CPU flags as aarch64 lists them."""
    match = re.search(r"^Features\s*:\s*(.*)$", _host_file("cpuinfo"), re.MULTILINE)
    return set(match.group(1).split()) if match else set()


def devices() -> list[int]:
    """Physical ids of the NPU device nodes that are visible and may be opened, in order."""
    found = []
    for node in at("/dev").glob("davinci*"):
        number = node.name.removeprefix("davinci")
        if number.isdigit() and may_open(node):
            found.append(int(number))
    return sorted(found)


def may_open(node: Path) -> bool:
    """Whether a device node exists and the container's device rules let it be opened."""
    try:
        if not stat.S_ISCHR(node.stat().st_mode):
            return True  # a plain file stands for a device below a test's root
        os.close(os.open(node, os.O_RDWR))
    except PermissionError:
        return False
    except OSError as error:
        return error.errno != 2  # no driver behind the node (ENXIO, ENODEV) is the lab's normal state
    return True


def occupy(chip: int) -> socket.socket | None:
    """Take one chip until the process ends; None if another engine of this host holds it.

    An abstract socket lives in the network namespace, which containers with the host's network share, and ends with its
    owner.
    """
    scope = sha256(str(at("/")).encode()).hexdigest()[:8]
    holder = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        holder.bind(f"\0lab-npu-{scope}-{chip}")
    except OSError:
        holder.close()
        return None
    return holder
