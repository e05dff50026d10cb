# shellcheck shell=bash
# Sourced by build.sh: the kernel, the module evinject and the initrd.

# The initrd loads every module that the VM uses, so that the images need none and share this kernel.
kernel_modules=(
    crc32c_generic crc32_generic
    virtio_pci virtio_blk ext4           # the disk
    virtio_console 9pnet_virtio 9p       # the job's output and its files
    ib_uverbs ib_umad rdma_ucm rdma_rxe  # RDMA
    dummy veth                           # the network devices under Soft-RoCE
)

kernel_version() { apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: linux-image-//p' | head -n 1; }

# download_kernel VERSION DIR
download_kernel() {
    local package
    mkdir -p "$2"
    cd "$2" || return
    # APT::Sandbox::User: apt's own user may not write to this directory.
    apt-get download -q -o APT::Sandbox::User=root \
        "linux-image-$1" "linux-headers-$1" "linux-headers-${1%-amd64}-common" "linux-kbuild-${1%%.0-*}" busybox-static ||
        return
    for package in *.deb; do dpkg-deb -x "$package" unpacked || return; done
    # The headers name each other by the absolute path that they would have when installed.
    sed -i "s,/usr/src,$2/unpacked/usr/src," "unpacked/usr/src/linux-headers-$1/Makefile"
}

# build_evinject VERSION UNPACKED DIR
build_evinject() {
    mkdir -p "$3"
    cp "${vm_dir:?}"/evinject/* "$3" && make -C "$2/usr/src/linux-headers-$1" "M=$3" modules
}

# build_initrd VERSION UNPACKED EVINJECT.KO RESULT
build_initrd() {
    local modules=$2/lib/modules/$1 tree=$4.tree file order=()
    depmod -b "$2" "$1" || return
    mapfile -t order < <(python3 "$vm_dir/module_order.py" "$modules/modules.dep" "${kernel_modules[@]}")
    [ ${#order[@]} -ge ${#kernel_modules[@]} ] || return
    mkdir -p "$tree"/{bin,modules,proc,sys,dev,newroot}
    cp "$2/bin/busybox" "$tree/bin/"
    {
        echo '#!/bin/busybox sh'
        echo 'PATH=/bin; /bin/busybox --install -s /bin'
        echo 'mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev'
        for file in "${order[@]}" evinject.ko; do
            echo "insmod /modules/${file##*/} || echo 'insmod ${file##*/} failed'"
        done
        echo 'mount -t ext4 -o rw,noatime /dev/vda /newroot || poweroff -f'
        echo 'mount -t devtmpfs dev /newroot/dev; umount /proc; umount /sys'
        echo 'exec switch_root /newroot /sbin/vm-init'
    } >"$tree/init"
    chmod +x "$tree/init"
    for file in "${order[@]}"; do cp "$modules/$file" "$tree/modules/" || return; done
    cp "$3" "$tree/modules/evinject.ko" || return
    strip --strip-debug "$tree"/modules/*.ko
    (cd "$tree" && find . | cpio -o -H newc --quiet | gzip -1) >"$4"
}

# build_kernel DIR: DIR gets vmlinuz, initrd.gz and version.
build_kernel() {
    local kv packages=${work:?}/kernel-packages
    kv=$(kernel_version)
    [ -n "$kv" ] || die "apt knows no package linux-image-amd64: check the Debian entries in /etc/apt/sources.list*"
    mkdir -p "$1"
    step "kernel $kv: packages" download_kernel "$kv" "$packages"
    step "kernel $kv: module evinject" build_evinject "$kv" "$packages/unpacked" "$work/evinject"
    step "kernel $kv: initrd" build_initrd "$kv" "$packages/unpacked" "$work/evinject/evinject.ko" "$work/initrd.gz"
    mv "$packages/unpacked/boot/vmlinuz-$kv" "$1/vmlinuz"
    mv "$work/initrd.gz" "$1/initrd.gz"
    echo "$kv" >"$1/version"
    rm -rf "$packages" "$work/evinject" "$work/initrd.gz.tree"
}
