# shellcheck shell=bash
# options.sh - what the scripts beside it have in common: their options, and a clean environment. Sourced with the
# script's arguments, after it has set top and rounds and made usage().

: "${top:?set by the script}"
die() { echo "${0##*/}: $*" >&2; exit 1; }

json='' shim=$top/build/release/libibv_sa.so.1
while [ $# -gt 0 ]; do
  case $1 in
    --help | -h) usage; exit 0 ;;
    --json | --shim | --rounds) [ $# -ge 2 ] || die "$1 needs a value (see --help)" ;;&
    --json) json=$2; shift 2 ;;
    --shim) shim=$2; shift 2 ;;
    --rounds) rounds=$2; shift 2 ;;
    *) die "unknown argument '$1' (see --help)" ;;
  esac
done
[[ $rounds =~ ^[1-9][0-9]*$ ]] || die "--rounds: '$rounds' is not a number of rounds"
[ -f "$shim" ] || die "there is no $shim: run \`make\` first"
[ -z "$json" ] || : >>"$json" || die "cannot write $json"
# What the user has set for other programs must not steer this one.
unset LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT
unset "${!IBV_SA_@}"
