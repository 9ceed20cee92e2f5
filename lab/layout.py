# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Where the lab keeps things, and what its parts are called. The one place for paths, names and addresses."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).resolve().parent
CHECKOUT = SOURCE.parent
STATE = CHECKOUT / ".lab"

SUITE = "bookworm"  # Debian release of hosts and images, whatever the machine runs: its python3.11 is what targets have

NETWORK = "pdlab"  # docker network; its bridge has the same name
CONTROL_LEG = "pdlabctl"  # the machine's own interface in the lab's network
SUBNET = "10.88.0.0/24"
SPARE_RANGE = "10.88.0.128/26"  # for containers that are not given an address: image builds
BRIDGE_ADDRESS = "10.88.0.1"
CONTROL_ADDRESS = "10.88.0.254"
DEPOT_ADDRESS = "10.88.0.5"
REGISTRY = f"{DEPOT_ADDRESS}:5000"
MAX_HOSTS = 64

CGROUP = "pdlab"
HOST_IMAGE = "pdlab/host"
BASE_IMAGE = "pdlab/base"  # what lab/image builds on

LOCK = STATE / "lock"
BIN = STATE / "bin"
ROOTFS = STATE / "rootfs"
SSH = STATE / "ssh"
SSH_KEY = SSH / "id_ed25519"
KNOWN_HOSTS = SSH / "known_hosts"
ENGINE = STATE / "engine"
ENGINE_SOCKET = STATE / "engine.sock"
ENGINE_LOG = STATE / "engine.log"
DEPOT = STATE / "depot"
STAMPS = STATE / "stamps"

# The same two folders as seen inside the engine's mount namespace (engine_init.py), for bind mounts into containers.
STATE_INSIDE = Path("/lab")
SOURCE_INSIDE = Path("/src")


def inside(path: Path) -> str:
    """The name that the engine knows a path of the checkout's lab/ or .lab/ by."""
    if path.is_relative_to(STATE):
        return str(STATE_INSIDE / path.relative_to(STATE))
    return str(SOURCE_INSIDE / path.relative_to(SOURCE))


@dataclass(frozen=True)
class Host:
    """One simulated A3 server."""

    number: int

    @property
    def name(self) -> str:
        return f"a3-{self.number:02d}"

    @property
    def address(self) -> str:
        return f"10.88.0.{10 + self.number}"

    @property
    def folder(self) -> Path:
        return STATE / "hosts" / self.name

    @classmethod
    def parse(cls, name: str) -> Host:
        """The host called `a3-01` (or plain `1`)."""
        number = name.removeprefix("a3-")
        if not number.isdigit() or not 1 <= int(number) <= MAX_HOSTS:
            raise ValueError(f"no such host: {name} (a3-01 to a3-{MAX_HOSTS})")
        return cls(int(number))
