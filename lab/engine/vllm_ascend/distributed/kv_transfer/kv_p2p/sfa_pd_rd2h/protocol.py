# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Names of the sparse P/D protocol that upstream's layerwise proxy imports."""

from __future__ import annotations

BATCH_KV_TRANSFER_PARAMS = "batch_kv_transfer_params"
