# shellcheck shell=bash
# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
# Stand-in of the compiler front end's: the image's entrypoint sources it between CANN's and nnal's.
export ASCEND_NPU_IR_HOME=/usr/local/Ascend/ascend-toolkit/latest/share/info/ascendnpu-ir
export PATH=$ASCEND_NPU_IR_HOME/bin:$PATH
