# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
from __future__ import annotations


class ModuleDocFragment:
    """What modules promise about check mode and the like, said once."""

    # A module that only looks.
    INFO_MODULE = r"""
options: {}
attributes:
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying target.
    support: full
    details:
      - This module never changes anything.
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
    support: N/A
    details:
      - This module never changes anything.
  idempotent:
    description:
      - When run twice in a row outside check mode, with the same arguments, the second invocation indicates no
        change.
    support: full
  platform:
    description: Target OS/families that can be operated against.
    platforms: linux
    support: full
"""
