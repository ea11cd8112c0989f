#!/usr/bin/env bash
# Everything that must hold: formatting, lints, all tests. No GPU is needed.
#
# The kernels run on a software Vulkan driver, and the CUDA code of every kernel is compiled by
# NVRTC. Both are installed where they are missing (on Debian and Ubuntu); where they are there,
# nothing is fetched but what cargo fetches.
#
# On a machine with a GPU: WHITEWATER_TEST_DEVICE=cuda ./test.sh (or vulkan).

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

say() { printf '\n== %s\n' "$*"; }
die() { printf 'test.sh: %s\n' "$*" >&2; exit 1; }

# Debian packages, once the package lists are fresh.
install_packages() {
  command -v apt-get > /dev/null || die "install by hand, there is no apt-get here: $*"
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo > /dev/null || die "install as root: apt-get install $*"
    as_root=(sudo)
  fi
  say "installing $*"
  "${as_root[@]}" apt-get update -q
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -q --no-install-recommends "$@"
}

library_is_known() {
  local found
  found=$(PATH="$PATH:/sbin:/usr/sbin" ldconfig -p 2> /dev/null | grep -F "$1" || true)
  [ -n "$found" ]
}

software_vulkan_is_there() {
  library_is_known libvulkan.so.1 || return 1
  compgen -G '/usr/share/vulkan/icd.d/lvp_icd*.json' > /dev/null ||
    compgen -G '/etc/vulkan/icd.d/lvp_icd*.json' > /dev/null ||
    [ -n "${VK_DRIVER_FILES:-${VK_ICD_FILENAMES:-}}" ]
}

# The folder of NVRTC's library under target/nvrtc or in a CUDA toolkit, or nothing.
nvrtc_folder() {
  local found
  found=$(find "$PWD/target/nvrtc" /usr/local/cuda/lib64/ -name 'libnvrtc.so*' -print -quit \
    2> /dev/null || true)
  [ -z "$found" ] || dirname "$found"
}

command -v cargo > /dev/null || die "install Rust first: https://rustup.rs"
command -v cc > /dev/null || install_packages gcc libc6-dev

if [ "$(uname -s)" = Linux ]; then
  if ! software_vulkan_is_there; then
    install_packages libvulkan1 mesa-vulkan-drivers
    software_vulkan_is_there || die "no software Vulkan driver, though mesa-vulkan-drivers is installed"
  fi

  if ! library_is_known libnvrtc.so && [ -z "$(nvrtc_folder)" ]; then
    python3 -m pip --version > /dev/null 2>&1 || install_packages python3 python3-pip
    say "installing NVRTC into target/nvrtc"
    python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore \
      --target target/nvrtc 'nvidia-cuda-nvrtc>=13,<14' || die "pip could not install nvidia-cuda-nvrtc"
    [ -n "$(nvrtc_folder)" ] || die "nvidia-cuda-nvrtc came without libnvrtc.so"
  fi
  # NVRTC looks for its built-in functions by the loader's path too.
  folder=$(nvrtc_folder)
  [ -z "$folder" ] || export LD_LIBRARY_PATH="$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  export WHITEWATER_REQUIRE_NVRTC=1

  # The software driver complains on every start where no desktop session has set it.
  export XDG_RUNTIME_DIR="${XDG_RUNTIME_DIR:-${TMPDIR:-/tmp}}"
fi

# Nothing is built twice here, so incremental files would be wasted.
export CARGO_INCREMENTAL=0
# Whatever the device, the first kernels of every module are compiled for sm_80 and sm_90 too.
export WHITEWATER_CHECK_CUDA=1
# The software driver runs workgroups one after the other, so that those which wait for earlier ones can be
# tested on it.
export LP_NUM_THREADS=1
# All tests run on one device.
export WHITEWATER_TEST_DEVICE="${WHITEWATER_TEST_DEVICE:-software}"
export WHITEWATER_DEVICE="$WHITEWATER_TEST_DEVICE"

say "cargo fmt"
cargo fmt --all --check

say "cargo clippy"
cargo clippy --workspace --all-targets -- -D warnings

say "cargo test"
cargo test --workspace

say "all green"
