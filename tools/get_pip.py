# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Stand-in for the get-pip.py that ansible-test downloads: pip from ensurepip, then the versions that are asked for."""

from __future__ import annotations

import subprocess
import sys

packages = [argument for argument in sys.argv[1:] if argument not in ("--no-setuptools", "--no-wheel")]
subprocess.run([sys.executable, "-m", "ensurepip", "--default-pip"], check=True, stdout=subprocess.DEVNULL)
subprocess.run([sys.executable, "-m", "pip", "install", "--upgrade", "--quiet", *packages], check=True)
