# shellcheck shell=bash
# Sourced by build.sh: the root disk of one VM, and its saved, already booted state.

image_packages=(
    mount hostname util-linux kmod iproute2 procps python3 strace
    rdma-core ibverbs-utils ibverbs-providers rdmacm-utils perftest
)

# make_root SUITE DIR
make_root() {
    local sources include option options=()
    # The machine's own package sources with another suite name: what works here works for the VM.
    sources=$(python3 "${vm_dir:?}/apt_sources.py" "$1") || return
    include=$(IFS=,; echo "${image_packages[*]}")
    for option in Acquire::http::Proxy Acquire::https::Proxy; do
        # mmdebstrap does not read the machine's apt settings.
        [ -z "$(apt-config dump --format '%v' $option)" ] || options+=("--aptopt=$option \"$(apt-config dump --format '%v' $option)\"")
    done
    TMPDIR=${work:?} mmdebstrap --mode=root --variant=apt "--include=$include" \
        --aptopt='APT::Install-Recommends "false"' --aptopt='Acquire::Check-Valid-Until "false"' "${options[@]}" \
        --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
        --dpkgopt='path-exclude=/usr/share/locale/*' \
        "$1" "$2" - <<<"$sources"
}

# make_disk ROOT DISK
make_disk() {
    install -m 755 "$vm_dir/guest/init" "$1/sbin/vm-init" &&
        install -D -m 644 "$vm_dir/guest/wait_for_job.py" "$1/opt/vm/wait_for_job.py" &&
        mkdir -p "$1/host" "$1/in" &&
        mke2fs -q -t ext4 -O ^has_journal,^metadata_csum -m 0 -d "$1" "$2" 1500M
}

# save_state DIR: boots DIR/disk.img until the VM waits for its job, then saves the memory as DIR/state.
save_state() {
    local dir=$1 job=$work/job deadline=$((SECONDS + 300)) qemu
    rm -rf "$job"
    mkdir "$job"
    printf 'WAIT\n' >"$job/control"
    truncate -s 4096 "$job/control"
    # shellcheck source=testbed/vm/qemu-args.sh
    . "$vm_dir/qemu-args.sh"
    qemu_args "$kernel_dir" "$dir/disk.img" off "$job"
    qemu-system-x86_64 "${qemu_args[@]}" -qmp "unix:$job/qmp,server=on,wait=off" 9>&- &
    qemu=$!
    until grep -q VM-WAITING "$job/console" 2>/dev/null; do
        if ! kill -0 $qemu 2>/dev/null || [ "$SECONDS" -ge "$deadline" ]; then
            echo "the VM did not boot; its console:"
            cat "$job/console"
            kill $qemu 2>/dev/null
            return 1
        fi
        sleep 0.3
    done
    sleep 1
    python3 "$vm_dir/save_state.py" "$job/qmp" "$dir/state" || {
        kill $qemu
        return 1
    }
    wait $qemu
    rm -rf "$job"
}

# build_image VERSION DIR: DIR gets disk.img, state and rdma-core-version.
build_image() {
    local suite root=$work/root kernel_dir=${images_dir:?}/kernel found
    suite=$(suite_of "$1")
    mkdir -p "$2"
    step "rdma-core $1: Debian $suite with RDMA tools" make_root "$suite" "$root"
    found=$(dpkg-query --admindir="$root/var/lib/dpkg" -W -f '${Version}' libibverbs1)
    case $found in
        "$1".* | "$1"-*) ;;
        *) say "  note: Debian $suite now carries rdma-core $found; vm-$1 has that version" ;;
    esac
    echo "$found" >"$2/rdma-core-version"
    step "rdma-core $1: disk image" make_disk "$root" "$2/disk.img"
    rm -rf "$root"
    step "rdma-core $1: first boot, saved for later" save_state "$2"
}
