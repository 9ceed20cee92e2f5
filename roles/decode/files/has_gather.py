# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Run inside an image: does its vllm-ascend know small-packet gather? Ends with 0 if so, with 3 if not."""

import importlib.util
import pathlib
import sys

# Only the fork's sources name it; upstream's do not in any release.
NAME = b"VLLM_ASCEND_ENABLE_CPU_GATHER_H2D"

spec = importlib.util.find_spec("vllm_ascend")  # without importing it: there is no NPU here
if spec is None or not spec.submodule_search_locations:
    print("the image has no vllm-ascend")
    sys.exit(3)
folder = pathlib.Path(next(iter(spec.submodule_search_locations)))
files = (file for pattern in ("*.py", "*.so") for file in folder.rglob(pattern))
found = any(NAME in file.read_bytes() for file in files if file.is_file())
print("the image's vllm-ascend in {} {} it".format(folder, "has" if found else "does not have"))
sys.exit(0 if found else 3)
