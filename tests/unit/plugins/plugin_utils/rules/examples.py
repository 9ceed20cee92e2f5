# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""For every rule a cluster on which it finds nothing, and the smallest change after which it finds something."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._sizing_model import EXPERTS
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.ports import KV_NUMBER
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.variables import TRANSFER_DIR
from ansible_collections.vllm_ascend.pd_serving.tests.unit.plugins.plugin_utils.rules.clusters import GIB, Facts, Plan

Change = Callable[[Plan, Facts], Any]


@dataclass(frozen=True)
class Example:
    """``break_`` makes the rule find something; ``found`` and ``right`` are parts of what it then says."""

    cluster: str
    break_: Change
    host: str | None = None
    found: str = ""
    right: str = ""
    severity: str | None = None
    clean: bool = True  # False: a note that stands on every cluster
    quiet: Change | None = None  # made before, so that the rule finds nothing


# ---- changes ----


def engines(plan: Plan, role: str) -> list[dict[str, Any]]:
    return [engine for engine in plan["engines"] if engine["role"] == role]


def service_of(plan: Plan, engine: dict[str, Any]) -> dict[str, Any]:
    return next(s for s in plan["services"] if s["name"] == engine["service"] and s["host"] == engine["host"])


def put(target: Any, path: str, value: Any) -> None:
    """Set (``None``: remove) what a dotted path names; list positions are numbers."""
    *parents, last = path.split("/")
    for key in parents:
        target = target[int(key)] if isinstance(target, list) else target.setdefault(key, {})
    if isinstance(target, list):
        target[int(last)] = value
    elif value is None:
        target.pop(last, None)
    else:
        target[last] = value


def arg(role: str, path: str, value: Any) -> Change:
    """An option of all engines of a role."""

    def change(plan: Plan, facts: Facts) -> None:
        for engine in engines(plan, role):
            put(engine["vllm_args"], path, value)

    return change


def env(role: str, name: str, value: Any) -> Change:
    """A variable of all engines of a role."""

    def change(plan: Plan, facts: Facts) -> None:
        for engine in engines(plan, role):
            for place in (engine, service_of(plan, engine)):
                place["env"].pop(name, None)
            if value is not None:
                engine["env"][name] = value

    return change


def parallel(role: str, **sizes: int) -> Change:
    """Parallel sizes of all instances of a role."""

    def change(plan: Plan, facts: Facts) -> None:
        for instance in plan["instances"]:
            if instance["role"] == role:
                instance["parallel"].update(sizes)

    return change


def container(role: str, name: str, value: Any) -> Change:
    def change(plan: Plan, facts: Facts) -> None:
        for engine in engines(plan, role):
            service_of(plan, engine)["container"][name] = value

    return change


def unmount(role: str, source: str) -> Change:
    def change(plan: Plan, facts: Facts) -> None:
        for engine in engines(plan, role):
            body = service_of(plan, engine)["container"]
            body["mounts"] = [mount for mount in body["mounts"] if not mount.startswith(source)]

    return change


def partly_mounted(role: str) -> Change:
    """What guide 2 mounts of the driver."""

    def change(plan: Plan, facts: Facts) -> None:
        unmount(role, "/usr/local/Ascend/driver")(plan, facts)
        for engine in engines(plan, role):
            mounts = service_of(plan, engine)["container"]["mounts"]
            mounts += [f"/usr/local/Ascend/driver/{part}:/usr/local/Ascend/driver/{part}" for part in PARTS]

    return change


PARTS = ("lib64", "version.info")


def no_local_file(plan: Plan, facts: Facts) -> None:
    for service in plan["services"]:
        service["files"].pop("mmc-local.conf", None)


def asked_for_a_completion(plan: Plan, facts: Facts) -> None:
    for engine in engines(plan, "decode"):
        service_of(plan, engine)["ready"]["url"] = "http://127.0.0.1:29181/v1/completions"


def conf(kind: str, name: str, key: str, value: Any) -> Change:
    """A line of a MemCache file in all services of a kind that have it."""

    def change(plan: Plan, facts: Facts) -> None:
        for service in plan["services"]:
            if service["kind"] == kind and name in service["files"]:
                put(service["files"][name]["content"], key, value)

    return change


def mmc(key: str, value: Any) -> Change:
    return conf("engine", "mmc-local.conf", key, value)


def fact(host: str, path: str, value: Any) -> Change:
    def change(plan: Plan, facts: Facts) -> None:
        put(facts[host], path, value)

    return change


def model(host: str, path: str, value: Any) -> Change:
    def change(plan: Plan, facts: Facts) -> None:
        put(next(iter(facts[host]["model"].values())), path, value)

    return change


def planned(path: str, value: Any) -> Change:
    def change(plan: Plan, facts: Facts) -> None:
        put(plan, path, value)

    return change


def port(host: str, first: int, last: int | None = None, **more: Any) -> Change:
    """One more port of some service."""

    def change(plan: Plan, facts: Facts) -> None:
        entry = {"host": host, "first": first, "last": last or first, "owner": "other", "purpose": "test"}
        plan["ports"].append({**entry, "bind": "0.0.0.0", "fixed": True, **more})

    return change


def both(*changes: Change) -> Change:
    def change(plan: Plan, facts: Facts) -> None:
        for one in changes:
            one(plan, facts)

    return change


def model_everywhere(path: str, value: Any) -> Change:
    def change(plan: Plan, facts: Facts) -> None:
        for host in facts:
            model(host, path, value)(plan, facts)

    return change


def chip(host: str, number: int, **values: Any) -> Change:
    def change(plan: Plan, facts: Facts) -> None:
        facts[host]["npu"]["chips"][number].update(values)

    return change


def hung(*numbers: int) -> Change:
    """Chips of d1 of which hccn_tool gets no answer."""

    def change(plan: Plan, facts: Facts) -> None:
        for number in numbers:
            facts["d1"]["hccn"]["chips"][number] = {
                name: value if name == "phy_id" else None
                for name, value in facts["d1"]["hccn"]["chips"][number].items()
            }
        listed = f"{numbers[0]}-{numbers[-1]}"
        facts["d1"]["hccn"]["reasons"] = [f"hccn_tool -i {listed} -link -g: no answer"]

    return change


def sparse(role: str, key: str, value: Any) -> Change:
    return arg(role, f"additional-config/sparse_kv_offload_config/{key}", value)


def store(key: str, value: Any) -> Change:
    """A key of the KV pool in guide 1's prefill."""
    path = "kv-transfer-config/kv_connector_extra_config/connectors/1/kv_connector_extra_config"
    return arg("prefill", f"{path}/{key}", value)


def pool_role(value: str) -> Change:
    return arg("prefill", "kv-transfer-config/kv_connector_extra_config/connectors/1/kv_role", value)


def generation(value: str) -> Change:
    def change(plan: Plan, facts: Facts) -> None:
        for host in facts:
            fact(host, "npu/generation", value)(plan, facts)

    return change


def extra(role: str, key: str, value: Any) -> Change:
    return arg(role, f"kv-transfer-config/kv_connector_extra_config/{key}", value)


def transfer(role: str, key: str, value: Any) -> Change:
    return arg(role, f"kv-transfer-config/{key}", value)


def stated(role: str, path: str, variable: str) -> Change:
    """The variable in which a key of a role's connector stands."""

    def change(plan: Plan, facts: Facts) -> None:
        for engine in engines(plan, role):
            engine["stated_in"][f"kv-transfer-config.{path}"] = variable

    return change


EXTRA = "kv_connector_extra_config"


def second_engine(host: str) -> Change:
    """A copy of the host's last engine in an instance of its own."""

    def change(plan: Plan, facts: Facts) -> None:
        first = [engine for engine in plan["engines"] if engine["host"] == host][-1]
        other = copy.deepcopy(first)
        other.update(name="twin-0", instance="twin")
        instance = copy.deepcopy(next(i for i in plan["instances"] if i["name"] == first["instance"]))
        instance.update(name="twin")
        plan["engines"].append(other)
        plan["instances"].append(instance)

    return change


def listener(host: str, number: int, **more: Any) -> Change:
    def change(plan: Plan, facts: Facts) -> None:
        entry = {
            "address": "0.0.0.0",
            "port": number,
            "protocol": "tcp",
            "pid": 77,
            "process": "nginx",
            "container": None,
        }
        facts[host]["host"]["listeners"].append({**entry, **more})

    return change


def unlisted(number: str) -> Change:
    """The plan's table without the ports that start there, as profile custom leaves some out."""

    def change(plan: Plan, facts: Facts) -> None:
        plan["ports"] = [one for one in plan["ports"] if str(one["first"]) != number]

    return change


def without_reservation(host: str) -> Change:
    def change(plan: Plan, facts: Facts) -> None:
        plan["hosts"][host]["reserved_ports"] = []

    return change


def store_beside_layerwise(plan: Plan, facts: Facts) -> None:
    """A MultiConnector of MooncakeLayerwise and a KV pool."""
    for engine in engines(plan, "prefill"):
        own = engine["vllm_args"]["kv-transfer-config"]
        pool: dict[str, Any] = {"kv_connector": "AscendStoreConnector", "kv_role": "kv_producer"}
        pool["kv_connector_extra_config"] = {"backend": "memcache"}
        engine["vllm_args"]["kv-transfer-config"] = {
            "kv_connector": "MultiConnector",
            "kv_role": "kv_producer",
            "kv_connector_extra_config": {"connectors": [own, pool]},
        }


def second_pool_tp8(plan: Plan, facts: Facts) -> None:
    instance = [one for one in plan["instances"] if one["role"] == "prefill"][1]
    instance["parallel"]["tensor_parallel_size"] = 8


def told_of_tp8(plan: Plan, facts: Facts) -> None:
    config = plan["engines"][0]["vllm_args"]["kv-transfer-config"]
    for part in config["kv_connector_extra_config"]["connectors"]:
        part["kv_connector_extra_config"]["decode_tp_size"] = 8


def proxied(plan: Plan, facts: Facts) -> None:
    for service in plan["services"]:
        service["env"]["http_proxy"] = "http://198.51.100.1:3128"


def no_proxy(entries: str) -> Change:
    def change(plan: Plan, facts: Facts) -> None:
        for service in plan["services"]:
            service["env"] |= {"no_proxy": entries, "NO_PROXY": "*"}  # the one in lower case is read

    return change


def drop_last_backend(plan: Plan, facts: Facts) -> None:
    plan["proxy"]["decode"] = []


def other_firmware(plan: Plan, facts: Facts) -> None:
    facts["d1"]["npu"]["driver_version"] = "26.0.rc1"


def gather_from(repository: str | None) -> Change:
    """Gather as it can work, with vllm-ascend built from a repository; ``None``: the role's default."""
    return both(
        env("decode", "VLLM_ASCEND_ENABLE_CPU_GATHER_H2D", "1"),
        arg("decode", "compilation-config", None),
        arg("decode", "enforce-eager", True),
        planned("settings/vllm_build_vllm_ascend_repo", repository),
    )


def kill_nic(plan: Plan, facts: Facts) -> None:
    facts["d1"]["nic"]["interfaces"][0].update(state="down", admin_up=False)


def refused(cause: str, **gone: str) -> Change:
    """The probe takes no interface of d1, so that the plan lacks what would follow from one."""

    def change(plan: Plan, facts: Facts) -> None:
        nic = facts["d1"]["nic"]
        nic.update(serving=None, reasons=["/proc/net/route: no such file", cause])
        nic["refused"] = [
            {"name": one["name"], "reason": "fit, but nothing tells that it should serve"} for one in nic["interfaces"]
        ]
        for key, what in gone.items():
            gap(what, f"hosts/d1/{key}")(plan, facts)

    return change


def gap(what: str, *paths: str) -> Change:
    """What the plan does not know of d1, and where it would stand."""

    def change(plan: Plan, facts: Facts) -> None:
        plan["unknowns"].append({"what": what, "host": "d1"})
        decode = next(one for one in plan["services"] if one["name"] == "decode-d1")
        for path in paths:
            put(plan, path, f"<unknown: {what} of d1>")
        decode["env"]["WANTED"] = f"<unknown: {what} of d1>"

    return change


def no_scripts(plan: Plan, facts: Facts) -> None:
    for service in plan["services"]:
        service["sources"] = []


def gate_unpinned(plan: Plan, facts: Facts) -> None:
    """The gate measures free HBM: the estimate of it asks for more than the workload does."""
    arg("decode", "kv-cache-memory-bytes", None)(plan, facts)
    plan["settings"]["pd_dram_gate"] = "available"


def based(tag: str) -> Change:
    """All images of the plan from another base."""

    def change(plan: Plan, facts: Facts) -> None:
        for image in plan["images"].values():
            image["base"] = f"quay.io/ascend/vllm-ascend:{tag}"

    return change


def sources(*paths: str, built: bool = False) -> Change:
    """What a user names in pd_environment_scripts, for an image that was built here or not."""

    def change(plan: Plan, facts: Facts) -> None:
        plan["settings"]["pd_environment_scripts"] = list(paths)
        for image in plan["images"].values():
            image["layers"] = image["layers"] if built else []
        for service in plan["services"]:
            service["sources"] = list(paths)

    return change


def not_built(plan: Plan, facts: Facts) -> None:
    """A ready-made image of which the plan knows no more than where CANN is."""
    sources(*CANN)(plan, facts)
    plan["settings"]["pd_environment_scripts"] = None


CANN = ("/usr/local/Ascend/ascend-toolkit/set_env.sh", "/usr/local/Ascend/nnal/atb/set_env.sh")
MEMFABRIC, MEMCACHE = "/opt/memfabric_hybrid/set_env.sh", "/opt/memcache_hybrid/set_env.sh"
SHORT = {"name": "a.safetensors", "size_bytes": 5, "expected_bytes": 9}
ZEROS = {"name": "a.safetensors", "size_bytes": 99, "reason": "no header of a safetensors file"}
UNANSWERED = fact(
    "d1", "hccn/pings", [{"phy_id": 0, "method": "hccs", "address": "198.51.100.9", "ok": False, "reason": "x"}]
)
ALONE = planned("engines/1/role", "engine")  # the decode engine serves whole requests, as in profile aggregated
NO_META: Change = lambda plan, facts: plan.update(services=[s for s in plan["services"] if s["kind"] != "meta"])  # noqa: E731
PLANNED = planned("settings/pd_dram_gate", "planned")
FLASHCOMM = env("decode", "VLLM_ASCEND_ENABLE_FLASHCOMM1", "1")
ROCE = mmc("ock.mmc.local_service.protocol", "device_rdma")
GQA = model_everywhere("config/kv_lora_rank", None)
#: Splits 96 heads, and divides no 16; with the model's own 128 heads it is PD-MODEL-009's.
TP_12 = both(parallel("decode", tensor_parallel_size=12), model_everywhere("config/num_attention_heads", 96))
FLOAT16 = model_everywhere("torch_dtype", "float16")
MEMFABRIC_URL = "ock.mmc.meta_service_url"

#: Options of the host of a context-parallel instance that has no server.
FOLLOWER = "engines/1/vllm_args"


def dense_ranks(local: int, **prefill: Any) -> Change:
    """Prefill has two data-parallel ranks, so many of them in one engine, of a model without experts."""
    return both(
        model_everywhere("config/n_routed_experts", None),
        parallel("prefill", data_parallel_size=2),
        planned("engines/0/data_parallel_size_local", local),
        *(planned(f"engines/0/{name}", value) for name, value in prefill.items()),
    )


EXAMPLES: dict[str, Example] = {
    # ---- ports ----
    "PD-PORT-001": Example(
        "sparse", port("p1", 29180), "p1", "29180", "at 29181", quiet=port("d1", 29181, purpose=KV_NUMBER)
    ),
    "PD-PORT-002": Example(
        "mooncake", port("p1", 25000), "p1", "20000-35999", "36000", quiet=port("d1", 30100, purpose=KV_NUMBER)
    ),
    "PD-PORT-003": Example("sparse", port("d1", 65530, 65545), "d1", "65530-65545", "65520"),
    "PD-PORT-004": Example(
        "sparse",
        listener("d1", 29181),
        "d1",
        "nginx, pid 77",
        "29182",
        quiet=both(port("d1", 40000, purpose=KV_NUMBER), listener("d1", 40000), listener("d1", 29181, address="::1")),
    ),
    "PD-PORT-005": Example("sparse", without_reservation("d1"), "d1", "32768-60999"),
    "PD-PORT-006": Example("sparse", port("p1", 9000), "p1", "9000-9031", "9032"),
    "PD-PORT-007": Example("halves", env("decode", "HCCL_IF_BASE_PORT", None), "d1", "unset"),
    "PD-PORT-008": Example("sparse", second_engine("d1"), "d1", "2 engines", "one per host"),
    "PD-PORT-009": Example("sparse", env("decode", "VLLM_PORT", "29181"), "d1", "HTTP, 29181", "unset"),
    "PD-PORT-010": Example("context_parallel", arg("prefill", "master-port", None), "p1", "None"),
    "PD-PORT-011": Example(
        "sparse",
        both(container("prefill", "mounts", ["/tmp:/tmp"]), second_engine("p1")),
        "p1",
        "lookup_rpc_port 0",
        quiet=second_engine("p1"),  # each container has a /tmp of its own
    ),
    "PD-PORT-012": Example("mooncake", second_engine("d1"), "d1", "same band"),
    "PD-PORT-013": Example(
        "sparse",
        lambda plan, facts: plan.update(ports=[]),
        "d1",
        "not in the port table",
        quiet=both(arg("decode", "port", 70000), transfer("decode", "kv_port", 70001)),
    ),
    # ---- network ----
    "PD-NIC-001": Example("sparse", planned("hosts/d1/address", "127.0.0.1"), "d1", "127.0.0.1"),
    "PD-NIC-002": Example("sparse", kill_nic, "d1", "down"),
    "PD-NIC-003": Example("sparse", env("decode", "VLLM_HOST_IP", None), "d1", "unset", "192.0.2.20"),
    "PD-NIC-004": Example("sparse", env("decode", "GLOO_SOCKET_IFNAME", "eth0"), "d1", "eth0", "enp1s0f0"),
    "PD-NIC-005": Example("sparse", fact("d1", "nic/peers/192.0.2.10/interface", "eth9"), "d1", "eth9", "enp1s0f0"),
    "PD-NIC-006": Example("sparse", fact("d1", "nic/peers/192.0.2.10/interface", None), "d1", "no route"),
    "PD-NIC-007": Example("sparse", fact("d1", "nic/peers/192.0.2.10/path_mtu", 1400), "d1", "1400"),
    "PD-NIC-008": Example("sparse", proxied, "d1", "192.0.2.10, 192.0.2.20"),
    "PD-NIC-009": Example("sparse", planned("hosts/d1/address", "192.0.2.10"), "d1", "p1 and d1"),
    "PD-NIC-010": Example("sparse", fact("d1", "host/hosts_file/own_name_on_loopback", True), "d1", severity="info"),
    "PD-NIC-011": Example("sparse", fact("d1", "host/firewall/services", {"firewalld": "active"}), "d1", "firewalld"),
    # ---- chips ----
    "PD-NPU-001": Example("sparse", fact("d1", "npu/device_nodes", list(range(8))), "d1", "davinci8-15", "16 chips"),
    "PD-NPU-002": Example("sparse", chip("d1", 5, health="Alarm"), "d1", "chip 5 (NPU 2 chip 1) has health Alarm"),
    "PD-NPU-003": Example("sparse", fact("d1", "npu/holders", {"3": ["someone"]}), "d1", "someone holds chips 3"),
    "PD-NPU-004": Example(
        "sparse", both(fact("d1", "npu/chips", []), fact("d1", "npu/reasons", ["-8005"])), "d1", "-8005"
    ),
    "PD-NPU-005": Example("sparse", parallel("decode", tensor_parallel_size=8), "d1", "16 chips", "8 chips"),
    "PD-NPU-006": Example("sparse", fact("d1", "npu/superpod_id", 4), "", "SuperPod 4: d1"),
    "PD-NPU-007": Example("sparse", fact("d1", "hccn/chips/3/link", "DOWN"), "d1", "chips 3", "UP", "warning"),
    "PD-NPU-008": Example("sparse", fact("d1", "hccn/chips/0/tls", True), "", "on: d1"),
    "PD-NPU-009": Example("mooncake", fact("d1", "hccn/hccn_conf", {"exists": False}), "d1", "missing"),
    "PD-NPU-010": Example("sparse", fact("d1", "npu/ascend_install_info", None), "d1", "missing"),
    "PD-NPU-011": Example("sparse", UNANSWERED, "d1", "198.51.100.9"),
    "PD-NPU-012": Example("sparse", chip("d1", 2, hbm_used_mib=40000), "d1", "40000 MiB"),
    "PD-NPU-013": Example("sparse", second_engine("d1"), "d1", "0-15"),
    "PD-NPU-014": Example("sparse", fact("d1", "npu/generation", "A2"), "d1", "A2", "A3"),
    "PD-NPU-015": Example("sparse", chip("d1", 7, phy_id=99), "d1", "chips 7"),
    "PD-NPU-016": Example(
        "sparse",
        both(fact("d1", "hccn/chips", []), fact("d1", "hccn/reasons", ["hccn_tool is not installed"])),
        "d1",
        "chips 0-15: hccn_tool is not installed",
    ),
    "PD-NPU-018": Example("sparse", planned("engines/1/devices", list(range(8))), "d1", "chips 8-15 serve no engine"),
    # ---- hosts ----
    "PD-HOST-001": Example(
        "sparse", lambda plan, facts: facts.update(d1={"unreachable": "timed out"}), "d1", "timed out"
    ),
    "PD-HOST-002": Example("sparse", fact("d1", "recorded_at", "2026-01-01"), "d1", "2026-01-01"),
    "PD-HOST-003": Example("sparse", fact("d1", "host/clock/offset_s", -90.0), "d1", "-90 s"),
    "PD-HOST-004": Example(
        "sparse", fact("d1", "host/disks", {"/var/lib/docker": {"free_bytes": 12 * GIB}}), "d1", "12 GiB", "40 GiB"
    ),
    "PD-HOST-005": Example("sparse", fact("d1", "host/engine/api_version", "1.39"), "d1", "1.39", "1.41"),
    "PD-HOST-006": Example("sparse", fact("d1", "host/cpu/sve", False), "d1", "no sve"),
    "PD-HOST-007": Example("sparse", fact("d1", "host/arch", "x86_64"), "", "x86_64: d1"),
    "PD-HOST-008": Example("sparse", fact("d1", "host/memory/available_bytes", 500 * GIB), "d1", "500 of 1536"),
    "PD-HOST-009": Example("sparse", fact("d1", "host/paths", {"/usr/local/dcmi": {"exists": False}}), "d1", "dcmi"),
    "PD-HOST-010": Example("sparse", fact("d1", "host/ulimits/nofile", {"soft": 1024, "hard": 4096}), "d1", "4096"),
    "PD-HOST-011": Example(
        "sparse", fact("d1", "host/disks", {TRANSFER_DIR: {"free_bytes": 12 * GIB}}), "d1", "12 GiB free", "20 GiB"
    ),
    "PD-HOST-013": Example("sparse", fact("d1", "host/python_requests", False), "d1", "without requests"),
    "PD-HOST-012": Example(
        "sparse",
        both(gap("path of npu-smi"), fact("d1", "npu/reasons", ["npu-smi is not installed"])),
        "d1",
        "path of npu-smi is not known: npu-smi is not installed",
        quiet=refused("eth7 was asked for", address="serving address"),  # PD-NIC-002 tells it
    ),
    # ---- memory ----
    "PD-MEM-001": Example("sparse", sparse("decode", "dram_size_per_dp_GB", 1400), "d1", "1400.0 GiB", "GB 36"),
    "PD-MEM-002": Example("sparse", model("d1", "shards/bytes", 10**12), "d1", "weights 58.2 GiB"),
    "PD-MEM-003": Example("sparse", arg("decode", "gpu-memory-utilization", 0.96), "d1", "0.96", "0.95"),
    "PD-MEM-004": Example(
        "sparse",
        both(arg("decode", "gpu-memory-utilization", 0.97), arg("decode", "max-num-batched-tokens", 16384)),
        "d1",
        "16384",
    ),
    "PD-MEM-005": Example("sparse", container("decode", "ulimits", []), "d1", "none", "memlock:-1"),
    "PD-MEM-006": Example(
        "sparse",
        both(arg("decode", "max-num-seqs", 8), sparse("decode", "dram_size_per_dp_GB", 280)),
        "d1",
        "280",
        "71",
    ),
    "PD-MEM-007": Example("sparse", fact("d1", "host/contiguous/free_bytes", 20 * GIB), "d1", "20.0 GiB", "36.0 GiB"),
    "PD-MEM-008": Example("sparse", fact("d1", "host/memory/hugepages/free", 200000), "d1", "390.6 GiB"),
    # ---- sparse KV offload ----
    "PD-SPARSE-001": Example("sparse", sparse("decode", "topk_buffer_size", 1024), "d1", "1024", "4096"),
    "PD-SPARSE-002": Example("sparse", sparse("decode", "topk_buffer_size", 4100), "d1", "4100", "4096"),
    "PD-SPARSE-003": Example("sparse", sparse("decode", "topk_buffer_size", 2048), "d1", "2.18 GiB", "4096"),
    "PD-SPARSE-004": Example("sparse", arg("decode", "block-size", 64), "d1", "64", "128"),
    "PD-SPARSE-005": Example("sparse", model("d1", "config/index_topk", None), "d1", "deepseek_v32"),
    "PD-SPARSE-006": Example("sparse", parallel("decode", pipeline_parallel_size=2), "d1", "PP 2"),
    "PD-SPARSE-007": Example("mooncake", sparse("prefill", "enabled", True), "p1", "kv_producer", "kv_consumer"),
    "PD-SPARSE-008": Example("sparse", env("decode", "VLLM_USE_V2_MODEL_RUNNER", "1"), "d1", "=1", "0"),
    "PD-SPARSE-009": Example("sparse", arg("decode", "additional-config/enable_sparse_sfa_c8", True), "d1", "sfa_c8"),
    "PD-SPARSE-010": Example(
        "sparse", sparse("decode", "dram_size_per_dp_gb", 512), "d1", "dram_size_per_dp_gb", "dram_size_per_dp_GB"
    ),
    "PD-SPARSE-011": Example("sparse", sparse("decode", "dram_size_per_dp_GB", 35), "d1", "need 35.519", "36"),
    "PD-SPARSE-012": Example("sparse", arg("decode", "kv-cache-memory-bytes", 12 * GIB), "d1", "54.00 GiB", "55"),
    "PD-SPARSE-013": Example("sparse", sparse("decode", "dram_size_per_dp_GB", 512), "d1", "14.2 x the need", "36"),
    "PD-SPARSE-014": Example("sparse", sparse("decode", "dram_size_per_dp_GB", 36.5), "d1", "36.5", "whole"),
    "PD-SPARSE-015": Example("sparse", arg("decode", "enable-prefix-caching", None), "d1", "on", "false"),
    "PD-SPARSE-016": Example("sparse", transfer("decode", "kv_load_failure_policy", "recompute"), "d1", right="fail"),
    "PD-SPARSE-017": Example("sparse", sparse("decode", "keep_device_kv_cache", True), "d1", right="false"),
    "PD-SPARSE-018": Example("sparse", parallel("decode", tensor_parallel_size=32), "d1", "TP 32"),
    "PD-SPARSE-019": Example("sparse", env("decode", "VLLM_ENGINE_READY_TIMEOUT_S", "600"), "d1", "600", "3000"),
    "PD-SPARSE-020": Example("sparse", arg("decode", "additional-config/recompute_scheduler_enable", True), "d1"),
    "PD-SPARSE-021": Example("sparse", arg("decode", "max-num-batched-tokens", 8), "d1", "8", "16"),
    "PD-SPARSE-022": Example(
        "sparse",
        env("decode", "VLLM_ASCEND_ENABLE_CPU_GATHER_H2D", "1"),
        "d1",
        "FULL_DECODE_ONLY",
        "enforce-eager",
        quiet=gather_from("https://github.com/zd1204/vllm-ascend.git"),
    ),
    "PD-SPARSE-023": Example(
        "sparse", arg("prefill", "additional-config/enable_sparse_li_c8", True), "", "prefill-p1-0"
    ),
    "PD-SPARSE-024": Example("sparse", planned("images/decode/layers", []), "d1", "served as it is", "pd_build"),
    # ---- connectors ----
    "PD-CONN-001": Example(
        "sparse",
        transfer("decode", "kv_connector", "SfaRemoteD2H"),
        "d1",
        "SfaRemoteD2H",
        "SfaRemoteD2HConnector",
        quiet=both(planned("profile", "custom"), transfer("decode", "kv_connector", "TeamsOwnConnector")),
    ),
    "PD-CONN-002": Example("sparse", extra("decode", "transfer_back_end", "memfabric"), "d1", right="transfer_backend"),
    "PD-CONN-003": Example("sparse", extra("decode", "transfer_backend", None), "d1", "left out", "memfabric"),
    "PD-CONN-004": Example("mooncake", transfer("decode", "kv_role", "kv_producer"), "d1", right="kv_consumer"),
    "PD-CONN-005": Example("sparse", TP_12, "d1", "decode TP 12"),
    "PD-CONN-006": Example("mooncake", extra("decode", "prefill/dp_size", 2), "d1", "prefill.dp_size 2", "1"),
    "PD-CONN-007": Example("sparse", store("backend", None), "p1", "mooncake", "memcache"),
    "PD-CONN-008": Example("sparse", store("layerwise_num_shared_buffers", None), "p1", severity="warning"),
    "PD-CONN-009": Example("layerwise", store_beside_layerwise, "p1", "KV pool"),
    "PD-CONN-010": Example("sparse", arg("prefill", "enforce-eager", None), "p1", right="true"),
    "PD-CONN-011": Example(
        "mooncake",
        arg("prefill", "speculative-config", {"method": "mtp", "num_speculative_tokens": 3}),
        "p1",
        "3",
        "1",
        "warning",
    ),
    "PD-CONN-012": Example("mooncake", parallel("decode", pipeline_parallel_size=2), "d1", "decode PP 2"),
    "PD-CONN-013": Example("context_parallel", arg("prefill", "cp-kv-cache-interleave-size", 1), "p1", "1", "128"),
    "PD-CONN-014": Example(
        "mooncake",
        both(transfer("prefill", "engine_id", "0"), transfer("decode", "engine_id", "0")),
        "d1",
        "engine_id 0",
    ),
    "PD-CONN-015": Example("sparse", transfer("decode", "kv_port", None), "d1", "without kv_port"),
    "PD-CONN-016": Example(
        "mooncake",
        both(
            extra("decode", "use_ascend_direct", True),
            stated("decode", f"{EXTRA}.use_ascend_direct", "pd_kv_transfer_config"),
        ),
        "d1",
        quiet=extra("decode", "use_ascend_direct", True),  # the profile's own
    ),
    "PD-CONN-017": Example("sparse", arg("decode", "kv-transfer-config", '{"kv_role":"kv_consumer",}'), "d1", "str"),
    "PD-CONN-018": Example("sparse_2p", both(second_pool_tp8, told_of_tp8), "", "TP 8: prefill-p2-0"),
    "PD-CONN-019": Example("mooncake", arg("prefill", "additional-config", {"recompute_scheduler_enable": True}), "p1"),
    "PD-CONN-020": Example("mooncake", transfer("decode", "kv_connector", "NixlConnector"), "d1", "NixlConnector"),
    "PD-CONN-021": Example("mooncake", transfer("decode", "kv_port", 65530), "d1", "65530", "65520"),
    "PD-CONN-022": Example("layerwise", extra("decode", "tls_config", {"ssl_enable": True}), "d1", "ssl_keyfile"),
    "PD-CONN-023": Example(
        "context_parallel", parallel("decode", decode_context_parallel_size=3), "d1", "2 x 8 = 16, decode 1 x 3", "of 3"
    ),
    "PD-CONN-025": Example(
        "sparse", transfer("decode", "kv_load_failure_policy", "retry"), "d1", "'retry'", "fail or recompute"
    ),
    "PD-CONN-024": Example(
        "mooncake",
        both(parallel("prefill", pipeline_parallel_size=2), extra("decode", "prefill/pp_layer_partition", "30,31")),
        "d1",
        "30,31 is told, prefill has [31, 30]",
        quiet=both(
            parallel("prefill", pipeline_parallel_size=2), extra("decode", "prefill/pp_layer_partition", "31,30")
        ),
    ),
    # ---- MemCache ----
    "PD-MMC-001": Example("sparse", mmc(MEMFABRIC_URL, "tcp://127.0.0.1:5555"), "p1", "5555", "5000"),
    "PD-MMC-002": Example(
        "sparse_2p",
        both(conf("meta", "mmc-meta.conf", MEMFABRIC_URL, "tcp://127.0.0.1:5000")),
        "p1",
        "clients on p2",
    ),
    "PD-MMC-003": Example("sparse", mmc("ock.mmc.local_service.dram.size", "2.5GB"), "p1", "2.5GB", "3G"),
    "PD-MMC-004": Example("sparse", mmc("ock.mmc.local_service.world_size", 8), "p1", "16 ranks", "16 to 1024"),
    "PD-MMC-005": Example("sparse", fact("p1", "host/shm/free_bytes", 9 * GIB), "p1", "9 GiB free", "160 GiB"),
    "PD-MMC-006": Example(
        "sparse", mmc("ock.mmc.local_service.protocol", "host_shmem"), "p1", "host_shmem", "host_shm"
    ),
    "PD-MMC-007": Example("sparse", mmc("ock.mmc.local_service.dram_size", "10G"), "p1", right="dram.size"),
    "PD-MMC-008": Example("sparse", parallel("prefill", pipeline_parallel_size=4), "p1", "PP 4"),
    "PD-MMC-009": Example("sparse", env("prefill", "MMC_LOCAL_CONFIG_PATH", None), "p1", "unset"),
    "PD-MMC-010": Example("sparse", NO_META, "p1", "no MetaService"),
    "PD-MMC-011": Example(
        "sparse", fact("p1", "npu/driver_version", "26.0.1"), "p1", quiet=fact("p1", "npu/driver_version", "26.1.1")
    ),
    "PD-MMC-012": Example("sparse", arg("prefill", "max-model-len", 3000000), "p1", right="16G"),
    "PD-MMC-013": Example("sparse", conf("meta", "mmc-meta.conf", "ock.mmc.evict_threshold_low", 95), "p1", "low 95"),
    "PD-MMC-014": Example("sparse", ROCE, "p1", "0 pages of 2 MiB", "81920"),
    # ---- proxy ----
    "PD-PROXY-001": Example("sparse", planned("proxy/address", "0.0.0.0"), "p1", "0.0.0.0"),
    "PD-PROXY-002": Example("sparse", planned("proxy/address", "localhost"), "p1", "decode on d1"),
    "PD-PROXY-003": Example("sparse", drop_last_backend, "p1", "decode: none", "192.0.2.20:29181"),
    "PD-PROXY-004": Example("sparse", planned("proxy/flavour", "standard"), "p1", right="layerwise"),
    "PD-PROXY-005": Example("sparse", planned("proxy/address", "192.0.2.99"), "p1", "no address of p1"),
    "PD-PROXY-006": Example("sparse", planned("verify/url", "http://192.0.2.20:29181"), "", right="the proxy"),
    "PD-PROXY-007": Example("sparse", planned("verify/requests", []), "", "0 requests"),
    "PD-PROXY-008": Example("sparse", planned("proxy/port", 1234), "p1", "1234", quiet=planned("proxy", None)),
    "PD-PROXY-009": Example("sparse", planned("settings/pd_expected_concurrency", 16), "", "16 expected, 4 served"),
    "PD-PROXY-010": Example("mooncake", planned("engines/1/http/host", "127.0.0.1"), "d1", "asked at 192.0.2.20"),
    # ---- prefill and decode alike ----
    "PD-PARITY-001": Example("mooncake", arg("prefill", "block-size", 64), "", "64: prefill-p1-0"),
    "PD-PARITY-002": Example("sparse", arg("decode", "max-model-len", 4096), "", "132096 at prefill, 4096"),
    "PD-PARITY-003": Example("sparse", arg("prefill", "dtype", "float16"), "", "float16"),
    "PD-PARITY-004": Example("sparse", arg("prefill", "quantization", None), "", "unset: prefill-p1-0"),
    "PD-PARITY-005": Example("sparse", arg("prefill", "kv-cache-dtype", "fp8"), "", "fp8"),
    "PD-PARITY-006": Example("sparse", arg("prefill", "served-model-name", "other"), "", "other"),
    "PD-PARITY-007": Example("sparse", arg("prefill", "model", "/data/models/other"), "", "other"),
    "PD-PARITY-008": Example("sparse", env("decode", "PYTHONHASHSEED", None), "", "unset: decode-d1-0"),
    "PD-PARITY-009": Example("sparse", model("d1", "digest", "aa" * 32), "", "aaaaaaaaaaaa: d1"),
    "PD-PARITY-010": Example("sparse", other_firmware, "", "26.0.rc1: d1"),
    "PD-PARITY-011": Example(
        "sparse", planned("images/decode/base", "quay.io/ascend/vllm-ascend:other-a3"), "", "other"
    ),
    "PD-PARITY-012": Example("sparse", arg("prefill", "speculative-config", None), "", "none: prefill-p1-0"),
    "PD-PARITY-013": Example(
        "context_parallel", planned(f"{FOLLOWER}/enable-expert-parallel", False), "p1", "False: prefill-p-1", "equal on"
    ),
    # ---- versions ----
    "PD-VER-001": Example("context_parallel", planned("versions/vllm_ascend", "0.26.0rc1"), "p1", "0.26.0rc1", "<0.25"),
    "PD-VER-002": Example("sparse", planned("versions/vllm_ascend", "0.25.1rc1"), "d1", "0.25.1rc1", ">=0.26"),
    "PD-VER-003": Example("sparse", fact("d1", "npu/driver_version", "25.3.rc1"), "d1", "25.3.rc1", "25.5.1"),
    "PD-VER-004": Example(
        "mooncake", fact("d1", "npu/driver_version", "24.1.rc3"), "d1", "driver 24.1.rc3 with CANN 9.1.0", "25.5.1"
    ),
    "PD-VER-005": Example(
        "mooncake",
        both(env("decode", "ASCEND_ENABLE_USE_FABRIC_MEM", "1"), fact("d1", "npu/driver_version", "25.3.0")),
        "d1",
        "25.3.0",
        "25.5",
    ),
    "PD-VER-006": Example(
        "context_parallel", planned("images/decode/base", "quay.io/ascend/vllm-ascend:v0.22.1rc1"), "", right="-a3"
    ),
    "PD-VER-007": Example("sparse", planned("versions/vllm", "0.22.1"), "", "0.22.1", "0.26.0"),
    "PD-VER-008": Example("context_parallel", parallel("prefill", data_parallel_size=2), "p1", "DP 2"),
    "PD-VER-009": Example("sparse", planned("versions/vllm_ascend", "0.27.0"), "", "0.27.0"),
    "PD-VER-010": Example("sparse", planned("settings/vllm_build_soc_version", "910C"), "", "910C", "ascend910_9391"),
    "PD-VER-011": Example("mooncake", based("v0.22.1rc1-a3"), "", "v0.22.1rc1-a3", "0.26.0rc1", "error"),
    "PD-VER-012": Example(
        "sparse",
        both(planned("settings/memfabric_method", "wheel"), planned("settings/memfabric_version", "1.2.0")),
        "",
        "1.2.0",
        ">=1.2.1",
        quiet=both(planned("settings/memfabric_method", "wheel"), planned("settings/memfabric_version", "1.2.1")),
    ),
    # ---- model ----
    "PD-MODEL-001": Example(
        "sparse", both(model("d1", "exists", False), model("d1", "config", None)), "d1", "DeepSeek-V3.2-W8A8"
    ),
    "PD-MODEL-002": Example("sparse", model("d1", "shards/missing", ["model-7.safetensors"]), "d1", "model-7"),
    "PD-MODEL-003": Example("sparse", model("d1", "tokenizer", []), "d1", "none"),
    "PD-MODEL-004": Example("context_parallel", FLOAT16, "p1", "float16", "bfloat16"),
    "PD-MODEL-005": Example("sparse", arg("decode", "max-model-len", 200000), "d1", "200000", "163840"),
    "PD-MODEL-006": Example("sparse", model("d1", "quantization", None), "d1", "quant_model_description"),
    "PD-MODEL-007": Example("sparse", planned("model/path", "/other"), "", "/other", clean=False),
    "PD-MODEL-008": Example("sparse", unmount("decode", "/data/models"), "d1", "no mount"),
    "PD-MODEL-009": Example("sparse", model("d1", "config/num_attention_heads", 40), "d1", "40 heads, TP 16"),
    "PD-MODEL-010": Example("sparse", model("d1", "config/num_nextn_predict_layers", None), "d1", "method mtp"),
    "PD-MODEL-011": Example("mooncake", parallel("prefill", pipeline_parallel_size=64), "p1", "PP 64, 61 layers"),
    "PD-MODEL-012": Example(
        "mooncake", dense_ranks(local=2), "p1", "2 ranks with the same control ports", "2 instances"
    ),
    "PD-MODEL-013": Example("sparse", model("d1", "config/index_topk", "2048"), "d1", "index_topk", "2048"),
    # ---- options ----
    "PD-ARG-001": Example(
        "context_parallel", arg("prefill", "max-num-batched-tokens", 8192), "p1", "8192, max-model-len 136000", "136000"
    ),
    "PD-ARG-002": Example("sparse", arg("decode", "max-num-seqs", 256), "d1", "tokens 120, max-num-seqs 256", "1024"),
    "PD-ARG-003": Example("sparse", arg("decode", "gpu-memory-utilization", 95), "d1", "95", "0.95"),
    "PD-ARG-004": Example(
        "sparse", arg("decode", "additional-config/enable_mlpao", False), "d1", "enable_mlpao", "enable_mlapo"
    ),
    "PD-ARG-005": Example(
        "sparse", arg("decode", "additional-config/enable_sparse_li_c8", "false"), "d1", "'false'", "false, without"
    ),
    "PD-ARG-006": Example(
        "sparse", arg("decode", "speculative-config/metod", "mtp"), "d1", "vLLM 0.26.0 has no metod", "method"
    ),
    "PD-ARG-007": Example("sparse", arg("decode", "speculative-config/method", "mtpp"), "d1", "method 'mtpp'", "mtp"),
    "PD-ARG-008": Example("sparse", arg("decode", "quantization", "ascendd"), "d1", "'ascendd'", "ascend"),
    # ---- environment ----
    "PD-ENV-001": Example("sparse", unmount("decode", "/etc/hccn.conf"), "d1", "/etc/hccn.conf"),
    "PD-ENV-002": Example("sparse", env("decode", "OMP_NUM_THREADS", 1), "d1", "int 1", '"1"'),
    "PD-ENV-003": Example("sparse", env("decode", "LD_PRELOAD", "/lib/j.so"), "d1", right="pd_prepend_paths"),
    "PD-ENV-004": Example(
        "sparse",
        both(FLASHCOMM, *(model("d1", f"config/{name}", None) for name in EXPERTS)),
        "d1",
        "dense",
        quiet=both(FLASHCOMM, model("d1", "config/n_routed_experts", None), model("d1", "config/num_local_experts", 8)),
    ),
    "PD-ENV-005": Example(
        "mooncake",
        env("prefill", "VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT", "300000"),
        "p1",
        "300000",
        "480",
        quiet=env("prefill", "VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT", "480"),
    ),
    "PD-ENV-006": Example("sparse", env("decode", "GIT_SSL_NO_VERIFY", "true"), "d1", "GIT_SSL_NO_VERIFY"),
    "PD-ENV-007": Example(
        "context_parallel",
        container("decode", "devices", [f"/dev/davinci{n}" for n in range(8)]),
        "d1",
        "/dev/davinci8",
    ),
    "PD-ENV-008": Example("sparse", container("decode", "network_mode", "bridge"), "d1", "bridge", "host"),
    "PD-ENV-009": Example("sparse", container("decode", "ipc_mode", None), "d1", "private", "host"),
    "PD-ENV-010": Example("sparse", env("prefill", "VLLM_ASCEND_ENABLE_CPU_GATHER_H2D", "1"), "p1", "on prefill"),
    "PD-ENV-011": Example("sparse", env("decode", "HCCL_BUFFSIZE", "8192"), "d1", "8192"),
    "PD-ENV-012": Example("sparse", no_scripts, "d1", "nothing", "set_env.sh"),
    "PD-ENV-013": Example(
        "sparse", container("decode", "mounts", ["/usr/local/sbin:/usr/local/sbin:ro"]), "d1", "sbin"
    ),
    "PD-ENV-015": Example("sparse", container("decode", "mounts", ["cache:/root/.cache"]), "d1", "cache:", "/source"),
    "PD-ENV-016": Example(
        "sparse",
        env("decode", "HCCL_BUFSIZE", "512"),
        "d1",
        "HCCL_BUFSIZE, which nothing known reads",
        "HCCL_BUFFSIZE",
        quiet=env("decode", "MKL_NUM_THREADS", "8"),  # like OMP_NUM_THREADS, and another thing
    ),
    "PD-ENV-014": Example(
        "sparse", env("decode", "VLLM_ASCEND_ENABLE_FLASHCOMM1", "true"), "d1", "FLASHCOMM1=true", "1"
    ),
}


def unreached(reason: str, right: str) -> Example:
    return Example("sparse", lambda plan, facts: facts.update(d1={"unreachable": reason}), "d1", reason, right)


#: Further ways in which a rule must find something.
OFFICIAL = "https://github.com/vllm-project/vllm-ascend.git"

MORE: dict[str, tuple[Example, ...]] = {
    "PD-HOST-001": (
        unreached("The module interpreter '/usr/bin/python3.42' was not found.", "a Python that runs modules"),
        unreached("Module result deserialization failed: no JSON", "a Python that runs modules"),
        unreached("Failed to connect to the host via ssh: root@d1: Permission denied (publickey).", "a login"),
        unreached("ssh: Could not resolve hostname d1: Name or service not known", "a name that resolves"),
        unreached("Host key verification failed.", "the host's own key"),
        unreached("connect to host d1 port 22: Connection refused", "an answer over SSH"),
    ),
    "PD-SPARSE-010": (Example("sparse", sparse("decode", "enable", True), "d1", "enable", "left out: pd_profile"),),
    "PD-MMC-004": (Example("sparse", planned("engines/0/devices", list(range(1040))), "", "1040 ranks on 1", "1024"),),
    "PD-MODEL-013": (
        Example("sparse", model("d1", "config/index_topk", ["2048"]), "d1", "['2048']", "a whole number"),
        Example("sparse", model("d1", "config/hidden_size", -1), "d1", "hidden_size in config.json is -1"),
        Example("mooncake", model("d1", "config/num_hidden_layers", 0), "d1", "num_hidden_layers in config.json is 0"),
        Example("mooncake", model("d1", "config/num_attention_heads", "128"), "d1", "num_attention_heads", "128"),
    ),
    "PD-MODEL-012": (
        Example("mooncake", dense_ranks(local=1, data_parallel_rank=0), "p1", "2 external ranks, and the model has no"),
    ),
    "PD-CONN-025": (
        Example("mooncake", both(ALONE, transfer("engine", "kv_role", "both")), "d1", "kv_role 'both'", "kv_both"),
        Example("mooncake", transfer("decode", "kv_buffer_size", "large"), "d1", "kv_buffer_size 'large'", "a number"),
    ),
    "PD-CONN-024": (
        Example(
            "mooncake",
            both(parallel("prefill", pipeline_parallel_size=2), env("prefill", "VLLM_PP_LAYER_PARTITION", "20,41")),
            "d1",
            "the default is told, prefill has 20,41",
        ),
    ),
    "PD-CONN-020": (
        Example(
            "mooncake",
            both(arg("prefill", "kv-transfer-config", None), arg("decode", "kv-transfer-config", None)),
            "",
            "neither prefill nor decode",
        ),
    ),
    "PD-CONN-001": (
        Example(
            "mooncake",
            both(planned("profile", "custom"), transfer("decode", "kv_connector", "NixlConector")),
            "d1",
            "NixlConector",
            "NixlConnector",
            "warning",
        ),
    ),
    "PD-VER-006": (
        Example("sparse", based("v0.26.0rc1-openeuler"), "", "v0.26.0rc1-openeuler on A3", ":v0.26.0rc1-a3-openeuler"),
        Example("sparse", based("main-310p-openeuler"), "", "main-310p", ":main-a3-openeuler"),
        Example("mooncake", fact("d1", "npu/generation", "A2"), "", "A2: d1; A3: p1", "one generation"),
    ),
    "PD-PARITY-001": (Example("context_parallel", planned(f"{FOLLOWER}/block-size", 64), "", "64: prefill-p-1"),),
    "PD-PARITY-013": (
        Example("context_parallel", planned(f"{FOLLOWER}/kv-transfer-config", None), "p1", "no connector: prefill-p-1"),
    ),
    "PD-SPARSE-022": (
        Example("sparse", env("prefill", "VLLM_ASCEND_ENABLE_CPU_GATHER_H2D", "1"), "p1", "without offload"),
        Example("sparse", gather_from(None), "d1", "vllm-project/vllm-ascend", "fork", "warning"),
        Example("sparse", gather_from(OFFICIAL), "d1", OFFICIAL, "fork", "warning"),
    ),
    "PD-PORT-005": (Example("sparse", fact("d1", "host/ephemeral_ports", [20000, 60999]), "d1", "29181"),),
    "PD-PORT-002": (
        Example(
            "data_parallel", port("d1", 29550, purpose="data-parallel rendezvous"), "d1", "29550", severity="warning"
        ),
        Example("halves", port("d1", 29550, purpose="data-parallel rendezvous"), "d1", "29550", severity="error"),
    ),
    "PD-CONN-018": (Example("sparse_2p", second_pool_tp8, "", "TP 8: prefill-p2-0", severity="warning"),),
    "PD-PORT-007": (
        Example("sparse", env("decode", "HCCL_IF_BASE_PORT", None), "d1", "60000 and up", severity="warning"),
        Example("halves", env("decode", "HCCL_IF_BASE_PORT", "50000"), "d1", "decode-d1-a-0, decode-d1-b-0"),
    ),
    "PD-PORT-001": (
        Example("sparse", port("d1", 8500), "d1", "8500"),
        Example("sparse", port("d1", 8500, bind="192.0.2.20"), "d1", "on different addresses", severity="warning"),
    ),
    "PD-PORT-008": (Example("sparse", both(unlisted("8500"), port("d1", 8500)), "d1", "8500", "8501"),),
    "PD-PORT-009": (
        Example("sparse", env("prefill", "VLLM_PORT", "21600"), "p1", "taken by proxy", "unset"),
        Example("sparse", env("decode", "VLLM_PORT", "20055"), "d1", "KV transfer control"),
        Example("sparse", env("decode", "VLLM_PORT", "auto"), "d1", "'auto'"),
        Example("halves", env("decode", "VLLM_PORT", "7777"), "d1", "decode-d1-a-0 and decode-d1-b-0"),
    ),
    "PD-NIC-001": (Example("sparse", planned("hosts/d1/address", "169.254.3.4"), "d1", "169.254"),),
    "PD-NIC-002": (
        Example("sparse", fact("d1", "nic/interfaces/0/carrier", False), "d1", "no carrier"),
        Example("sparse", planned("hosts/d1/nic", "eth9"), "d1", "no interface eth9", "enp1s0f0"),
        Example("sparse", planned("hosts/d1/address", "192.0.2.99"), "d1", "belongs to no interface"),
        Example(
            "sparse",
            refused("eth7 was asked for, but there is no such interface", address="serving address"),
            "d1",
            "eth7 was asked for",
            "enp1s0f0",
        ),
        Example(
            "sparse",
            refused("192.0.2.99 was asked for, but no interface has it", nic="serving network interface"),
            "d1",
            "no interface has it",
            "192.0.2.20",
        ),
    ),
    "PD-NIC-006": (
        Example(
            "sparse",
            fact("d1", "nic/peers/192.0.2.10/tcp", {"29180": "no answer within 3 s"}),
            "d1",
            "29180: no answer within 3 s",
            severity="warning",
        ),
        Example(  # what firewalld answers
            "sparse",
            fact("d1", "nic/peers/192.0.2.10/tcp", {"29180": "No route to host", "50000": "refused"}),
            "d1",
            "29180: No route to host",
            severity="warning",
        ),
    ),
    "PD-NIC-008": (
        Example("sparse", both(proxied, no_proxy("192.0.2.0/24,192.0.2.10")), "d1", "not cover 192.0.2.20"),
        Example("sparse", no_proxy("localhost,::1/128,*.example"), "d1", "cannot read ::1/128", severity="error"),
    ),
    "PD-NIC-011": (
        Example(
            "sparse",
            fact("d1", "host/firewall/nft_input", [{"name": "input", "policy": "drop"}]),
            "d1",
            "INPUT policy DROP",
        ),
    ),
    "PD-HOST-004": (
        Example(  # images that containerd keeps, on a disk of their own
            "sparse",
            both(
                fact("d1", "host/engine/image_dir", "/var/lib/containerd"),
                fact("d1", "host/disks", {"/var/lib/containerd": {"free_bytes": 12 * GIB}}),
            ),
            "d1",
            "12 GiB free in /var/lib/containerd",
        ),
        Example(  # the image as it is, and a large one
            "sparse",
            both(
                planned("settings/pd_build", False),
                planned("settings/pd_image_size", 30),
                fact("d1", "host/disks", {"/var/lib/docker": {"free_bytes": 29 * GIB}}),
            ),
            "d1",
            "29 GiB free",
            "30 GiB",
        ),
    ),
    "PD-HOST-011": (
        Example(
            "sparse",
            both(
                planned("settings/pd_build", False),
                planned("settings/pd_image_source", "archive"),
                planned("settings/container_transfer_dir", "/data/pass"),
                fact("d1", "host/disks", {"/data/pass": {"free_bytes": GIB}}),
            ),
            "d1",
            "1 GiB free in /data/pass",
        ),
    ),
    "PD-PARITY-009": (
        Example(
            "sparse",
            both(model("d1", "digest", "aa" * 32), model("d1", "shards/sizes", {"model-1.safetensors": 7})),
            "",
            "; not the same: model-1.safetensors",
        ),
    ),
    "PD-NPU-001": (
        Example("sparse", planned("engines/1/devices", [0, 99]), "d1", "no /dev/davinci99", "chips of 0-15"),
    ),
    "PD-NPU-009": (
        Example("mooncake", fact("d1", "hccn/hccn_conf/lines", ["tls_enable_0=0"]), "d1", "no line address_N"),
    ),
    "PD-PORT-004": (
        Example(
            "sparse",
            both(*(listener("d1", number, container="pd-decode-old") for number in (29181, 20055))),
            "d1",
            "ports 20055,29181 are held by pd-decode-old, of a service",
        ),
    ),
    "PD-NPU-016": (Example("sparse", hung(5, 6), "d1", "chips 5-6: hccn_tool -i 5-6 -link -g: no answer"),),
    "PD-NPU-003": (
        Example(
            "sparse", chip("d1", 2, processes=[{"pid": 7, "name": "python", "container": None}]), "d1", "process 7"
        ),
        Example("sparse", fact("d1", "npu/holders", {"3": ["pd-decode-old"]}), "d1", "chips 3, of a service"),
    ),
    "PD-NPU-007": (
        Example("data_parallel", fact("d1", "hccn/chips/0/net_health", "Fault"), "d1", "Fault", severity="error"),
    ),
    "PD-MEM-002": (
        Example("sparse", arg("decode", "max-num-seqs", 6), "d1", "11.7 GiB", "max-num-seqs", "warning"),
        Example("sparse", arg("decode", "max-num-seqs", 8), "d1", "15.6 GiB", "max-num-seqs", "error"),
        Example("sparse", arg("decode", "kv-cache-memory-bytes", 12 * GIB), "d1", "12.0 GiB", "8388542464", "warning"),
        Example("sparse", arg("decode", "kv-cache-memory-bytes", 30 * GIB), "d1", "30.0 GiB", "8388542464", "error"),
    ),
    "PD-SPARSE-011": (
        Example("sparse", arg("decode", "kv-cache-memory-bytes", 8388542463), "d1", "8388542463", "8388542464"),
    ),
    "PD-SPARSE-007": (
        Example("sparse", sparse("decode", "enabled", False), "d1", "without sparse_kv_offload_config.enabled"),
    ),
    "PD-SPARSE-012": (
        Example("sparse", gate_unpinned, "d1", "GiB", severity="warning"),
        Example("sparse", both(PLANNED, arg("decode", "kv-cache-memory-bytes", GIB)), "d1", "limited by npu", "36"),
    ),
    "PD-CONN-005": (
        Example("mooncake", parallel("prefill", tensor_parallel_size=8), "d1", "prefill TP 8", "16 or more"),
        Example("mooncake", both(TP_12, GQA), "d1", "decode TP 12", "multiple"),
    ),
    "PD-CONN-008": (
        Example("sparse", store("layerwise_num_shared_buffers", 0), "p1", "0", severity="error"),
        Example("sparse", store("layerwise_independent_layers", [61]), "p1", "[61]", "-61 to 60", "error"),
        Example("sparse", store("layerwise_independent_layers", "first"), "p1", "'first'", severity="error"),
        Example("sparse", store("layerwise_independent_layers", ["x"]), "p1", "['x']", severity="error"),
        Example("sparse", store("layerwise_num_shared_buffers", True), "p1", "True", severity="error"),
    ),
    "PD-CONN-011": (Example("sparse", planned("profile", "sparse_kv_offload"), "p1", "3", "1", "info"),),
    "PD-NIC-007": (
        Example(
            "sparse",
            fact("d1", "nic/peers/192.0.2.10", {"interface": "enp1s0f0", "path_mtu": 576, "path_mtu_below": 1500}),
            "d1",
            "path MTU to p1 is below 1500, at least 576; that of enp1s0f0 is 1500",
        ),
    ),
    "PD-CONN-004": (
        Example("sparse", transfer("decode", "kv_role", "producer"), "d1", "kv_role producer", "kv_consumer"),
        Example("mooncake", transfer("prefill", "kv_role", "kv_both"), "p1", "kv_both", "kv_producer"),
    ),
    "PD-CONN-012": (
        Example(
            "mooncake",
            parallel("prefill", pipeline_parallel_size=2, prefill_context_parallel_size=2),
            "p1",
            "PP 2 and PCP 2",
        ),
        Example("layerwise", parallel("prefill", pipeline_parallel_size=2), "p1", "prefill PP 2"),
        Example(
            "mooncake",
            both(
                transfer("decode", "kv_connector", "MooncakeHybridConnector"),
                parallel("decode", decode_context_parallel_size=2),
            ),
            "d1",
            "PCP 1, DCP 2",
            "1 each",
        ),
        Example("layerwise", parallel("decode", prefill_context_parallel_size=2), "d1", "decode PCP 2"),
    ),
    "PD-CONN-013": (
        Example(
            "mooncake",
            both(
                GQA,
                model_everywhere("config/num_key_value_heads", 4),
                parallel("decode", decode_context_parallel_size=8),
            ),
            "d1",
            "DCP 8 with 4 key-value heads",
            "4 or less",
        ),
        Example("context_parallel", parallel("prefill", decode_context_parallel_size=3), "p1", "TP 16, DCP 3"),
        Example("sparse", parallel("prefill", decode_context_parallel_size=8), "p1", "sparse attention", "16"),
    ),
    "PD-MMC-003": (
        Example("sparse", mmc("ock.mmc.local_service.dram.size", "2TB"), "p1", "2TB", "3G"),
        Example("sparse", mmc("ock.mmc.local_service.dram.size", "lots"), "p1", "'lots'"),
        Example("sparse", mmc("ock.mmc.local_service.dram.size", "0GB"), "p1", "both 0"),
        Example("sparse", mmc("ock.mmc.local_service.dram.size", 10), "p1", "dram.size 10", "10G"),
        Example("sparse", mmc("ock.mmc.local_service.max.dram.size", "5GB"), "p1", "max.dram.size"),
    ),
    "PD-MMC-005": (
        Example("sparse", fact("p1", "host/memory/hugepages/free", 512), "p1", "1 GiB of free huge pages"),
        Example(
            "sparse",
            both(fact("p1", "host/memory/hugepages/free", 1000), fact("p1", "host/memory/hugepages/total", 50000)),
            "p1",
            right="vm.nr_hugepages=130920",
        ),
        Example("sparse", container("prefill", "ipc_mode", "private"), "p1", "private", "host"),
        Example(
            "sparse",
            both(second_engine("p1"), fact("p1", "host/shm/free_bytes", 200 * GIB)),
            "p1",
            "need 320 GiB (16 x 10 GiB + 16 x 10 GiB)",
        ),
    ),
    "PD-MODEL-002": (
        Example("sparse", model("d1", "shards/count", 0), "d1", "no weights"),
        Example("sparse", model("d1", "shards/lfs_pointers", ["a.safetensors"]), "d1", "Git LFS"),
        Example("sparse", model("d1", "shards/short", [SHORT]), "d1", "a.safetensors: 5 bytes, its header says 9"),
        Example(
            "sparse",
            model("d1", "shards/unreadable", [ZEROS, ZEROS]),
            "d1",
            "a.safetensors and 1 more: 99 bytes that vLLM cannot load: no header",
            "whole files",
        ),
    ),
    "PD-MODEL-004": (Example("sparse", arg("decode", "dtype", "half"), "d1", "half", "bfloat16"),),
    "PD-ENV-001": (
        Example("sparse", partly_mounted("decode"), "d1", "only parts", severity="warning"),
        Example("sparse", unmount("decode", "/usr/local/dcmi"), "d1", "dcmi", severity="warning"),
        Example("sparse", unmount("decode", "/etc/ascend_install.info"), "d1", "ascend_install.info"),
    ),
    "PD-ENV-002": (Example("sparse", env("decode", "X", "a:$Y"), "d1", "X holds a $"),),
    "PD-ENV-004": (
        Example("sparse", both(FLASHCOMM, parallel("decode", tensor_parallel_size=1)), "d1", "TP 1", severity="error"),
        Example(
            "sparse", both(FLASHCOMM, arg("decode", "enable-expert-parallel", None)), "d1", "without", "true", "error"
        ),
        Example(
            "sparse",
            both(
                arg("decode", "additional-config/enable_flashcomm1", True),
                arg("decode", "enable-expert-parallel", None),
            ),
            "d1",
            "enable_flashcomm1 without",
            severity="error",
        ),
    ),
    "PD-ENV-009": (
        Example("sparse", fact("d1", "host/shm/total_bytes", 64 << 20), "d1", "64 MiB", "1 GiB", "warning"),
    ),
    "PD-ENV-012": (
        Example(
            "sparse",
            env("decode", "MEMFABRIC_HYBRID_EXTEND_LIB_PATH", "/usr/local/memfabric_hybrid/1.2.1/lib64"),
            "d1",
            "1.2.1",
            "latest",
            "warning",
        ),
        Example("sparse", not_built, "d1", "ascend-toolkit", "MemFabric"),
        Example("sparse", not_built, "p1", "ascend-toolkit", "MemFabric, MemCache"),
        Example("sparse", sources(*CANN, MEMFABRIC), "p1", MEMFABRIC, "MemCache", "warning"),
        Example("sparse", sources(*CANN, MEMFABRIC, built=True), "p1", MEMFABRIC, "MemCache"),
        Example("sparse", sources(MEMFABRIC, MEMCACHE), "d1", MEMFABRIC, "CANN", "warning"),
    ),
    "PD-ARG-003": (
        Example("sparse", arg("decode", "speculative-config/num_speculative_tokens", -3), "d1", "-3", "from 1"),
        Example("sparse", arg("decode", "max-num-seqs", "four"), "d1", "'four'", "whole number"),
        Example("sparse", arg("decode", "max-num-seqs", "4k"), "d1", "'4k'", "whole number"),
        Example("sparse", arg("decode", "block-size", 128.0), "d1", "128.0", "whole number"),
        Example("sparse", arg("decode", "max-model-len", int("9" * 400)), "d1", "max-model-len 999"),
        Example("sparse", arg("decode", "max-model-len", 0), "d1", "max-model-len 0"),
        Example("sparse", arg("decode", "gpu-memory-utilization", 0), "d1", "0", "at most 1"),
    ),
    "PD-ENV-014": (
        Example("sparse", env("decode", "VLLM_ENGINE_READY_TIMEOUT_S", "soon"), "d1", "=soon", "a whole number"),
        Example("sparse", env("decode", "PYTHONHASHSEED", "-1"), "d1", "PYTHONHASHSEED=-1", "0"),
        Example("sparse", env("decode", "TASK_QUEUE_ENABLE", "true"), "d1", "TASK_QUEUE_ENABLE=true", "1"),
        Example("sparse", env("decode", "HCCL_BUFFSIZE", "0"), "d1", "HCCL_BUFFSIZE=0", "a whole number from 1 on"),
        Example("sparse", env("decode", "HCCL_CONNECT_TIMEOUT", "60"), "d1", "=60", "a whole number from 120 to 7200"),
    ),
    "PD-ARG-005": (
        Example("mooncake", extra("decode", "use_layerwise", "Yes"), "d1", "use_layerwise 'Yes'", "true, without"),
        Example(
            "mooncake",
            arg("prefill", "additional-config", {"scheduler_config": {"recompute_scheduler_enable": "off"}}),
            "p1",
            "scheduler_config.recompute_scheduler_enable 'off'",
        ),
    ),
    "PD-ARG-006": (
        Example("sparse", arg("decode", "compilation-config", 3), "d1", "compilation-config 3", "a mapping"),
        Example("sparse", arg("decode", "eplb-config", {"windowsize": 9}), "d1", "eplb-config", "window_size"),
        Example(
            "sparse", arg("decode", "compilation-config/pass_config/enable_spp", True), "d1", "pass_config.enable_spp"
        ),
        Example("sparse", arg("decode", "diffusion-config", {"x": 1}), "d1", "no x", "canvas_length, max_denoising"),
    ),
    "PD-ARG-007": (
        Example("sparse", arg("decode", "compilation-config", {"cudagraph_mode": "FULL_DECODE"}), "d1", right="FULL"),
        Example("sparse", arg("decode", "attention-config", {"flash_attn_version": 5}), "d1", "5", "one of 2, 3, 4"),
    ),
    "PD-ARG-008": (
        Example(
            "sparse", arg("decode", "quantization", "gptq_marlin"), "d1", right="one of ascend, compressed-tensors"
        ),
        Example("sparse", arg("decode", "speculative-config/quantization", "fp9"), "d1", "config.quantization", "fp8"),
    ),
    "PD-ARG-004": (
        Example(
            "sparse",
            arg("decode", "additional-config/sparse_kv_ofload_config", {}),
            "d1",
            right="sparse_kv_offload_config",
            severity="error",
        ),
    ),
    "PD-VER-010": (Example("sparse", generation("A2"), "", "chips are A2", "ascend910b1"),),
    "PD-VER-011": (Example("sparse", based("v0.22.1rc1-a3"), "", "0.22.1rc1", severity="warning"),),
    "PD-SPARSE-001": (
        Example("sparse", sparse("decode", "topk_buffer_size", 0), "d1", "topk_buffer_size 0"),
        Example("sparse", sparse("decode", "topk_buffer_size", -1), "d1", "topk_buffer_size -1"),
    ),
    "PD-MMC-006": (
        Example("sparse", mmc("ock.mmc.local_service.protocol", "host_shm"), "p1", "host_shm", "device_sdma", "info"),
        Example(
            "sparse_2p",
            mmc("ock.mmc.local_service.protocol", "host_shm"),
            "p1",
            "host_shm over 2 hosts: p1, p2",
            "device_sdma",
            "warning",
        ),
        Example("sparse", mmc("ock.mmc.local_service.protocol", "host_tcp"), "p1", "7000", severity="warning"),
        Example("sparse", mmc("ock.mmc.local_service.hcom_url", "192.0.2.10:7000"), "p1", "192.0.2.10", "tcp://"),
    ),
    "PD-CONN-007": (
        Example("sparse", store("backend", "memcahe"), "p1", "memcahe", "memcache"),
        Example("sparse", store("backend", "mooncake"), "p1", "no layer shares", "memcache", "warning"),
    ),
    "PD-CONN-009": (
        Example("sparse", pool_role("kv_both"), "p1", "kv_both", "kv_producer"),
        Example("sparse", pool_role("kv_consumer"), "p1", "kv_consumer", severity="warning"),
        Example("sparse", parallel("prefill", decode_context_parallel_size=16), "p1", "DCP 16", severity="warning"),
    ),
    "PD-CONN-019": (
        Example(
            "mooncake",
            both(
                transfer("decode", "kv_role", "kv_both"),
                arg("decode", "additional-config", {"scheduler_config": {"recompute_scheduler_enable": True}}),
            ),
            "d1",
            "kv_both",
            "kv_consumer",
            "error",
        ),
    ),
    "PD-ENV-007": (
        Example(
            "sparse",
            both(env("decode", "ASCEND_RT_VISIBLE_DEVICES", None), second_engine("d1")),
            "d1",
            "unset",
            "0,1,2",
        ),
        Example("sparse", env("decode", "ASCEND_RT_VISIBLE_DEVICES", "0,1"), "d1", "0,1", "0,1,2,3"),
        Example("context_parallel", env("decode", "ASCEND_RT_VISIBLE_DEVICES", "16"), "d1", "16 devices", "0 to 15"),
    ),
    "PD-PARITY-002": (
        Example("sparse", arg("prefill", "max-model-len", 4096), "", "up to 4096", severity="info"),
        Example("sparse", arg("prefill", "max-model-len", None), "", "163840 at prefill, 132096"),
        Example("sparse", arg("decode", "max-model-len", "128k"), "", "132096 at prefill, 128000"),
    ),
    "PD-PARITY-008": (
        Example(
            "sparse",
            both(env("decode", "PYTHONHASHSEED", None), env("prefill", "PYTHONHASHSEED", None)),
            "",
            "unset",
            severity="warning",
        ),
        Example(
            "sparse",
            both(env("decode", "PYTHONHASHSEED", "random"), env("prefill", "PYTHONHASHSEED", "")),
            "",
            "random everywhere",
            severity="warning",
        ),
    ),
    "PD-CONN-002": (
        Example("sparse", transfer("decode", "kv_rol", "x"), "d1", "SfaRemoteD2HConnector: kv_rol", "kv_role"),
        Example("sparse", transfer("decode", "kv_prt", 1), "d1", "kv_prt", "left out: decode_kv_port decides"),
        Example("mooncake", extra("decode", "decod", {"tp_size": 8}), "d1", "config.decod", "left out: the plan"),
        Example("mooncake", extra("decode", "use_ascend_driect", True), "d1", "driect", "left out: nobody reads"),
    ),
    "PD-CONN-006": (Example("mooncake", extra("decode", "prefill", None), "d1", "does not state prefill", "dp_size"),),
    "PD-ENV-010": (
        Example("sparse", env("decode", "VLLM_ASCEND_CPU_GATHER_THREADS", "4"), "d1", "gather off", "all or none"),
    ),
    "PD-HOST-005": (
        Example(
            "sparse",
            fact("d1", "host/engine", {"api_version": None, "reason": "no socket"}),
            "d1",
            "no socket",
            "1.41",
        ),
    ),
    "PD-MMC-009": (Example("sparse", no_local_file, "p1", "no mmc-local.conf"),),
    "PD-MODEL-001": (Example("sparse", model("d1", "config", None), "d1", "no readable config.json"),),
    "PD-MODEL-006": (Example("sparse", arg("decode", "quantization", None), "d1", "no quantization option", "ascend"),),
    "PD-PORT-013": (
        Example("sparse", unlisted("29181"), "d1", "HTTP port 29181"),
        Example("sparse", unlisted("20050"), "d1", "kv_port 20050"),
    ),
    "PD-PROXY-006": (Example("sparse", asked_for_a_completion, "d1", "/v1/completions", "/health"),),
    "PD-PROXY-007": (Example("sparse", planned("verify/timeout_s", None), "", "no time limit"),),
    "PD-SPARSE-005": (
        Example("sparse", model("d1", "config/compress_ratios", [4]), "d1", "compress_ratios"),
        Example("sparse", model("d1", "config/index_head_dim", None), "d1", "no index_head_dim", "index_head_dim"),
    ),
    "PD-SPARSE-008": (
        Example("sparse", env("decode", "VLLM_USE_V2_MODEL_RUNNER", None), "d1", "unset", severity="info"),
    ),
}
