# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Shapes of deployments as upstream's documentation has them, made up small: each comes back equal from its plan."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader

from tools.deployments.reading import vllm_versions

from .test_deployments import NotExpressible, cannot_start, differences, owned_in, plan_of, tool

Json = dict[str, Any]

A, B, C = "192.0.2.10", "192.0.2.11", "192.0.2.12"


def connector(role: str, prefill: tuple[int, int], decode: tuple[int, int], port: Any = "30000", **extra: Any) -> Json:
    """MooncakeConnectorV1 with (dp, tp) of both sides."""
    sizes = {side: {"dp_size": dp, "tp_size": tp} for side, (dp, tp) in (("prefill", prefill), ("decode", decode))}
    config = {"kv_connector": "MooncakeConnectorV1", "kv_role": role, "kv_port": port, "engine_id": "7"}
    return {**config, "kv_connector_extra_config": {**sizes, **extra}}


def multi(role: str, peer: Json, backend: str = "mooncake", store_role: str | None = None) -> Json:
    """A peer connector and a pool."""
    store = {
        "kv_connector": "AscendStoreConnector",
        "kv_role": store_role or role,
        "kv_connector_extra_config": {"backend": backend, "lookup_rpc_port": "0"},
    }
    extra = {"use_layerwise": False, "connectors": [peer, store]}
    return {"kv_connector": "MultiConnector", "kv_role": role, "kv_connector_extra_config": extra}


def engine(node: int, role: str, words: str, kv: Json | None = None, **env: str) -> Json:
    transfer = ["--kv-transfer-config", json.dumps(kv)] if kv else []
    return {"node": node, "role": role, "argv": ["Org/Model", *words.split(), *transfer], "env": env}


def deployment(*engines: Json, npus: int = 16) -> Json:
    nodes = [f"192.0.2.{10 + node}" for node in range(max(item["node"] for item in engines) + 1)]
    source = "vllm-project/vllm-ascend releases/v0.26.0rc made up"
    return {"name": "x", "source": source, "npu_per_node": npus, "nodes": nodes, "engines": list(engines)}


def pair(prefill: str, decode: str, kv: tuple[Json, Json], **env: str) -> Json:
    return deployment(engine(0, "prefill", prefill, kv[0], **env), engine(1, "decode", decode, kv[1], **env))


P, D = "kv_producer", "kv_consumer"
SIZES = ((2, 8), (4, 4))
SIDES = (connector(P, *SIZES), connector(D, *SIZES, port=30100))
PD = ("--port 7100 -dp 2 -tp 8 --enforce-eager", "--port 7100 -dp 4 -tp 4")
HALVES = ("0,1,2,3,4,5,6,7", "8,9,10,11,12,13,14,15")


def ranks(node: int, role: str, first: int, count: int, words: str, kv: Json, chip: int = 0) -> list[Json]:
    """External ranks of one chip each."""
    return [
        engine(
            node,
            role,
            f"--port {7200 + i} --data-parallel-rank {first + i} {words}",
            kv,
            ASCEND_RT_VISIBLE_DEVICES=str(chip + i),
        )
        for i in range(count)
    ]


def follower(node: int) -> str:
    return "--headless" if node else "--host 0.0.0.0 --port 8080"


def over_both(role: str, words: str, local: int, kv: Json) -> list[Json]:
    """A role on half of the chips of two nodes: prefill's of 8 chips a rank, decode's of 4."""
    decode = role == "decode"
    port, half, size = (7200, HALVES[1], 4) if decode else (7100, HALVES[0], 8)
    meeting = f"-dpa {A} -dpp {13389 if decode else 13380}"
    return [
        engine(
            n,
            role,
            f"{'--headless' if n else f'--port {port}'} {words} -dpr {local * n} {meeting} -tp {size}",
            kv,
            ASCEND_RT_VISIBLE_DEVICES=half,
        )
        for n in (0, 1)
    ]


SHAPES: dict[str, Json] = {
    "hybrid load balancing": deployment(
        *(engine(i, "mixed", f"--port 8000 -dp 4 -dpl 2 -dpr {2 * i} -dpa {A} -dpp 13399 -tp 8 -dph") for i in (0, 1))
    ),
    "hybrid load balancing of one node": deployment(engine(0, "mixed", "--port 8000 -dp 2 -dpl 2 -dph -tp 8")),
    "one rank over two nodes": deployment(
        *(
            engine(
                i,
                "prefill",
                f"{follower(i)} -pcp 2 -dcp 8 -tp 16 -n 2 -r {i} --master-addr {A} --master-port 29501",
                connector(P, (1, 16), (1, 16)),
            )
            for i in (0, 1)
        ),
        engine(
            2,
            "decode",
            f"--port 8004 --api-server-count 1 -dp 1 -dpl 1 -dpr 0 -dpa {C} -dpp 5980 -tp 16",
            connector(D, (1, 16), (1, 16)),
        ),
    ),
    "pipeline over two nodes": deployment(
        *(
            engine(i, "mixed", f"{follower(i)} -pp 2 -tp 16 -n 2 -r {i} --master-addr {A} --master-port 7001")
            for i in (0, 1)
        )
    ),
    "tensor parallel over two A2 nodes": deployment(
        *(engine(i, "mixed", f"{follower(i)} -tp 16 -n 2 -r {i} --master-addr {A} --master-port 7001") for i in (0, 1)),
        npus=8,
    ),
    "peer connector and pool": pair(*PD, (multi(P, SIDES[0]), multi(D, connector(D, *SIZES, port=36010)))),
    "pool on prefill alone": pair(*PD, (multi(P, SIDES[0], store_role="kv_both"), SIDES[1])),
    "pool in MemCache": pair(
        *PD, (multi(P, SIDES[0], "memcache"), SIDES[1]), MMC_LOCAL_CONFIG_PATH="/x/mmc-local.conf"
    ),
    "pool without a peer": pair(
        *PD,
        tuple(  # type: ignore[arg-type]
            {
                "kv_connector": "AscendStoreConnector",
                "kv_role": role,
                "kv_connector_extra_config": {"backend": "mooncake"},
            }
            for role in (P, D)
        ),
    ),
    "port of a connector that binds none": pair(*PD, ({**multi(P, SIDES[0]), "kv_port": "20001"}, SIDES[1])),
    "another role than usual": pair(*PD, ({**SIDES[0], "kv_role": "kv_both"}, {**SIDES[1], "kv_role": "kv_both"})),
    "sizes that contradict the engines": pair(*PD, (connector(P, (1, 8), (4, 4)), connector(D, (1, 8), (4, 4)))),
    "prefill instances of two sizes": deployment(
        engine(0, "prefill", "--port 8000 -dp 2 -tp 8", connector(P, (2, 8), (1, 8))),
        engine(1, "prefill", "--port 8000 -tp 16", connector(P, (1, 16), (1, 8))),
        engine(2, "decode", "--port 8000 -tp 8", connector(D, (2, 8), (1, 8), port=37000)),
    ),
    "hybrid models": pair(*PD, tuple({**c, "kv_connector": "MooncakeHybridConnector"} for c in SIDES)),  # type: ignore[arg-type]
    "pool of aggregated engines": deployment(
        *(
            engine(
                i,
                "mixed",
                "--port 8080 -tp 16 --served-model-name a b --max_num_seqs 4",
                {"kv_connector": "AscendStoreConnector", "kv_role": "kv_both"},
            )
            for i in (0, 1)
        )
    ),
    "prefill and decode on one node": deployment(
        engine(0, "prefill", "--port 7100 -tp 8", connector(P, (1, 8), (8, 1)), ASCEND_RT_VISIBLE_DEVICES=HALVES[0]),
        *ranks(0, "decode", 0, 8, f"-dp 8 -dpa {A} -dpp 12321 -tp 1", connector(D, (1, 8), (8, 1)), chip=8),
    ),
    "decode on the first chips": deployment(
        engine(0, "prefill", "--port 7100 -tp 8", connector(P, (1, 8), (8, 1)), ASCEND_RT_VISIBLE_DEVICES=HALVES[1]),
        *ranks(0, "decode", 0, 8, f"-dp 8 -dpa {A} -dpp 12321 -tp 1", connector(D, (1, 8), (8, 1))),
    ),
    "two instances on each node": deployment(
        *(
            engine(
                node,
                role,
                f"--port {7100 + i} -tp 8",
                connector(kind, (1, 8), (1, 8)),
                Q=str(i),
                ASCEND_RT_VISIBLE_DEVICES=HALVES[i],
            )
            for node, role, kind in ((0, "prefill", P), (1, "decode", D))
            for i in (0, 1)
        )
    ),
    "groups of one external rank": deployment(
        *(
            engine(
                n,
                role,
                f"--port {7100 + i} -tp 8 -dp 1 -dpn 0 -dpa 192.0.2.{10 + n} -dpp 12321",
                connector(kind, (1, 8), (1, 8)),
                ASCEND_RT_VISIBLE_DEVICES=HALVES[i],
            )
            for n, role, kind in ((0, "prefill", P), (1, "prefill", P), (2, "decode", D))
            for i in (0, 1)
        )
    ),
    "two instances over the same nodes": deployment(
        engine(0, "prefill", "--port 7100 -tp 16", connector(P, (1, 16), (4, 4))),
        *(
            engine(
                1 + n,
                "decode",
                f"{'--headless' if n else f'--port {7200 + i}'} "
                f"-dp 4 -dpl 2 -dpr {2 * n} -dpa {B} -dpp {13389 + i} -tp 4",
                connector(D, (1, 16), (4, 4), port=36000 + 100 * i),
                ASCEND_RT_VISIBLE_DEVICES=HALVES[i],
            )
            for i in (0, 1)
            for n in (0, 1)
        ),
    ),
    "a prefill on each of decode's nodes": deployment(
        *(
            engine(n, "prefill", "--port 7100 -tp 8", connector(P, (1, 8), (4, 4)), ASCEND_RT_VISIBLE_DEVICES=HALVES[0])
            for n in (0, 1)
        ),
        *over_both("decode", "-dp 4 -dpl 2", 2, connector(D, (1, 8), (4, 4), port=36100)),
    ),
    "prefill and decode over the same nodes": deployment(
        *over_both("prefill", "-dp 2 -dpl 1", 1, connector(P, (2, 8), (4, 4))),
        *over_both("decode", "-dp 4 -dpl 2", 2, connector(D, (2, 8), (4, 4), port=36100)),
    ),
    "ranks spread unevenly": deployment(
        engine(0, "prefill", "--port 8080 -dp 3 -tp 4", connector(P, (3, 4), (6, 2))),
        *(
            engine(
                1 + i,
                "decode",
                f"{follower(i)} -dp 6 -dpl {(4, 2)[i]} -dpr {(0, 4)[i]} -dpa {B} -dpp 13389 -tp 2",
                connector(D, (3, 4), (6, 2)),
            )
            for i in (0, 1)
        ),
    ),
    "nodes not in order of rank": deployment(
        *(
            engine(node, "mixed", f"{follower(i)} -dp 2 -dpl 1 -dpr {i} -dpa {B} -dpp 13389 -tp 16")
            for i, node in enumerate((1, 0))
        )
    ),
    "differences between nodes of an instance": deployment(
        engine(0, "prefill", PD[0], SIDES[0]),
        *(
            engine(
                1 + i,
                "decode",
                f"{follower(i)} -dp 4 -dpl 2 -dpr {2 * i} -dpa {B} -dpp 13389 -tp 4 "
                f'--additional-config {{"a":{i},"b":1}}',
                SIDES[1],
                Y="1",
                Z=str(i),
            )
            for i in (0, 1)
        ),
    ),
    "what only the server has": deployment(
        *(
            engine(
                i,
                "mixed",
                f"{'--headless' if i else '--port 8080 --api-server-count 4 --enable-auto-tool-choice'} "
                f"-dp 2 -dpl 1 -dpr {i} -dpa {A} -dpp 13389 -tp 16",
            )
            for i in (0, 1)
        )
    ),
    "search paths": pair(
        *PD,
        SIDES,
        LD_LIBRARY_PATH="/a:/b:$LD_LIBRARY_PATH",
        PYTHONPATH="$PYTHONPATH:/vllm-workspace/vllm",
        LD_PRELOAD="/usr/lib64/libjemalloc.so.2:${LD_PRELOAD}",
    ),
    "ports by node": deployment(
        *(engine(i, "prefill", f"--port {8080 + i} -tp 16", connector(P, (1, 16), (1, 16))) for i in (0, 1)),
        engine(2, "decode", "--port 9000 -tp 16", connector(D, (1, 16), (1, 16), port=36500)),
    ),
    "ports that do not follow each other": deployment(
        *(
            engine(
                node,
                role,
                f"--port {7100 + 100 * i + rank} -tp 4 -dp 2 -dpn {rank} "
                f"-dpa 192.0.2.{10 + node} -dpp {12321 + 10 * i}",
                connector(kind, (2, 4), (2, 4), port=36000 + 1000 * i),
                ASCEND_RT_VISIBLE_DEVICES=",".join(str(8 * i + 4 * rank + chip) for chip in range(4)),
            )
            for node, role, kind in ((0, "prefill", P), (1, "decode", D))
            for i in (0, 1)
            for rank in (0, 1)
        )
    ),
    "prefill and decode meet apart on one node": deployment(
        *ranks(0, "prefill", 0, 2, f"-dp 2 -dpa {A} -dpp 12321 -tp 1", connector(P, (2, 1), (2, 1))),
        engine(
            0,
            "decode",
            f"--port 7300 -dp 2 -dpn 0 -dpa {A} -dpp 15000 -tp 1",
            connector(D, (2, 1), (2, 1)),
            ASCEND_RT_VISIBLE_DEVICES="2",
        ),
        engine(
            0,
            "decode",
            f"--port 7301 -dp 2 -dpn 1 -dpa {A} -dpp 15000 -tp 1",
            connector(D, (2, 1), (2, 1)),
            ASCEND_RT_VISIBLE_DEVICES="3",
        ),
    ),
    "ranks that meet on loopback": deployment(
        engine(0, "prefill", "--port 7100 -tp 2", connector(P, (1, 2), (2, 1))),
        *ranks(1, "decode", 0, 2, "-dp 2 -dpa 127.0.0.1 -dpp 12321 -tp 1", connector(D, (1, 2), (2, 1))),
    ),
    "bound to single addresses": pair(f"--host {A} {PD[0]}", f"--host {B} {PD[1]}", SIDES),
    "some of the chips": deployment(
        engine(0, "prefill", "--port 9100 -tp 4", connector(P, (1, 4), (1, 4))),
        engine(1, "decode", "--port 9200 -tp 4", connector(D, (1, 4), (1, 4)), ASCEND_RT_VISIBLE_DEVICES="4,5,6,7"),
    ),
    "memory pinned by hand": pair(f"{PD[0]} --kv-cache-memory-bytes 10000000000", PD[1], SIDES),
}


@pytest.mark.parametrize("name", SHAPES)
def test_shape(name: str) -> None:
    shape = SHAPES[name]
    inventory = tool.to_inventory(shape)
    made = plan_of(inventory)
    assert differences(shape, made) == []
    assert [finding for finding in made["findings"] if finding["severity"] == "error"] == []
    assert owned_in(tool.yaml.safe_load(tool.to_yaml(shape))) == []


def followers(*words: str, role: str = "mixed", **env: str) -> Json:
    """One engine on each node, with its words besides the sizes of two ranks."""
    sizes = "-dp 2 -dpl 1 -tp 16"
    return deployment(*(engine(node, role, f"{sizes} {own}", **env) for node, own in enumerate(words)))


ROLES = {"prefill": P, "decode": D}

#: What could not start, and what is told of it.
BROKEN: dict[str, tuple[Json, str]] = {
    "ports of a group differ": (
        followers(f"--port 8080 -dpa {A} -dpp 13389", f"--headless -dpr 1 -dpa {A}"),
        f"ranks at {A}:13389 do not add up to 2, each once: 0 on node 0; ranks at {A}:29550 .* 1 on node 1",
    ),
    "each node is its own master": (
        followers(f"-dpr 0 -dpa {A} -dpp 13389", f"-dpr 1 -dpa {B} -dpp 13389"),
        f"ranks at {B}:13389 do not add up to 2, each once: 1 on node 1",
    ),
    "a rank twice": (
        deployment(*(e for n in (0, 1) for e in ranks(n, "mixed", 0, 2, f"-dp 2 -dpa {A} -dpp 12321 -tp 1", {}))),
        "do not add up to 2, each once: 0 on node 0, 0 on node 1, 1 on node 0, 1 on node 1",
    ),
    "ranks left out": (
        deployment(*ranks(0, "mixed", 0, 2, f"-dp 4 -dpa {A} -dpp 12321 -tp 1", {})),
        "do not add up to 4",
    ),
    "a node left out": (
        deployment(engine(0, "mixed", f"--port 8080 -tp 32 -n 2 -r 0 --master-addr {A} --master-port 7001")),
        f"node ranks at {A}:7001 do not add up to 2, each once: 0 on node 0",
    ),
    "nobody serves": (
        followers(f"--headless -dpa {A} -dpp 13389", f"--headless -dpr 1 -dpa {A} -dpp 13389"),
        f"rank 0 at {A}:13389 is headless, so nobody serves",
    ),
    "headless and alone": (deployment(engine(0, "mixed", "--headless -tp 16")), "has nobody to follow"),
    "all serve, though one balances": (
        followers(f"-dpa {A} -dpp 13389", f"--port 8080 -dpr 1 -dpa {A} -dpp 13389"),
        r"nodes \[1\] are not headless, though rank 0 balances the load of all",
    ),
    "one serves, though all balance": (
        followers(f"-dph -dpa {A} -dpp 13389", f"-dph --headless -dpr 1 -dpa {A} -dpp 13389"),
        r"nodes \[1\] are headless, though every node balances",
    ),
    "another address than that of rank 0": (
        followers(f"--port 8080 -dpa {C} -dpp 13389", f"--headless -dpr 1 -dpa {C} -dpp 13389"),
        f"rank 0 is on node 0, which is {A} and not {C}",
    ),
    "roles in one group": (
        deployment(
            *(
                engine(n, role, f"{follower(n)} -dp 2 -dpl 1 -dpr {n} -dpa {A} -dpp 13389 -tp 16")
                for n, role in enumerate(ROLES)
            )
        ),
        "engines of role prefill and of role decode meet",
    ),
    "prefill alone": (deployment(engine(0, "prefill", "-tp 16", SIDES[0])), "prefill engines alone are no service"),
    "a port twice": (
        deployment(*(engine(0, "mixed", "-tp 8", ASCEND_RT_VISIBLE_DEVICES=half) for half in HALVES)),
        "2 engines on node 0 listen on port 8000",
    ),
    "more chips than there are": (
        deployment(engine(0, "mixed", "-dp 2 -tp 16")),
        "engines on node 0 need 32 chips, and it has 16",
    ),
    "a chip twice": (
        deployment(
            *(
                engine(0, "mixed", f"--port {8000 + i} -dp 2 -dpn {i} -tp 1", ASCEND_RT_VISIBLE_DEVICES="0,1")
                for i in (0, 1)
            )
        ),
        "two engines on node 0 want chip 0",
    ),
    "fewer chips than needed": (
        deployment(engine(0, "mixed", "-tp 8", ASCEND_RT_VISIBLE_DEVICES="0,1,2,3")),
        "needs 8 chips and sees 4",
    ),
    "no JSON": (
        pair(f'{PD[0]} --compilation-config {{"sizes":[1,2]"}}', PD[1], SIDES),
        "node 0: --compilation-config is no JSON: Expecting ',' delimiter",
    ),
    "chips as a range": (
        deployment(engine(0, "mixed", "-tp 8", ASCEND_RT_VISIBLE_DEVICES="0-7")),
        "is no list of chips: '0-7'",
    ),
    "no number": (pair(PD[0].replace("7100", "$PORT"), PD[1], SIDES), r"--port of an engine on node 0 .*'\$PORT'"),
    "no value": (pair(f"--data-parallel-rpc-port {PD[0]}", PD[1], SIDES), "--data-parallel-rpc-port wants a value"),
    "an option that is none": (
        pair(f"{PD[0]} --foo 3 --max-model-length 9", PD[1], SIDES),
        r"vLLM 0.26.0 has no option --foo.*; .*--max-model-length \(near: --max-model-len\)",
    ),
    "a word too many": (pair(f"{PD[0]} 12321", PD[1], SIDES), "'12321' belongs to no option"),
}

#: What could, but not out of an inventory.
UNSAID: dict[str, tuple[Json, str]] = {
    "a path of another variable": (
        pair(*PD, SIDES, LD_LIBRARY_PATH="$HOME/lib:$LD_LIBRARY_PATH"),
        "is built from other variables",
    ),
    "engines of one node differ": (
        deployment(
            *(
                engine(
                    0,
                    "mixed",
                    f"--port {7100 + i} -dp 2 -dpn {i} -tp 8 --seed {i}",
                    ASCEND_RT_VISIBLE_DEVICES=HALVES[i],
                )
                for i in (0, 1)
            )
        ),
        "differ in seed",
    ),
}


def without(key: str) -> Json:
    return {name: value for name, value in deployment(engine(0, "mixed", "-tp 16")).items() if name != key}


def with_engine(**changed: Any) -> Json:
    return without("engines") | {"engines": [engine(0, "mixed", "-tp 16") | changed]}


def with_kv(**changed: Any) -> Json:
    return pair(*PD, ({**SIDES[0], **changed}, SIDES[1]))


#: What is not of the format, and what is said of it.
FORMLESS: dict[str, tuple[Any, str]] = {
    "no mapping": ([], "a deployment is a mapping"),
    "no name": (without("name"), "name is missing"),
    "no nodes": (without("nodes"), "nodes is missing"),
    "no engines": (without("engines"), "engines is missing"),
    "no list of nodes": (without("nodes") | {"nodes": A}, "nodes is no list of addresses"),
    "no engine": (without("engines") | {"engines": []}, "engines is no list of mappings"),
    "chips that are no number": (without("") | {"npu_per_node": "16"}, "npu_per_node is no number of chips: '16'"),
    "a node that is none": (with_engine(node=1), "engine 0: there is no node 1, only 0"),
    "a node counted from the end": (with_engine(node=-1), "engine 0: there is no node -1, only 0"),
    "a role that is none": (with_engine(role="prefil"), "no role 'prefil', only prefill, decode, mixed"),
    "arguments in one text": (with_engine(argv="-tp 16"), "engine 0: argv is no list of words"),
    "environment as words": (with_engine(env=["A=1"]), "engine 0: env is no mapping"),
    "no model": (with_engine(argv=["-tp", "16"]), "neither the engines nor the deployment name a model"),
    "a control port that is none": (with_kv(kv_port="x"), "on node 0: kv_port is no number: 'x'"),
    "settings that are none": (with_kv(kv_connector_extra_config=[1]), "kv_connector_extra_config is no mapping"),
    "a side that is none": (with_kv(kv_connector_extra_config={"decode": 4}), "decode is no mapping"),
    "a size that is none": (
        with_kv(kv_connector_extra_config={"prefill": {"tp_size": None}}),
        "tp_size of prefill is no number: None",
    ),
    "connectors that are none": (with_kv(kv_connector_extra_config={"connectors": 2}), "connectors is no list"),
}


@pytest.mark.parametrize("name", FORMLESS)
def test_what_is_not_of_the_format_is_refused(name: str) -> None:
    shape, words = FORMLESS[name]
    with pytest.raises(NotExpressible, match=words):
        tool.to_inventory(shape)


def test_files_that_are_none_are_told_in_one_line_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "cut.json").write_text('{"name": ', encoding="utf-8")
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe")
    paths = [str(tmp_path / f"{name}.json") for name in ("missing", "cut", "bytes")]
    assert tool.main(paths) == 1
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(": ")[0] for line in lines] == paths
    assert [line.partition(": ")[2].partition(":")[0] for line in lines] == [
        "No such file or directory",
        "no JSON",
        "no JSON",
    ]


def test_a_folder_that_cannot_be_made_is_told_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "a.json"
    source.write_text(json.dumps(SHAPES["search paths"]), encoding="utf-8")
    assert tool.main(["-o", str(source), str(source)]) == 1
    assert capsys.readouterr().err == f"{source}: File exists\n"


@pytest.mark.parametrize("name", [*BROKEN, *UNSAID])
def test_what_no_inventory_can_say_is_refused(name: str) -> None:
    shape, words = {**BROKEN, **UNSAID}[name]
    with pytest.raises(NotExpressible, match=words):
        tool.to_inventory(shape)


#: What the count without the tool cannot know: to whom an address belongs, and ports.
UNCOUNTED = {"another address than that of rank 0", "a port twice"}


@pytest.mark.parametrize("name", sorted(BROKEN.keys() - UNCOUNTED))
def test_what_could_not_start_is_also_found_without_the_tool(name: str) -> None:
    assert cannot_start(BROKEN[name][0])


@pytest.mark.parametrize("name", [*SHAPES, *UNSAID])
def test_what_could_start_is_not_held_for_broken(name: str) -> None:
    assert cannot_start({**SHAPES, **{key: shape for key, (shape, _words) in UNSAID.items()}}[name]) is None


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda e: e["vllm_args"].update({"max-model-len": 1}), "max-model-len"),
        (lambda e: e["vllm_args"].pop("quantization"), "quantization"),
        (lambda e: e["vllm_args"].update({"data-parallel-rank": 5}), "data-parallel-rank"),
        (lambda e: e["vllm_args"].update({"data-parallel-address": C}), "data-parallel-address"),
        (lambda e: e["vllm_args"].update({"port": 7199}), "port"),
        (lambda e: e["vllm_args"]["kv-transfer-config"].update({"kv_role": "kv_both"}), "kv-transfer-config"),
        (lambda e: e["vllm_args"]["kv-transfer-config"].update({"kv_port": 30001}), "kv_port"),
        (lambda e: e["env"].update({"NEW": "1"}), "env NEW"),
        (lambda e: e["devices"].reverse(), "planned on"),
    ],
)
def test_the_comparison_sees_a_difference(change: Any, told: str) -> None:
    words = f"-dp 2 -dpa {A} -dpp 12321 -tp 1 --max-model-len 70000 -q ascend"
    kv = connector(P, (2, 1), (2, 1))
    shape = deployment(
        *ranks(0, "prefill", 0, 2, words, kv),
        *ranks(1, "decode", 0, 2, words.replace(A, B), connector(D, (2, 1), (2, 1))),
    )
    made = plan_of(tool.to_inventory(shape))
    assert differences(shape, made) == []
    own = made["engines"][1]
    if told == "planned on":
        own["devices"] = [1, 0]
        with pytest.raises(AssertionError):
            differences(shape, made)
        return
    change(own)
    found = differences(shape, made)
    assert len(found) == 1
    assert told in found[0]


def test_external_ranks_have_their_chips_by_name_even_alone_on_a_host() -> None:
    words = f"-dp 2 -dpa {A} -dpp 12321 -tp 16 --port 7100"
    shape = deployment(*(engine(node, "mixed", f"{words} -dpn {node}") for node in (0, 1)))
    services = plan_of(tool.to_inventory(shape))["services"]
    assert {service["env"]["ASCEND_RT_VISIBLE_DEVICES"] for service in services} == {",".join(map(str, range(16)))}


def test_what_looks_like_a_template_stays_as_it_is() -> None:
    shape = deployment(engine(0, "mixed", "-tp 16 --chat-template {{x}}", A="{{y}}", B="{%z"))
    assert DataLoader().load(tool.to_yaml(shape)) == tool.to_inventory(shape)
    assert tool.to_yaml(shape).count("!unsafe") == 3


def test_one_refusal_does_not_keep_the_tool_from_the_others(tmp_path: Path) -> None:
    broken, _words = BROKEN["prefill alone"]
    for name, shape in (("a", broken), ("b", SHAPES["search paths"])):
        (tmp_path / f"{name}.json").write_text(json.dumps(shape), encoding="utf-8")
    argv = [sys.executable, tool.__file__, "-o", str(tmp_path), str(tmp_path / "a.json"), str(tmp_path / "b.json")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == f"{tmp_path / 'a.json'}: prefill engines alone are no service\n"
    assert (tmp_path / "b.yml").read_text(encoding="utf-8") == tool.to_yaml(SHAPES["search paths"])
    assert not (tmp_path / "a.yml").exists()


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("org/x releases/v0.22.1rc a/v1/b.yaml", ("0.22.1", "0.22.1rc1")),
        ("org/x v0.26.0rc2 b.yaml", ("0.26.0", "0.26.0rc2")),
        ("org/x releases/v0.23.0 b.yaml", ("0.23.0", "0.23.0")),
        ("org/x main b-V3.2.1.yaml", None),
        ("org/x v0.11.0-dev b.yaml", None),
        ("", None),
    ],
)
def test_versions_of_a_source(source: str, found: tuple[str, str] | None) -> None:
    assert vllm_versions(source) == found


def test_sizes_that_each_instance_is_told_of_itself_are_not_written_down() -> None:
    inventory = tool.to_inventory(SHAPES["prefill instances of two sizes"])["all"]
    assert inventory["vars"]["pd_profile"] == "mooncake"
    assert "dp_size" not in json.dumps(inventory)


def test_a_port_in_mooncakes_band_moves_also_where_the_configuration_is_written_whole() -> None:
    sizes = (connector(P, (1, 8), (4, 4)), connector(D, (1, 8), (4, 4), port=37000))
    inventory = tool.to_inventory(pair(*PD, sizes))["all"]
    assert inventory["vars"]["pd_profile"] == "custom"
    assert inventory["children"]["prefill"]["vars"]["prefill_kv_transfer_config"]["kv_port"] == 46000
    assert inventory["children"]["decode"]["vars"]["decode_kv_transfer_config"]["kv_port"] == 37000
