# shellcheck shell=bash disable=SC2154  # what it looks at is declared by bench/rerun
# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0
#
# What site.yml looks at on one host when nothing has changed, as a careful person would write it: one script, one
# connection, chips side by side. Prints the state as text that is equal as long as it is unchanged (rerun.sh compares),
# and ends with an error where something does not answer. bench/rerun puts the declarations in front:
#   chips, pings (an address for each chip), model, paths, peers ("address port"), folders (config folders), services
#   (containers), listeners ("address:port"), urls, builds (folders of builders), image (base image)
set -euo pipefail
PATH+=:/usr/local/Ascend/driver/tools # where the driver leaves hccn_tool

all() { # the processes that were started beside each other; fails where one has
  local process
  for process in "$@"; do wait "$process"; done
}

# ---- the probe: chips and their ports ----
npu-smi info | grep -c ' OK '
npu-smi info -m | grep -c Ascend
npu-smi info -t spod-info -i 0 -c 0 | grep -i 'super pod id'
cat /usr/local/Ascend/driver/version.info
port() { # chip address
  local question
  for question in -link -net_health -ip -vnic -tls; do
    hccn_tool -i "$1" "$question" -g | sed "s/^/$1 $question /"
  done
  [[ -z $2 ]] || hccn_tool -i "$1" -hccs_ping -g address "$2" >/dev/null && printf '%s pings\n' "$1"
}
for chip in "${chips[@]}"; do port "$chip" "${pings[chip]:-}" & done | sort
cat /etc/hccn.conf

# ---- the probe: machine, network, model ----
grep -E '^(MemTotal|HugePages_Total|Hugepagesize)' /proc/meminfo
grep -cw sve /proc/cpuinfo || true
df --output=size,target "${paths[@]}"
ip -oneline address show | awk '{print $2, $4}'
for peer in "${peers[@]}"; do
  read -r address number <<<"$peer"
  ip route get "$address" | head -n 1
  # shellcheck disable=SC2016  # the inner bash expands them
  if timeout 3 bash -c '</dev/tcp/"$0"/"$1"' "$address" "$number" 2>/dev/null; then printf '%s open\n' "$peer"; fi
done
timeout 10 docker version --format '{{.Server.Version}}'
systemctl is-active docker.service
sysctl net.ipv4.ip_local_port_range net.ipv4.ip_local_reserved_ports
find "$model" -maxdepth 1 -printf '%f %s %T@\n' | sort
sha256sum "$model"/*.json

# ---- builds: do branches still stand for the commits that the images were made of? ----
commits() {
  local folder started=()
  for folder in "${builds[@]}"; do
    sha256sum "$folder"/*
    docker run --rm --network=host --volume="$folder:/build:ro" --entrypoint=/bin/bash "$image" /build/build resolve &
    started+=($!)
  done
  all "${started[@]}"
}
if ((${#builds[@]})); then
  docker image inspect --format '{{.Id}}' "$image"
  commits | sort
fi

# ---- services: settings, containers, images, ports, health ----
stat --format='%n %a %U' "${folders[@]}"
find "${folders[@]}" -type f -printf '%p %m %u\n' | sort
find "${folders[@]}" -type f -print0 | sort -z | xargs -0 sha256sum
docker inspect --format \
  '{{.Name}} {{.Image}} {{.State.Status}} {{.State.StartedAt}} {{.RestartCount}} {{json .Config}} {{json .HostConfig}}' \
  "${services[@]}"
docker image ls --no-trunc --format '{{.Repository}}:{{.Tag}} {{.ID}}' 'vllm-ascend-pd/*' | sort
there=$(ss --tcp --listening --numeric --no-header | awk '{print $4}')
for listener in "${listeners[@]}"; do grep --quiet --line-regexp --fixed-strings "$listener" <<<"$there"; done
started=()
for url in "${urls[@]}"; do
  curl --silent --show-error --fail --noproxy '*' --max-time 5 --output /dev/null "$url" &
  started+=($!)
done
all "${started[@]}"
for service in "${services[@]}"; do
  ! docker logs --tail 2000 "$service" 2>&1 | grep -E 'out of memory|Address already in use|EI0014|EJ0003|Traceback' || exit 1
done
