# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""What a container needs from the host: devices, mounts, limits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.facts import HostFacts

#: What names of containers of services begin with.
OWN = "pd-"

CONFIG_DIR = "/etc/vllm-ascend-pd"  # in every container; holds its own service's folder only

#: Where hccn_tool, dcmi and the driver's libraries live; and where NPU nodes are.
DEVICE_NODES = ("/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc")

CANN_SCRIPTS = ("/usr/local/Ascend/ascend-toolkit/set_env.sh", "/usr/local/Ascend/nnal/atb/set_env.sh")
MEMFABRIC_SCRIPT = "/usr/local/memfabric_hybrid/set_env.sh"
MEMCACHE_SCRIPT = "/usr/local/memcache_hybrid/set_env.sh"


@dataclass(frozen=True)
class Mount:
    """A bind mount. ``optional``: left out where a probe has seen that the host lacks it."""

    source: str
    target: str = ""
    read_only: bool = True
    optional: bool = False

    def spec(self) -> str:
        return f"{self.source}:{self.target or self.source}{':ro' if self.read_only else ''}"


#: Every process that loads CANN's libraries needs these, with or without chips.
DRIVER_MOUNTS = (
    Mount("/usr/local/Ascend/driver"),  # holds hccn_tool too; only parts of it give EI0014 (recipes #907)
    Mount("/usr/local/dcmi"),
    Mount("/etc/ascend_install.info"),  # MemFabric finds the driver's version through it
)

#: Engines besides.
ENGINE_MOUNTS = (
    *DRIVER_MOUNTS,
    Mount("/etc/hccn.conf"),  # without it the service starts and answers wrong tokens (vllm-ascend #7711)
    Mount("/usr/local/Ascend/add-ons", optional=True),
    Mount("/var/log/npu/conf/slog/slog.conf", optional=True),
    Mount("/var/log/npu/slog", read_only=False, optional=True),
    Mount("/var/log/npu/profiling", read_only=False, optional=True),
    Mount("/var/log/npu/dump", read_only=False, optional=True),
)

SBIN_MOUNT = Mount("/usr/local/sbin")


def present(mounts: Iterable[Mount], facts: HostFacts) -> list[str]:
    """Mount specifications, without optional ones that the host is known to lack."""
    return [m.spec() for m in mounts if not (m.optional and facts.has_path(m.source) is False)]


def device_paths(chips: Sequence[int]) -> list[str]:
    """Device nodes for chips, none for no chips."""
    return [f"/dev/davinci{chip}" for chip in chips] + list(DEVICE_NODES) if chips else []


def container_name(service: str) -> str:
    return f"{OWN}{service}"


def container(
    service: str,
    *,
    privileged: bool,
    devices: Sequence[str],
    mounts: Sequence[str],
    retries: int,
    stop_timeout: int,
    log_size: str,
    log_files: int,
) -> dict[str, Any]:
    """The settings of one container, the same keys for every service."""
    return {
        "name": container_name(service),
        "network_mode": "host",
        "ipc_mode": "host",  # MemCache's host_shm needs the host's /dev/shm, not Docker's 64 MB
        "privileged": privileged,
        "user": "0",
        "devices": list(devices),
        "mounts": list(mounts),
        "ulimits": ["memlock:-1:-1", "nofile:1048576:1048576"],
        "restart_policy": "on-failure",
        "restart_retries": retries,
        "stop_timeout": stop_timeout,
        "log_driver": "json-file",
        "log_options": {"max-size": log_size, "max-file": str(log_files)},
    }
