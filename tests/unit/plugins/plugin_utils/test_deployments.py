# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Upstream's multi-node deployments: the inventory that the tool writes must plan the same engines.

``PD_DEPLOYMENTS`` names another folder of deployments. Compared are engines by node and chips, arguments by what they
mean (loopback is the address of the one node whose ranks meet there), and the environment. These differences are
allowed, and no others:

* a control port of a KV connector that stood in Mooncake's random band or in another's range has moved;
* VLLM_HOST_IP and the variables of the serving interface (HCCL_IF_*, *_SOCKET_IFNAME) are added;
* engine ids are left to vLLM;
* path variables stand as prepend lists.

A deployment that could not start is no yardstick: the tool must refuse it, and ``cannot_start`` finds why on its own.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils import connectors
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.engine_options import OWNED
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.environment import OWNED as OWNED_ENV
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.environment import PATH_LIKE
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.options import OptionTable, option_table
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.planner import plan
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.ports import KV_NUMBER

sys.path.insert(0, str(Path(__file__).resolve().parents[4]))  # tools/ is no package that anybody installs
sys.path.insert(1, str(Path(__file__).resolve().parents[4] / "lab" / "engine"))

from vllm import arguments  # the simulated engine's command line

from tools import deployment_to_inventory as tool
from tools.deployments.connector_config import comparable_kv, in_mooncake_band
from tools.deployments.reading import NotExpressible, read_engine

ROOT = Path(__file__).resolve().parents[4]
FOLDER = Path(os.environ.get("PD_DEPLOYMENTS") or ROOT / "tests" / "fixtures" / "deployments")
FILES = sorted(FOLDER.glob("*.json"))

#: Derived for every engine: interface variables, and where MemCache's file lies.
INTERFACE = set(OWNED_ENV) - {"ASCEND_RT_VISIBLE_DEVICES"}

ROLES = {"prefill": "prefill", "decode": "decode", "engine": "mixed"}

#: What vLLM takes where an option is not given (vllm/engine/arg_utils.py, vllm/config/parallel.py).
DEFAULTS = {
    "host": "0.0.0.0",
    "port": 8000,
    "tensor-parallel-size": 1,
    "pipeline-parallel-size": 1,
    "prefill-context-parallel-size": 1,
    "decode-context-parallel-size": 1,
    "data-parallel-size": 1,
    "data-parallel-start-rank": 0,
    "data-parallel-rpc-port": 29550,
    "data-parallel-hybrid-lb": False,
    "nnodes": 1,
    "node-rank": 0,
    "master-addr": "127.0.0.1",
    "master-port": 29501,
    "headless": False,
}


# ---- inventory, as Ansible would resolve it ----


def flatten(inventory: Mapping[str, Any]) -> tuple[dict[str, dict[str, Any]], dict[str, list[str]]]:
    """Hosts with their variables, and groups: variables of all, of groups by name, of the host."""
    children = inventory["all"]["children"]
    groups = {name: list(group["hosts"]) for name, group in children.items()}
    hosts: dict[str, dict[str, Any]] = {}
    for members in groups.values():
        for host in members:
            hosts.setdefault(host, dict(inventory["all"]["vars"]))
    for name in sorted(children):
        for host in groups[name]:
            hosts[host].update(children[name].get("vars") or {})
    for group in children.values():
        for host, own in group["hosts"].items():
            hosts[host].update(own or {})
    return hosts, groups


# ---- comparison ----


def meaning(options: Mapping[str, Any], table: OptionTable, alone: bool) -> dict[str, Any]:
    """Options by what they mean. ``alone``: one engine holds all ranks, so nothing is exchanged over the rendezvous."""
    result = {**DEFAULTS, **{name: table.value(name, value) for name, value in options.items()}}
    result = {name: value for name, value in result.items() if value is not None and value != []}
    if not isinstance(result.get("served-model-name", []), list):
        result["served-model-name"] = [result["served-model-name"]]
    external = "data-parallel-rank" in options
    ranks = 1 if external or result["nnodes"] > 1 else result["data-parallel-size"]
    result.setdefault("data-parallel-size-local", ranks)
    if external:
        result.pop("data-parallel-external-lb", None)  # vLLM infers it from the rank
    if result["headless"]:
        for name in ("host", "port", "served-model-name"):  # of a server, which a follower does not have
            result.pop(name, None)
    elif result["data-parallel-start-rank"]:
        result["data-parallel-hybrid-lb"] = True  # vLLM infers it from a start rank on an engine with a server
    if alone and not external:
        result.pop("data-parallel-address", None)
        result.pop("data-parallel-rpc-port")
    if "kv-transfer-config" in result:
        result["kv-transfer-config"] = comparable_kv(result["kv-transfer-config"])
    return result


def kv_ports(config: Mapping[str, Any]) -> list[int]:
    return [int(part["kv_port"]) for part in connectors.walk(config) if part.get("kv_port") is not None]


def expected_engines(
    deployment: Mapping[str, Any], table: OptionTable
) -> dict[tuple[int, tuple[int, ...]], dict[str, Any]]:
    """Upstream's engines by node and chips."""
    result = {}
    taken: dict[int, int] = {}
    for data in deployment["engines"]:
        engine = read_engine(data, table)
        devices = engine.devices
        if devices is None:
            first = taken.get(engine.node, 0)
            devices = list(range(first, first + engine.chips))
        devices = devices[: engine.chips]
        taken[engine.node] = max(taken.get(engine.node, 0), devices[-1] + 1)
        options = table.parse(data["argv"])
        if options.get("data-parallel-address") in (
            "127.0.0.1",
            "localhost",
        ):  # ranks of one node, which has an address
            options["data-parallel-address"] = deployment["nodes"][data["node"]]
        result[data["node"], tuple(devices)] = {
            "role": data["role"],
            "options": meaning(options, table, engine.local_ranks == engine.dp and engine.nnodes == 1),
            "kv_ports": kv_ports(options.get("kv-transfer-config") or {}),
            "env": engine.env,
            "paths": engine.paths,
        }
    return result


def planned_engines(
    made: Mapping[str, Any], nodes: list[str], table: OptionTable
) -> dict[tuple[int, tuple[int, ...]], dict[str, Any]]:
    """The plan's engines by node and chips."""
    services = {(service["host"], service["name"]): service for service in made["services"]}
    sizes = {instance["name"]: instance for instance in made["instances"]}
    result = {}
    for engine in made["engines"]:
        node = nodes.index(made["hosts"][engine["host"]]["address"])
        service = services[engine["host"], engine["service"]]
        env = {**service["env"], **engine["env"]}
        visible = env.pop("ASCEND_RT_VISIBLE_DEVICES", None)
        if visible is not None:  # what the process sees are the chips that the plan says
            nodes_of_container = [
                int(path.removeprefix("/dev/davinci"))
                for path in service["container"]["devices"]
                if path.removeprefix("/dev/davinci").isdigit()
            ]
            seen = [int(part) for part in visible.split(",")]
            assert [nodes_of_container[index] for index in seen] == engine["devices"]
        result[node, tuple(engine["devices"])] = {
            "role": ROLES[engine["role"]],
            "options": meaning(engine["vllm_args"], table, len(sizes[engine["instance"]]["engines"]) == 1),
            "kv_ports": kv_ports(engine["vllm_args"].get("kv-transfer-config") or {}),
            "env": env,
            "paths": service["prepend"],
        }
    return result


def differences(deployment: Mapping[str, Any], made: Mapping[str, Any]) -> list[str]:
    """What is not equal, beyond the closed list."""
    table = option_table(made["versions"]["vllm"])
    theirs = expected_engines(deployment, table)
    ours = planned_engines(made, deployment["nodes"], table)
    found = []
    if set(theirs) != set(ours):
        return [f"engines on {sorted(theirs)}, planned on {sorted(ours)}"]
    for place, their in theirs.items():
        our = ours[place]
        found += [
            f"{place} {part}: {their[part]} became {our[part]}"
            for part in ("role", "paths")
            if their[part] != our[part]
        ]
        found += [
            f"{place} {part} {name}: {their[part].get(name)!r} became {our[part].get(name)!r}"
            for part, added in (("options", set[str]()), ("env", INTERFACE))
            for name in sorted({*their[part], *our[part]} - added)
            if their[part].get(name) != our[part].get(name)
        ]
        found += [f"{place} kv_port: {change}" for change in moved_ports(deployment, their, our)]
    return found


def moved_ports(deployment: Mapping[str, Any], their: Mapping[str, Any], our: Mapping[str, Any]) -> Iterator[str]:
    """Control ports that moved without need, or to no better place."""
    npus = int(deployment["npu_per_node"])
    for before, after in zip(their["kv_ports"], our["kv_ports"], strict=True):
        if before == after:
            continue
        if not in_mooncake_band(before, npus):
            yield f"{before} became {after}, though nothing was in its way"
        if in_mooncake_band(after, npus):
            yield f"{before} became {after}, which stands in Mooncake's random band"


# ---- deployments that could not start ----


ALONE = {"nnodes": 1, "node_rank": 0, "data_parallel_size": 1, "data_parallel_start_rank": 0}
PER_RANK = ("tensor_parallel_size", "pipeline_parallel_size", "prefill_context_parallel_size")


def cannot_start(deployment: Mapping[str, Any]) -> str | None:
    """Why no service comes of these engines, found without the tool: a refused command line, chips or ranks amiss."""
    roles = {data["role"] for data in deployment["engines"]}
    if roles not in ({"mixed"}, {"prefill", "decode"}):
        return f"roles are {roles}"
    ranks: dict[tuple[Any, ...], list[int]] = {}
    sizes: dict[tuple[Any, ...], int] = {}
    chips: dict[int, int] = {}
    held: set[tuple[int, str]] = set()
    for data in deployment["engines"]:
        node, said = data["node"], io.StringIO()
        try:
            with contextlib.redirect_stderr(said):
                stated = vars(arguments.parse(data["argv"]))
        except SystemExit:
            return f"node {node}: {said.getvalue().strip().splitlines()[-1]}"
        given = {**ALONE, **{name: value for name, value in stated.items() if value is not None}}
        nnodes, size, external = given["nnodes"], given["data_parallel_size"], "data_parallel_rank" in given
        local = 1 if external or nnodes > 1 else given.get("data_parallel_size_local", size)
        wanted = math.prod(given.get(name, 1) for name in PER_RANK) * local // nnodes
        chips[node] = chips.get(node, 0) + wanted
        if chips[node] > deployment["npu_per_node"]:
            return f"node {node} has no {chips[node]} chips"
        seen = [(node, chip) for chip in data["env"].get("ASCEND_RT_VISIBLE_DEVICES", "").split(",") if chip][:wanted]
        if seen and (len(seen) < wanted or held.intersection(seen)):
            return f"an engine on node {node} has no {wanted} chips of its own among {seen}"
        held.update(seen)
        if nnodes > 1:
            point, own, total = (given.get("master_addr"), given.get("master_port")), [given["node_rank"]], nnodes
        else:
            first = given["data_parallel_rank" if external else "data_parallel_start_rank"]
            address = given.get("data_parallel_address", deployment["nodes"][node])
            point, own, total = (address, given.get("data_parallel_rpc_port")), list(range(first, first + local)), size
        serves = external or not given.get("headless")
        if serves != (external or bool(given.get("data_parallel_hybrid_lb")) or own[0] == 0):
            return f"rank {own[0]} on node {node} {'serves' if serves else 'does not serve'}"
        if total > len(own):
            sizes[data["role"], *point] = total
            ranks.setdefault((data["role"], *point), []).extend(own)
    for group, total in sizes.items():
        if sorted(ranks[group]) != list(range(total)):
            return f"ranks {sorted(ranks[group])} of {group} are not {total}"
    return None


def inventory_of(deployment: Mapping[str, Any]) -> dict[str, Any]:
    """The tool's inventory. A refusal ends the test: as skipped if the deployment could not start, else as failed."""
    try:
        return tool.to_inventory(deployment)
    except NotExpressible as refusal:
        if (why := cannot_start(deployment)) is None:
            raise
        pytest.skip(f"could not start. The tool: {refusal}. Besides: {why}")


# ---- tests ----


def load(path: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return data


def plan_of(inventory: Mapping[str, Any]) -> dict[str, Any]:
    return plan(*flatten(inventory))


def owned_in(value: Any) -> list[str]:
    """Owned options and variables in any ``*_vllm_args`` or ``*_env`` of an inventory."""
    found = []
    if isinstance(value, Mapping):
        for key, item in value.items():
            if str(key).endswith("vllm_args"):
                found += [name for name in item if name in OWNED]
            elif str(key).endswith("_env"):
                found += [name for name in item if name in OWNED_ENV or name in PATH_LIKE]
            found += owned_in(item)
    elif isinstance(value, list):
        for item in value:
            found += owned_in(item)
    return found


def test_there_are_deployments() -> None:
    assert FILES, f"no deployment in {FOLDER}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_plan_equals_deployment(path: Path) -> None:
    deployment = load(path)
    made = plan_of(inventory_of(deployment))
    assert differences(deployment, made) == []
    stopping = {
        "layout",
        "owned-option",
        "unknown-variable",
        "environment",
        "owned-kv-field",
        "device-list",
        "no-hosts",
    }
    assert [finding for finding in made["findings"] if finding["rule"] in stopping] == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_inventory_holds_nothing_that_is_planned(path: Path) -> None:
    deployment = load(path)
    inventory_of(deployment)
    text = tool.to_yaml(deployment)
    assert owned_in(tool.yaml.safe_load(text)) == []
    assert "null" not in text


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_proxy_backends_are_the_engines_that_serve_http(path: Path) -> None:
    made = plan_of(inventory_of(load(path)))
    if made["proxy"] is None:
        assert {engine["role"] for engine in made["engines"]} == {"engine"}
        return
    for side in ("prefill", "decode"):
        serving = {
            engine["http"]["url"]
            for engine in made["engines"]
            if engine["role"] == side and not engine["vllm_args"].get("headless")
        }
        assert {f"http://{backend['host']}:{backend['port']}" for backend in made["proxy"][side]} == serving


def with_equals(argv: list[str]) -> list[str]:
    """``--name=value`` for every option of one value."""
    options = [[argv[0]]]
    for word in argv[1:]:
        options.append([word]) if word.startswith("-") else options[-1].append(word)
    return [word for option in options for word in (["=".join(option)] if len(option) == 2 else option)]


def with_underscores(argv: list[str]) -> list[str]:
    return ["--" + word[2:].replace("-", "_") if word.startswith("--") else word for word in argv]


def with_short_flags(argv: list[str]) -> list[str]:
    short = {flags[-1]: flags[0] for flags in SHORT}
    return [short.get(word, word) for word in argv]


def with_other_json(argv: list[str]) -> list[str]:
    """Keys in another order, with other blanks."""
    return [
        json.dumps(dict(reversed(json.loads(word).items())), indent=2) if word.startswith("{") else word
        for word in argv
    ]


def with_dots(argv: list[str]) -> list[str]:
    """``--speculative-config.method mtp`` for ``--speculative-config '{"method": "mtp"}'``."""
    result: list[str] = []
    for word in argv:
        if word.startswith("{") and result[-1] == "--speculative-config":
            name = result.pop()
            for key, value in json.loads(word).items():
                result += [f"{name}.{key}", value if isinstance(value, str) else json.dumps(value)]
        else:
            result.append(word)
    return result


SHORT = [("-tp", "--tensor-parallel-size"), ("-dp", "--data-parallel-size"), ("-dpn", "--data-parallel-rank"),
         ("-dpr", "--data-parallel-start-rank"), ("-dpl", "--data-parallel-size-local"), ("-q", "--quantization"),
         ("-dpa", "--data-parallel-address"), ("-dpp", "--data-parallel-rpc-port")]  # fmt: skip
SPELLINGS = (with_equals, with_underscores, with_short_flags, with_other_json, with_dots)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_spelling_does_not_matter(path: Path) -> None:
    deployment = load(path)
    expected = inventory_of(deployment)
    for respell in SPELLINGS:
        engines = [{**engine, "argv": respell(engine["argv"])} for engine in deployment["engines"]]
        assert tool.to_inventory({**deployment, "engines": engines}) == expected, respell.__name__


def halve(value: Any) -> None:
    """Half the tensor parallel size, wherever an inventory states one that has a half."""
    if isinstance(value, dict):
        size = value.get("tensor_parallel_size")
        if size and size % 2 == 0:
            value["tensor_parallel_size"] = size // 2
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        halve(item)


def assert_derived(made: Mapping[str, Any]) -> None:
    """Ranks, devices, ports and both sides' sizes follow from the instances, whatever those are."""
    addresses = {host: facts["address"] for host, facts in made["hosts"].items()}
    sizes: dict[str, dict[str, dict[str, int]]] = {}  # role, instance
    for instance in made["instances"]:
        parallel = instance["parallel"]
        own = [engine for engine in made["engines"] if engine["instance"] == instance["name"]]
        sizes.setdefault(instance["role"], {})[instance["name"]] = {
            "dp_size": parallel["data_parallel_size"],
            "tp_size": parallel["tensor_parallel_size"],
        }
        world = math.prod(parallel[name] for name in PER_RANK)
        total = world * parallel["data_parallel_size"]
        assert sum(len(engine["devices"]) for engine in own) == total
        nnodes = own[0]["vllm_args"].get("nnodes", 1)
        ranks = [
            engine["data_parallel_start_rank"] + rank
            for engine in own
            for rank in range(engine["data_parallel_size_local"])
        ]
        assert nnodes > 1 or ranks == list(range(parallel["data_parallel_size"]))
        assert nnodes == 1 or [engine["vllm_args"]["node-rank"] for engine in own] == list(range(nnodes))
        assert [engine["host"] for engine in own] == sorted(
            (engine["host"] for engine in own), key=instance["hosts"].index
        )
        for engine in own:
            assert {
                engine["vllm_args"][name]
                for name in ("data-parallel-address", "master-addr")
                if name in engine["vllm_args"]
            } <= {addresses[own[0]["host"]]}
    for engine in made["engines"]:
        for part in connectors.walk(engine["vllm_args"].get("kv-transfer-config") or {}):
            if connectors.is_sized(str(part.get("kv_connector"))) and made["profile"] != "custom":
                stated = part["kv_connector_extra_config"]
                for role, by_instance in sizes.items():
                    right = [by_instance[engine["instance"]]] if role == engine["role"] else by_instance.values()
                    assert any(own_sizes.items() <= stated[role].items() for own_sizes in right)
    for host in made["hosts"]:
        chips = [chip for engine in made["engines"] if engine["host"] == host for chip in engine["devices"]]
        assert len(chips) == len(set(chips))
        fixed = [p for p in made["ports"] if p["host"] == host and p["fixed"] and p["purpose"] != KV_NUMBER]
        taken = [number for port in fixed for number in range(port["first"], port["last"] + 1)]
        assert len(taken) == len(set(taken))


def meeting_ports(made: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    names = ("data-parallel-rpc-port", "master-port")
    return sorted((e["role"], *(str(e["vllm_args"].get(name)) for name in names)) for e in made["engines"])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_other_sizes_and_another_order_of_hosts_are_planned_anew(path: Path) -> None:
    deployment = load(path)
    inventory = inventory_of(deployment)
    before = plan_of(inventory)
    assert_derived(before)
    children = inventory["all"]["children"]
    for group in children.values():
        group["hosts"] = dict(reversed(group["hosts"].items()))
    turned = plan_of(inventory)
    assert_derived(turned)
    assert [instance["hosts"] for instance in before["instances"]] != [i["hosts"] for i in turned["instances"]] or all(
        len(group["hosts"]) == 1 for group in children.values()
    )
    assert meeting_ports(turned) == meeting_ports(before)  # whichever host comes first
    if any(engine["vllm_args"].get("nnodes", 1) > 1 for engine in before["engines"]):
        return  # half of a rank over several hosts may fit on one, where it would be refused
    halve(inventory)
    assert_derived(plan_of(inventory))


def test_print_how_many_are_equal(capsys: pytest.CaptureFixture[str]) -> None:
    """For people: one line per folder, and one for each deployment that is refused."""
    equal = 0
    refused = []
    for path in FILES:
        deployment = load(path)
        try:
            equal += not differences(deployment, plan_of(tool.to_inventory(deployment)))
        except NotExpressible as refusal:
            refused.append(f"refused: {path.stem}: {refusal}")
            assert cannot_start(deployment), refused[-1]
    with capsys.disabled():
        print(f"\n{equal} of {len(FILES)} deployments in {FOLDER} are planned equal", *refused, sep="\n")
    assert equal + len(refused) == len(FILES)
