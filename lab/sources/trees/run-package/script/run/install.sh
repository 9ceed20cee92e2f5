#!/usr/bin/env bash
# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
# Installs one package below /usr/local/<name>/<version> as upstream's installers do, including what hurts:
# an older install is removed first together with every edit in its config/, and whatever pip had goes too.
# shellcheck disable=SC1091,SC2154  # name, wheel_required and the hooks come from package.sh
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/package.sh"
version=$(sed -n 's/^version=//p' "$here/version.info")
arch=$(sed -n 's/^arch=//p' "$here/version.info")
prefix=/usr/local
uninstall_only=n
for_all=n
check=y

log() { echo "[$name] [$1] $2"; }

for option in "$@"; do
  case $option in
    --install-path=*) prefix=${option#*=} ;;
    --uninstall) uninstall_only=y ;;
    --install-for-all) for_all=y ;;
    --no-check) check=n ;;
    *)
      log ERROR "unknown option $option"
      exit 1
      ;;
  esac
done
home=$prefix/$name
target=$home/$version
export target arch # for the hooks of package.sh

uninstall_old() {
  local script
  for script in "$home"/*/uninstall.sh; do
    if [ -f "$script" ] && [ ! -L "$(dirname "$script")" ]; then bash "$script"; fi
  done
}

install_wheel() {
  if ! command -v pip3 >/dev/null; then
    log ERROR "pip3 is not found, the wheel is not installed"
    return 1
  fi
  pip3 install --no-index --no-deps --force-reinstall "$target/$arch-linux"/wheel/*.whl
}

install_files() {
  mkdir -p "$target/$arch-linux"/{bin,lib64}
  cp -r "$here/include" "$here/wheel" "$target/$arch-linux/"
  if [ -n "$(ls "$here/config")" ]; then cp -r "$here/config" "$target/"; fi
  cp "$here/version.info" "$here/uninstall.sh" "$target/"
  cp "$here/package.sh" "$target/.package.sh"
}

restrict_modes() {
  local others=o=
  if [ "$for_all" = y ]; then others=o=rX; fi
  chmod -R "u=rwX,g=rX,$others" "$home"
  if [ -d "$target/config" ]; then chmod 640 "$target"/config/*; fi
  chmod 550 "$home/set_env.sh" "$target/uninstall.sh" "$target/$arch-linux"/bin/* "$target/$arch-linux"/lib64/* 2>/dev/null || true # may be empty
}

link_latest() {
  ln -sfn "$version" "$home/latest"
  set_env_lines >"$home/set_env.sh"
}

if [ "$check" = y ] && [ "$arch" != "$(uname -m)" ]; then
  log ERROR "this package is for $arch, the machine is $(uname -m)"
  exit 1
fi
uninstall_old
if [ "$uninstall_only" = y ]; then exit 0; fi
install_files || exit 1
install_libraries
if ! install_wheel && [ "$wheel_required" = y ]; then
  # Upstream's memcache installer returns here: no error code, and no `latest` link either.
  exit 0
fi
link_latest
restrict_modes
log INFO "installed $target"
