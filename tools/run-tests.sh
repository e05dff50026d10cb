#!/bin/bash
# run-tests.sh [--record FILE] TARGET... - runs make targets one after the other, all of them even if one fails,
# and ends with one line for each and a sum. --record writes the dated result to FILE too.
set -uo pipefail
cd "$(dirname "$(readlink -f "$0")")/.." || exit 1

record=
if [ "${1:-}" = --record ]; then record=$2; shift 2; fi

passed=0 failed=0 lines=()
started=$SECONDS
for target in "$@"; do
  echo "== $target"
  t0=$SECONDS
  if make --no-print-directory "$target"; then verdict=passed passed=$((passed + 1)); else verdict=FAILED failed=$((failed + 1)); fi
  lines+=("$(printf '%-12s %-6s %5d s' "$target" "$verdict" $((SECONDS - t0)))")
done

summary() {
  printf '%s\n' "${lines[@]}"
  echo "total $((SECONDS - started)) s"
}
echo
summary
if [ -n "$record" ]; then
  mkdir -p "$(dirname "$record")"
  {
    echo "# Soak: every check with full counts"
    echo
    echo "$(date +%F), commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown), $(nproc) cores," \
      "kernel $(uname -r), $(rustc --version)"
    echo
    echo '```'
    summary
    echo '```'
  } >"$record"
fi
echo "targets: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
