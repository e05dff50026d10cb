#!/bin/bash
# check.sh [--version 44|56|65]... [--soak] [--only REGEX]: the shim on a real kernel.
#
# Runs unmodified RDMA programs on Soft-RoCE in a VM, without and with libibv_sa.so.1 preloaded: exit status
# and output must be equal, and the counts in the shim's reports must equal counts made by others: what
# the programs were asked to do, what strace saw them read, what was injected into them. Programs with missing,
# surplus and late acks must hang without it and be explained or protected with it.
#   --version  rdma-core version in the VM; may be given several times; default: 44, 56 and 65
#   --soak     full counts and times
#   --only     only checks whose name matches
# TESTBED_SHIM names another library to test (default: build/release/libibv_sa.so.1). Images that are
# missing or out of date are made first (needs root). The last line is "N passed, N failed".
set -euo pipefail
# shellcheck source=testbed/vm/lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

versions=() options=()
while [ $# -gt 0 ]; do
    case $1 in
        --version)
            suite_of "${2:?--version needs 44, 56 or 65}" >/dev/null
            versions+=("$2")
            shift 2
            ;;
        --soak)
            options+=(--soak)
            shift
            ;;
        --only)
            options+=(--only "${2:?--only needs a regular expression}")
            shift 2
            ;;
        -h | --help)
            sed -n '2,/^set/s/^# \{0,1\}//p' "$0"
            exit 0
            ;;
        *) die "unknown argument $1 (see --help)" ;;
    esac
done
[ ${#versions[@]} -gt 0 ] || versions=("${all_versions[@]}")

shim=${TESTBED_SHIM:-$repo_dir/build/release/libibv_sa.so.1}
[ -e "$shim" ] || die "no $shim: run make first"
for version in "${versions[@]}"; do "$vm_dir/build.sh" --version "$version"; done
programs=$repo_dir/build/ctests/kernel
"$vm_dir/build-programs.sh" "$programs"

exec python3 -B "$vm_dir/check.py" --shim "$shim" --programs "$programs" --images "$images_dir" "${options[@]}" "${versions[@]}"
