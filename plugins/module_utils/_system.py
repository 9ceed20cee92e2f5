# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Operating system, limits, proxies, firewall, /etc/hosts and the paths that were asked about."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import re
import resource
import socket
import stat
import time
from typing import Any

from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._run import Runner, find_tool
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._text import key_values, mask_credentials
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._tree import Tree, why

_PROXY_NAMES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
_KINDS = (
    (stat.S_ISREG, "file"),
    (stat.S_ISDIR, "directory"),
    (stat.S_ISCHR, "char_device"),
    (stat.S_ISBLK, "block_device"),
    (stat.S_ISSOCK, "socket"),
    (stat.S_ISFIFO, "fifo"),
)


def identity(tree: Tree) -> dict[str, Any]:
    """Name, architecture, kernel, distribution and Python of the host."""
    release = key_values(tree.text("/etc/os-release") or "")
    return {
        "hostname": socket.gethostname(),
        "arch": platform.machine(),
        "kernel": platform.release(),
        "os": {"id": release.get("ID"), "version": release.get("VERSION_ID"), "name": release.get("PRETTY_NAME")},
        "python": platform.python_version(),
        "python_requests": importlib.util.find_spec("requests") is not None,
        "uid": os.geteuid(),
    }


def clock(controller_epoch_s: float | None) -> dict[str, float | None]:
    """Seconds since 1970 on this host, and how far it is ahead of the controller's reading taken just before.

    The time to start the module on the host counts into the offset: less than a few seconds says nothing.
    """
    now = time.time()
    offset = None if controller_epoch_s is None else round(now - controller_epoch_s, 3)
    return {"epoch_s": round(now, 3), "offset_s": offset}


def ulimits() -> dict[str, dict[str, int]]:
    """Soft and hard limits of the probe's own process; -1 is unlimited, memlock and stack are bytes."""
    names = {"nofile": "RLIMIT_NOFILE", "memlock": "RLIMIT_MEMLOCK", "nproc": "RLIMIT_NPROC", "stack": "RLIMIT_STACK"}
    found = {}
    for name, constant in names.items():
        soft, hard = resource.getrlimit(getattr(resource, constant))
        found[name] = {"soft": soft, "hard": hard}
    return found


def proxies(tree: Tree, engine: dict[str, str]) -> dict[str, dict[str, str]]:
    """Proxy variables by where they stand: the probe's environment, /etc/environment, the container engine.

    Names are in lower case; passwords are masked.
    """
    return {
        "environment": _proxies(dict(os.environ)),
        "etc_environment": _proxies(key_values(re.sub(r"(?m)^\s*export\s+", "", tree.text("/etc/environment") or ""))),
        "engine": _proxies(engine),
    }


def _proxies(variables: dict[str, str]) -> dict[str, str]:
    lowered = {name.lower(): str(value) for name, value in variables.items() if value}
    return {name: mask_credentials(lowered[name]) for name in _PROXY_NAMES if name in lowered}


def parse_hosts(text: str) -> dict[str, list[str]]:
    """Addresses by lower-case name in /etc/hosts, in the order of the file."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        fields = line.partition("#")[0].split()
        for name in fields[1:]:
            found.setdefault(name.lower(), []).append(fields[0])
    return found


def hosts_file(tree: Tree, hostname: str, reasons: list[str]) -> dict[str, Any]:
    """What /etc/hosts says of this host and of localhost.

    A name that stands for 127.0.1.1 (Debian's custom) makes rendezvous by name bind where no other host arrives.
    """
    names = parse_hosts(tree.text("/etc/hosts", reasons) or "")
    own = names.get(hostname.lower()) or names.get(hostname.lower().partition(".")[0]) or []
    return {
        "own_name": hostname,
        "own_addresses": own,
        "own_name_on_loopback": any(address.startswith("127.") or address == "::1" for address in own),
        "localhost_addresses": names.get("localhost") or [],
    }


def firewall(tree: Tree, runner: Runner) -> dict[str, Any]:
    """Which firewall service runs, policy and number of rules of iptables' INPUT chain, and nftables' input chains.

    Chains are read only where the kernel has their tables already: asking would load them.
    """
    found: dict[str, Any] = {
        "services": {},
        "input_policy": None,
        "input_rules": None,
        "nft_input": [],
        "reason": None,
    }
    systemctl = find_tool("systemctl")
    if systemctl:
        names = ["firewalld", "ufw", "nftables", "iptables"]
        states = runner.run([systemctl, "is-active", *names], timeout_s=5.0).stdout.split()
        if len(states) == len(names):
            found["services"] = dict(zip(names, states))
    reasons: list[str] = []
    tables = filter_tables(tree, platform.release(), reasons)
    iptables, nft = find_tool("iptables"), find_tool("nft")
    if not tables:
        why_not = ["no filter table is loaded into the kernel or known to be built into it", *reasons]
        found["reason"] = "input chains not read: " + "; ".join(why_not)
    elif not iptables and not nft:
        found["reason"] = "input chains not read: neither iptables nor nft is installed"
    if iptables and tables:
        ran = runner.run([iptables, "-w", "2", "-S", "INPUT"], timeout_s=5.0)
        found["input_policy"], found["input_rules"] = parse_input_chain(ran.stdout)
        found["reason"] = ran.reason
    if nft and "nf_tables" in tables:
        ran = runner.run([nft, "--json", "list", "chains"], timeout_s=5.0)
        found["nft_input"] = parse_nft_chains(ran.stdout)
        found["reason"] = found["reason"] or ran.reason
    return found


def filter_tables(tree: Tree, kernel: str, reasons: list[str]) -> set[str]:
    """Which of nf_tables and iptable_filter can be asked without a module being loaded for it.

    One that is built in has no folder in /sys/module. A kernel without /proc/modules takes no modules at all.
    """
    names = {"nf_tables", "iptable_filter"}
    if not tree.exists("/proc/modules"):
        return names
    builtin = tree.text(f"/lib/modules/{kernel}/modules.builtin", reasons) or ""
    files = {line.rpartition("/")[2].partition(".")[0] for line in builtin.splitlines()}
    return {name for name in names if name in files or tree.exists("/sys/module/" + name)}


def parse_nft_chains(text: str) -> list[dict[str, str]]:
    """Chains that incoming packets pass, with their policy, in `nft --json list chains`."""
    try:
        entries = json.loads(text)["nftables"]
        chains = [entry["chain"] for entry in entries if isinstance(entry, dict) and "chain" in entry]
        return [
            {name: str(chain[name]) for name in ("family", "table", "name", "policy")}
            for chain in chains
            if chain.get("hook") == "input" and "policy" in chain
        ]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return []


def parse_input_chain(text: str) -> tuple[str | None, int | None]:
    """Policy and number of rules in `iptables -S INPUT`."""
    policy = re.search(r"^-P INPUT (\w+)", text, re.MULTILINE)
    rules = len(re.findall(r"^-A INPUT ", text, re.MULTILINE))
    return (policy.group(1), rules) if policy else (None, None)


def describe_path(tree: Tree, path: str) -> dict[str, Any]:
    """Whether `path` exists, what it is, its size (files only) and permissions; links are followed."""
    found: dict[str, Any] = {"exists": False, "kind": None, "size_bytes": None, "mode": None, "reason": None}
    try:
        status = tree.path(path).stat()
    except OSError as error:
        if not isinstance(error, FileNotFoundError):
            found["reason"] = why(path, error)
        return found
    found["exists"] = True
    found["kind"] = next((kind for test, kind in _KINDS if test(status.st_mode)), "other")
    found["size_bytes"] = status.st_size if found["kind"] == "file" else None
    found["mode"] = f"{stat.S_IMODE(status.st_mode):04o}"
    return found
