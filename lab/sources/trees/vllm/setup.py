# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Build rules of the stand-in: the refusals that a build of vLLM for an out-of-tree platform meets.

The version comes from git tags by setuptools-scm, as upstream: a checkout without tags becomes 0.1.dev1+g<commit>.
"""

import os
from pathlib import Path

from setuptools import setup
from setuptools_rust import RustExtension  # noqa: F401  (upstream imports it: without build isolation it must be there)
from setuptools_scm import get_version

ROOT = Path(__file__).parent


def vllm_version() -> str:
    if override := os.environ.get("VLLM_VERSION_OVERRIDE"):
        os.environ["SETUPTOOLS_SCM_PRETEND_VERSION"] = override
        return get_version(root=ROOT, write_to="vllm/_version.py")
    version = get_version(root=ROOT, write_to="vllm/_version.py")
    return version + ("." if "+" in version else "+") + "empty"


def requirements() -> list[str]:
    return (ROOT / "requirements" / "common.txt").read_text().split("\n")[:-1]


target = os.environ.get("VLLM_TARGET_DEVICE", "cuda")
assert target == "empty" or os.environ.get("CUDA_HOME"), "CUDA_HOME is not set"
if target != "empty":
    raise RuntimeError(f"the lab's vLLM has no kernels for {target!r}: set VLLM_TARGET_DEVICE=empty")

setup(version=vllm_version(), install_requires=requirements())
