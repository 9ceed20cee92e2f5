# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Mistakes that somebody could make in plan, templates, mounts and environment, each with the test that must notice."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutation:
    """`old` stands exactly once in `file`; with `new` in its place the test `caught_by` (a pytest id) has to fail."""

    name: str
    file: str
    old: str
    new: str
    caught_by: str


MUTATIONS: tuple[Mutation, ...] = ()
