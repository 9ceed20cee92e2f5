# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Variables that roles read by themselves, as their argument specs declare them.

Ansible looks at a role's spec when the role begins, which for some is after an hour of building.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.vllm_ascend.pd_serving.plugins.plugin_utils.variables import HOST, Variable

#: A safe one, and the fast one of PyYAML where it was built with it (40 ms otherwise).
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_ROLES = Path(__file__).parents[2] / "roles"
_URL = (r"(https?|file)://\S+|/\S*", "http://mirror.example/simple")
#: What a spec cannot say.
_CLOSER: Mapping[str, Mapping[str, Any]] = {
    "container_build_timeout_s": {"unit": "s", "least": 1},
    "container_controller_dir": {"relative": True},
    "container_pip_index_url": {"example": _URL},
    "proxy_drain_timeout_s": {"unit": "s"},
    "wire_test_size_bytes": {"unit": "bytes", "least": 1},
    "wire_test_timeout_s": {"unit": "s", "least": 1},
}


@cache
def role_variables() -> Mapping[str, Variable]:
    """By name. Those of role ``plan`` are set by playbooks, so they are nobody's to misspell."""
    found = {}
    for path in sorted(_ROLES.glob("*/meta/argument_specs.yml")):
        spec = yaml.load(path.read_text(encoding="utf-8"), _LOADER)["argument_specs"]["main"]
        for name, option in spec["options"].items() if path.parts[-3] != "plan" else ():
            choices = tuple(map(str, option.get("choices", ())))
            found[name] = Variable(
                name, option["type"], "", option.get("default"), HOST, choices=choices, **_CLOSER.get(name, {})
            )
    return found
