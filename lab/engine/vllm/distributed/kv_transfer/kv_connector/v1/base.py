# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""The one name that upstream's protocol module takes from here."""

from __future__ import annotations


class KVConnectorMetadata:
    """Base of the metadata that a connector's scheduler hands to its worker."""
