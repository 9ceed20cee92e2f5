# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Build rules of the stand-in: what a build of vllm-ascend wants around it (upstream: setup.py, csrc/build_aclnn.sh).

* SOC_VERSION, or an npu-smi that names the chip;
* CANN and nnal/atb sourced, for the custom operators;
* git tags for the version.
"""

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.command.develop import develop
from setuptools_scm import get_version

ROOT = Path(__file__).parent
PACKAGE = ROOT / "vllm_ascend"
DEVICE_TYPES = {"ascend910b": "A2", "ascend910_93": "A3", "ascend950": "A5", "910b": "A2", "910c": "A3"}


def soc_version() -> str:
    if soc := os.environ.get("SOC_VERSION"):
        return soc
    if shutil.which("npu-smi") is None:
        raise RuntimeError(
            "Could not determine chip type automatically via 'npu-smi'. Please set the 'SOC_VERSION' environment "
            'variable, for Atlas A3: export SOC_VERSION="ascend910_9391"'
        )
    board = subprocess.run(
        ["npu-smi", "info", "-t", "board", "-i", "0", "-c", "0"], capture_output=True, text=True, check=True
    ).stdout
    found = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in board.splitlines())}
    return f"{found['Chip Name']}_{found['NPU Name']}".lower()


def write_build_info() -> None:
    soc = soc_version()
    device = next((device for prefix, device in DEVICE_TYPES.items() if soc.startswith(prefix)), None)
    assert device, f"Undefined soc_version: {soc}. Please file an issue to vllm-ascend."
    (PACKAGE / "_build_info.py").write_text(f"# Auto-generated file\n__device_type__ = '{device}'\n")


class BuildPy(build_py):
    def run(self):
        write_build_info()
        super().run()


class Develop(develop):
    def run(self):
        write_build_info()
        super().run()


class BuildOperators(build_ext):
    """Leaves what shows that the custom operators were built: library vllm_ascend_C and folder _cann_ops_custom."""

    def run(self):
        for name, script in (("ASCEND_HOME_PATH", "ascend-toolkit"), ("ATB_HOME_PATH", "nnal/atb")):
            if not Path(os.environ.get(name) or "/nowhere").is_dir():
                raise RuntimeError(f"{name} names no folder: source /usr/local/Ascend/{script}/set_env.sh first")
        (PACKAGE / "_cann_ops_custom").mkdir(exist_ok=True)
        (PACKAGE / "_cann_ops_custom" / "version.info").write_text(f"soc={soc_version()}\n")
        (PACKAGE / f"vllm_ascend_C{sysconfig.get_config_var('EXT_SUFFIX')}").write_text("stand-in, not loadable\n")

    def get_outputs(self):
        return []

    def get_output_mapping(self):
        return {}


def version() -> str:
    try:
        return get_version(root=ROOT, write_to="vllm_ascend/_version.py")
    except LookupError:
        return "0.0.0"


soc_version()  # refuse before anything is built, as upstream does
operators = [] if os.environ.get("COMPILE_CUSTOM_KERNELS") == "0" else [Extension("vllm_ascend.vllm_ascend_C", [])]
lines = (ROOT / "requirements.txt").read_text().splitlines()

setup(
    name="vllm_ascend",
    version=version(),
    description="Lab stand-in of vllm-ascend: its refusals, its ports, its log lines, no kernels",
    python_requires=">=3.10",
    packages=find_packages(include=("vllm_ascend", "vllm_ascend.*")),
    package_data={"": ["*"]},
    install_requires=[line for line in lines if line and not line.startswith("#")],
    ext_modules=operators,
    cmdclass={"build_py": BuildPy, "develop": Develop, "build_ext": BuildOperators},
    entry_points={"vllm.platform_plugins": ["ascend = vllm_ascend:register"]},
)
