# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""MemCache: where MetaService runs and what stands in the two configuration files."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

META_FILE = "mmc-meta.conf"
LOCAL_FILE = "mmc-local.conf"
META_COMMAND = ["python", "-c", "from memcache_hybrid import MetaService; MetaService.main()"]

#: Where ranks are met with the protocols that go over the network, and the URL that MemCache has if none is stated.
HCOM_PROTOCOLS = ("host_rdma", "host_urma", "host_tcp")
HCOM_URL = "tcp://127.0.0.1:7000"

#: world_size as shipped; fixed until Meta restarts, so it grows only where there are more ranks.
WORLD_SIZE = 256
MOST_RANKS = 1024


@dataclass(frozen=True)
class MetaAddress:
    """Where MetaService listens. The same four URLs go into both files."""

    host: str
    address: str
    service_port: int
    config_store_port: int
    metrics_port: int

    @property
    def service_url(self) -> str:
        return f"tcp://{self.address}:{self.service_port}"

    @property
    def config_store_url(self) -> str:
        return f"tcp://{self.address}:{self.config_store_port}"

    @property
    def metrics_url(self) -> str:
        return f"http://{self.address}:{self.metrics_port}"


def hcom_place(url: str | None) -> tuple[str, int] | None:
    """Address and first port of an hcom URL; ``None`` if it is none."""
    match = re.fullmatch(r"tcp://(\S+):(\d+)", HCOM_URL if url is None else str(url))
    return (match.group(1).strip("[]"), int(match.group(2))) if match else None


def meta_conf(meta: MetaAddress) -> dict[str, Any]:
    return {
        "ock.mmc.meta_service_url": meta.service_url,
        "ock.mmc.meta_service.config_store_url": meta.config_store_url,
        "ock.mmc.meta_service.metrics_url": meta.metrics_url,
        "ock.mmc.log_level": "info",
    }


def local_conf(meta: MetaAddress, ranks: int, protocol: str, dram_size: str, hcom_url: str | None) -> dict[str, Any]:
    """``dram_size`` is what every rank gives; ``ranks`` all ranks of the cluster that take part."""
    conf = {
        "ock.mmc.meta_service_url": meta.service_url,
        "ock.mmc.local_service.config_store_url": meta.config_store_url,
        "ock.mmc.log_level": "info",
        "ock.mmc.local_service.world_size": max(WORLD_SIZE, ranks),
        "ock.mmc.local_service.protocol": protocol,
        "ock.mmc.local_service.dram.size": dram_size,
    }
    return conf | ({"ock.mmc.local_service.hcom_url": hcom_url} if hcom_url else {})
