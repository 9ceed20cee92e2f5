# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""What a container of ours is doing: alive, ready, how far, and which log lines explain why not."""

from __future__ import annotations

import calendar
import http.client
import json
import re
import time
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._docker_api import DockerApi, DockerError

# An engine that loads shows progress by carriage returns on one line; a health answer is short.
_BODY_LIMIT = 64 << 10  # bytes


class Stage(NamedTuple):
    """A log line that tells how far a start or a build is."""

    pattern: re.Pattern[str]
    text: str  # format of what is shown, with the groups of the pattern


# In the order of a start; the last line of the log that matches any of them counts.
STAGES = [
    # The builder's own marks, see roles/container/files/build-lib.
    Stage(re.compile(r"^==> (?P<step>.+)$"), "{step}"),
    # vLLM model_executor/model_loader/weight_utils.py, tqdm
    Stage(
        re.compile(r"(?P<percent>\d{1,3})% Completed \| (?P<done>\d+)/(?P<all>\d+)"),
        "weights {percent}% ({done}/{all} shards)",
    ),
    Stage(re.compile(r"Loading weights took (?P<s>[\d.]+) seconds"), "weights loaded in {s} s"),
    # vllm-ascend distributed/kv_transfer/sparse_kv_offload/sparse_kv_offload_manager.py
    Stage(re.compile(r"start init CPU KV pool with (?P<gib>\S+) GB"), "allocating the host KV pool ({gib} GiB)"),
    Stage(re.compile(r"Capturing [\w ]*graphs?.*?(?P<percent>\d{1,3})%"), "capturing graphs {percent}%"),
    Stage(re.compile(r"Starting vLLM (?:API )?server"), "starting the API server"),
    Stage(re.compile(r"Application startup complete"), "API server up"),
]

# Lines after which a service does not work although its process may live, with what they mean. Sources are
# paths in vllm-ascend v0.26.0rc unless another project is named.
FATAL = [
    (
        re.compile(r"EngineDeadError|EngineCore (?:encountered a fatal error|failed to start|process died)"),
        "the engine core died",
    ),
    (re.compile(r"Worker proc \S+ died unexpectedly|WorkerProc failed to start"), "a worker process died"),
    (
        re.compile(r"received a prefill/mixed batch without keep_device_kv_cache"),
        "a prompt reached decode without its KV cache: it went past the proxy, or was preempted (sfa_kv_offload.py)",
    ),
    (
        re.compile(r"MembPull has no destination blocks on D"),
        "decode has no blocks for a request that prefill serves (sfa_pd_rd2h/read_thread.py, vllm-ascend #13026)",
    ),
    (
        re.compile(r"Needed dram size .* is larger than user specified dram size"),
        "dram_size_per_dp_GB is below what free HBM asks for (worker/worker.py)",
    ),
    (
        re.compile(r"MemFabric TransferEngine initialization failed"),
        "MemFabric could not start on the advertised address",
    ),
    (re.compile(r"Address already in use|EADDRINUSE"), "a port is taken"),
    (re.compile(r"MMC_LOCAL_CONFIG_PATH is not set"), "MemCache's client has no configuration"),
    (re.compile(r"EI0014|EI0019|EJ0003"), "HCCL found a wrong topology or a taken port (EI0014, EI0019, EJ0003)"),
    (re.compile(r"[Oo]ut of memory|NPU out of memory|OutOfMemoryError"), "memory ran out"),
    (
        re.compile(r"config has a conflicting (?:tensor|data) parallel size"),
        "the sizes in kv_connector_extra_config are not the real ones",
    ),
]

# What may hold the cause of a death, when no known line does.
_CAUSE = re.compile(
    r"\b(?:[A-Z]\w*(?:Error|Exception)|[Ee]rror|ERROR|FATAL|fatal|assert\w*|not found|No such file|launch:)\b"
)


def look(api: DockerApi, service: dict[str, Any], tail: int) -> dict[str, Any]:
    """The state of one container.

    `service` has `container` (name) and `ready` ({kind: http|running|exited, ...}, as in the plan). Lines are those
    since the container's last start, at most `tail` of them.
    """
    name = service["container"]
    status: dict[str, Any] = {"container": name, "exists": False, "state": "absent", "ready": False, "reason": ""}
    try:
        seen = api.inspect(name)
    except DockerError as error:
        if error.status == 404:
            return dict(status, reason=f"there is no container {name}")
        raise
    state = seen["State"]
    status.update(
        exists=True,
        id=seen["Id"],
        image=seen["Image"],
        state=state["Status"],
        exit_code=state["ExitCode"],
        oom_killed=state["OOMKilled"],
        started_at=state["StartedAt"],
        restarts=seen["RestartCount"],
        age_s=round(time.time() - seconds(seen["Created"])),
        labels=seen["Config"]["Labels"] or {},
        command=seen["Args"],
    )
    lines = split_lines(api.logs(name, tail=tail))
    status.update(
        last_line=next((line for line in reversed(lines) if line.strip()), ""),
        progress=progress(lines),
        fatal=fatal(split_lines(api.logs(name, tail=tail, since=int(seconds(state["StartedAt"]))))),
        explanation=explain(lines),
    )
    status["ready"], status["reason"] = readiness(status, service.get("ready") or {"kind": "running"})
    return status


def trouble(status: dict[str, Any]) -> str:
    """What is wrong with a service that is meant to be up, one line a thing; empty when nothing is known to be."""
    found = [] if status["ready"] else [status["reason"]]
    found += [f"{known['meaning']}: {known['line']}" for known in status.get("fatal", [])]
    return "\n".join(f"{status['container']}: {text}" for text in found)


def readiness(status: dict[str, Any], ready: dict[str, Any]) -> tuple[bool, str]:
    """Whether the container has reached what is waited for; if not, why."""
    kind = ready["kind"]
    if kind == "exited":
        done = status["state"] == "exited" and status["exit_code"] == 0
        return done, "" if done else "still {}".format(status["state"])
    if status["state"] != "running":
        return False, "the container is {}".format(status["state"])
    if kind == "running":
        return True, ""
    if kind != "http":
        raise ValueError(f"ready.kind is [{kind}], which is none of http, running, exited")
    answers = [answer(url, ready) for url in ready.get("urls") or [ready["url"]]]
    return all(good for good, _why in answers), "; ".join(why for _good, why in answers if why)


def answer(url: str, ready: dict[str, Any]) -> tuple[bool, str]:
    """Whether a URL answers as expected: 2xx, and with `expect: json` a `key` that has the `value`; if not, why."""
    place = urlsplit(url)
    # No proxy of the environment: these are addresses of the host or its neighbours. And no "Connection: close", as
    # urllib would send: MetaService answers that with an empty body (1.2.1, seen).
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=ready.get("timeout_s", 5))
    try:
        connection.request("GET", place.path or "/")
        response = connection.getresponse()
        body = response.read(_BODY_LIMIT).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException) as error:
        return False, f"{url}: {error}"
    finally:
        connection.close()
    if not 200 <= response.status < 300:
        return False, f"{url} answers {response.status}"
    if ready.get("expect", "status") == "status":
        return True, ""
    try:
        value = json.loads(body)[ready["key"]]
    except (ValueError, KeyError, TypeError):
        return False, "{} says {}, without {}".format(url, body[:200], ready["key"])
    if value != ready["value"]:
        return False, "{} says {}: {}".format(url, ready["key"], value)
    return True, ""


def split_lines(lines: list[str]) -> list[str]:
    """Lines as a terminal would leave them: what a carriage return overwrote is gone, colours too."""
    return [re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", line.rstrip("\r")).rsplit("\r", 1)[-1] for line in lines]


def progress(lines: list[str]) -> str | None:
    """How far the start or build is, by the last line that tells."""
    for line in reversed(lines):
        for stage in STAGES:
            match = stage.pattern.search(line)
            if match:
                return stage.text.format(**match.groupdict())
    return None


def fatal(lines: list[str]) -> list[dict[str, str]]:
    """Known fatal lines, each once, with what they mean."""
    found = []
    for pattern, meaning in FATAL:
        line = next((line for line in lines if pattern.search(line)), None)
        if line is not None:
            found.append({"line": line.strip()[:400], "meaning": meaning})
    return found


def explain(lines: list[str], few: int = 12) -> list[str]:
    """The lines that most likely tell why a container ended, oldest first.

    A builder marks its steps, so what counts is the failing step's end; an engine's cause is often far above its
    last line, so the first known fatal line and the last lines that name an error come before the end of the log.
    """
    if any(line.startswith("==> ") for line in lines):
        return lines[-2 * few :]
    keep = set(range(max(0, len(lines) - few // 2), len(lines)))
    known = [i for i, line in enumerate(lines) if any(pattern.search(line) for pattern, _meaning in FATAL)]
    errors = [i for i, line in enumerate(lines) if _CAUSE.search(line)]
    keep.update(known[:2], errors[: few // 4], errors[-few // 4 :])
    return [lines[i][:400] for i in sorted(keep) if lines[i].strip()]


def seconds(stamp: str) -> float:
    """Docker's time (RFC 3339 with nanoseconds, UTC) as seconds since 1970."""
    return float(calendar.timegm(time.strptime(stamp[:19], "%Y-%m-%dT%H:%M:%S")))
