# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Every ``pd_*``, ``prefill_*``, ``decode_*`` and ``engine_*`` variable: name, type, default, unit, meaning.

Nothing else defines one; ``docs/variables.md`` and the roles' argument specs follow from this table. A default of
``None`` means "derived", and the meaning says from what; ``FROM_PROFILE`` that the profile has it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.profiles import PROFILES
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.topology import SIZES

FROM_PROFILE = "(from the profile)"

CLUSTER = "cluster"  # one value for all hosts; two hosts that disagree are refused
HOST = "host"  # may differ from host to host, so from group to group

ROLES = ("prefill", "decode", "engine")


@dataclass(frozen=True)
class Variable:
    """One user variable. ``{role}`` in a name stands for each of ``ROLES``."""

    name: str
    type: str
    meaning: str
    default: Any = None
    scope: str = CLUSTER
    unit: str = ""
    choices: tuple[str, ...] = ()
    least: int = 0  # of numbers
    relative: bool = False  # of paths: need not begin at the root
    example: tuple[str, str] = ("", "")  # of words: how they are written, as a regular expression, and one that is


#: Sections of the documentation, in its order.
SECTIONS: tuple[tuple[str, tuple[Variable, ...]], ...] = (
    (
        "What to serve",
        (
            Variable(
                "pd_profile",
                "str",
                "way to serve; its defaults lie under every other variable",
                "sparse_kv_offload",
                choices=(
                    "sparse_kv_offload",
                    "mooncake_layerwise",
                    "context_parallel",
                    "mooncake",
                    "aggregated",
                    "custom",
                ),
            ),
            Variable(
                "pd_groups", "dict", "role -> inventory group", {r: r for r in ("prefill", "decode", "proxy", "engine")}
            ),
            Variable(
                "pd_model_path", "path", "model folder on the hosts, mounted at the same path; required", relative=True
            ),
            Variable(
                "pd_model_mount",
                "path",
                "folder that is mounted for the model (default: the model folder itself); a parent of it where the "
                "shards are links that leave the model folder",
            ),
            Variable(
                "pd_served_model_name",
                "str",
                "name that clients use; default of the guides' profiles: last part of the model path in lower case, of "
                "the others vLLM's own (the model path)",
                FROM_PROFILE,
            ),
            Variable("pd_vllm_version", "str", "vLLM in the image: decides which options exist", FROM_PROFILE),
            Variable(
                "pd_vllm_ascend_version", "str", "vllm-ascend in the image: decides which rules apply", FROM_PROFILE
            ),
        ),
    ),
    (
        "Image",
        (
            Variable("pd_image", "str", "base image (default: upstream's of pd_vllm_ascend_version)", FROM_PROFILE),
            Variable("pd_image_source", "str", "where it comes from", "pull", choices=("pull", "archive", "present")),
            Variable(
                "pd_image_archive",
                "path",
                "image archive on the controller, for `pd_image_source: archive`; a relative path is looked for beside "
                "the playbook, as `copy` does",
                relative=True,
            ),
            Variable("pd_build", "bool", "build the layers on the base image; false: serve it as it is", FROM_PROFILE),
            Variable(
                "pd_image_share",
                "str",
                "how a built image reaches the other hosts",
                "archive",
                choices=("archive", "registry", "build"),
            ),
            Variable("pd_registry", "str", "registry for `pd_image_share: registry`"),
            Variable(
                "pd_image_size",
                "int",
                "room that the image with its built layers takes; PD-HOST-004 and PD-HOST-011 look for it on the disks",
                20,
                unit="GiB",
                least=1,
            ),
            Variable(
                "pd_sources_dir",
                "path",
                "folder of the vllm and vllm-ascend sources inside the image; the proxy scripts are run from there",
                "/vllm-workspace",
            ),
        ),
    ),
    (
        "Hosts",
        (
            Variable(
                "pd_base_dir", "path", "configuration folders on the hosts, one per service", "/etc/vllm-ascend-pd"
            ),
            Variable("pd_log_dir", "path", "logs on the hosts, one folder per service", "/var/log/vllm-ascend-pd"),
            Variable("pd_nic", "str", "serving network interface (default: probed)", None, HOST),
            Variable("pd_address", "str", "its IPv4 address (default: probed)", None, HOST),
            Variable(
                "pd_npu_generation",
                "str",
                "decides the number of chips and the default image where no probe has looked",
                "A3",
                HOST,
                "",
                ("A2", "A3"),
            ),
            Variable(
                "pd_devices",
                "list",
                "physical chip ids to use (default: all that a server of its generation has)",
                None,
                HOST,
            ),
        ),
    ),
    (
        "Topology",
        (
            Variable(
                "pd_instance",
                "str",
                "hosts of a role that share it form one instance (default: each host alone; for prefill of "
                "`context_parallel` all)",
                None,
                HOST,
            ),
            Variable(
                "{role}_instances",
                "list",
                "several instances on one host: `{name, devices, parallel, vllm_args, env}` each; also `port`, "
                "`kv_port`, `data_parallel_rpc_port` where they are not simply the next free ones",
                None,
                HOST,
            ),
            Variable(
                "{role}_parallel",
                "dict",
                "`tensor_parallel_size` (default: all chips of the instance), `pipeline_parallel_size`, "
                "`prefill_context_parallel_size`, `decode_context_parallel_size`, `data_parallel_size`, "
                "`data_parallel_mode` (`internal`, `external`, `hybrid`)",
                FROM_PROFILE,
                HOST,
            ),
            Variable(
                "pd_data_parallel_size_local",
                "int",
                "data-parallel ranks on this host (default: spread evenly)",
                None,
                HOST,
            ),
        ),
    ),
    (
        "Options and environment, weakest first",
        (
            Variable("pd_vllm_args", "dict", "options of `vllm serve` for all engines", {}, HOST),
            Variable("{role}_vllm_args", "dict", "… of this role", {}, HOST),
            Variable("pd_instance_vllm_args", "dict", "… of this instance", {}, HOST),
            Variable("pd_host_vllm_args", "dict", "… on this host", {}, HOST),
            Variable(
                "pd_env",
                "dict",
                "environment of all engines; with `http_proxy` or the like in it the addresses of all hosts are added "
                "to `no_proxy`, so that one more host restarts every engine",
                {},
                HOST,
            ),
            Variable("{role}_env", "dict", "… of this role", {}, HOST),
            Variable("pd_instance_env", "dict", "… of this instance", {}, HOST),
            Variable("pd_host_env", "dict", "… on this host", {}, HOST),
            Variable(
                "pd_prepend_paths",
                "dict",
                "folders (files for LD_PRELOAD) put before what the image has in LD_LIBRARY_PATH, LD_PRELOAD, PATH, "
                "PYTHONPATH",
                {},
                HOST,
            ),
            Variable(
                "pd_kv_transfer_config",
                "dict",
                "what the KV transfer configuration has beyond what is derived (role, port, sizes of the other side); "
                "profile `custom`: all of it",
                {},
                HOST,
            ),
            Variable("{role}_kv_transfer_config", "dict", "… of this role", {}, HOST),
        ),
    ),
    (
        "Ports",
        (
            Variable(
                "{role}_port",
                "int",
                "HTTP port; further engines of the role on a host count up; a "
                "default gives way to ports that are stated, and the plan tells so",
                FROM_PROFILE,
                HOST,
            ),
            Variable("pd_http_host", "str", "address that engines bind", "0.0.0.0", HOST),
            Variable("proxy_port", "int", "port of the PD proxy", FROM_PROFILE),
            Variable("proxy_address", "str", "address of the PD proxy (default: serving address of its host)"),
            Variable(
                "{role}_kv_port",
                "int",
                "base of the KV transfer control ports (default: by connector, free of clashes)",
                None,
                HOST,
            ),
            Variable(
                "pd_hccl_if_base_port",
                "int",
                "HCCL_IF_BASE_PORT of the first engine of a host; others: steps of 100",
                50000,
                HOST,
            ),
            Variable(
                "pd_data_parallel_rpc_port",
                "int",
                "rendezvous of data-parallel ranks (default 13389 where hosts share an instance)",
                FROM_PROFILE,
                HOST,
            ),
            Variable("pd_master_port", "int", "rendezvous of hosts that share one rank", 7001, HOST),
        ),
    ),
    (
        "MemCache",
        (
            Variable("memcache_meta_host", "str", "host of the MetaService (default: first prefill host)"),
            Variable("memcache_meta_port", "int", "MetaService: clients", 5000),
            Variable("memcache_config_store_port", "int", "MetaService: config store", 6000),
            Variable(
                "memcache_metrics_port",
                "int",
                "MetaService: /health and /metrics (MemCache's own default, 8000, is every other server's)",
                8100,
            ),
            Variable("memcache_protocol", "str", "how KV moves between host memory and chips", "host_shm", HOST),
            Variable(
                "memcache_hcom_url",
                "str",
                "for `host_rdma`, `host_urma` and `host_tcp`: where this host's ranks are met, `tcp://ADDRESS:PORT` "
                "with the address of its RDMA card (default: MemCache's own `tcp://127.0.0.1:7000`); every rank of the "
                "pool has a port of its own from PORT on",
                None,
                HOST,
            ),
            Variable(
                "memcache_dram_size",
                "str",
                "host memory that every prefill rank gives, whole GiB such as `10G`, or `auto`",
                "10G",
                HOST,
            ),
        ),
    ),
    (
        "Sparse KV offload",
        (
            Variable(
                "pd_topk_buffer_size",
                "int_or_auto",
                "tokens per row of the hot buffer on the chip, or `auto`",
                4096,
                HOST,
                "tokens",
            ),
            Variable(
                "pd_dram_size_per_dp_gb",
                "int_or_auto",
                "host memory for KV per data-parallel rank, or `auto`",
                "auto",
                HOST,
                "GiB",
            ),
            Variable(
                "pd_kv_cache_memory_bytes",
                "int_or_auto",
                "`--kv-cache-memory-bytes`, or `auto` (sparse decode only)",
                "auto",
                HOST,
                "bytes",
                least=1,
            ),
            Variable(
                "pd_dram_gate",
                "str",
                "how the vllm-ascend in the image checks `dram_size_per_dp_GB` at start: `available` (0.26.0rc1: "
                "against free HBM) or `planned` (from its PR #14921 on: against the workload)",
                "available",
                choices=("available", "planned"),
            ),
            Variable(
                "pd_small_packet_gather", "bool", "small-packet gather on decode (needs the fork that has it)", False
            ),
        ),
    ),
    (
        "Running",
        (
            Variable(
                "pd_environment_scripts",
                "list",
                "`set_env.sh` files that the launcher sources (default: CANN, nnal and those of the built layers)",
            ),
            Variable("pd_container_privileged", "bool", "privileged engine containers", FROM_PROFILE),
            Variable("pd_extra_mounts", "list", "further bind mounts, `source:target[:ro]`", [], HOST),
            Variable("pd_mount_sbin", "bool", "mount /usr/local/sbin over the container's, as guide 1 does", False),
            Variable(
                "pd_restart_retries",
                "int",
                "restarts of a container that failed before it stays down (Docker takes 0 as: without end)",
                3,
                least=1,
            ),
            Variable(
                "pd_log_max_size",
                "str",
                "size at which a container log is rotated, with `k`, `m` or `g`",
                "100m",
                example=(r"[1-9]\d*[kmg]?", "100m"),
            ),
            Variable("pd_log_max_files", "int", "rotated logs kept", 5, least=1),
            Variable("pd_ready_timeout_s", "int", "from start of an engine until it answers", 3600, unit="s", least=1),
            Variable("pd_verify_timeout_s", "int", "for each completion of the verification", 300, unit="s", least=1),
            Variable("pd_stop_grace_s", "int", "between SIGTERM and SIGKILL", 120, unit="s"),
            Variable(
                "pd_expected_concurrency",
                "int",
                "requests that clients will have open at once; a rule compares it with what decode serves at once",
                least=1,
            ),
            Variable("pd_waived_rules", "dict", "rule id -> reason", {}),
        ),
    ),
)


def _expand() -> dict[str, Variable]:
    table: dict[str, Variable] = {}
    for variable in (variable for _title, section in SECTIONS for variable in section):
        names = [variable.name.format(role=role) for role in ROLES] if "{role}" in variable.name else [variable.name]
        for name in names:
            table[name] = replace(variable, name=name)
    return table


VARIABLES: Mapping[str, Variable] = _expand()

#: Variables of roles that say what goes into an image. One image serves all hosts, so all state the same.
BUILT = (
    *("memcache_memfabric_ref", "memcache_memfabric_repo", "memcache_method", "memcache_ref", "memcache_repo"),
    *("memcache_version", "memfabric_method", "memfabric_ref", "memfabric_repo", "memfabric_version"),
    *("vllm_build_extra_packages", "vllm_build_soc_version", "vllm_build_vllm_ascend_ref"),
    *("vllm_build_vllm_ascend_repo", "vllm_build_vllm_ref", "vllm_build_vllm_repo"),
)
#: Variables of roles that the planner reads; the role has default and meaning, the plan's settings hold what is stated.
OF_ROLES = (*BUILT, "container_transfer_dir")
#: Default of ``container_transfer_dir``.
TRANSFER_DIR = "/var/lib/vllm-ascend-pd"

#: All that the roles which are set up by variables have in their own defaults: not the planner's, but known.
ROLE_DEFAULTS = (
    *OF_ROLES,
    *("container_build_environment_scripts", "container_build_mounts", "container_build_timeout_s"),
    *("container_controller_dir", "container_keep_builds"),
    *("container_git_ssl_verify", "container_pip_extra_index_urls", "container_pip_index_url"),
    *("container_pip_trusted_hosts", "container_proxy_environment"),
    *("memcache_git_prefix", "memfabric_git_prefix", "proxy_drain_timeout_s", "vllm_build_git_prefix"),
)

#: Prefixes that are the planner's own: an unknown name under one of them is a typing error.
OWN_PREFIXES = ("pd_", "prefill_", "decode_")

#: Prefixes under which an inventory may have names of its own: only what is much like a known name is a typing error.
SHARED_PREFIXES = ("memcache_", "memfabric_", "vllm_build_", "engine_", "proxy_", "container_")
_ALIKE = 0.85

#: Where the prefix itself is misspelt, the whole name must be this much like a known one: the name is anybody's.
_NEARLY_THE_SAME = 0.93

#: Without its prefix a name is anybody's, too (``log_dir``, ``env``), unless it has a word that is this field's alone.
_OUR_WORDS = frozenset(("vllm", "kv", "topk", "dram", "hccl", "hcom", "parallel"))
#: This one is told where the required variable that it would be is not set.
UNPREFIXED = "model_path"


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


_KNOWN = (*VARIABLES, *ROLE_DEFAULTS)
_BY_LETTERS = {_letters(name): name for name in _KNOWN}


def _without_prefix() -> dict[str, str]:
    """Names as they would be without their prefix, and keys of our mappings -> where they belong."""
    found: dict[str, str] = {}
    for variable in (variable for _title, section in SECTIONS for variable in section):
        rest = re.sub(r"^({role}|[a-z]+)_", "", variable.name)
        if "_" in rest and _OUR_WORDS.intersection(rest.split("_")):
            of_roles = (variable.name.format(role=role) for role in ("prefill", "decode"))
            found.setdefault(rest, " or ".join(dict.fromkeys(of_roles)))
    found |= dict.fromkeys(SIZES, "prefill_parallel or decode_parallel")
    for arguments in (args for profile in PROFILES.values() for args in profile.vllm_args.values()):
        for option, value in arguments.items():
            name = option.replace("-", "_")
            inner = (
                {key: f"pd_vllm_args: {{{name}: {{{key}: ...}}}}" for key in value} if isinstance(value, dict) else {}
            )
            keys = {name: f"pd_vllm_args: {{{name}: ...}}", **inner}
            found |= {key: place for key, place in keys.items() if key.count("_") > 1 and key not in found}
    key = "sparse_kv_offload_config"
    return {**found, key: f"decode_vllm_args: {{additional_config: {{{key}: ...}}}}"}


_WITHOUT_PREFIX = _without_prefix()


def lacks_prefix(name: str) -> bool:
    """Whether a name would be ours with a prefix, or in a mapping of ours. One that another variable uses is not meant
    so.
    """
    return _plain(name) in _WITHOUT_PREFIX and not name.startswith(OWN_PREFIXES)


def _plain(name: str) -> str:
    return name.lower().replace("-", "_")


@lru_cache(maxsize=4096)  # every host has the same names
def may_be_misspelt(name: str) -> bool:
    """Whether a name looks like one that is read, and is none."""
    if name in VARIABLES or name in ROLE_DEFAULTS:
        return False
    prefixed = name.startswith((*OWN_PREFIXES, *SHARED_PREFIXES))
    return prefixed or name == UNPREFIXED or _meant_by(name) is not None


def _meant_by(name: str) -> str | None:
    """The known name that one under a foreign prefix seems to mean: the same but for case, dashes and underscores, or
    but for a letter.

    ``pd_`` is too short for the latter: a ``pod_devices`` is somebody else's. ``dp_`` is taken for it before several
    words only, and not before a port: data parallelism has names such as ``dp_address`` and ``dp_master_port``.
    """
    if same := _BY_LETTERS.get(_letters(name)) or _WITHOUT_PREFIX.get(_plain(name)):
        return same
    if name.startswith("memcache_") and _OUR_WORDS.intersection(name.split("_")):
        longer = [each for each in _KNOWN if each.startswith(f"{name}_")]
        return longer[0] if len(longer) == 1 else None
    prefix, _sep, rest = name.lower().partition("_")
    if prefix == "dp" and f"pd_{rest}" in VARIABLES and "_" in rest and not rest.endswith("_port"):
        return f"pd_{rest}"
    long = [each for each in _KNOWN if each[0] == name[:1].lower() and not each.startswith("pd_")]
    return next(iter(difflib.get_close_matches(name.lower(), long, n=1, cutoff=_NEARLY_THE_SAME)), None)


def unknown_names(names: Iterable[str]) -> list[tuple[str, str | None]]:
    """Names that look like the planner's or a role's but are not, each with the nearest name that is."""
    result = []
    given = set(names)
    for name in sorted(filter(may_be_misspelt, given - {UNPREFIXED})):
        own = name.startswith(OWN_PREFIXES)
        near = difflib.get_close_matches(name, _KNOWN, n=1, cutoff=0.6 if own else _ALIKE)
        meant = _meant_by(name) or (near[0] if near else None)
        if (name.startswith("dp_") or lacks_prefix(name)) and meant in given:
            continue  # something else
        if own or meant:
            result.append((name, meant))
    return result
