# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""The host itself: reached, clock, disks, container engine, CPU."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ..facts import find_unknowns, mark
from ..findings import ERROR, INFO, WARNING
from ..sizes import SIZED_BY, wrong_numbers
from ..variables import TRANSFER_DIR
from .context import Context, Missing, numbers
from .registry import Problem, rule

GIB = 1 << 30
#: Docker Engine API that the collection's container options need (host IPC, devices, stop timeout): Docker 20.10.
MIN_DOCKER_API = "1.41"
CLOCK_LIMIT_S = 30.0


#: What Ansible or ssh say of a host that gave no facts -> what would be right, and how to get there.
UNREACHED = (
    (
        r"interpreter|deserializ|MODULE FAILURE|\bpython",
        "a Python that runs modules",
        "set ansible_python_interpreter of {host} to a Python from 3.8 on",
    ),
    (
        "permission denied|incorrect .*password",
        "a login that the host takes",
        "correct ansible_user, the key or the password of {host}",
    ),
    ("could not resolve|not known", "an address, or a name that resolves", "correct ansible_host of {host}"),
    ("host key", "the host's own key", "compare and renew the key of {host} in known_hosts"),
)
NO_ANSWER = ("an answer over SSH", "ansible -m ansible.builtin.ping -i INVENTORY {host}")


@rule("PD-HOST-001", ERROR, "a host could not be probed", per="host", source="collection")
def reached(ctx: Context, host: str) -> Iterator[Problem]:
    """Nothing is known of a host that could not be probed; no check about it was made."""
    if ctx.facts is None:
        raise Missing("no host was contacted")
    found = ctx.facts.get(host)
    if not found or found.get("unreachable"):
        reason = str((found or {}).get("unreachable") or "no facts")
        known = (rest for pattern, *rest in UNREACHED if re.search(pattern, reason, re.IGNORECASE))
        right, mend = next(known, NO_ANSWER)
        yield Problem(reason, right, mend.format(host=host))


@rule("PD-HOST-002", WARNING, "facts of a host are old", per="host", source="collection")
def recorded(ctx: Context, host: str) -> Iterator[Problem]:
    """The host could not be probed now, so its last recorded facts were used: what they say may no longer be true."""
    when = ctx.face(host).get("recorded_at")
    if when:
        yield Problem(f"recorded at {when}", "probed now", "make the host reachable and run again")


@rule("PD-HOST-003", WARNING, "clocks differ", per="host", source="collection")
def clock(ctx: Context, host: str) -> Iterator[Problem]:
    """Logs of two hosts cannot be read side by side, and certificates and tokens may not be valid yet."""
    offset = float(ctx.fact(host, "host.clock.offset_s"))
    if abs(offset) > CLOCK_LIMIT_S:
        yield Problem(
            f"{offset:+.0f} s against the controller", f"within {CLOCK_LIMIT_S:.0f} s", "set up chrony or NTP"
        )


def image_folder(ctx: Context, host: str) -> str:
    """Where the container engine keeps images."""
    return str(ctx.fact(host, "host.engine").get("image_dir") or ctx.fact(host, "host.engine.root_dir"))


def transfer_folder(ctx: Context) -> str:
    """Where image archives lie on their way."""
    return str(ctx.settings.get("container_transfer_dir") or TRANSFER_DIR)


def images_kept(ctx: Context) -> int:
    """Images that a host holds at once: a build makes one beside the one that serves."""
    return 2 if ctx.settings.get("pd_build", True) else 1


def free_bytes(ctx: Context, host: str, folder: str) -> int:
    free = (ctx.fact(host, "host.disks").get(folder) or {}).get("free_bytes")
    if free is None:
        raise Missing(f"free space of {folder} on {host} is not known")
    return int(free)


@rule("PD-HOST-004", ERROR, "a disk is too small", per="host", source="collection")
def disk(ctx: Context, host: str) -> Iterator[Problem]:
    """The image with its layers takes pd_image_size in the container engine's folder (containerd's, where that keeps
    images), twice that during a build.
    """
    if not ctx.services_on(host):
        return
    root = image_folder(ctx, host)
    free, need = free_bytes(ctx, host, root), ctx.settings["pd_image_size"] * images_kept(ctx)
    if free < need * GIB and not ctx.own_running(host):
        yield Problem(
            f"{free / GIB:.0f} GiB free in {root}",
            f"{need} GiB",
            "make room, move the engine's data-root, or state pd_image_size where your image is smaller",
        )


@rule("PD-HOST-005", ERROR, "the container engine is missing or too old", per="host", source="Docker Engine API")
def engine_version(ctx: Context, host: str) -> Iterator[Problem]:
    """Every service is a container. The engine must answer on its socket and speak Docker API 1.41 (Docker 20.10) or
    newer.

    Check mode goes on all the same, and tells what would be done.
    """
    if not ctx.services_on(host):
        return
    engine = ctx.fact(host, "host.engine")
    version = engine.get("api_version")
    if version is None:
        yield Problem(
            str(engine.get("reason") or "no answer"),
            f"Docker API {MIN_DOCKER_API} or newer",
            "install Docker 20.10 or newer and start it",
        )
    elif numbers(version) < numbers(MIN_DOCKER_API):
        yield Problem(f"API {version} ({engine.get('version')})", f"{MIN_DOCKER_API} or newer", "update the engine")


@rule(
    "PD-HOST-006",
    ERROR,
    "the CPU lacks what the offload code is built for",
    per="host",
    source="sparse_kv_offload_manager.py _build_cpp",
)
def cpu_features(ctx: Context, host: str) -> Iterator[Problem]:
    """Decode with sparse KV offload compiles code for SVE and bf16 at every start and would die with SIGILL without.

    A3 hosts with a Kunpeng of the older kind (v8.2) have neither.
    """
    if not any(engine.offloads for engine in ctx.on(host)):
        return
    lacking = [name for name in ("sve", "bf16") if not ctx.fact(host, f"host.cpu.{name}")]
    if lacking:
        yield Problem(f"no {' and no '.join(lacking)}", "sve and bf16", "take another host for decode")


@rule(
    "PD-HOST-007", ERROR, "the machine is not what the image is for", per="cluster", source="quay.io/ascend/vllm-ascend"
)
def architecture(ctx: Context) -> Iterator[Problem]:
    """Upstream publishes A3 images for aarch64; hosts of one cluster must all be of one architecture."""
    seen: dict[str, list[str]] = {}
    for host in ctx.hosts:
        seen.setdefault(str(ctx.fact(host, "host.arch")), []).append(host)
    if len(seen) > 1:
        listed = "; ".join(f"{arch}: {', '.join(hosts)}" for arch, hosts in sorted(seen.items()))
        yield Problem(listed, "one architecture", "take equal hosts")


@rule("PD-HOST-008", WARNING, "less than half of the memory is available", per="host", source="vllm-ascend #15193")
def memory_alarm(ctx: Context, host: str) -> Iterator[Problem]:
    """Something outside of our services holds most of the memory: a leaked process, a tmpfs, reserved huge pages."""
    if ctx.own_running(host):
        return
    total, available = ctx.fact(host, "host.memory.total_bytes"), ctx.fact(host, "host.memory.available_bytes")
    if available < total // 2:
        yield Problem(
            f"{available / GIB:.0f} of {total / GIB:.0f} GiB available",
            "an idle host",
            "look for leaked processes, /dev/shm content and reserved huge pages; drop caches",
        )


def of_a_rule(ctx: Context, host: str, path: str) -> bool:
    """Whether a rule of its own tells that this file is missing."""
    if path == "/etc/hccn.conf":
        return any(engine.devices for engine in ctx.on(host))
    return path == "/etc/ascend_install.info" and any(engine.uses_memfabric for engine in ctx.on(host))


@rule("PD-HOST-009", WARNING, "a path that is mounted does not exist", per="host", source="collection")
def mount_sources(ctx: Context, host: str) -> Iterator[Problem]:
    """Docker makes a missing mount source as an empty folder, and the service then finds nothing where it expects a
    file. /etc/hccn.conf (PD-NPU-009) and /etc/ascend_install.info (PD-NPU-010) are told with what makes them.
    """
    paths = ctx.fact(host, "host.paths")
    for service in ctx.services_on(host):
        for mount in (service.get("container") or {}).get("mounts") or []:
            source = str(mount).split(":", 1)[0]
            found = paths.get(source)
            if found is not None and not found.get("exists") and not of_a_rule(ctx, host, source):
                yield Problem(
                    f"{source} ({service['name']})", "present", "install the driver whole, or set pd_extra_mounts"
                )


@rule("PD-HOST-010", INFO, "limits of the host are low", per="host", source="LMCache-Ascend #5")
def limits(ctx: Context, host: str) -> Iterator[Problem]:
    """Our containers have limits of their own; tools that are run by hand have the host's: few open files."""
    files = (ctx.fact(host, "host.ulimits").get("nofile") or {}).get("hard")
    if files is not None and 0 <= files < 65536:
        yield Problem(f"at most {files} open files", "65536 or more", "raise nofile in /etc/security/limits.conf")


@rule("PD-HOST-011", ERROR, "there is no room for an image archive", per="host", source="collection")
def archive_room(ctx: Context, host: str) -> Iterator[Problem]:
    """An image that reaches a host as an archive, or leaves it as one, lies in container_transfer_dir for a while.

    That takes pd_image_size, beside what the container engine needs.
    """
    settings = ctx.settings
    shared = settings.get("pd_build", True) and settings.get("pd_image_share") == "archive" and len(ctx.hosts) > 1
    if not ctx.services_on(host) or not (shared or settings.get("pd_image_source") == "archive"):
        return
    folder = transfer_folder(ctx)
    free, need = free_bytes(ctx, host, folder), settings["pd_image_size"]
    if free < need * GIB and not ctx.own_running(host):
        yield Problem(
            f"{free / GIB:.0f} GiB free in {folder}", f"{need} GiB", "make room, or set container_transfer_dir"
        )


#: What the plan may not know -> the variable that states it, and the face of the probe that would tell.
GAPS: Mapping[str, tuple[str, str]] = {
    "serving address": ("pd_address", "nic"),
    "serving network interface": ("pd_nic", "nic"),
    "path of npu-smi": ("", "npu"),
    **{what: (variable, "model") for what, variable in SIZED_BY.items()},
}


def told(ctx: Context, host: str, face: str) -> bool:
    """Whether an error of another rule tells why a value is not known. One that is waived tells it no more."""
    stated = ctx.settings.get("pd_waived_rules") or {}
    waived = {rule for rule, reason in stated.items() if str(reason or "").strip()}
    if face == "nic":
        return "PD-NIC-002" not in waived and bool((ctx.face(host).get("nic") or {}).get("interfaces"))
    if face == "npu":
        return False
    if not str((ctx.plan.get("model") or {}).get("path")).startswith("/"):
        return True  # the planner's model-path, which cannot be waived
    try:
        engines, seen = ctx.on(host), ctx.model(host)
        causes = {
            "PD-MODEL-001": not seen.get("config"),
            "PD-ARG-003": any(any(wrong_numbers(engine.args)) for engine in engines),
            "PD-SPARSE-005": bool(seen.get("config"))
            and any(engine.offloads and ctx.lacks_for_offload(host) for engine in engines),
        }
    except Missing:
        return False
    return any(found and rule not in waived for rule, found in causes.items())


@rule("PD-HOST-012", ERROR, "the plan has a gap", per="cluster", source="collection")
def gaps(ctx: Context) -> Iterator[Problem]:
    """A service cannot be started with a value that neither the inventory states nor the probe could find.

    What other rules tell is not told again, unless it is waived: a wrong pd_nic or pd_address (PD-NIC-002), an
    unreachable host (PD-HOST-001), no model folder (model-path), and why no size follows from the model (PD-MODEL-001,
    PD-SPARSE-005) or the options (PD-ARG-003).
    """
    unknowns = ctx.plan.get("unknowns") or []
    marks = set(find_unknowns(ctx.services)) if unknowns else set()
    for gap in unknowns:
        what, host = str(gap["what"]), str(gap["host"])
        if mark(what, host) not in marks or host not in ctx.hosts:
            continue
        if ctx.facts is None:
            raise Missing("no host was contacted")
        seen = ctx.facts.get(host) or {}
        if not seen or seen.get("unreachable"):
            continue
        variable, face = GAPS[what]
        if told(ctx, host, face):
            continue
        reasons = ctx.reasons(host, face)
        yield Problem(
            f"{what} is not known: {'; '.join(reasons) or 'see what else is wrong with this host'}",
            "known before anything is built",
            f"mend what the probe says, or set {variable}" if variable else "mend what the probe says",
            host,
        )


@rule("PD-HOST-013", ERROR, "the host's Python lacks requests", per="host", source="community.docker, requirements")
def docker_library(ctx: Context, host: str) -> Iterator[Problem]:
    """The modules that run containers talk to the engine by means of requests, in the Python that runs modules."""
    if ctx.services_on(host) and not ctx.fact(host, "host.python_requests"):
        yield Problem(
            f"Python {ctx.fact(host, 'host.python')} without requests",
            "with requests",
            "install python3-requests there, or set ansible_python_interpreter to a Python that has it",
        )
