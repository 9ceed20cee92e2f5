# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Each thing that a rule can say is said by an example: without the line that says it, an example finds nothing."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from dataclasses import replace

import pytest
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils import rules
from ansible_collections.vllm_ascend.pd_serving.tests.unit.plugins.plugin_utils.rules.clusters import cluster
from ansible_collections.vllm_ascend.pd_serving.tests.unit.plugins.plugin_utils.rules.examples import (
    EXAMPLES,
    MORE,
    Example,
)


def found(rule: rules.Rule, example: Example) -> bool:
    plan, facts = cluster(example.cluster)
    example.break_(plan, facts)
    severity = example.severity or rule.severity
    return any(
        one.severity == severity
        and (example.host is None or one.host == example.host)
        and example.found in one.found
        and example.right in one.right
        for one in rules.judge(plan, facts, {rule.id: rule}).findings
    )


def without_one_line(rule: rules.Rule) -> Iterator[tuple[str, rules.Rule]]:
    """The rule with each of its ``yield Problem(...)`` left out in turn."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(rule.check)))
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    function.decorator_list = []
    lines = [node for node in ast.walk(function) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Yield)]
    function.body += ast.parse("if False:\n    yield").body  # so that it stays a generator
    for line in lines:
        said, line.value = line.value, ast.Constant(None)
        namespace = dict(rule.check.__globals__)
        exec(compile(ast.fix_missing_locations(tree), rule.id, "exec"), namespace)
        line.value = said
        yield ast.unparse(said), replace(rule, check=namespace[function.name])


#: Rules that parity.py makes from a table share one check, which says one thing.
WRITTEN = [name for name, rule in rules.RULES.items() if rule.check.__closure__ is None]


@pytest.mark.parametrize("identifier", WRITTEN)
def test_nothing_that_it_says_is_without_an_example(identifier: str) -> None:
    rule, examples = rules.RULES[identifier], [EXAMPLES[identifier], *MORE.get(identifier, ())]
    assert all(found(rule, example) for example in examples)
    said = [text for text, less in without_one_line(rule) if all(found(less, example) for example in examples)]
    assert said == []


def test_lines_are_really_left_out() -> None:
    """A rule that says two things is mutated twice, and what is left out is not said."""
    mutants = dict(without_one_line(rules.RULES["PD-SPARSE-005"]))
    assert len(mutants) == 2
    assert sorted(found(less, EXAMPLES["PD-SPARSE-005"]) for less in mutants.values()) == [False, True]
    assert len(WRITTEN) > len(rules.RULES) - 10
