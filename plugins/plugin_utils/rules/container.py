# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Containers: mounts, devices, network, shared memory, and what their launchers source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ...module_utils._sizing_gate import GIB
from .. import connectors
from ..containers import CANN_SCRIPTS, MEMCACHE_SCRIPT, MEMFABRIC_SCRIPT
from ..facts import is_unknown
from ..findings import ERROR, WARNING
from .context import Context, Engine, covers, targets
from .registry import REPORT, Problem, rule

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
