# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""The planner's plans on the simulated engine, without containers: two derivations that must agree.

Each host of a plan is a loopback address and a folder. Every engine starts with exactly the configuration and
environment that the plan gives it, and may listen only where the plan says so.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.planner import plan
from vllm.api_server import tokenize
from vllm.engine import digest

from tests.lab.harness import Host, Lab, Process, call
from tests.lab.test_mooncake_pd import MLA_MODEL
from tests.lab.test_sparse_pd import READY

EXTERNAL = {"tensor_parallel_size": 8, "data_parallel_size": 2, "data_parallel_mode": "external"}
INTERNAL = {"tensor_parallel_size": 8, "data_parallel_size": 4}
# guide 1's host_shm wants a /dev/shm that test machines do not have
SDMA = {"memcache_protocol": "device_sdma"}
# what the profile leaves to the user: without expert parallelism the weights do not fit
EXPERTS = {"pd_vllm_args": {"enable-expert-parallel": True, "max-model-len": 8192}}
RANKS = {**EXPERTS, "prefill_parallel": EXTERNAL}

# p1 has two ranks of the half size, so each request says how many chips to read from
SIZES = {
    **EXPERTS,
    "prefill_parallel": {"tensor_parallel_size": 16},
    "decode_parallel": {"tensor_parallel_size": 8, "data_parallel_size": 2},
    "hosts": {"p1": {"prefill_parallel": EXTERNAL}},
}

#: profile, hosts of prefill and of decode, variables
SHAPES: dict[str, tuple[str, int, int, dict[str, Any]]] = {
    "guide 1": ("sparse_kv_offload", 1, 1, SDMA),
    "guide 1, two prefills": ("sparse_kv_offload", 2, 1, SDMA),
    "guide 1, baseline": ("mooncake_layerwise", 1, 1, EXPERTS),
    "guide 2": ("context_parallel", 2, 1, {}),
    "one engine per rank": ("mooncake", 1, 1, {**RANKS, "decode_parallel": EXTERNAL}),
    "replicas over two hosts": ("mooncake", 1, 2, {**RANKS, "decode_parallel": INTERNAL}),
    "prefills of two sizes": ("mooncake", 2, 1, SIZES),
    "prefills of two sizes, layer by layer": ("mooncake_layerwise", 2, 1, SIZES),
}


def facts(address: str, model: Path, config: dict[str, Any]) -> dict[str, Any]:
    chips = [{"phy_id": chip, "hbm_total_mib": 65536} for chip in range(16)]
    return {
        "nic": {"serving": {"name": "lo", "address": address, "reason": "asked for"}},
        "npu": {"device_nodes": list(range(16)), "npu_smi_path": "/usr/local/sbin/npu-smi", "chips": chips},
        "host": {
            "memory": {"available_bytes": 1400 << 30},
            "paths": {},
            "ephemeral_ports": [32768, 60999],
            "reserved_ports": [],
        },
        "model": {str(model): {"config": config, "shards": {"bytes": 690_000_000_000}}},
    }


def made(lab: Lab, profile: str, prefill: int, decode: int, variables: dict[str, Any]) -> tuple[dict[str, Any], Path]:
    """A plan for hosts 127.0.0.2 and on, and its model."""
    base = MLA_MODEL if profile == "context_parallel" else None
    model = lab.model(base) if base else lab.model()
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    names = [f"p{number}" for number in range(prefill)] + [f"d{number}" for number in range(decode)]
    shared = {"pd_profile": profile, "pd_model_path": str(model), "pd_served_model_name": "m", "pd_nic": "lo"}
    decoders = {"pd_instance": "one"} if "data_parallel_size" in variables.get("decode_parallel", {}) else {}
    per_host = variables.get("hosts", {})
    shared |= {key: value for key, value in variables.items() if key != "hosts"}
    inventory = {
        name: {**shared, "pd_address": f"127.0.0.{number}", **(decoders if name[0] == "d" else per_host.get(name, {}))}
        for number, name in enumerate(names, 2)
    }
    groups = {"prefill": names[:prefill], "decode": names[prefill:], "proxy": names[:1]}
    known = {name: facts(f"127.0.0.{number}", model, config) for number, name in enumerate(names, 2)}
    return plan(inventory, groups, known), model


def start(lab: Lab, made: dict[str, Any], engine: dict[str, Any]) -> tuple[Process, Host]:
    """One engine of a plan, as its launcher would start it."""
    place = (engine["service"], engine["host"])
    service = next(each for each in made["services"] if (each["name"], each["host"]) == place)
    address = made["hosts"][engine["host"]]["address"]
    where = Host(lab.folder / f"{engine['host']}-{service['name']}", int(address.rsplit(".", 1)[1]))
    lab.release(where, made["versions"]["vllm"], made["versions"]["vllm_ascend"])
    if not service["container"]["privileged"]:
        shown = {entry.split(":")[0].rsplit("/", 1)[1] for entry in service["container"]["devices"]}
        for node in (where.root / "dev").glob("davinci[0-9]*"):
            if node.name not in shown:
                node.unlink()
    env = {**service["env"], **engine["env"]}
    for name, file in service["files"].items():
        if file["format"] == "properties":
            path = where.write(name, "".join(f"{key} = {value}\n" for key, value in file["content"].items()))
            if name == "mmc-local.conf":
                env["MMC_LOCAL_CONFIG_PATH"] = str(path)
    config = {**engine["config"]}
    if engine["serves_http"]:
        config["host"] = address  # all simulated hosts share one network here
    path = where.write(f"{engine['name']}.yaml", yaml.safe_dump(config))
    return lab.run(where, "--config", str(path), env=env), where


def listening(pid: int) -> set[tuple[str, int]]:
    """Addresses and ports on which a process listens."""
    inodes = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            inodes.add(str(link.readlink()))
        except FileNotFoundError:
            continue
    found = set()
    for line in Path(f"/proc/{pid}/net/tcp").read_text(encoding="ascii").splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
            host, port = fields[1].split(":")
            found.add((socket.inet_ntoa(bytes.fromhex(host)[::-1]), int(port, 16)))
    return found


@pytest.fixture
def metas() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def start_meta(metas: ExitStack, made: dict[str, Any]) -> None:
    """Listeners where MetaService would be."""
    for service in made["services"]:
        if service["kind"] != "meta":
            continue
        for key, url in service["files"]["mmc-meta.conf"]["content"].items():
            if key.endswith("_url") and str(url).startswith("tcp://"):
                host, port = str(url).removeprefix("tcp://").split(":")
                metas.enter_context(socket.create_server((host, int(port))))


@pytest.mark.parametrize("shape", SHAPES)
def test_plan_comes_up_answers_and_listens_where_it_says(shape: str, lab: Lab, metas: ExitStack) -> None:
    profile, prefill, decode, variables = SHAPES[shape]
    planned, _ = made(lab, profile, prefill, decode, variables)
    start_meta(metas, planned)
    engines = [(each, *start(lab, planned, each)) for each in planned["engines"]]
    for engine, process, _ in engines:
        process.until(READY if engine["serves_http"] else "init engine", 40)
    for engine, process, _ in engines:
        allowed = [each for each in planned["ports"] if each["host"] == engine["host"]]
        strays = {
            (host, port)
            for host, port in listening(process.popen.pid)
            if not any(each["first"] <= port <= each["last"] for each in allowed)
        }
        assert not strays, f"{engine['name']} listens where the plan has no port"
    proxy = planned["proxy"]
    flavour = proxy["script"].removeprefix("load_balance_proxy_").removesuffix(".py")
    sides = [[(each["host"], each["port"]) for each in proxy[side]] for side in ("prefill", "decode")]
    url = lab.proxy(Host(lab.folder / "proxy", 2), planned["versions"]["vllm_ascend"], flavour, *sides)
    for turn in range(2 * max(len(side) for side in sides)):
        prompt = f"prompt number {turn} " * 40
        status, body = call(f"{url}/v1/completions", {"model": "m", "prompt": prompt, "max_tokens": 3})
        assert status == 200
        assert json.loads(body)["choices"][0]["text"].split()[0] == digest(tokenize(prompt))
