# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Environment of services: what is derived, what the user may not set here and why, what goes where."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

#: Variables that hold search paths. The image and the set_env.sh files fill them too, so only prepending is safe.
PATH_LIKE = ("LD_LIBRARY_PATH", "LD_PRELOAD", "PATH", "PYTHONPATH")

#: Environment variables that follow from the plan -> the variable that decides them.
OWNED = {
    "VLLM_HOST_IP": "pd_address",
    "HCCL_IF_IP": "pd_address",
    "HCCL_SOCKET_IFNAME": "pd_nic",
    "GLOO_SOCKET_IFNAME": "pd_nic",
    "TP_SOCKET_IFNAME": "pd_nic",
    "HCCL_IF_BASE_PORT": "pd_hccl_if_base_port",
    "ASCEND_RT_VISIBLE_DEVICES": "pd_devices",
    "MMC_LOCAL_CONFIG_PATH": "memcache_* variables",
    "MMC_META_CONFIG_PATH": "memcache_* variables",
}

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_PROXIES = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")


def text(value: Any) -> str:
    """A YAML value as the word that a shell would export."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def refusals(env: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """``(name, found, right)`` of entries that may not stand in an environment variable of the user's."""
    result = []
    for name, value in env.items():
        if not _NAME.match(str(name)):
            result.append((name, f"{name!r} is no name of an environment variable", "letters, digits and _"))
        elif name in OWNED:
            result.append((name, f"{name} follows from the plan", OWNED[name]))
        elif name in PATH_LIKE:
            result.append((name, f"{name} would replace what the image and set_env.sh put there", "pd_prepend_paths"))
        elif value is None:
            continue
        elif isinstance(value, (Mapping, list)):
            result.append((name, f"{name} is not a word", "a string or number"))
        elif "$" in text(value):
            result.append((name, f"{name} contains $, which nothing expands", "the value itself"))
        elif "\n" in text(value) or "\0" in text(value):
            result.append((name, f"{name} contains a line break", "one line"))
    return result


def check_prepend(paths: Mapping[str, Any]) -> tuple[dict[str, list[str]], list[str]]:
    """Usable entries of ``pd_prepend_paths``, and what is wrong with the others."""
    good: dict[str, list[str]] = {}
    wrong = []
    for name, entries in paths.items():
        if name not in PATH_LIKE:
            wrong.append(f"{name} is none of {', '.join(PATH_LIKE)}")
        elif not isinstance(entries, list) or not all(isinstance(entry, str) and entry for entry in entries):
            wrong.append(f"{name} is not a list of paths")
        elif any(set(entry) & set("$:\n\0") for entry in entries):
            wrong.append(f"{name} has an entry with $, a colon or a line break")
        else:
            good[str(name)] = entries
    return good, wrong


def interface(address: str, nic: str, base_port: int | None) -> dict[str, str]:
    """What binds an engine to its serving interface.

    ``VLLM_HOST_IP`` because vLLM does not look at ``HCCL_IF_IP``: without it the source address of the default route is
    told to peers (vllm/utils/network_utils.py ``get_ip``).
    """
    env = {
        "VLLM_HOST_IP": address,
        "HCCL_IF_IP": address,
        "HCCL_SOCKET_IFNAME": nic,
        "GLOO_SOCKET_IFNAME": nic,
        "TP_SOCKET_IFNAME": nic,
    }
    if base_port is not None:
        env["HCCL_IF_BASE_PORT"] = str(base_port)
    return env


def complete_no_proxy(env: dict[str, str], addresses: Iterable[str]) -> None:
    """Where a proxy is set, let traffic inside the cluster bypass it (vllm-ascend #10226)."""
    if not any(env.get(name) for name in _PROXIES):
        return
    for name in ("no_proxy", "NO_PROXY"):
        entries = [entry for entry in env.get(name, "").split(",") if entry]
        entries += [address for address in ("127.0.0.1", "localhost", *addresses) if address not in entries]
        env[name] = ",".join(entries)
