#!/bin/bash
# idle.sh SECONDS - what `ibv-sa daemon` does while nothing happens at its port: with an OpenSM on a simulated fabric,
# through libibumad, and with registrations. Prints nanoseconds on a CPU and wake-ups of all its threads.
set -euo pipefail
export LC_ALL=C
here=$(dirname "$(readlink -f "$0")")
top=$(dirname "$here")
fabric=$top/testbed/sa/fabric.sh
command=$top/build/release/ibv-sa

die() { echo "idle.sh: $*" >&2; exit 1; }
[[ ${1:-} =~ ^[1-9][0-9]*$ ]] || die "how many seconds?"

dir=$(mktemp -d)
pids=()
end() {
  [ ${#pids[@]} -eq 0 ] || kill "${pids[@]}" 2>/dev/null || true
  wait
  "$fabric" stop "$dir/fabric" >/dev/null 2>&1 || true
  rm -rf "$dir"
}
trap end EXIT

# wait_for WHAT COMMAND...
wait_for() {
  local what=$1 tries=1500
  shift
  until "$@"; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || { cat "$dir"/*.log >&2; die "$what does not come"; }
    sleep 0.02
  done
}

WATCH_PID=$$ "$fabric" start "$dir/fabric" "$top/testbed/sa/four.net" >"$dir/fabric.log"
GMP=1 "$fabric" run "$dir/fabric" Hca4 "$command" daemon --socket "$dir/sa.sock" 2>"$dir/daemon.log" &
pids+=($!)
wait_for "the daemon" test -S "$dir/sa.sock"
IBV_SA_SOCKET=$dir/sa.sock setpriv --pdeathsig KILL "$command" monitor --device ibsim0 2>"$dir/monitor.log" &
pids+=($!)
wait_for "a registration" grep -qs listening "$dir/monitor.log"
pid=$("$command" status --socket "$dir/sa.sock" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["pid"])')

used() {
  local task one cpu=0 wakes=0
  for task in "/proc/$pid/task"/*; do
    one=$(cut -d" " -f1 "$task/schedstat")
    cpu=$((cpu + one))
    wakes=$((wakes + $(awk '$1 == "voluntary_ctxt_switches:" { print $2 }' "$task/status")))
  done
  echo "$cpu $wakes"
}

read -r cpu wakes <<<"$(used)"
sleep "$1"
read -r cpu_after wakes_after <<<"$(used)"
echo "$((cpu_after - cpu)) $((wakes_after - wakes))"
