#!/bin/bash
# run.sh [--version 44|56|65] [--time SECONDS] [--out DIR] COMMAND [FILE...]
#
# Resumes the saved VM (about 2 s), copies FILEs to /in inside, runs COMMAND there with bash (in /in), and
# passes its output (stdout and stderr) on. Exit status: COMMAND's, 124 when the time (default 300 s) is
# up, 125 when the VM died. --out DIR receives what COMMAND left in /host/out, and the kernel's log.
# The VM is new each time: nothing that COMMAND does to it stays.
set -euo pipefail
# shellcheck source=testbed/vm/lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

version=44 limit=300 out=
while [ $# -gt 0 ]; do
    case $1 in
        --version) version=$2 && shift 2 ;;
        --time) limit=$2 && shift 2 ;;
        --out) out=$2 && shift 2 ;;
        -h | --help)
            sed -n '2,/^set/s/^# \{0,1\}//p' "$0"
            exit 0
            ;;
        -*) die "unknown option $1 (see --help)" ;;
        *) break ;;
    esac
done
[ $# -gt 0 ] || die "no command given (see --help)"
command=$1
shift
image=$images_dir/vm-$version
[ -s "$image/state" ] || die "no image $image: make it with testbed/vm/build.sh --version $version"

job=$(mktemp -d "${TMPDIR:-/tmp}/ibv_sa-vm.XXXXXX")
qemu=
# shellcheck disable=SC2317 # called by the trap
cleanup() {
    [ -z "$qemu" ] || kill "$qemu" 2>/dev/null || true
    rm -rf "$job"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

mkdir "$job/in" "$job/out"
for file in "$@"; do cp -aL "$file" "$job/in/"; done
printf '%s\n' "$command" >"$job/command"
: >"$job/stdout"
printf 'GO %d\n' "$(date +%s)" >"$job/control"
truncate -s 4096 "$job/control"

# shellcheck source=testbed/vm/qemu-args.sh
. "$vm_dir/qemu-args.sh"
qemu_args "$images_dir/kernel" "$image/disk.img" on "$job"
timeout --foreground -k 5 "$limit" \
    qemu-system-x86_64 "${qemu_args[@]}" -incoming "exec:cat '$image/state'" </dev/null >"$job/qemu" 2>&1 &
qemu=$!
tail -q -n +1 -s 0.1 -f --pid=$qemu "$job/stdout"
status=0
wait "$qemu" || status=$?
qemu=

if [ -n "$out" ]; then
    mkdir -p "$out"
    cp -a "$job/out/." "$out/"
    [ ! -e "$job/dmesg" ] || cp "$job/dmesg" "$out/dmesg"
fi
if [ -s "$job/status" ]; then
    exit "$(cat "$job/status")"
elif [ "$status" = 124 ]; then
    say "${0##*/}: the VM was stopped after $limit s"
    exit 124
fi
say "${0##*/}: the VM died (QEMU's status $status); the end of its console:"
cat "$job/qemu" >&2
tail -n 30 "$job/console" >&2
exit 125
