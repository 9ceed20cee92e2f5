#!/usr/bin/env bash
# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
# Self-extracting installer: what follows the last line of this script is a tar.gz with install.sh in it.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
first=$(awk '/^__PAYLOAD__$/ { print NR + 1; exit }' "$0")
tail -n "+$first" "$0" | tar -xz -C "$work" || exit 1
bash "$work/install.sh" "$@"
exit $?
# shellcheck disable=SC2317
__PAYLOAD__
