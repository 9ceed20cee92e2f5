# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Which engines of a deployment form an instance, and whether such a deployment could start at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tools.deployments.reading import VLLM_MASTER_PORT, VLLM_RPC_PORT, Engine, NotExpressible

_LOOPBACK = ("127.0.0.1", "localhost")


@dataclass
class Instance:
    """Engines that share one data-parallel group, or the nodes of one rank; in rank order."""

    role: str
    engines: list[Engine] = field(default_factory=list)

    @property
    def nodes(self) -> list[int]:
        return list(dict.fromkeys(engine.node for engine in self.engines))

    def on(self, node: int) -> list[Engine]:
        return [engine for engine in self.engines if engine.node == node]


def group(engines: Sequence[Engine], nodes: Sequence[str], chips_per_node: int) -> list[Instance]:
    """Engines to instances: by rendezvous where they need one, else each engine is its own."""
    instances: dict[tuple[Any, ...], Instance] = {}
    for engine in engines:
        instances.setdefault(_meeting_point(engine, nodes), Instance(engine.role)).engines.append(engine)
    faults = [fault for engine in engines for fault in engine.faults]
    for point, instance in instances.items():
        instance.engines.sort(key=_rank)
        faults += _alone(instance) if point[0] == "alone" else _together(instance, f"{point[1]}:{point[2]}", nodes)
    faults += _chips(engines, chips_per_node)
    if {"engine"} != {engine.role for engine in engines} != {"prefill", "decode"}:
        faults.append(f"{', '.join(sorted({engine.role for engine in engines}))} engines alone are no service")
    if faults:
        raise NotExpressible("; ".join(dict.fromkeys(faults)))
    return list(instances.values())


def _meeting_point(engine: Engine, nodes: Sequence[str]) -> tuple[Any, ...]:
    """What engines of one instance have in common: the address and port where they find each other."""
    options, own = engine.options, nodes[engine.node]
    if engine.nnodes > 1:
        return ("nodes", options.get("master-addr", own), engine.number("master-port", VLLM_MASTER_PORT))
    if engine.dp > 1 and (engine.external or engine.local_ranks < engine.dp):
        address = options.get("data-parallel-address", own)
        return ("ranks", address, engine.number("data-parallel-rpc-port", VLLM_RPC_PORT))
    return ("alone", engine.node, engine.http_port)


def _rank(engine: Engine) -> int:
    return engine.number("node-rank", 0) if engine.nnodes > 1 else engine.start_rank


def _alone(instance: Instance) -> Iterator[str]:
    head, count = instance.engines[0], len(instance.engines)
    if count > 1:
        yield f"{count} engines on node {head.node} listen on port {head.http_port}"
    if head.headless:
        yield f"the engine on node {head.node} is headless and has nobody to follow"


def _together(instance: Instance, where: str, nodes: Sequence[str]) -> Iterator[str]:
    """The members of a group agree on their role and on who serves, and their ranks are all there, each once."""
    head = instance.engines[0]
    if roles := sorted({engine.role for engine in instance.engines} - {head.role}):
        yield f"engines of role {head.role} and of role {', '.join(roles)} meet at {where}"
    shared = head.nnodes > 1
    total = head.nnodes if shared else head.dp
    counts = [1 if shared else engine.local_ranks for engine in instance.engines]
    starts = [_rank(engine) for engine in instance.engines]
    if starts != [sum(counts[:position]) for position in range(len(counts))] or sum(counts) != total:
        ranks = ", ".join(
            f"{start} to {start + count - 1} on node {engine.node}" if count > 1 else f"{start} on node {engine.node}"
            for engine, start, count in zip(instance.engines, starts, counts, strict=True)
        )
        yield f"{'node ranks' if shared else 'ranks'} at {where} do not add up to {total}, each once: {ranks}"
        return
    address = where.rpartition(":")[0]
    if address != nodes[head.node] and not (address in _LOOPBACK and len(instance.nodes) == 1):
        yield f"rank 0 is on node {head.node}, which is {nodes[head.node]} and not {address}"
    if head.headless:
        yield f"rank 0 at {where} is headless, so nobody serves"
    if not head.external:
        yield from _who_serves(instance, bool(head.options.get("data-parallel-hybrid-lb")))


def _who_serves(instance: Instance, hybrid: bool) -> Iterator[str]:
    """With hybrid balancing every engine serves, else the first alone (vllm/v1/engine/utils.py: use --headless)."""
    wrong = [engine.node for engine in instance.engines[1:] if engine.headless == hybrid]
    if wrong:
        mode = "every node balances the load of its own ranks" if hybrid else "rank 0 balances the load of all"
        yield f"engines on nodes {wrong} are {'' if hybrid else 'not '}headless, though {mode}"


def _chips(engines: Sequence[Engine], chips_per_node: int) -> Iterator[str]:
    """The chips of a node suffice, and no two engines get the same."""
    for node in dict.fromkeys(engine.node for engine in engines):
        own = [engine for engine in engines if engine.node == node]
        needed = [engine.chips for engine in own]
        if sum(needed) > chips_per_node:
            yield f"engines on node {node} need {' + '.join(map(str, needed))} chips, and it has {chips_per_node}"
        taken: set[int] = set()
        for engine in own:
            chips = (engine.devices or [])[: engine.chips]
            if engine.devices is not None and len(chips) < engine.chips:
                yield f"an engine on node {node} needs {engine.chips} chips and sees {len(chips)}"
            if both := sorted(taken.intersection(chips)):
                yield f"two engines on node {node} want chip {both[0]}"
            taken.update(chips)
