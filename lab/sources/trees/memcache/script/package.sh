# shellcheck shell=bash
# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
# What is MemCache's own in building and installing; sourced by build_and_pack_run.sh, install.sh and uninstall.sh.
# shellcheck disable=SC2034,SC2154  # name and wheel_required are read, prefix, target and arch are set, by the sourcing script
name=memcache_hybrid
wheel_required=y

# MemCache is compiled against MemFabric's sources of its own version, not against what the submodule names.
check_sources() {
  local fabric=3rdparty/memfabric_hybrid
  if ! grep -qs '^name=memfabric_hybrid$' "$fabric/script/package.sh"; then
    echo "CMake Error: $fabric is not a checkout of MemFabric" >&2
    exit 1
  fi
  if [ "$(cat "$fabric/VERSION")" != "$(cat VERSION)" ]; then
    echo "error: $fabric is $(cat "$fabric/VERSION"), $(cat VERSION) is needed: smem_bm_def.h has no smem_bm_config_t" >&2
    exit 1
  fi
}

install_libraries() {
  cat >"$target/$arch-linux/bin/mmc_meta_service" <<'BIN'
#!/usr/bin/env bash
exec python3 -c "from memcache_hybrid import MetaService; MetaService.main()"
BIN
}

set_env_lines() {
  sed "s|/usr/local|$prefix|; s|@arch@|$arch|" <<'ENV'
export MEMCACHE_HYBRID_HOME_PATH=/usr/local/memcache_hybrid/latest
export LD_LIBRARY_PATH=$MEMCACHE_HYBRID_HOME_PATH/@arch@-linux/lib64:$LD_LIBRARY_PATH
export PATH=$MEMCACHE_HYBRID_HOME_PATH/@arch@-linux/bin:$PATH
ENV
}
