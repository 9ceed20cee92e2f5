# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""MemCache: the two configuration files against each other, against the ranks, and against the host."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from ...module_utils._sizing_gate import GIB
from ..findings import ERROR, INFO, WARNING, as_counted
from ..memcache import HCOM_PROTOCOLS, HCOM_URL, LOCAL_FILE, META_FILE, MOST_RANKS, WORLD_SIZE, hcom_place
from .context import UNKNOWN, Context, Engine, Missing, known, numbers, parse_size
from .keys import unknown_keys
from .memory import one_request, overfull, right_memcache
from .registry import REPORT, Problem, rule
from .versions import driver_told

PROTOCOLS = (
    *HCOM_PROTOCOLS,
    "host_shm",
    "device_rdma",
    "device_sdma",
    "device_urma",
    "device_uboe",
)
_TLS = ("enable", "ca.path", "ca.crl.path", "cert.path", "key.path", "key.pass.path", "package.path", "decrypter.path")
#: Keys that the libraries of memcache_hybrid 1.2.1 know, read off their strings.
_SHARED_KEYS = (
    "ock.mmc.meta_service_url",
    *(f"ock.mmc.log_{key}" for key in ("level", "output_target", "path", "rotation_file_size", "rotation_file_count")),
    *(f"ock.mmc.{part}tls.{key}" for part in ("", "config_store.") for key in _TLS),
)
META_KEYS = (
    *_SHARED_KEYS,
    *(f"ock.mmc.meta_service.{key}" for key in ("config_store_url", "metrics_url", "metrics_report_interval_seconds")),
    *(f"ock.mmc.metrics.tls.{key}" for key in _TLS),
    "ock.mmc.meta.ha.enable",
    "ock.mmc.meta.lease_ttl_ms",
    "ock.mmc.evict_threshold_high",
    "ock.mmc.evict_threshold_low",
    "ock.mmc.dynamic_config.enable",
    "ock.mmc.dynamic_config.interval",
    "ock.mmc.ubs_io.enable",
    "ock.mmc.rewarm.dram_watermark",
    *(
        f"ock.mmc.kv_events.{key}"
        for key in ("enable", "endpoint", "block_size", "hash_as_int", "model_name", "queue_capacity", "tenant_id")
    ),
    *(f"ock.mmc.storage.async_flush.{key}" for key in ("batch_limit", "interval_ms")),
    "ock.mmc.storage.pending_wait.timeout",
    "ock.mmc.storage.prefetch.enabled",
)
LOCAL_KEYS = (
    *_SHARED_KEYS,
    *(
        f"ock.mmc.client.{key}"
        for key in (
            "retry_milliseconds",
            "timeout.seconds",
            "read_thread_pool.size",
            "write_thread_pool.size",
            "aggregate.io",
            "aggregate.num",
            "batch_option.chunk.count",
            "batch_option.chunk.size",
        )
    ),
    *(
        f"ock.mmc.local_service.{key}"
        for key in (
            "config_store_url",
            "config_store_url_domain",
            "world_size",
            "protocol",
            "dram.size",
            "max.dram.size",
            "dram.best_effort.enabled",
            "hbm.size",
            "max.hbm.size",
            "hcom_url",
            "backend_id",
            "storage.enabled",
        )
    ),
    *(f"ock.mmc.local_service.hcom.tls.{key}" for key in _TLS),
    "ubsio.disk.path",
    "ubsio.mem.size_in_gb",
    "ubsio.standalone.device_count",
)
LOCAL = "ock.mmc.local_service."


def meta(ctx: Context) -> tuple[str, Mapping[str, Any]] | None:
    """(host, configuration) of the MetaService."""
    for service in ctx.services:
        if service.get("kind") == "meta":
            conf = ctx.conf(service, META_FILE)
            if conf is not None:
                return str(service["host"]), conf
    return None


def local(ctx: Context, engine: Engine) -> Mapping[str, Any]:
    """MemCache's configuration of an engine; its absence is one rule's finding."""
    conf = ctx.conf(engine.service, LOCAL_FILE)
    if conf is None:
        raise Missing(f"{engine.name} has no {LOCAL_FILE}")
    return conf


def host_of(url: Any) -> str:
    if isinstance(url, str) and UNKNOWN in url:
        raise Missing(f"{url} is not known")
    return str(urlsplit(str(url)).hostname or "")


@rule(
    "PD-MMC-001",
    ERROR,
    "MemCache's addresses do not agree",
    per="cluster",
    source="memcache_hybrid mmc-meta.conf, mmc-local.conf",
)
def urls(ctx: Context) -> Iterator[Problem]:
    """Meta and every client name the same two URLs, under different keys. A client that does not find Meta ends prefill
    after its weights are loaded.
    """
    found = meta(ctx)
    if found is None:
        return
    host, conf = found
    pairs = (
        ("ock.mmc.meta_service_url", "ock.mmc.meta_service_url"),
        ("ock.mmc.meta_service.config_store_url", LOCAL + "config_store_url"),
    )
    for engine in (one for one in ctx.engines if one.uses_memcache):
        own = local(ctx, engine)
        for theirs, ours in pairs:
            if own.get(ours) != conf.get(theirs):
                yield Problem(
                    f"{ours} of {engine.name} is {own.get(ours)}, Meta on {host} has {conf.get(theirs)}",
                    str(conf.get(theirs)),
                    "leave both files to the plan (memcache_meta_host, memcache_meta_port)",
                    engine.host,
                )


@rule(
    "PD-MMC-002",
    ERROR,
    "MemCache's Meta is on loopback, its clients are not",
    per="cluster",
    source="memcache_hybrid defaults 127.0.0.1",
)
def not_loopback(ctx: Context) -> Iterator[Problem]:
    """The shipped 127.0.0.1 works only while Meta and all prefill ranks are on one host."""
    found = meta(ctx)
    if found is None:
        return
    host, conf = found
    remote = sorted({engine.host for engine in ctx.engines if engine.uses_memcache} - {host}, key=as_counted)
    for key in ("ock.mmc.meta_service_url", "ock.mmc.meta_service.config_store_url"):
        name = host_of(conf.get(key))
        try:
            loopback = ipaddress.ip_address(name).is_loopback
        except ValueError:
            loopback = name == "localhost"
        if loopback and remote:
            yield Problem(
                f"{key} {conf.get(key)}, clients on {', '.join(remote)}", f"the address of {host}", REPORT, host
            )


@rule(
    "PD-MMC-003",
    ERROR,
    "MemCache's dram.size is wrong",
    per="service",
    source="memcache_hybrid mmc_configuration.h:361-447; shipped comment on A3",
)
def dram_size(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """dram.size is what each rank gives, 16 times per A3 host. On A3 it must be whole GiB, or MemCache fails to start.

    0 to 1 TB; zero only where hbm.size or max.dram.size says more.
    """
    if not engine.uses_memcache:
        return
    conf = local(ctx, engine)
    value = known(conf.get(LOCAL + "dram.size"), f"MemCache dram.size of {engine.name}")
    size = parse_size(value)
    if size is None:
        yield Problem(f"dram.size {value!r}", "a size such as 10G", "set memcache_dram_size")
    elif size % GIB:
        # a number alone is bytes; a small one was meant as GiB
        right = f"{size}G" if 0 < size <= 1024 else f"{-(-size // GIB)}G"
        yield Problem(f"dram.size {value}", right, "set memcache_dram_size to whole GiB")
    elif size > 1024 * GIB:
        usual = right_memcache(ctx, engine)
        yield Problem(f"dram.size {value}", f"{usual}G" if usual else "1TB at most", "set memcache_dram_size")
    elif size == 0 and not (parse_size(conf.get(LOCAL + "hbm.size")) or parse_size(conf.get(LOCAL + "max.dram.size"))):
        yield Problem("dram.size and hbm.size are both 0", "one above 0", "set memcache_dram_size")
    most = parse_size(conf.get(LOCAL + "max.dram.size", "")) if conf.get(LOCAL + "max.dram.size") else None
    if size is not None and most is not None and most < size:
        yield Problem(f"max.dram.size below dram.size {value}", f"{value} or more", "raise it, or leave it out")


@rule(
    "PD-MMC-004",
    ERROR,
    "MemCache's world_size is too small",
    per="cluster",
    source="memcache_hybrid local_service.world_size [1,1024]",
)
def world_size(ctx: Context) -> Iterator[Problem]:
    """Every rank of every prefill engine joins, 1024 at most; world_size cannot change until Meta restarts."""
    engines = [engine for engine in ctx.engines if engine.uses_memcache]
    ranks = sum(len(engine.devices) for engine in engines)
    if ranks > MOST_RANKS:
        hosts = len({engine.host for engine in engines})
        yield Problem(f"{ranks} ranks on {hosts} hosts", f"{MOST_RANKS} ranks at most", "make two clusters of them")
        return
    for engine in engines:
        size = int(local(ctx, engine).get(LOCAL + "world_size") or WORLD_SIZE)
        if not ranks <= size <= MOST_RANKS:
            right = f"{ranks} to {MOST_RANKS}"
            yield Problem(f"world_size {size}, {ranks} ranks", right, "leave it to the plan", engine.host)


@rule("PD-MMC-005", ERROR, "host_shm has no room", per="host", source="memcache_hybrid 1.2 host_shm; kv_pool.md")
def shared_memory(ctx: Context, host: str) -> Iterator[Problem]:
    """host_shm takes free huge pages if there are any, else /dev/shm: ranks x dram.size, in the host's IPC namespace.

    Huge pages that are too few are worse than none: MemCache takes them and fails.
    """
    users = [
        engine
        for engine in ctx.on(host)
        if engine.uses_memcache and local(ctx, engine).get(LOCAL + "protocol") == "host_shm"
    ]
    for engine in users:
        if engine.container.get("ipc_mode") != "host":
            yield Problem(f"ipc_mode {engine.container.get('ipc_mode')} of {engine.name}", "host", REPORT)
    shares = [(len(engine.devices), ctx.memcache_gib(engine) or 0) for engine in users]
    need = sum(ranks * size for ranks, size in shares) * GIB
    if not need or ctx.own_running(host) or overfull(ctx, host):  # PD-MEM-001
        return
    pages = ctx.fact(host, "host.memory.hugepages")
    free_huge = (pages.get("free") or 0) * (pages.get("size_bytes") or 0)
    if 0 < free_huge < need:
        used = max((pages.get("total") or 0) - pages["free"], 0)
        yield Problem(
            f"{free_huge / GIB:.0f} GiB of free huge pages, need {need / GIB:.0f} GiB",
            f"none that are free, or vm.nr_hugepages={used - (-need // pages['size_bytes'])}",
            "set vm.nr_hugepages by sysctl",
        )
    shm = ctx.fact(host, "host.shm.free_bytes")
    if not free_huge and shm < need:
        words = " + ".join(f"{ranks} x {size} GiB" for ranks, size in shares)
        yield Problem(
            f"{shm / GIB:.0f} GiB free in /dev/shm, need {need / GIB:.0f} GiB ({words})",
            f"{need / GIB:.0f} GiB",
            f"mount -o remount,size={need // GIB + 8}G /dev/shm, lower memcache_dram_size, or device_sdma",
        )


@rule(
    "PD-MMC-006",
    ERROR,
    "MemCache needs, or would do better with, another protocol or hcom_url",
    per="service",
    source="memcache_hybrid local_service.protocol",
)
def protocol(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """The protocol decides where the pool's memory comes from. On A3 over HCCS upstream recommends device_sdma; guide 1
    has host_shm, which is noted. It is one host's shared memory: over several hosts it is a warning, since no host maps
    what another one holds.

    host_rdma, host_urma and host_tcp meet at hcom_url (memcache_hcom_url), which is MemCache's own
    tcp://127.0.0.1:7000 if left out (a warning).
    """
    if not engine.uses_memcache:
        return
    value = local(ctx, engine).get(LOCAL + "protocol")
    hcom = local(ctx, engine).get(LOCAL + "hcom_url")
    if value not in PROTOCOLS:
        near = dict(unknown_keys([str(value)], PROTOCOLS)).get(str(value))
        yield Problem(f"protocol {value}", near or ", ".join(PROTOCOLS), "set memcache_protocol")
    elif value == "host_shm":
        hosts = sorted({one.host for one in ctx.engines if one.uses_memcache}, key=as_counted)
        yield Problem(
            f"protocol host_shm{f' over {len(hosts)} hosts: ' + ', '.join(hosts) if hosts[1:] else ''}",
            "device_sdma on A3 over HCCS",
            "memcache_protocol: device_sdma",
            severity=WARNING if hosts[1:] else INFO,
        )
    elif value in HCOM_PROTOCOLS and not hcom:
        yield Problem(
            f"protocol {value}, hcom_url left at {HCOM_URL}",
            "device_sdma on A3 over HCCS, device_rdma elsewhere; or the address of the host's RDMA card",
            "set memcache_protocol, or memcache_hcom_url of each host",
            severity=WARNING,
        )
    if hcom and hcom_place(hcom) is None:
        yield Problem(f"hcom_url {hcom}", "tcp://ADDRESS:PORT", "set memcache_hcom_url")


@rule(
    "PD-MMC-007",
    ERROR,
    "unknown key in MemCache's settings",
    per="cluster",
    source="memcache_hybrid memcache_config.md",
)
def keys(ctx: Context) -> Iterator[Problem]:
    """MemCache passes over a key that it does not know, and its default stays in force."""
    for service in ctx.services:
        for name, allowed in ((META_FILE, META_KEYS), (LOCAL_FILE, LOCAL_KEYS)):
            for key, near in unknown_keys(ctx.conf(service, name) or {}, allowed):
                yield Problem(
                    f"{name}: {key}",
                    near or "a key of MemCache",
                    REPORT,
                    str(service["host"]),
                )


@rule("PD-MMC-008", ERROR, "pipeline parallelism with MemCache", per="service", source="vllm-ascend #13418")
def no_pipeline(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """The KV pool on memcache does not work with pipeline parallelism."""
    if engine.uses_memcache and engine.pp > 1:
        yield Problem(f"PP {engine.pp}", "1", f"set {engine.role}_parallel")


@rule(
    "PD-MMC-009",
    ERROR,
    "a MemCache client has no configuration",
    per="engine",
    source="ascend_store/backend/memcache_backend.py; MMC_LOCAL_CONFIG_PATH",
)
def local_configured(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """Without MMC_LOCAL_CONFIG_PATH, or without the file that it names, every worker fails a bare assertion at
    start.
    """
    if not engine.uses_memcache:
        return
    path = engine.env.get("MMC_LOCAL_CONFIG_PATH")
    if not path:
        yield Problem("MMC_LOCAL_CONFIG_PATH is unset", f"the path of {LOCAL_FILE}", "leave it to the plan")
    if ctx.conf(engine.service, LOCAL_FILE) is None:
        yield Problem(f"no {LOCAL_FILE} beside {engine.name}", "one", "leave it to the plan")


@rule(
    "PD-MMC-010",
    ERROR,
    "engines use MemCache, but no MetaService is planned",
    per="cluster",
    source="memcache_backend.py",
)
def meta_planned(ctx: Context) -> Iterator[Problem]:
    """Clients connect to Meta at start and die if it is not there."""
    users = [engine for engine in ctx.engines if engine.uses_memcache]
    if users and meta(ctx) is None:
        yield Problem(
            f"{len(users)} engines use memcache, no MetaService", "one", "set memcache_meta_host", users[0].host
        )


@rule("PD-MMC-011", INFO, "the first request may split MemCache's ranks", per="host", source="vllm-ascend #14121")
def lazy_init(ctx: Context, host: str) -> Iterator[Problem]:
    """Before driver 26.1.1 the lazy start of MemCache at the first request can fail on some ranks.

    The verification's two completions are meant to bring it to light before users do.
    """
    if any(engine.uses_memcache for engine in ctx.on(host)):
        version = ctx.fact(host, "npu.driver_version")
        if numbers(version) < (26, 1, 1) and not driver_told(ctx, host):
            yield Problem(f"driver {version}", "26.1.1 or newer", "update the driver when you can")


@rule(
    "PD-MMC-012",
    WARNING,
    "MemCache's pool does not hold one request",
    per="service",
    source="kv_pool.md:510; pool_worker.py _init_key_head_config",
)
def pool_holds_request(ctx: Context, engine: Engine) -> Iterator[Problem]:
    """The pool of all ranks should hold at least one prompt of max-model-len: layers x (KV + indexer) bytes per
    token.
    """
    if not engine.uses_memcache:
        return
    per_rank = ctx.memcache_gib(engine)
    if per_rank is None:
        raise Missing(f"MemCache dram of {engine.name} is not known")
    ranks = sum(len(one.devices) for one in ctx.engines if one.uses_memcache)
    need, right = one_request(ctx, engine)
    if ranks and ranks * per_rank * GIB < need:  # no rank: no chips, which the planner tells
        yield Problem(
            f"{ranks} x {per_rank} GiB, one request {need / GIB:.1f} GiB", f"{right}G", "memcache_dram_size: auto"
        )


@rule(
    "PD-MMC-013",
    ERROR,
    "MemCache's eviction thresholds are crossed",
    per="cluster",
    source="memcache_hybrid memcache_config.md",
)
def thresholds(ctx: Context) -> Iterator[Problem]:
    """evict_threshold_low must be below evict_threshold_high (80 and 90 if left out)."""
    found = meta(ctx)
    if found is None:
        return
    high = int(found[1].get("ock.mmc.evict_threshold_high") or 90)
    low = int(found[1].get("ock.mmc.evict_threshold_low") or 80)
    if not 0 <= low < high <= 99:
        yield Problem(f"low {low}, high {high}", "low < high, 1 to 99", REPORT, found[0])


@rule(
    "PD-MMC-014",
    WARNING,
    "too few huge pages for MemCache over RoCE",
    per="host",
    source="vllm-ascend #6229; kv_pool.md:585-590",
)
def roce_hugepages(ctx: Context, host: str) -> Iterator[Problem]:
    """On A2, and on A3 over RoCE, the pool is registered from huge pages: upstream reserves 200000 of 2 MiB.

    Read Hugepagesize first: with pages of 512 MiB the same number would be 100 TB.
    """
    users = [engine for engine in ctx.on(host) if engine.uses_memcache]
    if not users or local(ctx, users[0]).get(LOCAL + "protocol") not in ("device_rdma", "host_rdma"):
        return
    pages = ctx.fact(host, "host.memory.hugepages")
    size = pages.get("size_bytes") or 0
    need = sum((ctx.memcache_gib(engine) or 0) * len(engine.devices) for engine in users) * GIB
    if (pages.get("total") or 0) * size < need:
        yield Problem(
            f"{pages.get('total')} pages of {size >> 20} MiB",
            f"{-(-need // size)} of them" if size else "huge pages of a known size",
            f"sysctl vm.nr_hugepages={-(-need // size)}" if size else "look at Hugepagesize in /proc/meminfo",
        )
