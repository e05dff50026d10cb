# shellcheck shell=bash
# qemu_args KERNEL_DIR DISK SNAPSHOT JOB_DIR: sets the array qemu_args. A saved state can only be resumed
# with the devices it was saved with, so both uses come through here. In JOB_DIR: control (a disk on which
# the VM polls for its job), stdout (the job's output), console; the directory itself is shared by 9p.
# shellcheck disable=SC2054 # the commas belong to QEMU's options
qemu_args() {
    # shellcheck disable=SC2034 # for the caller
    qemu_args=(
        # TCG: works everywhere, also inside a VM without nested virtualisation.
        -accel tcg,thread=multi -cpu max -smp 2 -m 1024
        -display none -nodefaults -no-reboot
        -kernel "$1/vmlinuz" -initrd "$1/initrd.gz"
        -append "console=ttyS0 quiet panic=-1 mitigations=off"
        -serial "file:$4/console"
        -device virtio-serial-pci -chardev "file,id=out,path=$4/stdout" -device virtserialport,chardev=out,name=out
        -drive "file=$2,if=none,id=root,format=raw,snapshot=$3,cache=unsafe" -device virtio-blk-pci,drive=root
        -drive "file=$4/control,if=none,id=control,format=raw,snapshot=on,cache=unsafe" -device virtio-blk-pci,drive=control
        -fsdev "local,id=share,path=$4,security_model=none" -device virtio-9p-pci,fsdev=share,mount_tag=hostshare
    )
}
