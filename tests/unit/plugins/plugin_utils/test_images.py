# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.images import (
    image_references,
    left_behind,
    outdated,
)

IMAGES = {"decode": {"base": "b:1", "layers": ["vllm", "memfabric"]}, "prefill": {"base": "b:1", "layers": []}}


@pytest.mark.parametrize(
    ("build", "tags", "references"),
    [
        (True, {"vllm": "1", "memfabric": "2"}, {"decode": "vllm-ascend-pd/memfabric:2", "prefill": "b:1"}),
        (True, {"vllm": "1"}, {"decode": "vllm-ascend-pd/decode:current", "prefill": "b:1"}),
        (False, {}, {"decode": "b:1", "prefill": "b:1"}),
    ],
)
def test_image_references(build: bool, tags: dict[str, str], references: dict[str, str]) -> None:
    assert image_references(IMAGES, build, tags) == references


PLAN = {
    "settings": {"pd_build": True},
    "images": {**IMAGES, "own": {"base": "mine", "layers": []}},
    "services": [
        {"container": {"name": "pd-proxy"}, "kind": "proxy", "host": "d1", "image": "decode"},
        {"container": {"name": "pd-decode-d1"}, "kind": "engine", "host": "d1", "image": "decode"},
        {"container": {"name": "pd-decode-d2"}, "kind": "engine", "host": "d2", "image": "decode"},
        {"container": {"name": "pd-own-e1"}, "kind": "engine", "host": "e1", "image": "own"},
    ],
}
TAGS = {"vllm": "1", "memfabric": "new"}


def serving(container: str, *names: str, digests: tuple[str, ...] = ()) -> dict[str, Any]:
    """What Docker says of a host with one container, whose image has these names."""
    image = {"Id": "sha256:1", "RepoTags": list(names) or None, "RepoDigests": list(digests) or None}
    return {"images": [image], "containers": [{"Names": [f"/pd-{container}"], "ImageID": "sha256:1"}]}


OLD = serving("decode-d1", "vllm-ascend-pd/memfabric:old", "vllm-ascend-pd/decode:current")


def test_engines_on_another_build_are_left_behind() -> None:
    hosts = {"d1": OLD, "d2": serving("decode-d2", "vllm-ascend-pd/memfabric:new"), "e1": serving("own-e1", "mine:1")}
    assert left_behind(PLAN, TAGS, hosts) == [
        {"host": "d1", "container": "pd-decode-d1", "wanted": "vllm-ascend-pd/memfabric:new"},
        {"host": "e1", "container": "pd-own-e1", "wanted": "mine"},
    ]


@pytest.mark.parametrize(
    ("tags", "hosts"),
    [
        ({}, {"d1": OLD}),  # the builder is left out, too: nothing is built
        (TAGS, {"d1": {"msg": "no engine"}}),
        (TAGS, {"d1": {"images": [], "containers": []}}),  # not deployed yet
        (TAGS, {"d1": serving("decode-d7", "vllm-ascend-pd/memfabric:old")}),  # none of the plan's
        (TAGS, {"d1": serving("proxy", "vllm-ascend-pd/memfabric:old")}),  # no engine
        (TAGS, {"e1": serving("own-e1", "mine:latest")}),
        (TAGS, {}),
    ],
)
def test_nothing_is_left_behind(tags: dict[str, str], hosts: dict[str, Any]) -> None:
    assert left_behind(PLAN, tags, hosts) == []


def test_an_image_is_also_known_by_its_digest() -> None:
    plan = {**PLAN, "images": {**PLAN["images"], "own": {"base": "mine@sha256:2", "layers": []}}}
    assert left_behind(plan, {}, {"e1": serving("own-e1", digests=("mine@sha256:2",))}) == []
    assert left_behind(plan, {}, {"e1": serving("own-e1", "mine:1", digests=("mine@sha256:3",))}) != []


def host(*images: tuple[str, list[str] | None], containers: tuple[str, ...] = ()) -> dict[str, Any]:
    """What a host has, oldest image first: id and names; and the image ids of its containers."""
    return {
        "images": [{"Id": name, "RepoTags": names, "Created": born} for born, (name, names) in enumerate(images)],
        "containers": [{"ImageID": name} for name in containers],
    }


BUILDS = [
    (f"{layer}{number}", [f"vllm-ascend-pd/{layer}:{number}"]) for number in range(4) for layer in ("vllm", "memfabric")
]


def test_the_newest_builds_of_each_layer_stay_and_the_upper_layer_goes_first() -> None:
    assert outdated(host(*BUILDS), 2, {}) == [
        "vllm-ascend-pd/memfabric:1",
        "vllm-ascend-pd/vllm:1",
        "vllm-ascend-pd/memfabric:0",
        "vllm-ascend-pd/vllm:0",
    ]
    assert outdated(host(*BUILDS), 4, {}) == []


def test_what_is_used_or_known_or_the_last_good_one_stays_however_old() -> None:
    images = [
        (name, [*names, "vllm-ascend-pd/decode:current"] if name == "memfabric0" else names) for name, names in BUILDS
    ]
    kept = outdated(host(*images, containers=("vllm0",)), 1, {"memfabric": "1"})
    assert kept == ["vllm-ascend-pd/memfabric:2", "vllm-ascend-pd/vllm:2", "vllm-ascend-pd/vllm:1"]


def test_other_peoples_images_are_not_looked_at() -> None:
    strangers = [("a", None), ("b", ["vllm-ascend:1"]), ("c", ["registry/vllm-ascend-pd/vllm:1"])]
    assert outdated(host(*strangers), 0, {}) == []
