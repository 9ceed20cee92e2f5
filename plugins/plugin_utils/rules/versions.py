# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Which version takes what: vllm-ascend, vLLM, image, driver, CANN. Ranges are data, not code."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .. import connectors
from ..findings import ERROR, INFO, WARNING
from .context import Context, Engine, Missing, in_range, numbers
from .registry import Problem, rule

#: vllm-ascend -> the vLLM that it is made for, and CANN of its image (Dockerfiles of each release).
PAIRS = {
    "0.22.1": ("0.22.1", "9.0.0"),
    "0.23.0": ("0.23.0", "9.0.1"),
    "0.26.0": ("0.26.0", "9.1.0"),
}
#: What setup.py of vllm-ascend calls the usual chip of a generation, and how all of them begin.
SOC = {"A3": "ascend910_9391", "A2": "ascend910b1"}
SOC_OF = {"A3": "ascend910_93", "A2": "ascend910b"}
#: Words of the tags of upstream's images, in this order behind the version.
HARDWARE, SYSTEMS = ("a3", "310p", "950dt"), ("openeuler",)
#: Feature -> versions of vllm-ascend that take it.
SPARSE_OFFLOAD = ">=0.26"
PREFILL_CONTEXT_PARALLEL = ">=0.13,<0.25"
#: Wheels of MemFabric that have mfcli, which compiles the offload library that no wheel brings.
OFFLOAD_WHEELS = ">=1.2.1"
#: Least driver: MemFabric 1.2 (layerwise_and_sparse_kv_cache_offloading.md), CANN 9 (24.x lacks hrtRaAiQpCreate).
DRIVER_MEMFABRIC = "25.5.1"
DRIVER_CANN_9 = "25.0"


def release(version: str) -> str:
    """``0.26.0rc1`` -> ``0.26.0``."""
    return ".".join(map(str, numbers(version)[:3]))


@rule(
    "PD-VER-001",
    ERROR,
    "this version has no prefill context parallelism",
    per="service",
    source="vllm-ascend platform.py _validate_parallel_config",
)
def context_parallel_version(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """prefill_context_parallel_size above 1 works in 0.13 to 0.24; later versions refuse it without the V2 runner.

    So guide 2 and guide 1 cannot run from one image.
    """
    if engine.pcp > 1 and ctx.vllm_ascend and not in_range(ctx.vllm_ascend, PREFILL_CONTEXT_PARALLEL):
        yield Problem(
            f"PCP {engine.pcp} with vllm-ascend {ctx.vllm_ascend}",
            PREFILL_CONTEXT_PARALLEL,
            "set pd_vllm_ascend_version and pd_image",
        )


@rule(
    "PD-VER-002",
    ERROR,
    "this version has no sparse KV offload",
    per="service",
    source="vllm-ascend 0.26.0rc1; absent in 0.25.1rc and before",
)
def offload_version(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """sparse_kv_offload_config and SfaRemoteD2HConnector came with 0.26.0rc1. Older versions ignore the one and lack
    the other.
    """
    wanted = engine.offloads or connectors.SFA in engine.connectors
    if wanted and ctx.vllm_ascend and not in_range(ctx.vllm_ascend, SPARSE_OFFLOAD):
        yield Problem(f"vllm-ascend {ctx.vllm_ascend}", SPARSE_OFFLOAD, "set pd_vllm_ascend_version and pd_image")


def needed(ctx: Context, host: str) -> dict[str, str]:
    """Rule -> the least driver that it wants of a host."""
    engines = ctx.on(host)
    wanted = {}
    if any(engine.uses_memfabric for engine in engines):
        wanted["PD-VER-003"] = DRIVER_MEMFABRIC
    if any(engine.devices for engine in engines) and ctx.vllm_ascend and in_range(ctx.vllm_ascend, ">=0.22"):
        wanted["PD-VER-004"] = DRIVER_CANN_9
    if any(str(engine.env.get("ASCEND_ENABLE_USE_FABRIC_MEM", "0")) == "1" for engine in engines):
        new_mooncake = bool(ctx.vllm_ascend) and in_range(ctx.vllm_ascend, ">=0.23")
        wanted["PD-VER-005"] = "25.5" if new_mooncake else "26.0"
    return wanted


def too_old(ctx: Context, host: str, identifier: str) -> str | None:
    """A host's driver, if the rule finds it too old."""
    least = needed(ctx, host).get(identifier)
    if least is None:
        return None
    version = str(ctx.fact(host, "npu.driver_version"))
    return version if numbers(version) < numbers(least) else None


def driver_told(ctx: Context, host: str) -> bool:
    """Whether one of these rules tells that the host's driver is too old."""
    try:
        return any(too_old(ctx, host, identifier) for identifier in needed(ctx, host))
    except Missing:
        return False


def right_driver(ctx: Context, host: str) -> str:
    """The driver that satisfies all rules about this host, and that the newest of the cluster has already."""
    known = [str((seen.get("npu") or {}).get("driver_version") or "") for seen in (ctx.facts or {}).values()]
    return f"{max([*needed(ctx, host).values(), *known], key=numbers)} or newer"


@rule(
    "PD-VER-003",
    ERROR,
    "the driver is too old for MemFabric",
    per="host",
    source="layerwise_and_sparse_kv_cache_offloading.md; memfabric_hybrid README",
)
def driver_memfabric(ctx: Context, host: str) -> Iterator[Problem]:
    """MemFabric 1.2 needs driver 25.5.1. Hosts with 24.1.rc3, 25.2 and 25.3.rc1 are in the field."""
    version = too_old(ctx, host, "PD-VER-003")
    if version:
        yield Problem(f"driver {version}", right_driver(ctx, host), "update driver and firmware")


@rule(
    "PD-VER-004",
    ERROR,
    "the driver is too old for this CANN",
    per="host",
    chips=True,
    source="vllm-ascend #2406, #3190, #5468",
)
def driver_cann(ctx: Context, host: str) -> Iterator[Problem]:
    """A driver of 24.x with CANN 9 fails at start: "package does not support hrtRaAiQpCreate". Where MemFabric wants a
    newer one still, PD-VER-003 alone tells it.
    """
    version = too_old(ctx, host, "PD-VER-004")
    if version and not too_old(ctx, host, "PD-VER-003"):
        cann = PAIRS.get(release(ctx.vllm_ascend), ("", "9"))[1]
        yield Problem(
            f"driver {version} with CANN {cann} of vllm-ascend {ctx.vllm_ascend}",
            right_driver(ctx, host),
            "update driver and firmware",
        )


@rule(
    "PD-VER-005", ERROR, "fabric memory needs a newer driver", per="engine", source="vllm-ascend #8420; kv_pool.md:1103"
)
def fabric_memory(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """ASCEND_ENABLE_USE_FABRIC_MEM=1: driver 26.0, or 25.5 with Mooncake 0.3.11; CANN 9.0; LingQu 1.5.

    Otherwise "Register mem ret:207000".
    """
    if str(engine.env.get("ASCEND_ENABLE_USE_FABRIC_MEM", "0")) != "1":
        return
    version = too_old(ctx, engine.host, "PD-VER-005")
    if version:
        yield Problem(f"driver {version}", right_driver(ctx, engine.host), "update the driver, or remove the variable")


def official_tag(image: str) -> str | None:
    """The tag of an image that is called as upstream calls its own, wherever it lies."""
    name, _colon, tag = image.rpartition("/")[2].partition(":")
    return tag.lower() if name == "vllm-ascend" and re.match(r"v?\d+\.\d+|main|nightly|releases", tag) else None


def tag_for(image: str, generation: str) -> str:
    """The image's name for other hardware: v0.26.0rc1-a3-openeuler is that of v0.26.0rc1-openeuler for A3."""
    folder, slash, last = image.partition("@")[0].rpartition("/")
    name, _colon, tag = last.partition(":")
    version, *words = [word for word in tag.split("-") if word.lower() not in HARDWARE]
    system = [words.pop()] if words and words[-1].lower() in SYSTEMS else []
    chip = ["a3"] if generation == "A3" else []
    return f"{folder}{slash}{name}:{'-'.join([version, *words, *chip, *system])}"


@rule("PD-VER-006", ERROR, "the image is for other hardware", per="cluster", source="quay.io/ascend/vllm-ascend tags")
def image_suffix(ctx: Context) -> Iterator[Problem]:
    """The tag of an official image says for what it is built: -a3 for A3; without it for A2. Guide 2 names the A2 image
    for A3 servers. Tags and digests of your own say nothing of that. All hosts have the same image.
    """
    hosts: dict[str, list[str]] = {}
    for host in ctx.hosts:
        if any(engine.devices for engine in ctx.on(host)):
            hosts.setdefault(ctx.generation(host), []).append(host)
    generations = sorted(hosts)
    bases = {str(image.get("base") or "") for image in (ctx.plan.get("images") or {}).values()}
    if len(generations) > 1 and any(official_tag(base) for base in bases):
        yield Problem(
            "; ".join(f"{generation}: {', '.join(hosts[generation])}" for generation in generations),
            "hosts of one generation, or an image of yours that runs on all",
            "make a cluster of each (an inventory with a proxy of its own), or set pd_image",
        )
    if len(generations) != 1:
        return
    generation = generations[0]
    for base in sorted(bases):
        tag = official_tag(base)
        if tag and ("310p" in tag or "950dt" in tag or ("-a3" in tag) != (generation == "A3")):
            yield Problem(f"{base} on {generation}", tag_for(base, generation), "set pd_image")


@rule(
    "PD-VER-007",
    WARNING,
    "vLLM and vllm-ascend are no pair",
    per="cluster",
    source="vllm-ascend .github/vllm-release-tag.commit",
)
def pair(ctx: Context) -> Iterator[Problem]:
    """Each vllm-ascend is made for one vLLM; others load and fail somewhere inside."""
    versions = ctx.plan.get("versions") or {}
    right = PAIRS.get(release(ctx.vllm_ascend), (None,))[0]
    if right and versions.get("vllm") and numbers(versions["vllm"]) != numbers(right):
        yield Problem(
            f"vLLM {versions['vllm']} with vllm-ascend {ctx.vllm_ascend}", f"vLLM {right}", "set pd_vllm_version"
        )


@rule(
    "PD-VER-008",
    ERROR,
    "prefill context parallelism with data parallelism",
    per="service",
    source="vllm-ascend 0.22.1 platform.py check_and_update_config",
    versions="<0.25",
)
def context_and_data(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """In these versions PCP and DP are not both above 1."""
    if engine.pcp > 1 and engine.dp > 1:
        yield Problem(f"PCP {engine.pcp}, DP {engine.dp}", "one of them 1", f"set {engine.role}_parallel")


@rule("PD-VER-009", INFO, "this version is not known", per="cluster", source="collection")
def known_version(ctx: Context) -> Iterator[Problem]:
    """Rules know vllm-ascend 0.22.1, 0.23.0 and 0.26.0; of others they assume what the nearest known one does."""
    version = ctx.vllm_ascend
    if version and release(version) not in PAIRS:
        yield Problem(
            f"vllm-ascend {version}", "one of " + ", ".join(PAIRS), "read its release notes before you rely on this"
        )


@rule("PD-VER-010", ERROR, "code is built for another chip", per="cluster", source="vllm-ascend #6264, #4686, #7278")
def soc_version(ctx: Context) -> Iterator[Problem]:
    """Builders get no NPU, so vllm-ascend cannot ask npu-smi which chip to compile for: vllm_build_soc_version says it,
    ascend910_9391 (an A3) if left out. Code for another chip does not run.
    """
    builds = any("vllm" in (image.get("layers") or []) for image in (ctx.plan.get("images") or {}).values())
    generations = {ctx.generation(engine.host) for engine in ctx.engines if engine.devices}
    if not builds or len(generations) != 1:
        return
    generation = generations.pop()
    if generation not in SOC:
        return
    value = str(ctx.settings.get("vllm_build_soc_version", SOC["A3"]))
    if not value.startswith(SOC_OF[generation]):
        yield Problem(
            f"vllm_build_soc_version {value!r}, chips are {generation}",
            f"{SOC[generation]}, or the one that setup.py of vllm-ascend finds on a host of yours",
            "set vllm_build_soc_version",
        )


@rule(
    "PD-VER-011",
    ERROR,
    "the image is of another version",
    per="cluster",
    source="quay.io/ascend/vllm-ascend tags",
)
def image_version(ctx: Context) -> Iterator[Problem]:
    """The tag of a vllm-ascend image starts with its version. pd_vllm_ascend_version decides which rules, options and
    profiles apply, so both must say the same release.

    Where vLLM and vllm-ascend are built anew the base brings CANN and torch only, so there it is a warning.
    """
    for base, built in sorted(
        {
            (str(image.get("base") or ""), "vllm" in (image.get("layers") or ()))
            for image in (ctx.plan.get("images") or {}).values()
        }
    ):
        match = re.match(r"v?(\d+\.\d+\.\d+)(?!\d)", official_tag(base) or "")
        if match is None or not ctx.vllm_ascend:
            continue
        if numbers(match.group(1)) != numbers(ctx.vllm_ascend)[:3]:
            yield Problem(
                f"{base} with pd_vllm_ascend_version {ctx.vllm_ascend}",
                f"an image of {ctx.vllm_ascend}",
                "set pd_image, or pd_vllm_ascend_version and pd_vllm_version",
                severity=WARNING if built else None,
            )


@rule(
    "PD-VER-012",
    ERROR,
    "this MemFabric wheel has no offload library",
    per="cluster",
    source="memfabric_hybrid 1.2.0 on the Python index",
)
def memfabric_wheel(ctx: Context) -> Iterator[Problem]:
    """Sparse KV offload needs libmf_hybm_accoffload.so. No wheel brings it: 1.2.1 and newer compile it on the spot
    (mfcli), 1.2.0 cannot.
    """
    version = str(ctx.settings.get("memfabric_version") or "")
    layers = {layer for image in (ctx.plan.get("images") or {}).values() for layer in image.get("layers") or ()}
    if "memfabric" not in layers or ctx.settings.get("memfabric_method") != "wheel" or not version:
        return
    if not in_range(version, OFFLOAD_WHEELS):
        yield Problem(f"memfabric_version {version}", OFFLOAD_WHEELS, "set memfabric_version, or method source")
