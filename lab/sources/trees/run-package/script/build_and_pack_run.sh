#!/usr/bin/env bash
# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
# Packs this tree into output/<name>-<VERSION>_linux_<arch>.run. The file name follows VERSION, not the branch.
# Upstream compiles here; the lab packs the published wheel of the same version, which lies in prebuilt/.
# shellcheck disable=SC1091,SC2154  # name, wheel_required and the hooks come from package.sh
set -e
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source script/package.sh
version=$(cat VERSION)
arch=$(uname -m)

check_sources

echo "building $name $version for $arch"
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
mkdir "$stage/wheel" "$stage/include" "$stage/config"
cp prebuilt/*.whl "$stage/wheel/"
for folder in include config; do
  if [ -d "$folder" ]; then cp -r "$folder/." "$stage/$folder/"; fi
done
cp script/package.sh script/run/install.sh script/run/uninstall.sh "$stage/"
printf 'package=%s\nversion=%s\narch=%s\ncommit=%s\n' "$name" "$version" "$arch" \
  "$(git rev-parse HEAD 2>/dev/null || echo unknown)" >"$stage/version.info"

rm -rf output
mkdir output
run=output/${name}-${version}_linux_${arch}.run
cp script/run/header.sh "$run"
tar -cz -C "$stage" . >>"$run"
chmod 550 "$run"
echo "packed $run"
