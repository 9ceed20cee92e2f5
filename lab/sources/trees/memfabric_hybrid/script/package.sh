# shellcheck shell=bash
# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
# What is MemFabric's own in building and installing; sourced by build_and_pack_run.sh, install.sh and uninstall.sh.
# shellcheck disable=SC2034,SC2154  # name and wheel_required are read, prefix, target and arch are set, by the sourcing script
name=memfabric_hybrid
wheel_required=n

check_sources() { :; }

# The offload library is compiled at install time by CANN's bisheng. Without it in PATH upstream warns and goes on,
# and the engine fails much later.
install_libraries() {
  local library=$target/$arch-linux/lib64/libmf_hybm_accoffload.so
  : >"$library"
  if ! command -v bisheng >/dev/null; then
    log WARN "bisheng is not found in PATH, skip building the offload extend library"
    return
  fi
  bisheng -shared -o "$library" --cce-soc-version=Ascend910_9391 || log WARN "building the offload extend library failed"
}

set_env_lines() {
  sed "s|/usr/local|$prefix|; s|@arch@|$arch|" <<'ENV'
export MEMFABRIC_HYBRID_HOME_PATH=/usr/local/memfabric_hybrid/latest
export MEMFABRIC_HYBRID_EXTEND_LIB_PATH=$MEMFABRIC_HYBRID_HOME_PATH/@arch@-linux/lib64
export LD_LIBRARY_PATH=$MEMFABRIC_HYBRID_HOME_PATH/@arch@-linux/lib64:$LD_LIBRARY_PATH
export PATH=$MEMFABRIC_HYBRID_HOME_PATH/@arch@-linux/bin:$PATH
ENV
}
