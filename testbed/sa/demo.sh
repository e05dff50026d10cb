#!/bin/bash
# demo.sh: two programs of two users without privileges get the notices of one OpenSM, through one `ibv-sa daemon`, on a
# simulated InfiniBand fabric. No hardware, no kernel module. As root, who starts programs as other users.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)
top=$(cd "$here/../.." && pwd)
fabric=$here/fabric.sh
release=$top/build/release

die() { echo "demo.sh: $*" >&2; exit 1; }
say() { printf '\n== %s\n' "$*"; }

[ "$(id -u)" -eq 0 ] || die "it starts programs as several users: run it as root"
for file in ibv-sa libibv_sa.so.1; do
  [ -e "$release/$file" ] || die "no $release/$file: run make first"
done

dir=$(mktemp -d)
chmod 755 "$dir"
pids=()
end() {
  [ ${#pids[@]} -eq 0 ] || kill "${pids[@]}" 2>/dev/null || true
  wait
  "$fabric" stop "$dir/fabric" 2>/dev/null || true
  rm -rf "$dir"
}
trap end EXIT

# wait_for WHAT COMMAND...
wait_for() {
  local what=$1 tries=500
  shift
  until "$@"; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || { cat "$dir"/*.log >&2; die "$what does not come"; }
    sleep 0.02
  done
}
both_say() { grep -qs "$1" "$dir/1001.log" && grep -qs "$1" "$dir/1002.log"; }
both_listen() { [ "$(grep -chs '): active$' "$dir/1001.log" "$dir/1002.log" | sort -u)" = 2 ]; }
show() { grep -H "$1" "$dir/1001.log" "$dir/1002.log" | sed "s|^$dir/\(.*\).log:|  user \1: |"; }

say "A simulated fabric with OpenSM: 4 adapters, 2 switches"
WATCH_PID=$$ "$fabric" start "$dir/fabric" "$here/four.net"

say "ibv-sa daemon, as root, on the host with adapter Hca4"
GMP=1 "$fabric" run "$dir/fabric" Hca4 "$release/ibv-sa" daemon --socket "$dir/sa.sock" 2>"$dir/daemon.log" &
pids+=($!)
wait_for "the daemon" test -S "$dir/sa.sock"

say "ctests/examples/gid_watch.c, twice: users 1001 and 1002, without any capability"
cp "$release/ibv-sa" "$release/libibv_sa.so.1" "$dir"
"${CC:-cc}" -o "$dir/gid_watch" -I "$top/include" "$top/ctests/examples/gid_watch.c" -L "$release" -libv_sa
for user in 1001 1002; do
  setpriv --reuid=$user --regid=$user --clear-groups --bounding-set=-all --inh-caps=-all --no-new-privs -- \
    env -i LD_LIBRARY_PATH="$dir" IBV_SA_SOCKET="$dir/sa.sock" "$dir/gid_watch" ibsim0 1 >"$dir/$user.log" 2>&1 &
  pids+=($!)
done
wait_for "a registration" both_listen
show active

say "Adapter Hca3 is unplugged"
"$fabric" cmd "$dir/fabric" 'Unlink "Hca3"' >/dev/null
wait_for "trap 65" both_say "GID out of service"
show "out of service"

say "Hca3 is plugged in again"
"$fabric" cmd "$dir/fabric" 'ReLink "Hca3"' >/dev/null
wait_for "trap 64" both_say "GID in service"
show "GID in service"

say "ibv-sa status"
"$dir/ibv-sa" status --socket "$dir/sa.sock"
