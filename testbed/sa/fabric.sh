#!/bin/bash
# fabric.sh - a private InfiniBand fabric for tests: ibsim with one or more OpenSM. Several can run at once.
#
#   fabric.sh start DIR NET [OPENSM-ARGS]     ibsim and an SM on the first HCA of NET (SM_HOST=NAME: on that one)
#   fabric.sh sm DIR NAME HOST [OPENSM-ARGS]  one more SM, or one that was stopped
#   fabric.sh smstop DIR NAME [SIGNAL]        stop that SM; the first one is called "main"
#   fabric.sh cmd DIR 'COMMAND'               a command for ibsim's console, for example 'Unlink "Hca3"'
#   fabric.sh run DIR HOST PROGRAM [ARGS]     a program with libibumad at HOST (GMP=1: with Reports as well)
#   fabric.sh stop DIR                        end all that was started in DIR
#   fabric.sh watch DIR PID                   do so, and end what was run in DIR, when that process is no more; returns at
#                                             once. WATCH_PID=PID fabric.sh start ... does it from the beginning
set -u

here=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)
umad2sim=${UMAD2SIM:-/usr/lib/$(uname -m)-linux-gnu/umad2sim/libumad2sim.so}

die() { echo "fabric.sh: $*" >&2; exit 1; }
needs() { # TOOL PACKAGE
  command -v "$1" >/dev/null || die "$1 is missing: apt-get install $2, or tools/setup.sh fabric"
}
usage() { sed -n '2,11s/^# \{0,1\}//p' "$0" >&2; exit 2; }

PATH=$PATH:/usr/sbin
action=${1:-} dir=${2:-}
[ -n "$dir" ] || usage
shift 2
[ "$action" != start ] || mkdir -p "$dir"
dir=$(cd "$dir" 2>/dev/null && pwd) || die "$dir: no such directory"

# wait_for SECONDS PID COMMAND...: until COMMAND succeeds; fails when the time is over or the process gone.
wait_for() {
  local tries=$(($1 * 50)) pid=$2
  shift 2
  while [ "$tries" -gt 0 ]; do
    "$@" && return 0
    kill -0 "$pid" 2>/dev/null || return 1
    sleep 0.02
    tries=$((tries - 1))
  done
  return 1
}

is_alive() { # PIDFILE
  local pid
  pid=$(cat "$1" 2>/dev/null) && [ -n "$pid" ] && kill -0 "$pid" 2>/dev/null
}

# belongs PID: its environment says that it is of this fabric. One that is dead and not yet waited for has none.
belongs() {
  grep -qz "^FABRIC_DIR=$dir\$" "/proc/$1/environ" 2>/dev/null
}

# stop_recorded PIDFILE [SIGNAL]: the process is signalled only if it belongs to this fabric: pids are used again.
stop_recorded() {
  local file=$1 signal=${2:-TERM} pid tries=100
  pid=$(cat "$file" 2>/dev/null) || return 0
  if [ -n "$pid" ] && belongs "$pid"; then
    kill "-$signal" "$pid" 2>/dev/null
    while belongs "$pid" && [ "$tries" -gt 0 ]; do
      sleep 0.02
      tries=$((tries - 1))
    done
    ! belongs "$pid" || kill -KILL "$pid" 2>/dev/null
    rm -rf "$dir/run/sys-$pid"
  fi
  rm -f "$file"
}

load() {
  # shellcheck source=/dev/null
  . "$dir/env" 2>/dev/null || die "$dir: nothing was started there"
  export IBSIM_SOCKNAME FABRIC_DIR
}

start_sm() { # NAME HOST [ARGS]
  local name=$1 host=$2 home=$dir/sm-$1 pid
  shift 2
  mkdir -p "$home" "$dir/run"
  [ ! -e "$home/osm.log" ] || mv -f "$home/osm.log" "$home/osm.log.old"
  # -d2 flushes the log at once. OpenSM crashes when its table of pending requests fills up, which never happens on
  # hardware, where they time out.
  (
    cd "$dir/run" || exit 1
    SIM_HOST=$host OSM_TMP_DIR=$home OSM_CACHE_DIR=$home OSM_UMAD_MAX_PENDING=${OSM_UMAD_MAX_PENDING:-100000} \
      LD_PRELOAD=$umad2sim exec opensm -d2 -f "$home/osm.log" "$@"
  ) </dev/null >"$home/out" 2>&1 &
  pid=$!
  echo "$pid" >"$dir/sm-$name.pid"
  wait_for 30 "$pid" grep -qsE 'SUBNET UP|Entering STANDBY state' "$home/osm.log" ||
    die "OpenSM $name is not ready, see $home"
}

start() { # NET [ARGS]
  local net pid host
  needs ibsim ibsim-utils
  needs opensm opensm
  needs saquery infiniband-diags
  net=$(readlink -f "$1")
  [ -r "$net" ] || die "$1: no such net file"
  shift
  is_alive "$dir/ibsim.pid" && die "$dir: is running"
  IBSIM_SOCKNAME=${IBSIM_SOCKNAME:-sim-$$-$RANDOM$RANDOM} FABRIC_DIR=$dir
  export IBSIM_SOCKNAME FABRIC_DIR
  mkdir -p "$dir/run"
  rm -f "$dir/ctl" "$dir/ibsim.log"
  mkfifo -m 600 "$dir/ctl"
  # At the end of its input ibsim spins, so it has to hold the pipe open for writing itself: <>.
  (cd "$dir/run" && exec ibsim -s "$net" <>"$dir/ctl") >"$dir/ibsim.log" 2>&1 &
  pid=$!
  echo "$pid" >"$dir/ibsim.pid"
  printf 'IBSIM_SOCKNAME=%s\nFABRIC_DIR=%s\n' "$IBSIM_SOCKNAME" "$dir" >"$dir/env"
  is_ready() {
    grep -qs 'simulator ready' "$dir/ibsim.log" && grep -q "@$IBSIM_SOCKNAME:out9" /proc/net/unix
  }
  wait_for 10 "$pid" is_ready || die "ibsim is not ready: $(tail -3 "$dir/ibsim.log")"
  host=${SM_HOST:-$(awk 'tolower($1) == "hca" { gsub(/"/, "", $3); print $3; exit }' "$net")}
  [ -z "${WATCH_PID:-}" ] || watch "$WATCH_PID"
  start_sm main "$host" "$@"
}

stop_all() {
  local file
  for file in "$dir"/sm-*.pid "$dir/ibsim.pid"; do
    [ ! -e "$file" ] || stop_recorded "$file"
  done
  rm -rf "$dir"/run/sys-* "$dir/ctl"
}

# began PID: a number that no later process with this pid has.
began() {
  local stat
  stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
  # After the name, which may have blanks in it, the start time is the 20th word.
  read -ra stat <<<"${stat##*) }"
  echo "${stat[19]}"
}

# A program that is killed cannot stop its fabric, and nobody else would.
watch() { # PID
  local pid=$1 at other
  at=$(began "$pid") || die "$pid: no such process"
  (
    trap '' HUP INT QUIT TERM
    while [ "$(began "$pid")" = "$at" ]; do
      is_alive "$dir/ibsim.pid" || exit 0
      sleep 0.2
    done
    for other in /proc/[0-9]*; do
      other=${other#/proc/}
      [ "$other" = "$BASHPID" ] || ! belongs "$other" || kill "$other" 2>/dev/null
    done
    stop_all
  ) </dev/null >/dev/null 2>&1 &
}

console() { # COMMAND
  local before mark
  is_alive "$dir/ibsim.pid" || die "$dir: ibsim is gone"
  before=$(stat -c %s "$dir/ibsim.log")
  mark="#mark-$RANDOM$RANDOM"
  printf '%s\n' "$1" >"$dir/ctl"
  # Two lines in one read, and ibsim sees only the first.
  sleep 0.02
  printf '%s\n' "$mark" >"$dir/ctl"
  wait_for 10 "$(cat "$dir/ibsim.pid")" grep -q -- "$mark" "$dir/ibsim.log" || die "no reply to $1"
  # A command without a word of reply is no failure.
  tail -c "+$((before + 1))" "$dir/ibsim.log" | { grep -v -- "$mark" || true; }
}

run() { # HOST PROGRAM [ARGS]
  local host=$1 preload=$umad2sim
  shift
  cd "$dir/run" || exit 1
  if [ -n "${GMP:-}" ]; then
    export SIM_SET_ISSM=1
    preload=$dir/noissm.so:$umad2sim
    [ -e "$dir/noissm.so" ] || "${CC:-cc}" -shared -fPIC -o "$dir/noissm.so" "$here/noissm.c" || die "noissm.c"
  fi
  SIM_HOST=$host LD_PRELOAD=$preload exec "$@"
}

case $action in
  start) [ $# -ge 1 ] || usage; start "$@" ;;
  sm) [ $# -ge 2 ] || usage; load; start_sm "$@" ;;
  smstop) [ $# -ge 1 ] || usage; load; stop_recorded "$dir/sm-$1.pid" "${2:-TERM}" ;;
  cmd) [ $# -eq 1 ] || usage; load; console "$1" ;;
  run) [ $# -ge 2 ] || usage; load; run "$@" ;;
  stop) load; stop_all ;;
  watch) [ $# -eq 1 ] || usage; load; watch "$1" ;;
  *) usage ;;
esac
