# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Environment, mounts and devices of the containers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..findings import ERROR, INFO, WARNING
from .context import Context, Engine
from .registry import Problem, rule

PATH_LIKE = ("PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH")
DRIVER = "/usr/local/Ascend/driver"
MANAGERS = ("/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc")


def targets(engine: Engine) -> list[str]:
    """Paths that are mounted into the container."""
    return [parts[1] for parts in (str(m).split(":") for m in engine.container.get("mounts") or []) if len(parts) > 1]


def covers(paths: list[str], wanted: str) -> bool:
    return any(wanted == path.rstrip("/") or wanted.startswith(path.rstrip("/") + "/") for path in paths)


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


@rule("PD-ENV-004", WARNING, "FLASHCOMM1 where it does not work", per="instance", source="guide 2, notes on parameters")
def flashcomm(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """VLLM_ASCEND_ENABLE_FLASHCOMM1 is for mixture-of-experts models with tensor parallelism above 1."""
    if str(engine.env.get("VLLM_ASCEND_ENABLE_FLASHCOMM1", "0")) != "1":
        return
    if engine.tp == 1:
        yield Problem("VLLM_ASCEND_ENABLE_FLASHCOMM1=1 with TP 1", "TP above 1", "remove it")
        return
    config = ctx.model_config(engine.host)
    if not (config.get("n_routed_experts") or config.get("num_experts")):
        yield Problem("VLLM_ASCEND_ENABLE_FLASHCOMM1=1 on a dense model", "a mixture-of-experts model", "remove it")


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
        yield Problem(f"network_mode {engine.container.get('network_mode')}", "host", "report it")


@rule(
    "PD-ENV-009",
    WARNING,
    "shared memory of the container is small",
    per="service",
    source="gpustack #5014; guide 2 --shm-size=1g",
)
def shm_size(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """vLLM's workers pass messages through /dev/shm: Docker gives 64 MiB. With the host's IPC it is the host's."""
    if engine.container.get("ipc_mode") != "host":
        yield Problem(f"ipc_mode {engine.container.get('ipc_mode') or 'private'}", "host", "report it")


@rule("PD-ENV-010", WARNING, "gather variables without gather", per="engine", source="guide 1 section 4")
def gather_alone(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """The variables of small-packet gather do nothing on prefill, and nothing unless the first of them is 1."""
    names = sorted(name for name in engine.env if "CPU_GATHER" in name)
    on = str(engine.env.get("VLLM_ASCEND_ENABLE_CPU_GATHER_H2D", "0")) == "1"
    if names and engine.role == "prefill":
        yield Problem(f"{', '.join(names)} on prefill", "decode only", "move them to decode_env")
    elif [name for name in names if name != "VLLM_ASCEND_ENABLE_CPU_GATHER_H2D"] and not on:
        yield Problem(f"{', '.join(names)}, gather off", "all or none", "pd_small_packet_gather: true")


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
        yield Problem(f"HCCL_BUFFSIZE {value} MiB", "200 to 2048", "lower it")


@rule(
    "PD-ENV-012",
    ERROR,
    "MemFabric's environment is not set",
    per="service",
    source="memfabric_hybrid set_env.sh: MEMFABRIC_HYBRID_EXTEND_LIB_PATH",
)
def memfabric_environment(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """MemFabric 1.2.0 does not start without MEMFABRIC_HYBRID_EXTEND_LIB_PATH, which its set_env.sh sets.

    Guide 1's export of it names a version and breaks with the next one.
    """
    if not engine.uses_memfabric:
        return
    scripts = [str(path) for path in engine.service.get("sources") or []]
    built = "memfabric" in ctx.image_of(engine).get("layers", ())
    if built and not any("memfabric" in path for path in scripts):
        yield Problem(
            f"{engine.service.get('name')} sources {', '.join(scripts) or 'nothing'}",
            "MemFabric's set_env.sh",
            "report it",
        )
    fixed = engine.env.get("MEMFABRIC_HYBRID_EXTEND_LIB_PATH")
    if fixed and "/latest/" not in str(fixed):
        yield Problem(
            f"MEMFABRIC_HYBRID_EXTEND_LIB_PATH {fixed}", "unset, or through latest", "remove it", severity=WARNING
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
