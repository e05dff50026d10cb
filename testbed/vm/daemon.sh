#!/bin/bash
# daemon.sh [--version 44|56|65]...: what the kernel tells of a port, and what the daemon makes of it (default: 44).
#
# A kernel's asynchronous events (CLIENT_REREGISTER, SM_CHANGE, LID_CHANGE and DEVICE_FATAL are raised by evinject, the
# port's end and return are real) reach the daemon through uverbs and the real libibverbs, and its subscriptions are made
# again. Soft-RoCE is Ethernet, which has no SA: libibumad is a test double whose SA agrees to all, and files take the
# place of those in sysfs that tell of LIDs.
set -euo pipefail
# shellcheck source=testbed/vm/lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

versions=()
while [ $# -gt 0 ]; do
    case $1 in
        --version)
            suite_of "${2:?--version needs 44, 56 or 65}" >/dev/null
            versions+=("$2")
            shift 2
            ;;
        -h | --help)
            sed -n '2,/^set/s/^# \{0,1\}//p' "$0"
            exit 0
            ;;
        *) die "unknown argument $1 (see --help)" ;;
    esac
done
[ ${#versions[@]} -gt 0 ] || versions=(44)

ibv_sa=$repo_dir/build/release/ibv-sa
[ -e "$ibv_sa" ] || die "no $ibv_sa: run make first"
double=$repo_dir/build/ctests/libibumad.so.3
mkdir -p "${double%/*}"
${CC:-cc} -shared -fPIC -O1 -Wall -Wextra -Werror -o "$double" "$repo_dir/crates/sa-daemon/tests/common/libibumad.c"
for version in "${versions[@]}"; do
    "$vm_dir/build.sh" --version "$version"
    say "      $version  the daemon and the kernel's events"
    "$vm_dir/run.sh" --version "$version" --time 300 "bash daemon.sh" "$vm_dir/guest/daemon.sh" "$ibv_sa" "$double"
done
