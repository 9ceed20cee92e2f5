# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Jobs of the wire test: who with whom, on which chip and port, with which options of upstream's tool."""

from __future__ import annotations

from typing import Any

from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils import service_folder, wire_test
from ansible_collections.vllm_ascend.pd_serving.tests.unit.plugins.plugin_utils.rules.clusters import cluster


def options(side: dict[str, Any]) -> dict[str, str]:
    """What the tool is told."""
    argv = side["commands"][0]["argv"]
    tool = next(number for number, word in enumerate(argv) if word.endswith("tools/test_memfabric_pd_read.py"))
    rest = argv[tool + 1 :]
    return dict(zip(rest[::2], rest[1::2], strict=True))


def test_a_pair() -> None:
    plan, _facts = cluster("sparse")
    prefill, decode = wire_test.sides(plan, 1024, 120)
    assert (prefill["host"], decode["host"]) == ("p1", "d1")
    common = {"--device-id": "0", "--control-port": "29599", "--timeout": "120"}
    assert options(prefill) == {**common, "--role": "prefill", "--local-ip": "192.0.2.10", "--num-bytes": "1024"}
    assert options(decode) == {
        **common, "--role": "decode", "--local-ip": "192.0.2.20", "--prefill-ip": "192.0.2.10", "--dst-memory": "npu"
    }  # fmt: skip


def test_every_host_takes_part_on_chips_and_ports_of_its_own() -> None:
    plan, _facts = cluster("sparse_2p")
    sides = wire_test.sides(plan, 1024, 120)
    assert [side["host"] for side in sides] == ["p1", "d1", "p2", "d1"]
    assert [options(side)["--device-id"] for side in sides] == ["0", "0", "0", "1"]
    assert len({(side["host"], side["name"]) for side in sides}) == 4
    assert [options(side)["--prefill-ip"] for side in sides[1::2]] == ["192.0.2.10", "192.0.2.11"]


def test_sides_are_services_that_may_end_and_touch_nothing_of_the_real_ones() -> None:
    plan, _facts = cluster("sparse")
    for side in wire_test.sides(plan, 1024, 120):
        assert side["ready"] == {"kind": "exited"}
        assert side["container"]["restart_policy"] == "no"
        assert "job" in service_folder.service_folder(side, "launcher")["files"]
        sources = [mount.split(":")[0] for mount in side["container"]["mounts"]]
        assert [source for source in sources if source.startswith("/etc/vllm-ascend-pd/")] == [
            f"/etc/vllm-ascend-pd/{side['name']}"
        ]
        assert not [source for source in sources if source.startswith(("/data", "/var/log/vllm-ascend-pd"))]
        assert "/usr/local/Ascend/driver" in sources


def test_without_memfabric_there_is_nothing_to_test() -> None:
    assert wire_test.sides(cluster("mooncake")[0], 1024, 120) == []
