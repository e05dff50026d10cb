#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Builds the scripted provider, a test double for libibverbs.so.1.
#
#   build.sh OUTDIR [NODE]   NODE: the newest version node that it has (IBVERBS_1.9, say), or `none`
#
# Environment: CC, CFLAGS; IBV_SA_SYMBOLS: the tool that reads the symbol table (cargo runs it unless
# given); STUBS=ready: what the tool makes is in OUTDIR already.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
out=$1
until=${2:-all}
mkdir -p "$out"

symbols() {
	if [ -n "${IBV_SA_SYMBOLS:-}" ]; then
		"$IBV_SA_SYMBOLS" "$@"
	else
		cargo run --quiet --manifest-path "$here/../../crates/symbols/Cargo.toml" -- "$@"
	fi
}

if [ "${STUBS:-}" != ready ]; then
	symbols provider "$until" >"$out/stubs.c"
	symbols provider-map "$until" >"$out/provider.map"
fi
made=$out/libibverbs.so.1.$$
read -ra extra <<<"${CFLAGS:-}"
${CC:-gcc} -Wall -Wextra -Werror -O2 -g -std=gnu11 -fPIC -pthread -shared "${extra[@]}" -I "$here" \
	-Wl,-soname,libibverbs.so.1 -Wl,--version-script="$out/provider.map" \
	-Wl,--no-undefined-version -o "$made" \
	"$here"/*.c "$out/stubs.c"
mv "$made" "$out/libibverbs.so.1"
ln -sf libibverbs.so.1 "$out/libibverbs.so"
