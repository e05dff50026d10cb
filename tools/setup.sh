#!/bin/bash
# setup.sh [build] [test] [kernel] [fabric] [fuzz] - makes sure that what these groups of targets need is installed.
# As root, missing Debian packages are installed; anybody else gets the list and an error.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
top=$(dirname "$here")

# The oldest release that the tests have run with; also in Cargo.toml (rust-version).
rust_needed=1.95

packages_build="gcc g++ libc6-dev make pkg-config"
packages_test="clang libclang-dev libclang-rt-14-dev libibverbs-dev ibverbs-providers ibverbs-utils valgrind strace gdb
  git python3 python3-jsonschema python3-seccomp pandoc shellcheck libcap2-bin binutils util-linux procps man-db systemd"
# OpenSM on a simulated InfiniBand fabric, and what asks it.
packages_fabric="opensm ibsim-utils libibumad-dev infiniband-diags util-linux"
# libFuzzer comes as C++ source with a crate.
packages_fuzz="g++"
packages_kernel="libibverbs-dev librdmacm-dev qemu-system-x86 cpio kmod e2fsprogs python3 xz-utils perl mmdebstrap"
# Debian 12's own Rust is older than the sources need; these packages carry a current one.
packages_rust="cargo-web rustc-web rust-web-clippy rustfmt-web"

# True if $1 is version $2 or newer.
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -1)" = "$2" ]; }

rust_is_good() {
  local found
  found=$(rustc --version 2>/dev/null | cut -d' ' -f2) || return 1
  [ -n "$found" ] && at_least "${found%%-*}" "$rust_needed" && command -v cargo >/dev/null
}

wanted=
for group in "$@"; do
  case $group in
    build) wanted+=" $packages_build"; rust_is_good || wanted+=" $packages_rust" ;;
    test) wanted+=" $packages_test $packages_fabric" ;;
    fabric) wanted+=" $packages_fabric" ;;
    kernel) wanted+=" $packages_kernel" ;;
    fuzz) wanted+=" $packages_fuzz" ;;
    *) echo "setup.sh: unknown group '$group' (known: build test kernel fabric fuzz)" >&2; exit 2 ;;
  esac
done

missing=
for package in $wanted; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=" $package"
done

if [ -n "$missing" ]; then
  if [ "$(id -u)" -ne 0 ]; then
    printf 'setup.sh: these Debian packages are missing:\n  %s\nInstall them as root: apt-get install%s\n' \
      "${missing# }" "$missing" >&2
    exit 1
  fi
  echo "setup.sh: installing$missing" >&2
  log=$(mktemp)
  trap 'rm -f "$log"' EXIT
  export DEBIAN_FRONTEND=noninteractive
  # shellcheck disable=SC2086
  if ! { apt-get update -qq && apt-get install -y --no-install-recommends $missing; } >"$log" 2>&1; then
    tail -20 "$log" >&2
    echo "setup.sh: apt-get failed (above); check the network and the package sources, then try again" >&2
    exit 1
  fi
fi
rust_is_good || { echo "setup.sh: rustc $rust_needed or newer and cargo are needed, $(rustc --version 2>&1) found" >&2; exit 1; }

# tool NAME TIME: a cargo subcommand of our own, built if it is not there.
tool() {
  [ ! -x "$top/build/tools/bin/$1" ] || return 0
  echo "setup.sh: building $1 (about $2, once)" >&2
  CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
    CARGO_TARGET_DIR=$top/build/tools/target \
    cargo install --quiet --locked "$1" --root "$top/build/tools"
  rm -rf "$top/build/tools/target"
}
case " $* " in *" test "*) tool cargo-deny "two minutes" ;; esac
case " $* " in *" fuzz "*) tool cargo-fuzz "a minute" ;; esac
