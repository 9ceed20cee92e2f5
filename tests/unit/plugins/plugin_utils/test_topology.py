# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Placement: which engine runs where, and which sums are refused."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.topology import (
    Engine,
    LayoutError,
    Member,
    lay_out,
    read_parallel,
)
from hypothesis import given
from hypothesis import strategies as st


def engines(settings: dict[str, Any], *chips: int, ranks: tuple[int | None, ...] | None = None) -> list[Engine]:
    """Engines of an instance on hosts a, b, … with so many chips each."""
    stated = ranks or (None,) * len(chips)
    members = [Member("abcdefgh"[i], tuple(range(count)), stated[i]) for i, count in enumerate(chips)]
    return lay_out("i", "decode", read_parallel(settings, members), members).engines


def shape(placed: list[Engine]) -> list[tuple[str, int, int, int, bool]]:
    """host, first rank, ranks, chips, HTTP."""
    return [(e.host, e.start_rank, e.local_ranks, len(e.devices), e.serves_http) for e in placed]


TP = "tensor_parallel_size"
DP = "data_parallel_size"
EXTERNAL = {"data_parallel_mode": "external"}


@pytest.mark.parametrize(
    ("settings", "chips", "expected"),
    [
        ({}, (16,), [("a", 0, 1, 16, True)]),
        ({TP: 8, DP: 2}, (16,), [("a", 0, 2, 16, True)]),
        ({DP: 2}, (16,), [("a", 0, 2, 16, True)]),
        ({TP: 4}, (16,), [("a", 0, 1, 4, True)]),
        ({TP: 8, DP: 4}, (16, 16), [("a", 0, 2, 16, True), ("b", 2, 2, 16, False)]),
        ({TP: 8, DP: 4, "data_parallel_mode": "hybrid"}, (16, 16), [("a", 0, 2, 16, True), ("b", 2, 2, 16, True)]),
        ({TP: 8, DP: 3}, (16, 16), [("a", 0, 2, 16, True), ("b", 2, 1, 8, False)]),
        ({TP: 8, DP: 2, **EXTERNAL}, (16,), [("a", 0, 1, 8, True), ("a", 1, 1, 8, True)]),
        ({TP: 4, DP: 3, **EXTERNAL}, (8, 4), [("a", 0, 1, 4, True), ("a", 1, 1, 4, True), ("b", 2, 1, 4, True)]),
        ({TP: 16, "prefill_context_parallel_size": 2}, (16, 16), [("a", 0, 1, 16, True), ("b", 0, 1, 16, False)]),
        ({TP: 16, "pipeline_parallel_size": 2}, (16, 16), [("a", 0, 1, 16, True), ("b", 0, 1, 16, False)]),
        ({TP: 16}, (8, 8), [("a", 0, 1, 8, True), ("b", 0, 1, 8, False)]),
        ({TP: 24}, (16, 16, 16), [("a", 0, 1, 8, True), ("b", 0, 1, 8, False), ("c", 0, 1, 8, False)]),
        ({TP: 16, "decode_context_parallel_size": 8}, (16,), [("a", 0, 1, 16, True)]),
        (
            {TP: 32, DP: 2},
            (16, 16, 16, 16),
            [("a", 0, 1, 16, True), ("b", 0, 1, 16, False), ("c", 1, 1, 16, False), ("d", 1, 1, 16, False)],
        ),
    ],
)
def test_placement(settings: dict[str, Any], chips: tuple[int, ...], expected: list[tuple[Any, ...]]) -> None:
    assert shape(engines(settings, *chips)) == expected


def test_hosts_that_share_a_rank_have_node_ranks() -> None:
    placed = engines({TP: 16, "prefill_context_parallel_size": 2}, 16, 16)
    assert [(e.nnodes, e.node_rank) for e in placed] == [(2, 0), (2, 1)]
    assert [e.nnodes for e in engines({TP: 8, DP: 4}, 16, 16)] == [1, 1]


def test_external_ranks_get_their_own_chips_in_order() -> None:
    assert [e.devices for e in engines({TP: 2, DP: 3, **EXTERNAL}, 4, 2)] == [(0, 1), (2, 3), (0, 1)]


def test_stated_ranks_per_host() -> None:
    placed = engines({TP: 2, DP: 6}, 16, 16, ranks=(4, 2))
    assert shape(placed) == [("a", 0, 4, 8, True), ("b", 4, 2, 4, False)]


@pytest.mark.parametrize(
    ("settings", "chips", "words"),
    [
        (
            {TP: 16, "prefill_context_parallel_size": 2},
            (16,),
            "tensor 16 x prefill context 2 parallel = 32 chips, but a has 16",
        ),
        ({TP: 8, DP: 4}, (16,), "tensor 8 x data 4 parallel = 32 chips, but a has 16"),
        ({TP: 8, DP: 5}, (16, 16), "= 40 chips, but a 16 \\+ b 16 = 32"),
        ({TP: 16}, (16, 16), "one rank fits on one host"),
        ({TP: 16}, (8,), "= 16 chips, but a has 8"),
        ({DP: 3}, (16,), "16 chips do not divide among .* = 3"),
        # the sum adds up, so what does not is said besides
        ({TP: 6, DP: 5}, (16, 16), r"= 30 chips, and .* = 32; whole ranks of 6 chips fit so: a 2 \+ b 2 = 4"),
        ({TP: 16, DP: 2}, (24, 8), "= 32 chips, and .* = 32; one rank needs 16 chips, and b has 8"),
        ({TP: 24}, (8, 16), "= 24 chips, and .* = 24; each host takes the same share, 24 / 2 = 12 chips"),
        ({TP: 24, DP: 2}, (16, 16, 16), "= 48 chips, and .* = 48; 3 hosts do not divide among 2 ranks"),
        ({TP: 8, DP: 2}, (16, 16, 16), "one rank fits on one host, so 1 of 3 hosts would idle"),
        # vLLM counts without prefill context parallelism where hosts share a rank
        ({TP: 8, "prefill_context_parallel_size": 3}, (8, 8, 8), "vLLM divides .* = 8 among 3 hosts"),
        ({TP: 32, DP: 2, "data_parallel_mode": "hybrid"}, (16,) * 4, "hybrid data parallelism wants each rank on one"),
        ({TP: 32, DP: 2, **EXTERNAL}, (16, 16, 16, 16), "external data parallelism wants each rank on one host"),
        ({TP: 0}, (16,), "tensor_parallel_size is 0"),
        ({TP: "four"}, (16,), "tensor_parallel_size is 'four'"),
        ({TP: True}, (16,), "tensor_parallel_size is True"),
        ({"tp": 4}, (16,), "unknown parallel size tp"),
        ({"data_parallel_mode": "exernal"}, (16,), "no data_parallel_mode 'exernal'"),
    ],
)
def test_what_does_not_add_up_is_refused_with_the_sum(
    settings: dict[str, Any], chips: tuple[int, ...], words: str
) -> None:
    with pytest.raises(LayoutError, match=words):
        engines(settings, *chips)


@pytest.mark.parametrize(
    ("ranks", "words"),
    [
        ((1, 1), "gives 2 ranks, but data_parallel_size is 4"),
        ((4, None), "4 ranks of 8 chips need 32 on a, which has 16"),
        ((5, -1), r"a 5 \+ b -1: ranks are 0 or more"),
    ],
)
def test_stated_ranks_that_do_not_add_up(ranks: tuple[int | None, ...], words: str) -> None:
    with pytest.raises(LayoutError, match=words):
        engines({TP: 8, DP: 4}, 16, 16, ranks=ranks)


def test_hosts_without_chips_need_a_rank_each() -> None:
    """Nothing is counted there, but no host may be left out in silence."""
    members = [Member(host, ()) for host in "ab"]
    assert len(lay_out("i", "decode", read_parallel({DP: 2}, members), members, limited=False).engines) == 2
    with pytest.raises(LayoutError, match="2 hosts without chips, but data_parallel_size is 1"):
        lay_out("i", "decode", read_parallel({}, members), members, limited=False)


@given(
    hosts=st.integers(1, 6),
    chips=st.sampled_from([8, 16]),
    tp=st.sampled_from([1, 2, 4, 8]),
    mode=st.sampled_from(["internal", "external", "hybrid"]),
    data=st.data(),
)
def test_every_rank_is_placed_once_on_chips_of_its_own(
    hosts: int, chips: int, tp: int, mode: str, data: st.DataObject
) -> None:
    """Whatever the sizes: ranks 0..dp-1 in order, no chip twice, exactly the chips that the product says."""
    dp = data.draw(st.integers(hosts, hosts * chips // tp))
    placed = engines({TP: tp, DP: dp, "data_parallel_mode": mode}, *[chips] * hosts)
    assert [rank for e in placed for rank in range(e.start_rank, e.start_rank + e.local_ranks)] == list(range(dp))
    used = [(e.host, chip) for e in placed for chip in e.devices]
    assert len(used) == len(set(used)) == tp * dp
    assert len(placed) == (dp if mode == "external" else hosts)
    assert [e.serves_http for e in placed] == [mode != "internal" or e.start_rank == 0 for e in placed]
