#!/bin/bash
# notices.sh - how long notices take, how many go through the daemon, what registrations cost. `notices.sh --help` says
# more.
set -euo pipefail
export LC_ALL=C
here=$(dirname "$(readlink -f "$0")")
top=$(dirname "$here")

usage() {
  cat <<'END'
usage: benches/notices.sh [--json FILE] [--shim FILE] [--rounds N]

Measures the daemon's own loop, with an SA in the same process, and programs that get their notices through
libibv_sa.so.1:
  * the time from the arrival of a Report to the return of ibv_sa_get_event()
  * deliveries per second, beside a bare loop that does nothing but send, in turn
  * memory with 10,000 registrations, and CPU and wake-ups while nothing happens
  * CPU and wake-ups of `ibv-sa daemon` while nothing happens, with an OpenSM on a simulated fabric (benches/idle.sh)
Every delivery is checked: one that is lost, doubled or out of its order is an error. Nothing passes or fails by its
time. Takes about two minutes; progress goes to stderr.

  --json FILE    also write the numbers to FILE, as JSON
  --shim FILE    the library that the programs have (default: build/release/libibv_sa.so.1)
  --rounds N     how often each is measured, 1 or more, and for how many seconds nothing happens (default: 20)
END
}
rounds=20
# shellcheck source=benches/options.sh
. "$here/options.sh" "$@"
for file in "$top/build/release/ibv-sa-bench" "$top/build/release/ibv-sa"; do
  [ -f "$file" ] || die "there is no $file: run \`make bench\`"
done
for tool in "${CC:-cc}" setpriv python3; do
  command -v "$tool" >/dev/null || die "$tool is missing: run \`make setup\` (as root) or install it"
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# A build that goes on meanwhile must not change what is measured.
cp "$shim" "$work/libibv_sa.so.1"
cp "$top/build/release/ibv-sa-bench" "$work"
"${CC:-cc}" -Wall -Wextra -Werror -O2 -g -std=gnu11 -I "$top/include" -o "$work/notices" "$here/notices.c" \
  -L "$work" -l:libibv_sa.so.1
# Whatever is started here ends with this script.
LD_LIBRARY_PATH=$work setpriv --pdeathsig KILL "$work/ibv-sa-bench" --client "$work/notices" --rounds "$rounds" \
  --json "$work/results" >"$work/tables"
echo "bench: the daemon with an OpenSM; idle for $rounds s" >&2
idle=$(setpriv --pdeathsig KILL "$here/idle.sh" "$rounds" 2>"$work/idle.log") ||
  { cat "$work/idle.log" >&2; die "idle.sh failed (above)"; }

# shellcheck source=benches/machine.sh
. "$here/machine.sh"
print_machine
echo "Best and median of $rounds rounds."
echo
cat "$work/tables"
awk -v seconds="$rounds" '{ printf "a port of libibumad, OpenSM on a simulated fabric %41d s %8.0f %9d\n", seconds, $1 / 1000, $2 }' <<<"$idle"
if [ -n "$json" ]; then
  printf '{%s,\n"rounds":%d,"idle_with_opensm":{"idle_s":%d,"idle_cpu_ns":%d,"idle_wakes":%d},\n"results":%s}\n' \
    "$(json_machine ibv_sa.bench-notices/1)" "$rounds" "$rounds" "${idle% *}" "${idle#* }" "$(cat "$work/results")" \
    >"$json"
  echo "bench: wrote $json" >&2
fi
