# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Which engine runs where, on which chips, with which rank: from parallel sizes and hosts to instances and engines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

INTERNAL = "internal"  # one engine per host, followers headless
EXTERNAL = "external"  # one engine per data-parallel rank, each with its own HTTP port
HYBRID = "hybrid"  # one engine per host, each serving HTTP for its own ranks
MODES = (INTERNAL, EXTERNAL, HYBRID)

SIZES = (
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "prefill_context_parallel_size",
    "decode_context_parallel_size",
    "data_parallel_size",
)
PARALLEL_KEYS = (*SIZES, "data_parallel_mode")


class LayoutError(ValueError):
    """Sizes that do not fit on the hosts; the message holds the sum that does not add up, ``right`` what would."""

    def __init__(self, found: str, right: str = "sizes whose product the hosts' chips can carry") -> None:
        super().__init__(found)
        self.right = right


@dataclass(frozen=True)
class Parallel:
    """Parallel sizes of an instance. ``given`` names the sizes that were stated, so that even a 1 is passed on."""

    tensor_parallel_size: int
    pipeline_parallel_size: int = 1
    prefill_context_parallel_size: int = 1
    decode_context_parallel_size: int = 1
    data_parallel_size: int = 1
    data_parallel_mode: str = INTERNAL
    given: frozenset[str] = frozenset()

    @property
    def world_size(self) -> int:
        """Chips of one data-parallel rank. Decode context parallelism shares the chips of tensor parallelism."""
        return self.tensor_parallel_size * self.pipeline_parallel_size * self.prefill_context_parallel_size

    @property
    def chips(self) -> int:
        return self.world_size * self.data_parallel_size

    def as_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in PARALLEL_KEYS}


@dataclass(frozen=True)
class Member:
    """What one host brings to an instance."""

    host: str
    devices: tuple[int, ...]  # chips it may use
    ranks: int | None = None  # data-parallel ranks it is told to carry


@dataclass
class Engine:
    """One ``vllm serve`` process. Ports and options are filled in by the planner."""

    name: str
    instance: str
    role: str
    host: str
    devices: tuple[int, ...]
    serves_http: bool
    node_rank: int
    nnodes: int  # > 1: hosts that share one data-parallel rank
    start_rank: int  # first data-parallel rank
    local_ranks: int
    external: bool

    @property
    def data_parallel_rank(self) -> int | None:
        return self.start_rank if self.external else None


@dataclass
class Instance:
    """Engines that form one data-parallel group, or one rank over several hosts."""

    name: str
    role: str
    parallel: Parallel
    members: tuple[Member, ...]
    engines: list[Engine] = field(default_factory=list)
    laid_out: bool = True  # false: a stand-in, whose sizes and ranks mean nothing

    @property
    def hosts(self) -> list[str]:
        return [member.host for member in self.members]


def misstated(settings: Mapping[str, Any]) -> Iterator[LayoutError]:
    """What of stated sizes cannot be read, whatever the hosts have."""
    unknown = sorted(set(settings) - set(PARALLEL_KEYS))
    if unknown:
        yield LayoutError(f"unknown parallel size {', '.join(unknown)}", f"one of {', '.join(PARALLEL_KEYS)}")
    mode = settings.get("data_parallel_mode", INTERNAL)
    if mode not in MODES:
        yield LayoutError(f"there is no data_parallel_mode {mode!r}", f"one of {', '.join(MODES)}")
    for name in SIZES:
        value = settings.get(name)
        number = isinstance(value, (int, str)) and not isinstance(value, bool) and str(value).isdecimal()
        if value is not None and (not number or int(value) < 1):
            yield LayoutError(f"{name} is {value!r}", "a whole number from 1 on")


def read_parallel(settings: Mapping[str, Any], members: Sequence[Member]) -> Parallel:
    """Stated sizes plus the tensor parallel size that uses all chips, where none is stated."""
    for mistake in misstated(settings):
        raise mistake
    mode = settings.get("data_parallel_mode", INTERNAL)
    sizes = {name: int(settings[name]) for name in SIZES if settings.get(name) is not None}
    if "tensor_parallel_size" not in sizes:
        chips = sum(len(member.devices) for member in members)
        others = 1
        for name in ("pipeline_parallel_size", "prefill_context_parallel_size", "data_parallel_size"):
            others *= sizes.get(name, 1)
        sizes["tensor_parallel_size"] = max(chips // others, 1)
        if chips and chips % others:
            raise LayoutError(
                f"{chips} chips do not divide among pipeline x prefill context x data parallel = {others}; "
                "state tensor_parallel_size"
            )
    return Parallel(**sizes, data_parallel_mode=mode, given=frozenset(settings))


def lay_out(name: str, role: str, parallel: Parallel, members: Sequence[Member], limited: bool = True) -> Instance:
    """Place an instance. ``limited`` false: hosts without chips (CPU engines), nothing to count."""
    instance = Instance(name, role, parallel, tuple(members))
    if not limited:
        if parallel.data_parallel_size < len(members):
            raise LayoutError(
                f"{len(members)} hosts without chips, but data_parallel_size is {parallel.data_parallel_size}"
            )
        ranks = _spread(parallel.data_parallel_size, [parallel.data_parallel_size] * len(members))
        _engines_per_rank_block(instance, ranks, [()] * len(members), 0)
        return instance
    world = parallel.world_size
    capacity = [len(member.devices) for member in members]
    stated = [member.ranks for member in members]
    if any(ranks is not None for ranks in stated):
        ranks = [ranks or 0 for ranks in stated]
        if min(ranks) < 0:
            raise LayoutError(f"pd_data_parallel_size_local of {_listing(instance, ranks)}: ranks are 0 or more")
        if sum(ranks) != parallel.data_parallel_size:
            raise LayoutError(
                f"pd_data_parallel_size_local of {_listing(instance, ranks)} gives {sum(ranks)} ranks, but "
                f"data_parallel_size is {parallel.data_parallel_size}"
            )
        _check_capacity(instance, ranks)
    elif all(chips >= world for chips in capacity) and parallel.data_parallel_size >= len(members):
        room = [chips // world for chips in capacity]
        if parallel.data_parallel_size > sum(room):
            why = f"; whole ranks of {world} chips fit so: {_listing(instance, room)} = {sum(room)}"
            raise _too_large(instance, why)
        ranks = _spread(parallel.data_parallel_size, room)
    else:
        _span_hosts(instance)
        return instance
    _engines_per_rank_block(instance, ranks, [member.devices for member in members], world)
    return instance


def stand_in(name: str, role: str, members: Sequence[Member]) -> Instance:
    """One engine on each host for an instance that cannot be laid out: whatever else is wrong with it is told too."""
    chips = sum(len(member.devices) for member in members)
    instance = Instance(name, role, Parallel(max(chips, 1)), tuple(members), laid_out=False)
    for node, member in enumerate(members):
        instance.engines.append(
            Engine(
                name=f"{name}-{node}",
                instance=name,
                role=role,
                host=member.host,
                devices=member.devices,
                serves_http=node == 0,
                node_rank=node,
                nnodes=len(members),
                start_rank=0,
                local_ranks=1,
                external=False,
            )
        )
    return instance


def _spread(total: int, room: Sequence[int]) -> list[int]:
    """Ranks per host: evenly, the first hosts taking what is over, nobody more than fits."""
    ranks = [0] * len(room)
    left = total
    while left:
        open_hosts = [index for index, limit in enumerate(room) if ranks[index] < limit]
        share, over = divmod(left, len(open_hosts))
        for position, index in enumerate(open_hosts):
            more = min(share + (position < over), room[index] - ranks[index])
            ranks[index] += more
            left -= more
    return ranks


def _engines_per_rank_block(
    instance: Instance, ranks: Sequence[int], devices: Sequence[Sequence[int]], world: int
) -> None:
    """Hosts that carry whole ranks: one engine per host, or one per rank where ranks are external."""
    external = instance.parallel.data_parallel_mode == EXTERNAL
    start = 0
    for node, (member, count, chips) in enumerate(zip(instance.members, ranks, devices, strict=True)):
        blocks = [1] * count if external else [count]
        used = 0
        for block in blocks:
            if not block:
                continue
            instance.engines.append(
                Engine(
                    name=f"{instance.name}-{len(instance.engines)}",
                    instance=instance.name,
                    role=instance.role,
                    host=member.host,
                    devices=tuple(chips[used : used + block * world]),
                    serves_http=external or instance.parallel.data_parallel_mode == HYBRID or start == 0,
                    node_rank=node,
                    nnodes=1,
                    start_rank=start,
                    local_ranks=block,
                    external=external,
                )
            )
            used += block * world
            start += block


def _span_hosts(instance: Instance) -> None:
    """One data-parallel rank over several hosts: each host takes the same share of its chips."""
    why = _why_not_spanned(instance)
    if why is not None:
        raise _too_large(instance, why)
    parallel = instance.parallel
    hosts = len(instance.members)
    per_rank = hosts // parallel.data_parallel_size
    share = parallel.world_size // per_rank
    for node, member in enumerate(instance.members):
        instance.engines.append(
            Engine(
                name=f"{instance.name}-{node}",
                instance=instance.name,
                role=instance.role,
                host=member.host,
                devices=member.devices[:share],
                serves_http=node == 0,
                node_rank=node,
                nnodes=hosts,
                start_rank=node // per_rank,
                local_ranks=1,
                external=False,
            )
        )


def _why_not_spanned(instance: Instance) -> str | None:
    """What keeps hosts from sharing ranks, to follow the sum; empty where the sum says it all."""
    parallel, hosts = instance.parallel, len(instance.members)
    world, ranks = parallel.world_size, parallel.data_parallel_size
    chips = [len(member.devices) for member in instance.members]
    per_rank, over = divmod(hosts, ranks)
    why = None
    if parallel.chips > sum(chips):
        why = ""
    elif ranks >= hosts:
        small = next(member for member in instance.members if len(member.devices) < world)
        why = f"; one rank needs {world} chips, and {small.host} has {len(small.devices)}"
    elif world <= min(chips):
        why = (
            f"; one rank fits on one host, so {hosts - ranks} of {hosts} hosts would idle: "
            "give each host its own instance, or raise data_parallel_size"
        )
    elif over:
        why = f"; {hosts} hosts do not divide among {ranks} ranks"
    elif world % per_rank or world // per_rank > min(chips):
        why = f"; each host takes the same share, {world} / {per_rank} = {world / per_rank:g} chips of a rank"
    elif ranks > 1 and parallel.data_parallel_mode != INTERNAL:
        why = f"; {parallel.data_parallel_mode} data parallelism wants each rank on one host"
    elif (counted := world // parallel.prefill_context_parallel_size * ranks) % hosts:
        # vllm/engine/arg_utils.py, create_engine_config: "world_size must be divisible by nnodes"
        why = f"; vLLM divides tensor x pipeline x data = {counted} among {hosts} hosts, which leaves a rest"
    return why


def _check_capacity(instance: Instance, ranks: Sequence[int]) -> None:
    world = instance.parallel.world_size
    for member, count in zip(instance.members, ranks, strict=True):
        if count * world > len(member.devices):
            raise LayoutError(
                f"{count} ranks of {world} chips need {count * world} on {member.host}, which has {len(member.devices)}"
            )


def _too_large(instance: Instance, why: str) -> LayoutError:
    """Sizes that do not fit. ``why`` they do not where there are chips enough."""
    chips = sum(len(member.devices) for member in instance.members)
    if instance.parallel.chips > chips:
        return LayoutError(_sum(instance), f"sizes whose product is at most {chips}")
    return LayoutError(_sum(instance) + why)


def _sum(instance: Instance) -> str:
    """The calculation in words: what the sizes ask for, and what the hosts have."""
    parallel = instance.parallel
    factors = [
        f"{label} {value}"
        for label, value in (
            ("tensor", parallel.tensor_parallel_size),
            ("pipeline", parallel.pipeline_parallel_size),
            ("prefill context", parallel.prefill_context_parallel_size),
            ("data", parallel.data_parallel_size),
        )
        if value > 1 or label == "tensor"
    ]
    chips = [len(member.devices) for member in instance.members]
    there = f"{instance.hosts[0]} has {chips[0]}"
    if len(chips) > 1:
        there = f"{_listing(instance, chips)} = {sum(chips)}"
    return (
        f"{instance.name}: {' x '.join(factors)} parallel = {parallel.chips} chips, "
        f"{'but' if parallel.chips > sum(chips) else 'and'} {there}"
    )


def _listing(instance: Instance, numbers: Sequence[int]) -> str:
    return " + ".join(f"{host} {number}" for host, number in zip(instance.hosts, numbers, strict=True))
