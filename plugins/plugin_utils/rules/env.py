# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Environment variables of the engines."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from math import inf
from pathlib import Path
from typing import Any

from ..environment import PATH_LIKE
from ..findings import ERROR, INFO, WARNING
from .context import Context, Engine
from .registry import Problem, rule


def stated_in(engine: Engine, name: str) -> str:
    """The variable in which to mend an environment variable: where the user states it, else the role's."""
    return engine.stated_in(f"env.{name}", default=f"{engine.role}_env")


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
    per="service",
    source="guide 2, notes on parameters; vllm-ascend platform.py check_and_update_config",
)
def flashcomm(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """VLLM_ASCEND_ENABLE_FLASHCOMM1, or enable_flashcomm1 in additional-config, is for mixture-of-experts models with
    tensor parallelism above 1.

    vllm-ascend ends with an assertion at tensor parallel size 1, and on such a model without enable-expert-parallel
    (errors).
    """
    name, value = "VLLM_ASCEND_ENABLE_FLASHCOMM1", engine.env.get("VLLM_ASCEND_ENABLE_FLASHCOMM1", "0")
    mend = f"remove it from {stated_in(engine, name)}"
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
    per="service",
    source="vllm-ascend #13240, #12432",
)
def abort_timeout(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT frees it; upstream's tests set 480 s. The older VLLM_NIXL_… was 300000."""
    if not engine.uses_mooncake or engine.role != "prefill":
        return
    names = ("VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT", "VLLM_NIXL_ABORT_REQUEST_TIMEOUT")
    value = next((str(engine.env[name]) for name in names if name in engine.env), None)
    if value is None or (value.isdecimal() and int(value) > 3600):  # of what is no number PD-ENV-014 tells
        yield Problem(f"abort timeout {value or 'unset'}", "480", "VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT in prefill_env")


@rule("PD-ENV-006", WARNING, "certificates are not checked", per="engine", source="guide 1 section 3.1")
def certificates(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """GIT_SSL_NO_VERIFY and the like, which guide 1 sets for the whole container, accept any server's code."""
    for name in ("GIT_SSL_NO_VERIFY", "PYTHONHTTPSVERIFY", "CURL_CA_BUNDLE", "NODE_TLS_REJECT_UNAUTHORIZED"):
        value = engine.env.get(name)
        off = value is not None and str(value).lower() in ({"true", "1"} if name.startswith("GIT") else {"0", ""})
        if off:
            yield Problem(f"{name}={value}", "unset", "remove it; give your certificate authority to the image")


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
        mend = f"remove {GATHER} from {stated_in(engine, GATHER)}" if asked else "pd_small_packet_gather: true"
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
        yield Problem(f"HCCL_BUFFSIZE {value} MiB", "200 to 2048", f"lower it in {stated_in(engine, 'HCCL_BUFFSIZE')}")


#: Variables that are read as whole numbers, the first ones with int() -> the least and the most that each takes.
NUMBERS: Mapping[str, tuple[float, float]] = {
    **dict.fromkeys(
        (
            *("VLLM_ENGINE_READY_TIMEOUT_S", "VLLM_ENGINE_ITERATION_TIMEOUT_S", "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS"),
            *("VLLM_WORKER_SHUTDOWN_TIMEOUT_SECONDS", "VLLM_HTTP_TIMEOUT_KEEP_ALIVE", "VLLM_RPC_TIMEOUT"),
            *("VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT", "VLLM_NIXL_ABORT_REQUEST_TIMEOUT", "VLLM_USE_V1"),
            *("VLLM_ASCEND_ENABLE_FLASHCOMM1", "VLLM_ASCEND_ENABLE_MLAPO", "VLLM_ASCEND_MLA_FIA_SPLIT"),
            *("VLLM_ASCEND_ENABLE_NZ", "VLLM_ASCEND_ENABLE_FUSED_MC2", "VLLM_ASCEND_BALANCE_SCHEDULING"),
            *("HCCL_RDMA_TIMEOUT", "HCCL_RDMA_RETRY_CNT"),
        ),
        (-inf, inf),
    ),
    "HCCL_BUFFSIZE": (1, inf),
    "HCCL_CONNECT_TIMEOUT": (120, 7200),
    "HCCL_EXEC_TIMEOUT": (0, 2**31 - 1),
    "OMP_NUM_THREADS": (1, inf),
    "TASK_QUEUE_ENABLE": (0, 2),
}


@rule(
    "PD-ENV-014",
    ERROR,
    "a variable that is read as a number is none that it takes",
    per="service",
    source="vllm/envs.py; vllm-ascend envs.py; CANN and torch_npu, environment variables; Python, PYTHONHASHSEED",
)
def whole_numbers(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """int() of anything else ends the engine at start: switches among these are 0 or 1, not true. HCCL refuses values
    out of its bounds; torch_npu takes TASK_QUEUE_ENABLE=true for 0.

    Python itself starts with a PYTHONHASHSEED from 0 to 4294967295 (or random, see PD-PARITY-008).
    """
    for name, (least, most) in NUMBERS.items():
        value = engine.env.get(name)
        if value is None:
            continue
        number = int(str(value)) if re.fullmatch(r"\s*[+-]?[0-9]{1,18}\s*", str(value)) else None
        if number is None or not least <= number <= most:
            bounds = "" if least == -inf else f" from {least}" + (" on" if most == inf else f" to {most}")
            right = {"true": "1", "false": "0"}.get(str(value).lower(), f"a whole number{bounds}")
            yield Problem(f"{name}={value}", right, f"correct it in {stated_in(engine, name)}")
    seed = str(engine.env.get("PYTHONHASHSEED") or "random")
    if seed != "random" and not (re.fullmatch("[0-9]{1,10}", seed) and int(seed) < 2**32):
        yield Problem(f"PYTHONHASHSEED={seed}", "0", "set it in pd_env")


#: From here on two names are one and its misspelling (HCCL_RDMA_SL and HCCL_RDMA_TC: 0.83).
NEARLY = 0.85


@cache
def names_read() -> frozenset[str]:
    """Names of environment variables that some part of a service reads, of all releases that are known."""
    data = Path(__file__).parents[1] / "data" / "environment-names.json"
    return frozenset(name for names in json.loads(data.read_text(encoding="utf-8")).values() for name in names)


@rule(
    "PD-ENV-016",
    WARNING,
    "a variable is called nearly like one that is read",
    per="service",
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
            yield Problem(f"{name}, which nothing known reads", near[0], f"rename it in {stated_in(engine, name)}")
