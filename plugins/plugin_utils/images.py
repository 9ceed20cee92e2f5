# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""How the images of a plan are called on a host.

Every layer is an image ``vllm-ascend-pd/LAYER:TAG`` whose tag hashes what went into it. What a host serves carries the
second name ``vllm-ascend-pd/IMAGE:current``, by which a role that builds nothing finds the last good one.
"""

from __future__ import annotations

from typing import Any

REPOSITORY = "vllm-ascend-pd"


def image_references(images: dict[str, Any], build: bool, tags: dict[str, str]) -> dict[str, str]:
    """Reference of each image of the plan.

    ``tags`` are those of the layers as far as this run knows them; without one the name of the last good image stands.
    """
    references = {}
    for name, image in images.items():
        if not build or not image["layers"]:
            references[name] = image["base"]
            continue
        top = image["layers"][-1]
        references[name] = f"{REPOSITORY}/{top}:{tags[top]}" if top in tags else current(name)
    return references


def current(name: str) -> str:
    return f"{REPOSITORY}/{name}:current"
