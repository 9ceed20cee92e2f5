# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Ports of a deployment: what each instance takes on a node, and whether the planner would count them out so."""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils import connectors

from tools.deployments.connector_config import in_mooncake_band
from tools.deployments.grouping import Instance
from tools.deployments.reading import NotExpressible

#: First port and how many follow; ``None``: left to the planner.
Span = tuple[int, int] | None


def in_a_row(spans: Sequence[Span]) -> bool:
    """Whether every span is stated and begins where the one before ends, as the planner counts them from one port."""
    position = None
    for span in spans:
        if span is None or position not in (None, span[0]):
            return False
        position = span[0] + span[1]
    return True


def http(instance: Instance, node: int) -> Span:
    ports = [engine.http_port for engine in instance.on(node) if not engine.headless]
    if not ports:
        return None
    if ports != list(range(ports[0], ports[0] + len(ports))):
        raise NotExpressible(f"ports of an instance's engines on node {node} do not follow each other: {ports}")
    return ports[0], len(ports)


def kv(instance: Instance, node: int, chips_per_node: int) -> Span:
    """The stated control port, where it does not stand in Mooncake's random band and so would be moved anyway."""
    head = instance.engines[0]
    for engine in instance.on(node):
        for part in connectors.walk(engine.kv):
            port = part.get("kv_port")
            if port is not None and not in_mooncake_band(int(port), chips_per_node):
                return int(port), head.world * head.dp
    return None


def meeting(instance: Instance, option: str, theirs: int) -> Span:
    """Where the instance's engines meet. One that has nobody to meet takes no port, but may state one."""
    head = instance.engines[0]
    shared = head.nnodes > 1
    needed = shared if option == "master-port" else head.dp > 1 and (len(instance.engines) > 1 or head.external)
    if not needed and option not in head.options:
        return None
    return head.number(option, theirs), int(needed)
