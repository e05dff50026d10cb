#!/bin/bash
# demo.sh: two unmodified RDMA programs under the shim on a real kernel, in a VM with Soft-RoCE, and one with a mistake
# that hangs, is explained, and rescued. No hardware needed. Makes the VM image first if there is none (about 3 minutes, as root).
set -euo pipefail
# shellcheck source=testbed/vm/lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

case ${1:-} in
    '') ;;
    -h | --help)
        sed -n '2,/^set/s/^# \{0,1\}//p' "$0"
        exit 0
        ;;
    *) die "unknown argument $1 (see --help)" ;;
esac

shim=${TESTBED_SHIM:-$repo_dir/build/release/libibv_sa.so.1}
ibv_sa=$repo_dir/build/release/ibv-sa
for file in "$shim" "$ibv_sa"; do [ -e "$file" ] || die "no $file: run make first"; done
"$vm_dir/build.sh" --version 44
programs=$repo_dir/build/ctests/kernel
"$vm_dir/build-programs.sh" "$programs"

say "Resuming the virtual machine (processor emulated: slow, but it needs nothing from this machine) ..."
image=$images_dir/vm-44
exec "$vm_dir/run.sh" --version 44 --time 120 \
    "bash demo.sh '$(cat "$image/rdma-core-version")' '$(cat "$images_dir/kernel/version")'" \
    "$vm_dir/guest/demo.sh" "$shim" "$ibv_sa" "$programs/exit_on_term.so" "$programs/demo_hang"
