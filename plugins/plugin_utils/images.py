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


def left_behind(plan: dict[str, Any], tags: dict[str, str], hosts: dict[str, dict[str, Any]]) -> list[dict[str, str]]:
    """Containers of engines that have another image than a run with these ``tags`` gives the engines on its own hosts.

    ``hosts``: host to what ``docker_host_info`` returns with all containers, images and ``verbose_output``; one that
    could not be asked has neither. Where no tag is known the run builds nothing, so nothing can be left behind.
    """
    wanted = image_references(plan["images"], plan["settings"]["pd_build"], tags)
    result = []
    for service in plan["services"]:
        reference = wanted[service["image"]]
        found = hosts.get(service["host"], {})
        if service["kind"] != "engine" or "containers" not in found or reference == current(service["image"]):
            continue
        name = service["container"]["name"]
        names = {image["Id"]: [*(image["RepoTags"] or []), *(image["RepoDigests"] or [])] for image in found["images"]}
        for container in found["containers"]:
            own = names.get(container["ImageID"], [])
            if f"/{name}" in container["Names"] and reference not in own and f"{reference}:latest" not in own:
                result.append({"host": service["host"], "container": name, "wanted": reference})
    return result


def outdated(host: dict[str, Any], keep: int, tags: dict[str, str]) -> list[str]:
    """References of builds that a host needs no longer, an image before the one it was built on.

    ``host`` is what ``docker_host_info`` returns with all containers, images and ``verbose_output``. Of each layer the
    ``keep`` newest builds stay, and those that a container uses, that carry the name of the last good image, or whose
    tags this run knows (``tags``: layer to tag).
    """
    used = {container["ImageID"] for container in host["containers"]}
    known = {f"{REPOSITORY}/{layer}:{tag}" for layer, tag in tags.items()}
    images = sorted(host["images"], key=lambda image: int(image["Created"]), reverse=True)
    newest: dict[str, int] = {}
    result = []
    for image in images:
        ours = [name for name in image["RepoTags"] or [] if name.startswith(f"{REPOSITORY}/")]
        good = any(name.endswith(":current") for name in ours)
        for name in ours:
            layer, _colon, tag = name.rpartition(":")
            if tag == "current":
                continue
            newest[layer] = newest.get(layer, 0) + 1
            if newest[layer] > keep and not good and image["Id"] not in used and name not in known:
                result.append(name)
    return result
