# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Guide 1's prefill: MultiConnector with AscendStoreConnector on MemCache; Meta is a listener here, real in the lab."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lab.harness import Lab, Process, free_port
from tests.lab.test_sparse_pd import READY, prefill

STORE = {
    "backend": "memcache",
    "use_layerwise": True,
    "layerwise_num_shared_buffers": 3,
    "layerwise_independent_layers": [0],
}
LOCAL = {
    "ock.mmc.meta_service_url": "tcp://127.0.0.1:{meta}", "ock.mmc.local_service.config_store_url": "tcp://127.0.0.1:{meta}",
    "ock.mmc.local_service.world_size": "256", "ock.mmc.local_service.protocol": "device_sdma",
    "ock.mmc.local_service.dram.size": "10G",
}  # fmt: skip

SHM = {"ock.mmc.local_service.protocol": "host_shm"}


@pytest.fixture
def meta() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield int(listener.getsockname()[1])


def start(lab: Lab, meta: int, store: dict[str, Any], local: dict[str, str]) -> Process:
    where = lab.host(2)
    text = "".join(f"{key} = {value.format(meta=meta)}\n" for key, value in {**LOCAL, **local}.items())
    where.env["MMC_LOCAL_CONFIG_PATH"] = str(where.write("mmc-local.conf", "# comment\n" + text))
    puller = {"kv_connector": "SfaRemoteD2HConnector", "kv_connector_extra_config": {"transfer_backend": "memfabric"}}
    pool = {"kv_connector": "AscendStoreConnector", "kv_connector_extra_config": {**STORE, **store}}
    children = [{"kv_role": "kv_producer", **child} for child in (puller, pool)]
    transfer = {"kv_connector": "MultiConnector", "kv_connector_extra_config": {"connectors": children}}
    return lab.serve(where, lab.model(), **prefill(free_port(), transfer))


def test_layerwise_prefill_starts(lab: Lab, meta: int) -> None:
    engine = start(lab, meta, {}, {})
    engine.until(READY)
    assert "maps 61 layers onto 4 buffer assignments; scale logical KV budget by 15.250" in engine.text()


@pytest.mark.parametrize(
    ("store", "local", "text"),
    [
        ({"backend": "redis"}, {}, "Unsupported KV pool backend: redis"),
        ({"backend": "mooncake"}, {}, "'MOONCAKE_CONFIG_PATH' is not set"),
        ({"layerwise_num_shared_buffers": 0}, {}, "must be at least 1"),
        ({"layerwise_num_shared_buffers": True}, {}, "must be an integer, got bool"),
        ({"layerwise_independent_layers": [61]}, {}, "out-of-range layer index 61"),
        ({"layerwise_independent_layers": "none"}, {}, "must be a list of integers or 'all'"),
        ({}, {"ock.mmc.meta_service_url": "tcp://127.0.0.1:1"}, "cannot connect to ock.mmc.meta_service_url"),
        ({}, {"ock.mmc.local_service.config_store_url": "tcp://127.0.0.1:1"}, "cannot connect to ock.mmc.local"),
        ({}, {"ock.mmc.local_service.dram.size": "2.5GB"}, "must be aligned to 1GB"),
        ({}, {"ock.mmc.local_service.dram.size": "ten"}, "dram.size: cannot be read"),
        ({}, {"ock.mmc.local_service.dram.size": "0"}, "are both 0"),
        ({}, {"ock.mmc.local_service.dram.size": "100GB"}, "host memory: 1600 GiB wanted, 1400 GiB available"),
        ({}, {"ock.mmc.local_service.world_size": "8"}, "world_size: 8 is less than the 16 ranks"),
        ({}, {"ock.mmc.local_service.protocol": "sdma"}, "'sdma' is none of"),
        ({}, {**SHM, "ock.mmc.local_service.dram.size": "80GB"}, "wanted on /dev/shm"),
    ],
)  # fmt: skip
def test_layerwise_prefill_refuses(
    store: dict[str, Any], local: dict[str, str], text: str, meta: int, lab: Lab
) -> None:
    engine = start(lab, meta, store, local)
    assert engine.ended() == 1
    assert text in engine.text(), engine.text()


def test_local_configuration_must_be_named(lab: Lab) -> None:
    transfer = {"kv_connector": "AscendStoreConnector", "kv_connector_extra_config": STORE}
    engine = lab.serve(lab.host(2), lab.model(), **prefill(free_port(), transfer))
    assert engine.ended() == 1
    assert "MMC_LOCAL_CONFIG_PATH is not set" in engine.text()
    assert "Loading weights took" in engine.text()
