# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Unpack the collections we depend on from the `ansible` wheel, so that no Galaxy server is needed.

Usage: fetch_collections.py REQUIREMENTS DESTINATION
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

# community.docker imports the inventory-filtering library in its inventory plugins.
COLLECTIONS = ("ansible.posix", "community.docker", "community.library_inventory_filtering_v1")


def main(requirements: str, destination: str) -> None:
    prefixes = tuple(f"ansible_collections/{name.replace('.', '/')}/" for name in COLLECTIONS)
    with tempfile.TemporaryDirectory() as download:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", download]
        subprocess.run([*pip, "--requirement", requirements], check=True)
        (wheel,) = Path(download).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(destination, [name for name in archive.namelist() if name.startswith(prefixes)])


if __name__ == "__main__":
    main(*sys.argv[1:])
