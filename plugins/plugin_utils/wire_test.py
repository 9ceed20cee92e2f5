# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Upstream's two-host test of MemFabric (tools/test_memfabric_pd_read.py of vllm-ascend) as jobs of the plan's hosts.

Decode pulls a few MiB out of prefill's HBM, over the same engine and with the same calls as the connector in service.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import connectors
from .containers import CONFIG_DIR, container_name

TOOL = "vllm-ascend/tools/test_memfabric_pd_read.py"  # below pd_sources_dir
GRACE_S = 60  # for loading torch and starting the chip, before and after the tool's own limit counts
CONTROL_PORT = 29599  # the tool's own default; a prefill host with several peers takes the following ones too


def sides(plan: Mapping[str, Any], size_bytes: int, timeout_s: int) -> list[dict[str, Any]]:
    """Services in the plan's shape, two for each pair of hosts, so that every prefill and every decode host is in one.

    Empty where no KV moves by MemFabric.
    """
    engines = {role: _first_of_hosts(plan, role) for role in ("prefill", "decode")}
    if not all(engines.values()):
        return []
    prefill, decode = list(engines["prefill"]), list(engines["decode"])
    taken: dict[str, int] = {}
    result = []
    for number in range(max(len(prefill), len(decode))):
        source, target = prefill[number % len(prefill)], decode[number % len(decode)]
        turn = {host: taken.get(host, 0) for host in (source, target)}
        taken.update({host: count + 1 for host, count in turn.items()})
        common = ["--control-port", str(CONTROL_PORT + turn[source]), "--timeout", str(timeout_s)]
        for role, host, own in (
            ("prefill", source, ["--num-bytes", str(size_bytes)]),
            # The default, an offload pool, asks for OffloadConfig.size, which MemFabric 1.2.1 does not have.
            ("decode", target, ["--prefill-ip", plan["hosts"][source]["address"], "--dst-memory", "npu"]),
        ):
            engine = engines[role][host]
            chip = turn[host] % max(1, len(engine["devices"]))
            arguments = ["--role", role, "--local-ip", plan["hosts"][host]["address"], "--device-id", str(chip)]
            result.append(_job(plan, engine, f"wire-test-{number}-{role}", [*arguments, *common, *own], timeout_s))
    return result


def _first_of_hosts(plan: Mapping[str, Any], role: str) -> dict[str, Mapping[str, Any]]:
    """Host -> its first engine of the role, if it moves KV by MemFabric."""
    found: dict[str, Mapping[str, Any]] = {}
    for engine in plan["engines"]:
        transfer = engine["vllm_args"].get("kv-transfer-config")
        if engine["role"] == role and transfer and connectors.SFA in connectors.names(transfer):
            found.setdefault(engine["host"], engine)
    return found


def _job(
    plan: Mapping[str, Any], engine: Mapping[str, Any], name: str, arguments: list[str], timeout_s: int
) -> dict[str, Any]:
    """The service that carries the engine, with another command."""
    service = next(s for s in plan["services"] if (s["host"], s["name"]) == (engine["host"], engine["service"]))
    settings = plan["settings"]
    unneeded = (f"{settings['pd_base_dir']}/", f"{settings['pd_log_dir']}/", plan["model"]["path"])
    mounts = [mount for mount in service["container"]["mounts"] if not mount.startswith(unneeded)]
    mounts.insert(0, f"{settings['pd_base_dir']}/{name}:{CONFIG_DIR}:ro")
    # The tool bounds its own waiting and says what it waited for, but a call may hang in the driver.
    limit = ["timeout", "--kill-after=10", str(timeout_s + GRACE_S)]
    argv = [*limit, "python", f"{settings['pd_sources_dir']}/{TOOL}", *arguments]
    return {
        **service,
        "name": name,
        "kind": "job",
        "container": {**service["container"], "name": container_name(name), "mounts": mounts, "restart_policy": "no"},
        "files": {"job": {"format": "text", "content": ""}},
        "commands": [{"name": "wire-test", "argv": argv, "env": dict(engine["env"])}],
        "ready": {"kind": "exited"},
        "ports": [],
    }
