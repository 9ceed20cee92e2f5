# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Environment, mounts and devices of the containers."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ...module_utils._sizing_gate import GIB
from .. import connectors
from ..containers import CANN_SCRIPTS, MEMCACHE_SCRIPT, MEMFABRIC_SCRIPT
from ..facts import is_unknown
from ..findings import ERROR, INFO, WARNING
from .context import Context, Engine, covers, targets
from .registry import REPORT, Problem, rule

PATH_LIKE = ("PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH")
DRIVER = "/usr/local/Ascend/driver"
#: The least that vLLM's message queues want of /dev/shm: guide 2 gives its container as much.
MIN_SHM_BYTES = GIB
MANAGERS = ("/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc")


@rule(
    "PD-ENV-001",
    ERROR,
    "a mount is missing",
    per="service",
    chips=True,
    source="vllm-ascend #7711; memfabric_hybrid hybm_gva_version.cpp; vllm-project/recipes #907",
)
def mounts(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """/etc/hccn.conf (else wrong tokens), /etc/ascend_install.info (else MemFabric refuses), and the driver.

    Where libraries of the driver are used beyond lib64 only the whole folder is enough (EI0014). The guides forget
    some.
    """
    paths = targets(engine)
    needed = ["/etc/hccn.conf", "/etc/ascend_install.info", f"{DRIVER}/lib64", f"{DRIVER}/version.info"]
    for path in needed:
        if not covers(paths, path):
            yield Problem(
                f"{path} is not mounted into {engine.service.get('name')}", path, "report it, or pd_extra_mounts"
            )
    if covers(paths, f"{DRIVER}/lib64") and not covers(paths, DRIVER):
        yield Problem(f"only parts of {DRIVER} are mounted", DRIVER, "mount the whole folder", severity=WARNING)
    if not covers(paths, "/usr/local/dcmi"):
        yield Problem("/usr/local/dcmi is not mounted", "/usr/local/dcmi", "pd_extra_mounts", severity=WARNING)


@rule(
    "PD-ENV-002",
    ERROR,
    "a variable cannot be passed as it is",
    per="engine",
    source="collection: the environment file is taken literally",
)
def values(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """Values are text and are taken literally: no $, no line ends. Numbers and booleans must be quoted in YAML."""
    for name, value in engine.env.items():
        if not isinstance(value, str):
            yield Problem(f"{name} is {type(value).__name__} {value!r}", f'"{value}"', "quote it in YAML")
        elif "$" in value or "\n" in value:
            yield Problem(
                f"{name} holds a $ or a line end", "a literal value", "write the value out; paths: pd_prepend_paths"
            )


@rule(
    "PD-ENV-003",
    ERROR,
    "a path-like variable would replace the image's own",
    per="engine",
    source="collection; image set_env.sh files",
)
def path_like(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """CANN, nnal and MemFabric add to these variables; a fixed value would drop theirs and nothing would load."""
    for name in PATH_LIKE:
        if name in engine.env:
            yield Problem(f"{name} is set", f"pd_prepend_paths: {{{name}: [...]}}", "use pd_prepend_paths")


@rule(
    "PD-ENV-004",
    WARNING,
    "FLASHCOMM1 where it does not work",
    per="instance",
    source="guide 2, notes on parameters; vllm-ascend platform.py check_and_update_config",
)
def flashcomm(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """VLLM_ASCEND_ENABLE_FLASHCOMM1, or enable_flashcomm1 in additional-config, is for mixture-of-experts models with
    tensor parallelism above 1.

    vllm-ascend ends with an assertion at tensor parallel size 1, and on such a model without enable-expert-parallel
    (errors).
    """
    name, value = "VLLM_ASCEND_ENABLE_FLASHCOMM1", engine.env.get("VLLM_ASCEND_ENABLE_FLASHCOMM1", "0")
    mend = f"remove it from {engine.role}_env"
    if "enable_flashcomm1" in engine.additional:
        name, value = "enable_flashcomm1", engine.additional["enable_flashcomm1"]
        mend = f"remove it from {engine.place('additional-config', name)}"
    if str(value).lower() not in ("1", "true"):
        return
    if engine.tp == 1:
        yield Problem(f"{name} with TP 1", "TP above 1", mend, severity=ERROR)
        return
    if not ctx.has_experts(engine.host):
        yield Problem(f"{name} on a dense model", "a mixture-of-experts model", mend)
    elif not engine.args.get("enable-expert-parallel"):
        yield Problem(
            f"{name} without enable-expert-parallel",
            "enable-expert-parallel: true",
            f"set it in {engine.place('enable-expert-parallel')}",
            severity=ERROR,
        )


@rule(
    "PD-ENV-005",
    INFO,
    "prefill keeps KV for long after decode failed",
    per="instance",
    source="vllm-ascend #13240, #12432",
)
def abort_timeout(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT frees it; upstream's tests set 480 s. The older VLLM_NIXL_… was 300000."""
    if not engine.uses_mooncake or engine.role != "prefill":
        return
    value = engine.env.get("VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT", engine.env.get("VLLM_NIXL_ABORT_REQUEST_TIMEOUT"))
    if value is None or int(float(value)) > 3600:
        yield Problem(f"abort timeout {value or 'unset'}", "480", "VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT in prefill_env")


@rule("PD-ENV-006", WARNING, "certificates are not checked", per="engine", source="guide 1 section 3.1")
def certificates(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """GIT_SSL_NO_VERIFY and the like, which guide 1 sets for the whole container, accept any server's code."""
    for name in ("GIT_SSL_NO_VERIFY", "PYTHONHTTPSVERIFY", "CURL_CA_BUNDLE", "NODE_TLS_REJECT_UNAUTHORIZED"):
        value = engine.env.get(name)
        off = value is not None and str(value).lower() in ({"true", "1"} if name.startswith("GIT") else {"0", ""})
        if off:
            yield Problem(f"{name}={value}", "unset", "remove it; give your certificate authority to the image")


@rule(
    "PD-ENV-007",
    ERROR,
    "devices and their numbers do not match",
    per="engine",
    chips=True,
    source="docker --device; CANN ASCEND_RT_VISIBLE_DEVICES",
)
def devices(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """Privileged containers see all chips, so ASCEND_RT_VISIBLE_DEVICES must name the physical ids.

    Others see their own devices only, numbered from 0, and need those passed together with the three manager devices.
    """
    chips, visible = list(engine.devices), engine.env.get("ASCEND_RT_VISIBLE_DEVICES")
    numbers = [int(part) for part in str(visible).split(",") if part.strip().isdigit()] if visible is not None else None
    if engine.container.get("privileged"):
        if numbers is not None and sorted(numbers) != sorted(chips):
            yield Problem(f"ASCEND_RT_VISIBLE_DEVICES {visible}", ",".join(map(str, chips)), "leave it to the plan")
        elif numbers is None and len(ctx.on(engine.host)) > 1:
            yield Problem("ASCEND_RT_VISIBLE_DEVICES unset", ",".join(map(str, chips)), "leave it to the plan")
        return
    passed = [str(one).split(":", maxsplit=1)[0] for one in engine.container.get("devices") or []]
    gone = [f"/dev/davinci{chip}" for chip in chips if f"/dev/davinci{chip}" not in passed]
    gone += [name for name in MANAGERS if name not in passed]
    if gone:
        yield Problem(f"{', '.join(gone)} not passed to {engine.service.get('name')}", "all of them", "set pd_devices")
    known = [one for one in passed if one.startswith("/dev/davinci") and one[12:].isdigit()]
    if numbers is not None and numbers and max(numbers) >= len(known):
        yield Problem(
            f"ASCEND_RT_VISIBLE_DEVICES {visible} with {len(known)} devices",
            f"0 to {len(known) - 1}",
            "leave it to the plan",
        )


@rule("PD-ENV-008", ERROR, "the container has its own network", per="service", source="guides: --network=host")
def host_network(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """KV transfer, HCCL and MemFabric advertise addresses and open ports of the host: engines need the host's
    network.
    """
    if engine.container.get("network_mode") != "host":
        yield Problem(f"network_mode {engine.container.get('network_mode')}", "host", REPORT)


@rule(
    "PD-ENV-009",
    WARNING,
    "shared memory of the container is small",
    per="service",
    source="gpustack #5014; guide 2 --shm-size=1g",
)
def shm_size(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """vLLM's workers pass messages through /dev/shm. Docker gives 64 MiB of it; with the host's IPC it is the host's,
    which should hold 1 GiB at least. MemCache's host_shm wants far more (another rule).
    """
    if engine.container.get("ipc_mode") != "host":
        yield Problem(f"ipc_mode {engine.container.get('ipc_mode') or 'private'}", "host", REPORT)
        return
    size = int(ctx.fact(engine.host, "host.shm.total_bytes"))
    if size < MIN_SHM_BYTES:
        yield Problem(
            f"/dev/shm of {engine.host} has {size >> 20} MiB", "1 GiB or more", "mount -o remount,size=50% /dev/shm"
        )


#: From here on two names are one and its misspelling (HCCL_RDMA_SL and HCCL_RDMA_TC: 0.83).
NEARLY = 0.85


@cache
def names_read() -> frozenset[str]:
    """Names of environment variables that some part of a service reads, of all releases that are known."""
    data = Path(__file__).parents[1] / "data" / "environment-names.json"
    return frozenset(name for names in json.loads(data.read_text(encoding="utf-8")).values() for name in names)


GATHER = "VLLM_ASCEND_ENABLE_CPU_GATHER_H2D"


@rule("PD-ENV-010", WARNING, "gather variables without gather", per="engine", source="guide 1 section 4")
def gather_alone(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """The variables of small-packet gather do nothing on prefill, and nothing unless the first of them is 1."""
    names = sorted(name for name in engine.env if "CPU_GATHER" in name)
    on = str(engine.env.get(GATHER, "0")) == "1"
    if names and engine.role == "prefill":
        yield Problem(f"{', '.join(names)} on prefill", "decode only", "move them to decode_env")
    elif [name for name in names if name != GATHER] and not on:
        asked = ctx.settings.get("pd_small_packet_gather")
        mend = f"remove {GATHER} from {engine.role}_env" if asked else "pd_small_packet_gather: true"
        yield Problem(f"{', '.join(names)}, gather off", "all or none", mend)


@rule(
    "PD-ENV-011",
    INFO,
    "a variable has a value that upstream's deployments do not use",
    per="engine",
    source="vllm-ascend tests/e2e/nightly/multi_node",
)
def unusual(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """HCCL_BUFFSIZE is MiB per communicator, twice, on every chip: 400 and 768 are usual, thousands eat the HBM."""
    value: Any = engine.env.get("HCCL_BUFFSIZE")
    if value is not None and str(value).isdigit() and int(value) > 2048:
        yield Problem(f"HCCL_BUFFSIZE {value} MiB", "200 to 2048", f"lower it in {engine.role}_env")


@rule(
    "PD-ENV-016",
    WARNING,
    "a variable is called nearly like one that is read",
    per="instance",
    source="vllm/envs.py of the known releases, vllm-ascend, CANN, MemFabric; tools/environment_names",
)
def misspelt(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """Nobody refuses a variable that nothing reads: HCCL_BUFSIZE leaves HCCL_BUFFSIZE at its default without a word.

    Names that are like none are left alone: they may be read by something of yours.
    """
    known = names_read()
    for name in sorted(set(engine.env) - known):
        near = difflib.get_close_matches(name.upper(), [one for one in known if one[0] == name[0].upper()], 1, NEARLY)
        if near:
            yield Problem(f"{name}, which nothing known reads", near[0], f"rename it in {engine.role}_env")


#: What is sourced -> words of which one is in its path, and where it lies in an image that is built here.
SCRIPTS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "CANN": (("ascend", "cann"), CANN_SCRIPTS),
    "MemFabric": (("memfabric",), (MEMFABRIC_SCRIPT,)),
    "MemCache": (("memcache",), (MEMCACHE_SCRIPT,)),
}


def scripts_of(engines: Sequence[Engine]) -> list[str]:
    """What must be sourced so that all of them find their libraries."""
    fabric, cache = (any(getattr(one, name) for one in engines) for name in ("uses_memfabric", "uses_memcache"))
    return ["CANN"] + ["MemFabric"] * fabric + ["MemCache"] * cache


@rule(
    "PD-ENV-012",
    ERROR,
    "a set_env.sh is not sourced",
    per="service",
    chips=True,
    source="memfabric_hybrid set_env.sh: MEMFABRIC_HYBRID_EXTEND_LIB_PATH; entry point of vllm-ascend's images",
)
def environment_scripts(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """The launcher sources the set_env.sh files of CANN, and of MemFabric and MemCache where they are used: MemFabric
    1.2.0 does not start without MEMFABRIC_HYBRID_EXTEND_LIB_PATH, which its set_env.sh sets.

    The plan knows where they lie in an image that is built here. A ready-made image (pd_build: false) may have them
    elsewhere, so pd_environment_scripts must name them all. Where that list lacks one, the image may set the variables
    itself, which cannot be seen: a warning. For MemCache alone the folder of its wheel's libraries,
    memcache_hybrid/lib, is enough in LD_LIBRARY_PATH (kv_pool.md).

    Guide 1's export of MemFabric's variable names a version and breaks with the next one.
    """
    wanted = scripts_of([engine])
    paths = [str(path) for path in engine.service.get("sources") or []]
    gone = [name for name in wanted if not any(word in path.lower() for path in paths for word in SCRIPTS[name][0])]
    libraries = (engine.service.get("prepend") or {}).get("LD_LIBRARY_PATH") or ()
    only_memcache = engine.uses_memcache and not engine.offloads and connectors.SFA not in engine.connectors
    if only_memcache and any("memcache_hybrid" in str(path) for path in libraries):
        gone = [name for name in gone if name == "CANN"]
    if gone:
        everywhere = scripts_of(ctx.engines)  # the list is one for the whole cluster
        layers = [layer.lower() for layer in ctx.image_of(engine).get("layers", ())]
        theirs = ctx.settings.get("pd_environment_scripts") is not None and not any(n.lower() in layers for n in gone)
        yield Problem(
            f"{engine.service.get('name')} sources {', '.join(paths) or 'nothing'}",
            f"set_env.sh of {', '.join(gone)} too",
            f"pd_environment_scripts: [{', '.join(path for name in everywhere for path in SCRIPTS[name][1])}]",
            severity=WARNING if theirs else None,
        )
    fixed = engine.env.get("MEMFABRIC_HYBRID_EXTEND_LIB_PATH")
    if fixed and "/latest/" not in str(fixed):
        yield Problem(
            f"MEMFABRIC_HYBRID_EXTEND_LIB_PATH {fixed}",
            "unset, or through latest",
            f"remove it from {engine.role}_env",
            severity=WARNING,
        )


@rule(
    "PD-ENV-013",
    WARNING,
    "a mount hides a folder of the image",
    per="service",
    source="guide 1 section 3.1, -v /usr/local/sbin/",
)
def shadowing(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """Mounting the host's /usr/local/sbin or bin, as guide 1 does, hides what the image has there. npu-smi alone is
    enough.
    """
    for path in targets(engine):
        if path.rstrip("/") in ("/usr/local/sbin", "/usr/local/bin", "/usr/local", "/usr/bin", "/usr/lib", "/root"):
            yield Problem(f"{path} of the host is mounted", "only the files that are needed", "pd_mount_sbin: false")


#: Variables that vLLM and vllm-ascend read with int().
WHOLE = (
    *("VLLM_ENGINE_READY_TIMEOUT_S", "VLLM_ENGINE_ITERATION_TIMEOUT_S", "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS"),
    *("VLLM_WORKER_SHUTDOWN_TIMEOUT_SECONDS", "VLLM_HTTP_TIMEOUT_KEEP_ALIVE", "VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT"),
    *("VLLM_ASCEND_ENABLE_FLASHCOMM1", "VLLM_ASCEND_ENABLE_MLAPO", "VLLM_ASCEND_MLA_FIA_SPLIT"),
    *("VLLM_ASCEND_ENABLE_NZ", "VLLM_ASCEND_ENABLE_FUSED_MC2", "VLLM_ASCEND_BALANCE_SCHEDULING"),
    *("HCCL_RDMA_TIMEOUT", "HCCL_RDMA_RETRY_CNT"),
)


@rule(
    "PD-ENV-014",
    ERROR,
    "a variable that is read as a number is none",
    per="engine",
    source="vllm/envs.py; vllm-ascend envs.py; Python, PYTHONHASHSEED",
)
def whole_numbers(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """int() of anything else ends the engine at start: switches among these are 0 or 1, not true.

    Python itself starts with a PYTHONHASHSEED from 0 to 4294967295 (or random, see PD-PARITY-008).
    """
    for name in WHOLE:
        value = engine.env.get(name)
        if value is not None and not re.fullmatch(r"\s*[+-]?[0-9]+\s*", str(value)):
            right = {"true": "1", "false": "0"}.get(str(value).lower(), "a whole number")
            yield Problem(f"{name}={value}", right, f"correct it in {engine.role}_env, or where else it is set")
    seed = str(engine.env.get("PYTHONHASHSEED") or "random")
    if seed != "random" and not (re.fullmatch("[0-9]{1,10}", seed) and int(seed) < 2**32):
        yield Problem(f"PYTHONHASHSEED={seed}", "0", "set it in pd_env")


@rule(
    "PD-ENV-015",
    ERROR,
    "a mount is not from a path to a path",
    per="service",
    source="Docker: -v SOURCE:TARGET; what does not begin with / is the name of a volume",
)
def mounts_are_paths(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """All mounts are bind mounts. Docker makes an empty volume of a source that is no absolute path, and refuses a
    target that is none.
    """
    for mount in map(str, engine.container.get("mounts") or []):
        source, _colon, target = mount.partition(":")
        if not is_unknown(mount) and not (source.startswith("/") and target.startswith("/")):
            yield Problem(mount, "/source:/target", "correct pd_extra_mounts, pd_base_dir or pd_log_dir")
