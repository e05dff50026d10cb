#!/bin/bash
# build.sh [--version 44|56|65|all] [DIR]: make the images of the Soft-RoCE test bed.
#
# Needs a Debian 12 machine (amd64), root, apt; no KVM and no RDMA hardware. Results in DIR (default:
# $TESTBED_DIR, or build/testbed in the repository):
#   kernel/     Debian's kernel and an initrd with all modules, evinject among them; shared by all images
#   vm-44/      disk and memory of a booted VM that waits for a job (run.sh resumes it); rdma-core 44
#   vm-56/ vm-65/   the same with the rdma-core of newer Debian releases
# An image that is up to date is left alone; one made by older scripts is made again. An interrupted
# build leaves nothing behind that a later one would take for an image.
set -euo pipefail
# shellcheck source=testbed/vm/lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

version=44
while [ $# -gt 0 ]; do
    case $1 in
        --version)
            version=${2:?--version needs 44, 56, 65 or all}
            shift 2
            ;;
        -h | --help)
            sed -n '2,/^set/s/^# \{0,1\}//p' "$0"
            exit 0
            ;;
        -*) die "unknown option $1 (see --help)" ;;
        *)
            images_dir=$1
            shift
            ;;
    esac
done
if [ "$version" = all ]; then versions=("${all_versions[@]}"); else versions=("$version"); fi
for v in "${versions[@]}"; do suite_of "$v" >/dev/null; done

# An image depends on the scripts that make it and on QEMU, which alone can read its own saved state.
qemu_version() { qemu-system-x86_64 --version 2>/dev/null | head -n 1 || true; }
kernel_stamp() { checksum "$vm_dir"/{build-kernel.sh,module_order.py} "$vm_dir"/evinject/*; }
image_stamp() {
    kernel_stamp
    checksum "$vm_dir"/{build-image.sh,apt_sources.py,save_state.py,qemu-args.sh} "$vm_dir"/guest/{init,wait_for_job.py}
    qemu_version
}
is_current() { [ "$(cat "$1/stamp" 2>/dev/null)" = "$2" ]; }
all_current() {
    is_current "$images_dir/kernel" "$(kernel_stamp)" || return 1
    for v in "${versions[@]}"; do
        is_current "$images_dir/vm-$v" "$(image_stamp)" || return 1
    done
}
all_current && exit 0

[ "$(id -u)" = 0 ] || die "making the images needs root (chroot, device nodes): sudo ${0##*/} --version $version"
[ "$(dpkg --print-architecture 2>/dev/null)" = amd64 ] ||
    die "the images are made from Debian packages for amd64 on a Debian machine; this is another system"
mkdir -p "$images_dir"
images_dir=$(readlink -f "$images_dir")
chmod 755 "$images_dir"

# One build at a time, also when several clones share the directory.
exec 9>"$images_dir/.lock"
flock -n 9 || {
    say "waiting for another build in $images_dir"
    flock 9
    all_current && exit 0
}

# While an image is made its unpacked tree exists beside it.
needed_mb=1500
free_mb=$(df --output=avail -BM "$images_dir" | tail -n 1 | tr -dc 0-9)
[ "$free_mb" -ge "$needed_mb" ] ||
    die "$images_dir has $free_mb MB free, an image needs $needed_mb MB: make room or set TESTBED_DIR"

work=$images_dir/unfinished
rm -rf "$work"
mkdir "$work"
log=$work/log
# shellcheck disable=SC2317 # called by the trap
cleanup() {
    end_step
    rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# install_dir NAME STAMP: puts the finished $work/NAME in its place, stamp last, by renaming.
install_dir() {
    printf '%s\n' "$2" >"$work/$1/stamp"
    rm -rf "$work/old"
    [ ! -e "$images_dir/$1" ] || mv -T "$images_dir/$1" "$work/old"
    mv -T "$work/$1" "$images_dir/$1"
}

install_tools() {
    local package missing=()
    for package in qemu-system-x86 cpio kmod e2fsprogs make gcc libelf1 python3 xz-utils mmdebstrap; do
        dpkg -s "$package" 2>/dev/null | grep -q '^Status: install ok installed' || missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"
}

say "Soft-RoCE test bed in $images_dir"
step "package lists (apt-get update)" apt-get update -q
step "tools to build with" install_tools

# shellcheck source=testbed/vm/build-kernel.sh
. "$vm_dir/build-kernel.sh"
# shellcheck source=testbed/vm/build-image.sh
. "$vm_dir/build-image.sh"

stamp=$(kernel_stamp)
if ! is_current "$images_dir/kernel" "$stamp"; then
    build_kernel "$work/kernel"
    install_dir kernel "$stamp"
fi
stamp=$(image_stamp)
for v in "${versions[@]}"; do
    if ! is_current "$images_dir/vm-$v" "$stamp"; then
        build_image "$v" "$work/vm-$v"
        install_dir "vm-$v" "$stamp"
        say "  vm-$v is ready: rdma-core $(cat "$images_dir/vm-$v/rdma-core-version"), kernel $(cat "$images_dir/kernel/version")"
    fi
done
