# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Rules about options: how sure they are, what they advise, and that the advice is right."""

from __future__ import annotations

from typing import Any

from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils import rules
from ansible_collections.vllm_ascend.pd_serving.tests.unit.plugins.plugin_utils.rules.clusters import cluster
from ansible_collections.vllm_ascend.pd_serving.tests.unit.plugins.plugin_utils.rules.examples import arg, both


def told(change: Any, rule: str, kind: str = "sparse", **versions_of: str) -> list[tuple[str, str, str, str]]:
    plan, facts = cluster(kind)
    change(plan, facts)
    plan["versions"].update(versions_of)
    findings = rules.judge(plan, facts, {rule: rules.RULES[rule]}).findings
    return [(one.severity, one.found, one.right, one.mend) for one in findings]


def test_a_release_that_is_not_known_is_warned_of() -> None:
    """What it takes may be more than what an older one took."""
    for key, rule in (("metod", "PD-ARG-006"), ("method", "PD-ARG-007")):
        change = arg("decode", f"speculative-config/{key}", "mtpp")
        assert [one[0] for one in told(change, rule)] == ["error"]
        assert [one[0] for one in told(change, rule, vllm="0.99.0")] == ["warning"]
    change = arg("decode", "quantization", "mxfp8")
    assert [one[0] for one in told(change, "PD-ARG-008")] == ["error"]
    assert told(change, "PD-ARG-008", vllm_ascend="0.27.0rc1") == []
    change = arg("decode", "quantization", "mxfp9")
    assert [one[::2] for one in told(change, "PD-ARG-008", vllm_ascend="0.27.0")] == [("warning", "mxfp8")]


def test_a_key_whose_right_spelling_is_stated_too_goes() -> None:
    """Where only the profile states the right one, the user's is meant to change it."""
    wrong = arg("decode", "speculative-config/metod", "x")
    [(_severity, _found, right, mend)] = told(wrong, "PD-ARG-006")
    assert (right, mend) == ("method", "mend the key in decode_vllm_args")

    def stated(plan: Any, facts: Any) -> None:
        for engine in plan["engines"]:
            engine["stated_in"] = {"speculative-config.method": "pd_vllm_args"}

    [(_severity, _found, _right, mend)] = told(both(wrong, stated), "PD-ARG-006")
    assert mend == "remove metod in decode_vllm_args: method stands in pd_vllm_args"


def test_what_leaves_an_option_out_is_no_mistake() -> None:
    for nothing in ("None", ""):
        assert told(arg("decode", "speculative-config", nothing), "PD-ARG-006") == []
        assert told(arg("decode", "quantization", nothing), "PD-ARG-008") == []
    # numbers such as 80m, which JSON does not know and vLLM 0.27 reads
    assert told(arg("decode", "kv-events-config", '{"hwm": 80m}'), "PD-ARG-006") == []
    assert told(arg("decode", "quantization", "Compressed-Tensors"), "PD-ARG-008") == []


def test_tokens_of_a_step_are_mended_once_and_then_right() -> None:
    """What PD-ARG-002 calls right is enough for sparse KV offload's speculative tokens (PD-SPARSE-021) too."""
    many = arg("decode", "max-num-seqs", 4096)
    [(_severity, _found, right, _mend)] = told(many, "PD-ARG-002")
    assert right == "max-num-batched-tokens 16384 or more"
    for tokens, rest in ((16384, 0), (16383, 1)):
        enough = both(many, arg("decode", "max-num-batched-tokens", tokens))
        assert len(told(enough, "PD-ARG-002") + told(enough, "PD-SPARSE-021")) == rest
    few = both(arg("decode", "max-num-seqs", 256), arg("decode", "max-num-batched-tokens", 100))
    [(_severity, _found, right, _mend)] = told(few, "PD-ARG-002", kind="mooncake")
    assert right == "max-num-batched-tokens 256 or more"  # nothing offloaded
