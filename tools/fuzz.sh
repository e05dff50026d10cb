#!/bin/bash
# fuzz.sh [--seconds N] [--input FILE] [TARGET...] - runs the fuzz targets of fuzz/ (all of them without a name), each for
# N seconds (60), from the valid samples on and what earlier runs have found. With --input the one target runs that file
# alone. What is built and found is in build/fuzz.
set -euo pipefail
top=$(dirname "$(dirname "$(readlink -f "$0")")")
cd "$top"

# Seconds between two lines of progress.
step=10
seconds=60 input=
while [ $# -gt 0 ]; do
  case $1 in
    --seconds) seconds=$2; shift 2 ;;
    --input) input=$2; shift 2 ;;
    -*) echo "fuzz.sh: unknown option $1" >&2; exit 2 ;;
    *) break ;;
  esac
done
known=$(sed -n 's|^path = "fuzz_targets/\(.*\)\.rs"|\1|p' fuzz/Cargo.toml)
targets=("$@")
[ $# -gt 0 ] || mapfile -t targets <<<"$known"
for target in "${targets[@]}"; do
  grep -qx "$target" <<<"$known" || { echo "fuzz.sh: no target '$target'; there are: ${known//$'\n'/ }" >&2; exit 2; }
done
case $seconds in '' | *[!0-9]* | 0) echo "fuzz.sh: '$seconds' is no number of seconds" >&2; exit 2 ;; esac
if [ -n "$input" ] && { [ ${#targets[@]} -ne 1 ] || [ ! -f "$input" ]; }; then
  echo "fuzz.sh: an input is a file, for one target" >&2
  exit 2
fi

# Coverage is all that is asked of the compiler. The sanitizers need a compiler of their own (nightly flags, and a
# run-time library that Debian's does not bring) and would look at unsafe code, of which next to none is reached here.
if ! [ -x build/tools/bin/cargo-fuzz ]; then
  echo "fuzz.sh: no cargo-fuzz in build/tools; tools/setup.sh build fuzz" >&2
  exit 1
fi
echo "fuzz.sh: building (some minutes the first time)"
build/tools/bin/cargo-fuzz build --sanitizer none --debug-assertions --target-dir "$top/build/fuzz/target" \
  >build/fuzz.log 2>&1 || { cat build/fuzz.log; exit 1; }
binaries=$(find build/fuzz/target -path '*/release/mad' -printf '%h')

# Each input of the target `session` makes a folder with a socket.
if [ -d /dev/shm ]; then export TMPDIR=/dev/shm; fi
if [ -n "$input" ]; then exec "$binaries/${targets[0]}" -timeout=20 "$input"; fi

rm -rf build/fuzz/seeds
cargo run -q -p ibv-sa-samples --bin seeds build/fuzz/seeds

failed=0
run() { # TARGET
  local target=$1 log=build/fuzz/$1.log pid code found
  local corpus=build/fuzz/corpus/$target crashes=build/fuzz/crashes/$target
  mkdir -p "$corpus" "$crashes"
  echo "$target: $seconds s"
  "$binaries/$target" "$corpus" "build/fuzz/seeds/$target" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 \
    -print_final_stats=1 -artifact_prefix="$crashes/" >"$log" 2>&1 &
  pid=$!
  trap 'kill "$pid" 2>/dev/null' EXIT
  local next=$((SECONDS + step))
  while kill -0 "$pid" 2>/dev/null; do
    sleep 0.2
    if [ "$SECONDS" -ge "$next" ]; then
      next=$((SECONDS + step))
      grep -a '^#[0-9].* cov: ' "$log" | tail -1 | sed "s/^/  $target: /; s/ L: .*//" || true
    fi
  done
  code=0
  wait "$pid" || code=$?
  trap - EXIT
  if [ "$code" -eq 0 ]; then
    printf 'ok      %s: %s inputs, %s a second, %s places reached, %s inputs kept\n' "$target" \
      "$(stat_of number_of_executed_units "$log")" "$(stat_of average_exec_per_sec "$log")" \
      "$(grep -a ' cov: ' "$log" | tail -1 | sed 's/.* cov: \([0-9]*\) .*/\1/')" "$(find "$corpus" -type f | wc -l)"
    return
  fi
  failed=$((failed + 1))
  found=$(sed -n "s|.*Test unit written to \(.*\)|\1|p" "$log" | tail -1)
  echo "FAILED  $target (exit code $code):"
  grep -a -A3 -E "panicked at|^==[0-9]+== ERROR|ALARM" "$log" | head -12 | sed 's/^/  /' || true
  if [ -n "$found" ]; then
    echo "  input: $top/$found"
    echo "  again: make fuzz TARGET=$target INPUT=$found"
  else
    tail -20 "$log"
  fi
}
stat_of() { sed -n "s/^stat::$1: *//p" "$2"; }

for target in "${targets[@]}"; do run "$target"; done
echo "fuzz.sh: ${#targets[@]} targets, $failed failed"
[ "$failed" -eq 0 ]
