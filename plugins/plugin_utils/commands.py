# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""The plan for people: what runs on each host, and the commands that one would type to get the same by hand."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._text import format_ranges
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.options import option_table

_WIDTH = 110


def docker_run(service: Mapping[str, Any], image: str) -> str:
    """``docker run`` for a service's container, one option per line as guides write it."""
    body = service["container"]
    words: list[list[str]] = [
        ["--name", body["name"]],
        ["-u", body["user"]],
        [f"--network={body['network_mode']}"],
        [f"--ipc={body['ipc_mode']}"],
    ]
    if body["privileged"]:
        words.append(["--privileged"])
    words += [["--device", device] for device in body["devices"]]
    words += [["-v", mount] for mount in body["mounts"]]
    words += [["--ulimit", limit.replace(":", "=", 1)] for limit in body["ulimits"]]
    words += [
        [f"--restart={body['restart_policy']}:{body['restart_retries']}"],
        [f"--stop-timeout={body['stop_timeout']}"],
        [f"--log-driver={body['log_driver']}"],
        *[["--log-opt", f"{key}={value}"] for key, value in body["log_options"].items()],
        ["--entrypoint", "bash"],
    ]
    return _command(["docker", "run", "-d"], words, [image, "/etc/vllm-ascend-pd/launch"])


def vllm_serve(engine: Mapping[str, Any], version: str) -> str:
    """``vllm serve`` with every option spelt out instead of the configuration file."""
    argv = option_table(version).argv(engine["vllm_args"])
    model, rest = argv[0], argv[1:]
    options: list[list[str]] = []
    for word in rest:
        if word.startswith("--") or not options:
            options.append([word])
        else:
            options[-1].append(word)
    return _command(["vllm", "serve", model], options)


def exports(service: Mapping[str, Any], command: Mapping[str, Any]) -> str:
    """The shell lines that give a command its environment: scripts, prepended paths, variables."""
    lines = [f"source {shlex.quote(path)}" for path in service["sources"]]
    for name, paths in service["prepend"].items():
        joined = ":".join(map(str, paths))
        lines.append(f'export {name}={shlex.quote(joined)}"${{{name}:+:${name}}}"')
    variables = {**service["env"], **command["env"]}
    lines += [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
    return "\n".join(lines)


def proxy_command(argv: Sequence[str]) -> str:
    """The proxy's command, one option per line."""
    start = next((index for index, word in enumerate(argv) if word.startswith("--")), len(argv))
    options: list[list[str]] = []
    for word in argv[start:]:
        if word.startswith("--"):
            options.append([word])
        else:
            options[-1].append(word)
    return _command(list(argv[:start]), options)


def describe(plan: Mapping[str, Any]) -> str:
    """All hosts: services, ports, devices, image and commands."""
    engines = {engine["name"]: engine for engine in plan["engines"]}
    parts = [_head(plan)]
    for name, host in plan["hosts"].items():
        services = [service for service in plan["services"] if service["host"] == name]
        parts.append(_host(plan, name, host, services, engines))
    return "\n\n".join(parts) + "\n"


def _head(plan: Mapping[str, Any]) -> str:
    lines = [
        f"Profile {plan['profile']}: vLLM {plan['versions']['vllm']}, vllm-ascend {plan['versions']['vllm_ascend']}",
        f"Model {plan['model']['path']}, served as {plan['model']['name']}",
    ]
    if plan["proxy"]:
        lines.append(f"Clients: {plan['proxy']['url']} ({plan['proxy']['flavour']} proxy on {plan['proxy']['host']})")
    lines += [f"Not known yet: {item['what']} of {item['host']}" for item in plan["unknowns"]]
    if plan["unknowns"]:
        lines.append("preflight.yml finds out what is not known yet; pd_address and pd_nic may also be set.")
    return "\n".join(lines)


def _host(
    plan: Mapping[str, Any],
    name: str,
    host: Mapping[str, Any],
    services: Sequence[Mapping[str, Any]],
    engines: Mapping[str, Mapping[str, Any]],
) -> str:
    title = f"== {name}  {host['address']} on {host['nic']}  ({', '.join(host['roles'])}) "
    lines = [title.ljust(_WIDTH, "=")]
    for entry in sorted((e for e in plan["ports"] if e["host"] == name), key=lambda e: e["first"]):
        span = str(entry["first"]) if entry["first"] == entry["last"] else f"{entry['first']}-{entry['last']}"
        lines.append(f"  port {span:<13} {entry['owner']}: {entry['purpose']}")
    if host["reserved_ports"]:
        lines.append(f"  net.ipv4.ip_local_reserved_ports = {','.join(host['reserved_ports'])}")
    for service in services:
        lines += ["", *_service(plan, service, engines)]
    return "\n".join(lines)


def _service(
    plan: Mapping[str, Any], service: Mapping[str, Any], engines: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    image = plan["images"][service["image"]]
    built = f" + {' + '.join(image['layers'])} (built by site.yml; below the base alone)" if image["layers"] else ""
    lines = [f"-- {service['name']} ".ljust(_WIDTH, "-"), f"# image: {image['base']}{built}"]
    lines += [docker_run(service, image["base"]), ""]
    for name, content in service["files"].items():
        if content["format"] == "properties":
            lines += [f"# {name}", *(f"{key} = {value}" for key, value in content["content"].items()), ""]
    for command in service["commands"]:
        engine = engines.get(command["name"])
        if engine:
            lines.append(f"# {engine['name']}: chips {format_ranges(engine['devices']) or 'none'}")
        lines.append(exports(service, command))
        if engine:
            lines.append(vllm_serve(engine, plan["versions"]["vllm"]))
        elif service["kind"] == "proxy":
            lines.append(proxy_command(command["argv"]))
        else:
            lines.append(shlex.join(command["argv"]))
    return lines


def _command(head: Sequence[str], options: Iterable[Sequence[str]], tail: Sequence[str] = ()) -> str:
    """A shell command over several lines, every word quoted where the shell needs it."""
    lines = [shlex.join(head), *(shlex.join(option) for option in options)]
    lines += [shlex.join(tail)] if tail else []
    return " \\\n  ".join(lines)
