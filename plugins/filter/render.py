# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Filters with which roles hand data on: probes to the planner, the plan to modules."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils import images, probes, rules, wire_test
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils import service_folder as folder


def service_folder(service: dict[str, Any], launcher: str) -> dict[str, Any]:
    try:
        return folder.service_folder(service, launcher)
    except ValueError as error:
        raise AnsibleFilterError(f"service {service.get('name')}: {error}") from error


def waits(services: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"container": service["container"]["name"], "ready": service["ready"]} for service in services]


def probe_facts(results: dict[str, dict[str, Any]], pings: dict[str, dict[str, Any]] | None = None) -> dict[str, Any]:
    return {host: probes.facts_of(result, (pings or {}).get(host)) for host, result in results.items()}


def probe_pings(plan: dict[str, Any], results: dict[str, dict[str, Any]]) -> dict[str, dict[str, list[str]]]:
    return probes.pings(plan, probe_facts(results))


def no_such_rule(identifier: str) -> str:
    try:
        rules.named(identifier)
    except rules.NoSuchRule as error:
        return str(error)
    return ""


def wire_test_sides(plan: dict[str, Any], size_bytes: int, timeout_s: int) -> list[dict[str, Any]]:
    return wire_test.sides(plan, size_bytes, timeout_s)


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Any]:
        return {
            "service_folder": service_folder,
            "image_references": images.image_references,
            "images_left_behind": images.left_behind,
            "no_such_rule": no_such_rule,
            "outdated_images": images.outdated,
            "waits": waits,
            "probe_facts": probe_facts,
            "probe_pings": probe_pings,
            "wire_test_sides": wire_test_sides,
        }
