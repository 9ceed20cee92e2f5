#!/usr/bin/env bash
# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
# Removes this version: the wheel, the folder with its config/, and the links that pointed here.
# shellcheck disable=SC1091,SC2154  # name, wheel_required and the hooks come from package.sh
target=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
home=$(dirname "$target")
source "$target/.package.sh"
if command -v pip3 >/dev/null; then pip3 uninstall -y "$name"; fi
if [ "$(readlink "$home/latest")" = "$(basename "$target")" ]; then rm -f "$home/latest" "$home/set_env.sh"; fi
rm -rf "$target"
echo "[$name] [INFO] uninstalled $target"
