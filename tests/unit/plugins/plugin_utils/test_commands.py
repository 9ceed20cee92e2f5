# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""The commands for people: what a shell reads in them is what the plan says."""

from __future__ import annotations

import subprocess
from itertools import pairwise
from typing import Any

import pytest
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._text import format_ranges
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils import commands
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.options import option_table
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.planner import plan

from .clusters import cluster, engine, environment, facts_of, planned, service

#: Everything that a shell would trip over.
NASTY = """it's "quoted" & `run` \\ ; | * ~"""


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    inventory, groups = cluster(
        pd_env={"NASTY": NASTY},
        pd_vllm_args={"chat-template": NASTY, "middleware": ["a b", "c"]},
        pd_prepend_paths={"LD_PRELOAD": ["/usr/lib64/lib je.so"]},
    )
    return plan(inventory, groups, {"p1": facts_of("10.0.1.10"), "d1": facts_of("10.0.1.11")})


def shell_words(command: str) -> list[str]:
    """The words that a shell makes of a command, the command itself first."""
    program = command.split()[0]
    script = f"{program}() {{ printf '%s\\0' {program} \"$@\"; }}\n{command}"
    run = subprocess.run(["bash", "-c", script], capture_output=True, check=True, text=True)
    return run.stdout.split("\0")[:-1]


@pytest.mark.parametrize("name", ["prefill-p1-0", "decode-d1-0"])
def test_vllm_serve_means_what_the_plan_says(made: dict[str, Any], name: str) -> None:
    words = shell_words(commands.vllm_serve(engine(made, name), "0.26.0"))
    assert words[:2] == ["vllm", "serve"]
    options = engine(made, name)["vllm_args"]
    assert option_table("0.26.0").parse(words[2:]) == options | {"served-model-name": [options["served-model-name"]]}


def test_one_option_per_line(made: dict[str, Any]) -> None:
    lines = commands.vllm_serve(engine(made, "decode-d1-0"), "0.26.0").split(" \\\n  ")
    assert lines[0] == "vllm serve /data/models/DeepSeek-V3.2-W8A8"
    assert "--max-num-seqs 4" in lines
    assert "--no-enable-prefix-caching" in lines


def test_docker_run_says_what_the_container_gets(made: dict[str, Any]) -> None:
    own = service(made, "decode-d1")
    words = shell_words(commands.docker_run(own, "image:tag"))
    body = own["container"]
    assert words[:3] == ["docker", "run", "-d"]
    assert [b for a, b in pairwise(words) if a == "-v"] == body["mounts"]
    assert [b for a, b in pairwise(words) if a == "--device"] == body["devices"]
    assert {"--privileged", "--network=host", "--ipc=host", "--restart=on-failure:3"} <= set(words)
    assert words[-2:] == ["image:tag", "/etc/vllm-ascend-pd/launch"]
    assert "--privileged" not in commands.docker_run(service(made, "proxy"), "image:tag")


def test_a_shell_that_runs_the_exports_has_the_environment_of_the_engine(made: dict[str, Any]) -> None:
    own = dict(service(made, "decode-d1"), sources=[])
    script = commands.exports(own, own["commands"][0])
    run = subprocess.run(
        ["env", "-i", "LD_LIBRARY_PATH=/image", "bash", "-c", f"{script}\nenv -0"],
        capture_output=True,
        check=True,
        text=True,
    )
    seen = dict(entry.split("=", 1) for entry in run.stdout.split("\0") if entry)
    wanted = environment(made, "decode-d1-0")
    assert wanted["NASTY"] == NASTY
    assert wanted.items() <= seen.items()
    assert seen["LD_PRELOAD"] == "/usr/lib64/lib je.so"


def test_prepended_paths_stand_before_what_is_there() -> None:
    own = service(planned(pd_prepend_paths={"LD_LIBRARY_PATH": ["/a", "/b"]}), "decode-d1") | {"sources": []}
    script = commands.exports(own, {"env": {}})
    run = subprocess.run(
        ["env", "-i", "LD_LIBRARY_PATH=/image", "bash", "-c", f'{script}\necho "$LD_LIBRARY_PATH"'],
        capture_output=True,
        check=True,
        text=True,
    )
    assert run.stdout == "/a:/b:/usr/local/lib:/image\n"


def test_the_whole_text_is_shell_and_names_every_service(made: dict[str, Any]) -> None:
    text = commands.describe(made)
    for item in made["services"]:
        assert f"-- {item['name']} -" in text
    assert "Clients: http://10.0.1.10:21600 (layerwise proxy on p1)" in text
    assert "chips 0-15" in text
    assert "net.ipv4.ip_local_reserved_ports = 50000-50031" in text
    assert "ock.mmc.local_service.dram.size = 10G" in text
    assert "<unknown" not in text


def test_what_is_unknown_is_said_first(made: dict[str, Any]) -> None:
    head = commands.describe(planned(hosts={"d1": {"pd_nic": None}})).split("==")[0]
    assert "Not known yet: serving network interface of d1" in head
    assert "preflight.yml finds out what is not known yet" in head
    assert "preflight.yml" not in commands.describe(made)


def test_an_image_says_which_of_its_layers_the_line_below_does_not_have(made: dict[str, Any]) -> None:
    image = next(image for image in made["images"].values() if image["layers"])
    assert (
        f"# image: {image['base']} + vllm + memfabric (built by site.yml; below the base alone)"
        in commands.describe(made)
    )


@pytest.mark.parametrize(
    ("numbers", "text"), [([], ""), ([3], "3"), ([0, 1, 2], "0-2"), ([5, 0, 1, 7, 8], "0-1,5,7-8")]
)
def test_chips_as_ranges(numbers: list[int], text: str) -> None:
    assert format_ranges(numbers) == text


def test_an_engine_without_chips_says_so() -> None:
    made = planned(pd_profile="custom", pd_devices=[], pd_environment_scripts=[])
    assert "# decode-d1-0: chips none\n" in commands.describe(made)
