# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""What a process needs to find before it can use an NPU: CANN, nnal, the driver and MemFabric.

On an A3 these fail in the dynamic linker; here the paths that set_env.sh would have set are looked at, so that a start
which skipped one (a plain `docker exec`, for example) fails as it would there.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

from vllm import lab_host

_FIXED_FILES = ("/usr/local/Ascend/driver/version.info", "/usr/local/Ascend/driver/lib64")
# vllm-ascend's layerwise_and_sparse_kv_cache_offloading.md asks for it with MemFabric 1.2.
_OLDEST_DRIVER = (25, 5, 1)
_CONTROL_NODES = ("/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc")


def _on_library_path(word: str) -> bool:
    return any(word in entry for entry in os.environ.get("LD_LIBRARY_PATH", "").split(":"))


def check_import() -> None:
    """What `import torch_npu` needs (libascendcl of CANN, libatb of nnal, libascend_hal of the driver)."""
    missing = "cannot open shared object file: No such file or directory"
    if not (_on_library_path("Ascend/ascend-toolkit") or _on_library_path("Ascend/cann")):
        raise ImportError(f"libascendcl.so: {missing}. Please check that the set_env.sh of CANN has been sourced.")
    if not _on_library_path("/nnal/"):
        raise ImportError(f"libatb.so: {missing}. Please check that the set_env.sh of nnal/atb has been sourced.")
    for path in _FIXED_FILES:
        if not lab_host.at(path).exists():
            raise ImportError(f"libascend_hal.so: {missing} ({path} is not visible)")
    if not os.environ.get("ASCEND_OPP_PATH"):  # the image's own environment has the library paths, but not this
        raise RuntimeError("aclInit failed: the environment variable ASCEND_OPP_PATH is not set (set_env.sh of CANN)")


def check_triton() -> None:
    """triton shares its module with triton-ascend; with both installed, the one without an NPU driver is found."""
    if any(distribution.metadata["Name"] == "triton" for distribution in importlib.metadata.distributions()):
        raise RuntimeError("0 active drivers ([]). There should only be one.")


def check_control_nodes() -> None:
    """The management devices without which no chip can be opened."""
    for node in _CONTROL_NODES:
        if not lab_host.at(node).exists() or not lab_host.may_open(lab_host.at(node)):
            raise RuntimeError(
                f"drvDevOpen failed: cannot open {node}. [Error]: System internal error. aclInit failed, error "
                "code is 507899."
            )


def check_memfabric() -> None:
    """MemFabric 1.2: the module, its extend libraries, and the driver's version."""
    if importlib.util.find_spec("memfabric_hybrid") is None:
        raise ImportError("Please install memfabric_hybrid (memfabric-hybrid) to use SfaRemoteD2HConnector.")
    if not os.environ.get("MEMFABRIC_HYBRID_EXTEND_LIB_PATH"):
        raise RuntimeError(
            "MemFabric TransferEngine initialization failed: MEMFABRIC_HYBRID_EXTEND_LIB_PATH is not set"
        )
    if not _on_library_path("memfabric_hybrid"):
        raise ImportError("libmf_smem.so: cannot open shared object file: No such file or directory")
    # hybm_gva_version.cpp: Driver_Install_Path_Param of this file leads to driver/version.info
    install = lab_host.at("/etc/ascend_install.info")
    if not install.is_file() or "Driver_Install_Path_Param=" not in install.read_text(encoding="utf-8"):
        raise RuntimeError(
            "MemFabric: open file /etc/ascend_install.info failed, cannot get the driver version, ret -1"
        )
    path = install.read_text(encoding="utf-8").partition("Driver_Install_Path_Param=")[2].partition("\n")[0].strip()
    version = lab_host.at(f"{path}/driver/version.info")
    text = version.read_text(encoding="utf-8") if version.is_file() else ""
    found = re.search(r"(?m)^Version=(\d+)\.(\d+)\.(?:rc)?(\d+)", text)
    if found is None:
        raise RuntimeError(f"MemFabric: cannot read the driver version from {path}/driver/version.info, ret -1")
    if tuple(map(int, found.groups())) < _OLDEST_DRIVER:
        given = found[0].partition("=")[2]
        raise RuntimeError(f"MemFabric: driver {given} does not support GVA, 25.5.1 or newer is needed")


def offload_library() -> None:
    """The library behind the host pool; a source install without bisheng in PATH leaves it out or empty."""
    folder = os.environ.get("MEMFABRIC_HYBRID_EXTEND_LIB_PATH", "")
    library = Path(folder) / "libmf_hybm_accoffload.so"
    if not folder or not library.is_file() or library.stat().st_size == 0:
        raise RuntimeError(f"offload launch load library failed: {library} is missing or empty")


def check_decode_compiler() -> None:
    """The C++ extension that every start of a sparse decode builds (sparse_kv_offload_manager.py _build_cpp)."""
    if not (shutil.which("clang++") or shutil.which("clang")):
        raise RuntimeError("Error building extension 'sparse_kv_offload': clang++: not found")
    tool = shutil.which("clang++") or "clang"
    folder = subprocess.run([tool, "--print-resource-dir"], capture_output=True, text=True, check=False).stdout.strip()
    headers = (Path(folder) / "include" / "omp.h", Path("/usr/include/omp.h"))
    if not any(header.is_file() for header in headers):
        raise RuntimeError(
            "Error building extension 'sparse_kv_offload': sparse_kv_offload.cpp: fatal error: 'omp.h' file not found"
        )
    missing = {"sve", "bf16"} - lab_host.cpu_features()
    if missing:
        # -march=armv8.2-a+sve+fp16+bf16 compiles anywhere and dies at the first such instruction
        raise RuntimeError(f"Fatal Python error: Illegal instruction (CPU without {', '.join(sorted(missing))})")
