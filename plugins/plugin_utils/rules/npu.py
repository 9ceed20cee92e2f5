# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Chips: present, healthy, free, enough, linked, and of one SuperPod."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...module_utils._text import format_ranges
from .. import connectors
from ..findings import ERROR, INFO, WARNING, as_counted
from .context import Context, Engine, Missing
from .registry import LEFT_OVER, Problem, remove, rule

#: Firmware and driver hold about 3000 MiB of HBM on an idle A3 chip; more than this without a process is left over.
IDLE_HBM_MIB = 6144


def needs_roce(ctx: Context, host: str) -> bool:
    """Whether engines of the host talk over the chips' own network ports."""
    return any(engine.uses_mooncake or len(ctx.of_instance(engine.data["instance"])) > 1 for engine in ctx.on(host))


def of_the_tool(ctx: Context, host: str) -> list[str]:
    """Why hccn_tool did not tell something, without what else the probe's face could not read."""
    return [str(reason) for reason in ctx.fact(host, "hccn.reasons") if str(reason).startswith("hccn_tool")]


def chip_values(ctx: Context, host: str, name: str) -> dict[int, Any]:
    """A value of hccn_tool for each chip that the plan uses."""
    wanted = {number for engine in ctx.on(host) for number in engine.devices}
    chips = ctx.fact(host, "hccn.chips")
    if not chips and wanted:
        reasons = of_the_tool(ctx, host)
        raise Missing(f"hccn_tool of {host} told nothing{': ' + reasons[0] if reasons else ''}")
    return {chip["phy_id"]: chip.get(name) for chip in chips if chip["phy_id"] in wanted}


def insist(host: str, name: str, values: dict[int, Any]) -> None:
    """What hccn_tool did not tell is not checked: silence is no good news."""
    silent = [number for number, value in values.items() if value is None]
    if silent:
        raise Missing(f"hccn_tool of {host} told no {name.replace('_', ' ')} of chips {format_ranges(silent)}")


@rule(
    "PD-NPU-001", ERROR, "a chip of the plan does not exist", per="host", chips=True, source="vllm-ascend #632, #2698"
)
def chips_exist(ctx: Context, host: str) -> Iterator[Problem]:
    """Each chip of the plan needs its /dev/davinciN. Guide 2 passes 8 devices to an engine that wants 16.

    Unless pd_devices says which, the plan counts on all that a server of the host's generation has: a chip that is gone
    is broken or held back, and no reason to serve with fewer in silence.
    """
    wanted = {number for engine in ctx.on(host) for number in engine.devices}
    server = set(range(ctx.hosts[host]["chips"]))
    nodes = server if ctx.facts is None else set(ctx.fact(host, "npu.device_nodes"))
    gone, strange = sorted(wanted & server - nodes), sorted(wanted - server - nodes)
    if gone:
        yield Problem(
            f"shows {len(nodes)} of {len(server)} chips: no /dev/davinci{format_ranges(gone)}",
            f"{len(server)} chips",
            "bring them back (npu-smi info, dmesg, reboot), or set pd_devices to those that shall serve",
        )
    if strange:
        there = format_ranges(sorted(nodes)) or "none"
        yield Problem(
            f"no /dev/davinci{format_ranges(strange)}; there are {there}",
            f"chips of {there}, each once",
            "set pd_devices to chips that exist",
        )
    elif not gone and ctx.facts is None:
        raise Missing("no host was contacted")


@rule("PD-NPU-018", INFO, "chips are left idle", per="host", chips=True, source="collection")
def chips_idle(ctx: Context, host: str) -> Iterator[Problem]:
    """An instance takes as many chips as its parallel sizes say, and the others of its host do nothing."""
    used = {number for engine in ctx.on(host) for number in engine.devices}
    idle = sorted(set(ctx.hosts[host].get("devices") or ()) - used)
    if idle:
        roles = " or ".join(dict.fromkeys(f"{engine.role}_parallel" for engine in ctx.on(host)))
        yield Problem(
            f"chips {format_ranges(idle)} serve no engine",
            "every chip in use",
            f"raise {roles}, or leave them out of pd_devices if they shall be idle",
        )


@rule("PD-NPU-002", ERROR, "a chip is not healthy", per="host", chips=True, source="npu-smi info")
def chips_healthy(ctx: Context, host: str) -> Iterator[Problem]:
    """npu-smi shows another health than OK. A chip in alarm fails at the first collective, minutes after the start."""
    for chip in ctx.used_chips(host):
        if str(chip.get("health")).upper() != "OK":
            yield Problem(
                f"chip {chip['phy_id']} (NPU {chip['npu']} chip {chip['chip']}) has health {chip.get('health')}",
                "OK",
                f"npu-smi info -t health -i {chip['npu']} -c {chip['chip']}; reset it, or leave it out (pd_devices)",
            )


@rule("PD-NPU-003", ERROR, "a chip is in use by others", per="host", chips=True, source="vllm-ascend #632, #2698")
def chips_free(ctx: Context, host: str) -> Iterator[Problem]:
    """Another container or process holds a chip of the plan (npu-smi -8005, or out of memory).

    Containers of services that this plan has on the host do not count: they are made anew. Those of an earlier plan do,
    such as one from before a host or an instance was renamed: it keeps running beside the new one.
    """
    held: dict[str, list[int]] = {}
    holders = ctx.fact(host, "npu.holders")
    for chip in ctx.used_chips(host):
        names = {str(name) for name in holders.get(str(chip["phy_id"]), []) if not ctx.is_own(host, name)}
        for process in chip.get("processes") or []:
            if not process.get("container"):
                names.add(f"process {process['pid']} ({process.get('name')})")
        for name in names:
            held.setdefault(name, []).append(chip["phy_id"])
    for name, numbers in sorted(held.items()):
        yield Problem(
            f"{name} holds chips {format_ranges(numbers)}{LEFT_OVER if ctx.left_over(host, name) else ''}",
            "free chips",
            remove(name, host) if ctx.left_over(host, name) else "stop it, or set pd_devices to other chips",
        )


@rule("PD-NPU-004", ERROR, "npu-smi does not work", per="host", chips=True, source="vllm-ascend #2698, #6264")
def npu_smi_works(ctx: Context, host: str) -> Iterator[Problem]:
    """Engines run on the host's chips, but npu-smi shows none: no driver, no permission (-8005), or the tool is
    missing.
    """
    if not ctx.fact(host, "npu.chips"):
        reasons = ctx.fact(host, "npu.reasons")
        yield Problem(
            "; ".join(reasons) or "no chip",
            "a table of chips",
            "run as root; where npu-smi hangs or shows nothing, look at dmesg, mend the driver or reboot",
        )


@rule(
    "PD-NPU-005",
    ERROR,
    "chips and parallel sizes do not match",
    per="instance",
    chips=True,
    source="vLLM ParallelConfig",
)
def sizes_match(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """An instance needs tensor x pipeline x prefill-context x data parallel size chips, no more and no fewer."""
    engines = ctx.of_instance(str(engine.data["instance"]))
    have = sum(len(one.devices) for one in engines)
    need = engine.ranks
    if have != need:
        yield Problem(
            f"{engine.data['instance']} has {have} chips; "
            f"TP {engine.tp} x PP {engine.pp} x PCP {engine.pcp} x DP {engine.dp} = {need}",
            f"{need} chips",
            f"set {engine.role}_parallel or pd_devices",
        )


@rule(
    "PD-NPU-006",
    ERROR,
    "prefill and decode are in different SuperPods",
    per="cluster",
    source="sfa_pd_rd2h; npu-smi spod-info",
)
def one_superpod(ctx: Context) -> Iterator[Problem]:
    """SfaRemoteD2H copies by SDMA over HCCS, which ends at the border of a SuperPod: decode could never read the KV."""
    hosts = {e.host for role in ("prefill", "decode") for e in ctx.of(role) if connectors.SFA in e.connectors}
    pods: dict[Any, list[str]] = {}
    for host in sorted(hosts, key=as_counted):
        pods.setdefault(ctx.fact(host, "npu.superpod_id"), []).append(host)
    if len(pods) > 1:
        yield Problem(
            "; ".join(f"SuperPod {pod}: {', '.join(names)}" for pod, names in pods.items()),
            "one Super Pod ID on all hosts",
            "take hosts of one SuperPod, or profile mooncake",
        )


@rule(
    "PD-NPU-007",
    ERROR,
    "a chip's network port is down or unhealthy",
    per="host",
    source="vllm-ascend installation.md:511-600",
)
def links_up(ctx: Context, host: str) -> Iterator[Problem]:
    """hccn_tool must show link UP and net health Success where chips talk over RoCE: Mooncake, or an instance over
    hosts.

    On a host whose chips talk over HCCS alone these ports may be unused, so there it is a warning.
    """
    severity = None if needs_roce(ctx, host) else WARNING
    links, health = chip_values(ctx, host, "link"), chip_values(ctx, host, "net_health")
    down = [n for n, value in links.items() if value not in (None, "UP")]
    if down:
        yield Problem(
            f"link down on chips {format_ranges(down)}", "UP", "check cables and switch ports", severity=severity
        )
    sick = {n: v for n, v in health.items() if v and str(v).lower() != "success"}
    if sick:
        yield Problem(
            f"net health {', '.join(sorted(map(str, set(sick.values()))))} on chips {format_ranges(list(sick))}",
            "Success",
            "hccn_tool -i N -net_health -g; check gateway and netdetect address",
            severity=severity,
        )
    if not down and not sick:
        insist(host, "link", links)
        insist(host, "net_health", health)


@rule(
    "PD-NPU-008",
    ERROR,
    "TLS switches differ",
    per="cluster",
    source="vllm-ascend installation.md, 'should be consistent across all nodes'",
)
def tls_equal(ctx: Context) -> Iterator[Problem]:
    """The TLS switch of every chip must be the same on all hosts, or no connection between chips comes up."""
    seen: dict[bool, list[str]] = {}
    switches = {host: chip_values(ctx, host, "tls") for host in ctx.hosts if ctx.on(host)}
    for host, own in switches.items():
        for value in {v for v in own.values() if v is not None}:
            seen.setdefault(bool(value), []).append(host)
    if len(seen) < 2:
        for host, own in switches.items():
            insist(host, "TLS switch", own)
    else:
        yield Problem(
            f"on: {', '.join(seen[True])}; off: {', '.join(seen[False])}",
            "the same everywhere",
            "hccn_tool -i N -tls -s enable 0 on every chip of the hosts where it is on",
        )


@rule("PD-NPU-009", ERROR, "/etc/hccn.conf is missing or empty", per="host", chips=True, source="vllm-ascend #7711")
def hccn_conf(ctx: Context, host: str) -> Iterator[Problem]:
    """Without it in the container HCCL and Mooncake guess: the service starts, and the tokens are wrong.

    On HCCS alone it may be empty, so there it is a warning. Guides 1 and 2 forget to mount it. Lines such as
    tls_enable_0, which hccn_tool adds by itself, are no addresses.
    """
    conf = ctx.fact(host, "hccn.hccn_conf")
    lines = conf.get("lines") or []
    addresses = not lines or any(str(line).startswith("address_") for line in lines)
    if not conf.get("exists") or not conf.get("size_bytes") or not addresses:
        yield Problem(
            "missing" if not conf.get("exists") else "empty" if addresses else "no line address_N in it",
            "the addresses of all chips",
            "configure the chips' addresses (hccn_tool -i N -ip -s), or copy the file from the delivery",
            severity=None if needs_roce(ctx, host) else WARNING,
        )


@rule(
    "PD-NPU-010",
    ERROR,
    "/etc/ascend_install.info is missing",
    per="host",
    source="memfabric_hybrid hybm_gva_version.cpp",
)
def install_info(ctx: Context, host: str) -> Iterator[Problem]:
    """MemFabric reads the driver's path from it and refuses to start without. Guide 1 forgets to mount it."""
    if not any(engine.uses_memfabric for engine in ctx.on(host)):
        return
    if ctx.fact(host, "npu").get("ascend_install_info") is None:
        yield Problem("missing", "written by the driver's installer", "install the driver with its installer")


@rule(
    "PD-NPU-012",
    WARNING,
    "memory of a chip is occupied without a process",
    per="host",
    chips=True,
    source="vllm-ascend #2698",
)
def hbm_left_over(ctx: Context, host: str) -> Iterator[Problem]:
    """An idle A3 chip shows about 3 GiB used. More, and no process: something died and left it, or hides in a
    container.
    """
    if ctx.own_running(host):
        return
    left = {
        chip["phy_id"]: chip["hbm_used_mib"]
        for chip in ctx.used_chips(host)
        if (chip.get("hbm_used_mib") or 0) > IDLE_HBM_MIB and not chip.get("processes")
    }
    if left:
        yield Problem(
            f"chips {format_ranges(list(left))} have up to {max(left.values())} MiB in use",
            f"below {IDLE_HBM_MIB} MiB",
            "find the process (fuser -v /dev/davinciN), or reset the chip",
        )


@rule("PD-NPU-013", ERROR, "engines of a host share a chip", per="host", source="collection")
def chips_disjoint(ctx: Context, host: str) -> Iterator[Problem]:
    """Each chip serves one engine: a second one counts on the same memory, and there is not enough for both."""
    seen: dict[int, str] = {}
    for engine in ctx.on(host):
        shared = [number for number in engine.devices if number in seen]
        if shared:
            yield Problem(
                f"{engine.name} and {seen[shared[0]]} both use chips {format_ranges(shared)}",
                "disjoint chips",
                f"set devices in {engine.role}_instances",
            )
        seen.update(dict.fromkeys(engine.devices, engine.name))


@rule(
    "PD-NPU-014",
    ERROR,
    "the hardware generation does not carry the profile",
    per="host",
    chips=True,
    source="vllm-ascend guides: Atlas A3 only",
)
def generation(ctx: Context, host: str) -> Iterator[Problem]:
    """Sparse KV offload and context parallelism run on A3 only."""
    seen = ctx.fact(host, "npu.generation")
    if seen != "A3" and any(engine.offloads or engine.pcp > 1 or engine.dcp > 1 for engine in ctx.on(host)):
        yield Problem(f"chips are {seen}", "A3", "use profile mooncake on these hosts")


@rule("PD-NPU-015", ERROR, "npu-smi and the device nodes disagree", per="host", chips=True, source="npu-smi info")
def partial_view(ctx: Context, host: str) -> Iterator[Problem]:
    """A chip of the plan has a device node, but npu-smi does not show it: the driver lost it, or the output was cut."""
    wanted = {number for engine in ctx.on(host) for number in engine.devices}
    shown = {chip.get("phy_id") for chip in ctx.chips(host)}
    gone = sorted((wanted & set(ctx.fact(host, "npu.device_nodes"))) - shown)
    if gone:
        yield Problem(
            f"npu-smi does not show chips {format_ranges(gone)}", "all chips", "look at dmesg; reset or reboot"
        )


@rule("PD-NPU-016", WARNING, "hccn_tool does not work", per="host", chips=True, source="CANN driver, hccn_tool")
def hccn_tool_works(ctx: Context, host: str) -> Iterator[Problem]:
    """Engines run on chips of which hccn_tool tells nothing: it is missing, hangs, or the chips serve another caller.

    Links, network health and TLS switches of these chips are then not checked.
    """
    wanted = {number for engine in ctx.on(host) for number in engine.devices} & set(ctx.fact(host, "npu.device_nodes"))
    told = {
        chip["phy_id"]
        for chip in ctx.fact(host, "hccn.chips")
        if any(chip.get(name) is not None for name in ("link", "net_health", "vnic", "tls"))
    }
    silent = sorted(wanted - told)
    if silent:
        reasons = "; ".join(of_the_tool(ctx, host)[:2]) or "no reason given"
        yield Problem(
            f"nothing told of chips {format_ranges(silent)}: {reasons}",
            "an answer from each chip",
            "run hccn_tool -i N -link -g by hand; where it hangs look at dmesg and reboot, "
            "where it is busy stop the monitor that calls it",
        )
