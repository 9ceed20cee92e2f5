# shellcheck shell=bash
# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
# Stand-in of nnal's: takes --cxx_abi=0|1 from the caller's arguments, as the real one does, and asks torch when it is not given.
cxx_abi=
for argument in "$@"; do
  case $argument in --cxx_abi=*) cxx_abi=${argument#*=} ;; esac
done
if [ -z "$cxx_abi" ]; then
  cxx_abi=$(python3 -c 'import torch; print(int(torch.compiled_with_cxx11_abi()))' 2>/dev/null) || cxx_abi=1
fi
export ATB_HOME_PATH=/usr/local/Ascend/nnal/atb/latest/atb/cxx_abi_$cxx_abi
export LD_LIBRARY_PATH=$ATB_HOME_PATH/lib:$ATB_HOME_PATH/examples:$LD_LIBRARY_PATH
export PATH=$ATB_HOME_PATH/bin:$PATH
export ATB_STREAM_SYNC_EVERY_KERNEL_ENABLE=0
export ATB_OPSRUNNER_KERNEL_CACHE_LOCAL_COUNT=1
export ATB_WORKSPACE_MEM_ALLOC_ALG_TYPE=1
export ATB_MATMUL_SHUFFLE_K_ENABLE=1
export LCCL_DETERMINISTIC=0
unset cxx_abi argument
