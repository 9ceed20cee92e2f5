#!/usr/bin/env bash
# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0
#
# The rival of a second site.yml: the same checks over multiplexed SSH, all hosts at once, then two completions.
# Usage: rerun.sh FOLDER before|now    bench/rerun fills FOLDER:
#   hosts            NAME ADDRESS, one a line
#   NAME.declare     what rerun_host.sh is to look at
#   ssh              options of ssh, one a line
#   completions      a body a line; proxy: the URL they go to
# Writes NAME.before or NAME.now; `now` compares both.
set -euo pipefail
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
cd "$1"
mapfile -t options <ssh

waiting=()
while read -r name address; do
  cat "$name.declare" "$here/rerun_host.sh" | ssh "${options[@]}" "root@$address" bash -s >"$name.$2" &
  waiting+=($!)
done <hosts
for process in "${waiting[@]}"; do wait "$process"; done

url=$(<proxy)
while read -r body; do
  curl --silent --show-error --fail --noproxy '*' --max-time 300 --header 'Content-Type: application/json' \
    --data-raw "$body" "$url" | python3 -c 'import json, sys; assert json.load(sys.stdin)["choices"][0]["text"].strip()'
done <completions

[[ $2 == before ]] || while read -r name address; do diff "$name.before" "$name.now"; done <hosts
