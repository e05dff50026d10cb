#!/bin/bash
# style.sh - formatting, lints, docs, licences, scripts, and whether generated files are what their sources say.
set -uo pipefail
cd "$(dirname "$(readlink -f "$0")")/.." || exit 1

passed=0 failed=0
log=$(mktemp) made=$(mktemp -d)
trap 'rm -rf "$log" "$made"' EXIT

# check NAME COMMAND...: runs it, shows its output only when it fails.
check() {
  local name=$1; shift
  if "$@" >"$log" 2>&1; then
    passed=$((passed + 1)); echo "ok      $name"
  else
    failed=$((failed + 1)); echo "FAILED  $name"; cat "$log"
  fi
}

same() { # COMMITTED MADE HOW
  diff -u "$1" "$2" || { echo "$1 is not what its source makes: run \`$3\` and commit"; return 1; }
}
bindings() { IBV_SA_GENERATE_DIR=$made cargo build -q --features bindings && same src/abi/verbs.rs "$made/verbs.rs" "make bindings"; }
header() { IBV_SA_GENERATE_DIR=$made cargo build -q --features header && same include/infiniband/ibv_sa.h "$made/ibv_sa.h" "make header"; }
man_pages() {
  local source page
  for source in man/*.md; do
    page=${source%.md}
    pandoc -s -t man "$source" -o "$made/page" && same "$page" "$made/page" "pandoc -s -t man $source -o $page" || return 1
  done
}
man_renders() { man --warnings -l man/*.[0-9] 2>&1 >/dev/null | { ! grep .; }; }
header_alone() { # COMPILER LANGUAGE STANDARD
  printf '#include <infiniband/ibv_sa.h>\n%s\nint main(void) { return ibv_sa_version() == 0; }\n' "$4" |
    "$1" -x "$2" -std="$3" -Wall -Wextra -Werror -Iinclude -c -o /dev/null -
}
licences() { build/tools/bin/cargo-deny --offline check licenses bans sources; }
# fuzz/ is a workspace of its own. To look at it takes no fuzzer: libFuzzer, which is C++, would be built otherwise.
fuzz_clippy() {
  CUSTOM_LIBFUZZER_PATH=/nowhere/libfuzzer.a CARGO_TARGET_DIR=target \
    cargo clippy -q --locked --manifest-path fuzz/Cargo.toml -- -D warnings
}
fuzz_licences() {
  build/tools/bin/cargo-deny --offline --manifest-path fuzz/Cargo.toml --config fuzz/deny.toml check licenses bans sources
}
scripts() { git ls-files '*.sh' .ci/run | xargs shellcheck; }
# Every crate but the shim forbids unsafe code; the daemon's denies it, but in three files that call C.
unsafe_kept_out() {
  local lib lint allowed
  for lib in crates/*/src/lib.rs tests/src/lib.rs; do
    lint=forbid
    [ "$lib" != crates/sa-daemon/src/lib.rs ] || lint=deny
    grep -q "^#!\[$lint(unsafe_code)\]" "$lib" || { echo "$lib lacks #![$lint(unsafe_code)]"; return 1; }
  done
  allowed=$(grep -rl 'allow(unsafe_code' crates/sa-daemon | sort | xargs)
  [ "$allowed" = "crates/sa-daemon/src/server/sys.rs crates/sa-daemon/src/transport/umad/ffi.rs crates/sa-daemon/src/transport/umad/verbs.rs" ] ||
    { echo "unsafe code is allowed in $allowed: not in the three files that are meant for it"; return 1; }
}

check "rustfmt" cargo fmt --all --check
check "clippy" cargo clippy -q --workspace --all-targets -- -D warnings
check "clippy, panic-probe" cargo clippy -q --features panic-probe -- -D warnings
check "rustfmt, fuzz targets" cargo fmt --manifest-path fuzz/Cargo.toml --check
check "clippy, fuzz targets" fuzz_clippy
check "rustdoc" env RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" cargo doc -q --workspace --no-deps --document-private-items
check "licences (cargo deny)" licences
check "licences, fuzz targets" fuzz_licences
check "third-party notices" tools/notices.py --check
check "shellcheck" scripts
check "bindings are current" bindings
check "header is current" header
check "man pages are current" man_pages
check "man pages render" man_renders
check "header, C99" header_alone gcc c c99 ""
check "header, C11 after verbs.h" header_alone gcc c c11 "#include <infiniband/verbs.h>"
check "header, C++17" header_alone g++ c++ c++17 ""
check "header, clang" header_alone clang c c99 ""
check "header, clang, C11 after verbs.h" header_alone clang c c11 "#include <infiniband/verbs.h>"
check "header, clang, C++17" header_alone clang++ c++ c++17 ""
check "unsafe code only where it belongs" unsafe_kept_out

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
