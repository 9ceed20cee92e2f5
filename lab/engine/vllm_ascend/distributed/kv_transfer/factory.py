# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Connectors of each release (vllm_ascend/distributed/kv_transfer/__init__.py register_connector)."""

from __future__ import annotations

from typing import Any

from vllm.config import KVTransferConfig

from vllm_ascend import release
from vllm_ascend.distributed.kv_transfer.base import Connector, Replica, Request
from vllm_ascend.distributed.kv_transfer.kv_p2p.mooncake_connector import MooncakeConnector
from vllm_ascend.distributed.kv_transfer.kv_p2p.mooncake_layerwise_connector import MooncakeLayerwiseConnector
from vllm_ascend.distributed.kv_transfer.kv_p2p.sfa_pd_rd2h.connector import SfaRemoteD2HConnector
from vllm_ascend.distributed.kv_transfer.kv_pool.ascend_store import AscendStoreConnector


class MultiConnector(Connector):
    """Several connectors under one name; the first that has a request's KV serves it."""

    def __init__(self, replica: Replica, transfer: KVTransferConfig) -> None:
        super().__init__(replica, transfer)
        children = transfer.extra.get("connectors")
        assert children is not None, "MultiConnector requires kv_connector_extra_config.connectors"
        inherited = {"engine_id": transfer.engine_id}
        parsed = [KVTransferConfig.of({**inherited, **child}) for child in children]
        self.connectors = [make(replica, child) for child in parsed if child is not None]

    def start(self) -> None:
        for connector in self.connectors:
            connector.start()

    async def load(self, request: Request) -> str | None:
        for connector in self.connectors:
            digest = await connector.load(request)
            if digest is not None:
                return digest
        return None

    async def save(self, request: Request) -> dict[str, Any] | None:
        answers = [await connector.save(request) for connector in self.connectors]
        return next((answer for answer in answers if answer), None)


_CONNECTORS: dict[str, type[Connector]] = {
    "MultiConnector": MultiConnector,
    "MooncakeConnectorV1": MooncakeConnector,
    "MooncakeLayerwiseConnector": MooncakeLayerwiseConnector,
    "AscendStoreConnector": AscendStoreConnector,
    "MooncakeConnectorStoreV1": AscendStoreConnector,
}
if release() >= (0, 26, 0):
    _CONNECTORS["SfaRemoteD2HConnector"] = SfaRemoteD2HConnector


def make(replica: Replica, transfer: KVTransferConfig) -> Connector:
    """The connector of a configuration; its constructor's checks run here."""
    kind = _CONNECTORS.get(str(transfer.kv_connector))
    if kind is None:
        raise ValueError(f"Unsupported connector type: {transfer.kv_connector}")
    return kind(replica, transfer)
