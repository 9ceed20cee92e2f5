# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Faults that can be switched on for a host, in one table. Each leaves the host as it was when it is switched off."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab import hardware
from lab.engine import docker
from lab.layout import Host
from lab.shell import LabError

Step = Callable[[Host, str], None]  # host, value
HIDDEN = "/var/lib/hidden"
SINCE_BOOT = "/run/faults"  # there when volatile faults were put on after the last boot
NPU_DRIVER = "/usr/local/Ascend/driver/tools/npu-driver"


@dataclass(frozen=True)
class Fault:
    """What is seen on the host while it is on, and how that comes about."""

    seen: str
    value: str = ""  # of {value} in steps; may be given as NAME=VALUE
    hardware: Callable[[str], dict[str, Any]] | None = None  # changes of the hardware state (hardware.HEALTHY)
    on: Sequence[Step] = ()
    off: Sequence[Step] = ()
    volatile: bool = False  # a reboot of the host would end it, so it is switched on again after one


def _inside(*argv: str) -> Step:
    """A command on the host, once for each of the comma-separated values."""

    def run(host: Host, value: str) -> None:
        for one in value.split(",") if any("{each}" in word for word in argv) else [""]:
            docker("exec", host.name, *(word.format(value=value, each=one, host=host.name) for word in argv))

    return run


def _outside(verb: str) -> Step:
    """A command of the engine on the host's container."""
    return lambda host, value: _discard(docker(verb, host.name))


def _discard(_output: str) -> None:
    """Commands print names that nobody asked for."""


def _hide(path: str) -> dict[str, Sequence[Step]]:
    """A file or folder of the host that is not there."""
    kept = HIDDEN + path
    return {
        "on": (_inside("mkdir", "-p", str(Path(kept).parent)), _inside("mv", path, kept)),
        "off": (_inside("mv", kept, path),),
    }


def _line(path: str, text: str, first: bool = False) -> dict[str, Sequence[Step]]:
    """A line in a file. Written in place: some of these files are mounts."""

    def write(host: Host, change: Callable[[list[str], str], list[str]]) -> None:
        old = docker("exec", host.name, "cat", path).splitlines()
        new = "\n".join([*change(old, text.format(host=host.name)), ""])
        docker("exec", "--interactive", host.name, "tee", path, stdin=new)

    def add(lines: list[str], line: str) -> list[str]:
        return [line, *lines] if first else [*lines, line]

    def take(lines: list[str], line: str) -> list[str]:
        return [other for other in lines if other != line]

    return {"on": (lambda host, _: write(host, add),), "off": (lambda host, _: write(host, take),)}


def _model(what: str, pattern: str, change: Callable[[Path, Path], None]) -> dict[str, Sequence[Step]]:
    """A model's folder, or the first file in it that fits, kept aside while `change` puts another in its place."""

    def kept(host: Host) -> Path:
        folder = host.folder / "hidden" / what
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def on(host: Host, value: str) -> None:
        model = host.folder / "data" / "models" / value
        original = min(model.glob(pattern)) if pattern else model
        aside = original.rename(kept(host) / original.name)
        change(aside, original)

    def off(host: Host, value: str) -> None:
        models = host.folder / "data" / "models"
        for aside in kept(host).iterdir():
            aside.replace((models / value if pattern else models) / aside.name)

    return {"on": (on,), "off": (off,)}


def _nothing(aside: Path, original: Path) -> None:
    """Leave the place empty."""


def _half(aside: Path, original: Path) -> None:
    with original.open("wb") as file:
        file.truncate(aside.stat().st_size // 2)


def _chips(field: str) -> Callable[[str], dict[str, Any]]:
    return lambda value: {field: [int(chip) for chip in value.split(",")]}


STOP_DOCKER = _inside("systemctl", "stop", "docker.socket", "docker.service")
START_DOCKER = _inside("systemctl", "start", "docker")


# The clock of every Python that comes in by SSH; the kernel's is the whole machine's. (libfaketime breaks time.sleep.)
FAKE_CLOCK = (
    "mkdir -p /opt/lab/clock; printf 'import time\n_true = time.time\ntime.time = lambda: _true() + int(\"{value}\")\n'"
    " > /opt/lab/clock/sitecustomize.py; echo SetEnv PYTHONPATH=/opt/lab/clock > /etc/ssh/sshd_config.d/clock.conf;"
    " systemctl reload ssh"
)
FOREIGN_JOB = ("systemd-run", "--quiet", "--unit=pretrain", "--setenv=ASCEND_RT_VISIBLE_DEVICES={value}",
               "python3", "-c", "import signal; signal.pause()", "pretrain_gpt.py")  # fmt: skip
LISTENER = ("systemd-run", "--quiet", "--unit=listener-{each}", "python3", "-m", "http.server", "{each}")
ALL_CHIPS = ",".join(map(str, range(16)))
MODEL = "DeepSeek-V3.2-W8A8"

FAULTS: dict[str, Fault] = {
    # NPUs
    "chip_alarm": Fault("npu-smi shows chip VALUE in Alarm", "5", _chips("alarm")),
    "chip_missing": Fault("no device node and no row in npu-smi for chip VALUE", "5", _chips("missing")),
    "npu_busy": Fault(
        "a training job holds chip VALUE", "3",
        on=(_inside(*FOREIGN_JOB),), off=(_inside("systemctl", "stop", "pretrain.service"),),
        volatile=True,
    ),
    "npu_smi_missing": Fault("npu-smi is not installed", **_hide("/usr/local/sbin/npu-smi")),
    "npu_smi_refused": Fault("npu-smi says that the device is used (-8020)", hardware=lambda _: {"refused": True}),
    "npu_smi_wide": Fault(
        "driver VALUE, whose npu-smi prints the wide table", "26.0.rc2",
        lambda value: {"driver": value, "layout": "wide"},
    ),
    "driver_old": Fault("driver VALUE", "24.1.rc2", lambda value: {"driver": value}),
    "superpod_other": Fault("in SuperPod VALUE", "4", lambda value: {"superpod": int(value)}),
    "ascend_install_info_missing": Fault("no /etc/ascend_install.info", **_hide("/etc/ascend_install.info")),
    # HCCN
    "link_down": Fault("link of chip VALUE down", "7", _chips("link_down")),
    "net_health_fault": Fault("net_health of chip VALUE is Fault", "7", _chips("net_health_fault")),
    "tls_on": Fault("TLS switch on for chips VALUE", ALL_CHIPS, _chips("tls_on")),
    "hccn_conf_missing": Fault("no /etc/hccn.conf", **_hide("/etc/hccn.conf")),
    "hccn_tool_missing": Fault("hccn_tool is not installed", **_hide("/usr/local/Ascend/driver/tools/hccn_tool")),
    # host
    "low_memory": Fault(
        "VALUE GiB of memory available", "200",
        lambda value: {"memory_gib": int(value) + 56, "available_gib": int(value)},
    ),
    "hugepages": Fault("VALUE hugepages of 2 MiB reserved", "200000", lambda value: {"hugepages": int(value)}),
    "no_sve": Fault("CPU without features named VALUE...", "sve", lambda value: {"without_features": value.split(",")}),
    "small_shm": Fault(
        "/dev/shm of VALUE", "1g",
        on=(_inside("mount", "-o", "remount,size={value}", "/dev/shm"),),
        off=(_inside("mount", "-o", "remount,size=768g", "/dev/shm"),),
        volatile=True,
    ),
    "disk_full": Fault(
        "VALUE free where Docker keeps its images", "1g",
        on=(STOP_DOCKER, _inside("mount", "-t", "tmpfs", "-o", "size={value}", "x", "/var/lib/docker"), START_DOCKER),
        off=(STOP_DOCKER, _inside("umount", "/var/lib/docker"), START_DOCKER),
        volatile=True,
    ),
    "docker_stopped": Fault("Docker is stopped", on=(STOP_DOCKER,), off=(START_DOCKER,), volatile=True),
    "clock_skew": Fault(
        "clock VALUE seconds off, for whoever comes over SSH from now on", "+300",
        on=(_inside("sh", "-c", FAKE_CLOCK),),
        off=(_inside("rm", "/etc/ssh/sshd_config.d/clock.conf"), _inside("systemctl", "reload", "ssh")),
    ),
    "proxy_env": Fault(
        "/etc/environment sets http_proxy without no_proxy",
        **_line("/etc/environment", "http_proxy=http://proxy.example.com:3128"),
    ),
    "hosts_pitfall": Fault(
        "/etc/hosts maps the own name to 127.0.1.1",
        **_line("/etc/hosts", "127.0.1.1 {host}", first=True),
        volatile=True,
    ),
    # network
    "port_taken": Fault(
        "something listens on port VALUE", "29180,29181",
        on=(_inside(*LISTENER),), off=(_inside("systemctl", "stop", "listener-{each}.service"),),
        volatile=True,
    ),
    "port_blocked": Fault(
        "a firewall drops TCP to port VALUE", "29180,29181",
        on=(_inside("iptables", "--insert", "INPUT", "--protocol", "tcp", "--dport", "{each}", "--jump", "DROP"),),
        off=(_inside("iptables", "--delete", "INPUT", "--protocol", "tcp", "--dport", "{each}", "--jump", "DROP"),),
        volatile=True,
    ),
    "ephemeral_range": Fault(
        "ephemeral ports VALUE", "20000 65000",
        on=(_inside("sysctl", "--quiet", "--write", "net.ipv4.ip_local_port_range={value}"),),
        off=(_inside("sysctl", "--quiet", "--write", "net.ipv4.ip_local_port_range=32768 60999"),),
        volatile=True,
    ),
    "small_mtu": Fault(
        "MTU of eth0 is VALUE", "1280",
        on=(_inside("ip", "link", "set", "eth0", "mtu", "{value}"),),
        off=(_inside("ip", "link", "set", "eth0", "mtu", "1500"),),
        volatile=True,
    ),
    "ssh_down": Fault(
        "sshd is stopped", on=(_inside("systemctl", "stop", "ssh"),), off=(_inside("systemctl", "start", "ssh"),),
        volatile=True,
    ),
    "unreachable": Fault(
        "eth0 is down",
        on=(_inside("ip", "link", "set", "eth0", "down"),),
        off=(_inside("ip", "link", "set", "eth0", "up"),),
        volatile=True,
    ),
    "hung": Fault("nothing on the host runs on", on=(_outside("pause"),), off=(_outside("unpause"),), volatile=True),
    # model files
    "model_shard_missing": Fault(
        "one weight file of model VALUE is missing", MODEL, **_model("missing", "*-00007-*", _nothing)
    ),
    "model_shard_short": Fault(
        "one weight file of model VALUE is half there", MODEL, **_model("short", "*-00009-*", _half)
    ),
    "model_missing": Fault("no folder of model VALUE", MODEL, **_model("model", "", _nothing)),
}  # fmt: skip


def active(host: Host) -> dict[str, str]:
    """Faults that are on, with their values."""
    file = _file(host)
    return dict(json.loads(file.read_text())) if file.exists() else {}


def switch(host: Host, name: str, value: str | None, on: bool) -> None:
    """Switch one fault; switching to what already is does nothing."""
    if name not in FAULTS:
        raise LabError(f"no such fault: {name}; see lab/lab faults")
    fault, before = FAULTS[name], active(host)
    value = before.get(name, fault.value) if value is None else value
    if before.get(name) == value if on else name not in before:
        return
    if on and name in before:  # with another value
        switch(host, name, None, on=False)
        before = active(host)
    if not on:
        _apply(host, fault.off, before[name])
        del before[name]
    else:
        before[name] = value
    _file(host).write_text(json.dumps(before, indent=1) + "\n")
    if fault.hardware:
        write_hardware(host)
        docker("exec", host.name, NPU_DRIVER)
    if on:
        if fault.volatile:
            docker("exec", host.name, "touch", SINCE_BOOT)
        _apply(host, fault.on, value)


def clear(host: Host) -> None:
    for name in reversed(active(host)):
        switch(host, name, None, on=False)


def restore(host: Host) -> None:
    """After a boot: put back what a running system had forgotten (listeners, mounts, settings of the kernel)."""
    lost = {name: value for name, value in active(host).items() if FAULTS[name].volatile}
    if not lost or docker("exec", host.name, "find", "/run", "-path", SINCE_BOOT):
        return
    docker("exec", host.name, "touch", SINCE_BOOT)
    for name, value in lost.items():
        _apply(host, FAULTS[name].on, value)


def write_hardware(host: Host) -> None:
    """Bring what the host is shown in line with the faults that are on."""
    changes: dict[str, Any] = {}
    for name, value in active(host).items():
        change = FAULTS[name].hardware
        changes |= change(value) if change else {}
    hardware.show(host, changes)


def _apply(host: Host, steps: Sequence[Step], value: str) -> None:
    for one in steps:
        one(host, value)


def _file(host: Host) -> Path:
    return host.folder / "faults.json"
