# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Keys that nobody reads, with the nearest that somebody does."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator


def unknown_keys(given: Iterable[str], known: Iterable[str], alike: float = 0.5) -> Iterator[tuple[str, str | None]]:
    """Each unknown key with the nearest known one, at least ``alike`` (0 to 1); case alone is near enough."""
    choices = list(known)
    folded = {choice.lower(): choice for choice in choices}
    for key in given:
        if key not in choices:
            near = folded.get(str(key).lower()) or next(
                iter(difflib.get_close_matches(str(key), choices, n=1, cutoff=alike)), None
            )
            yield str(key), near
