#!/bin/bash
# build-programs.sh DIR: compile the programs of ctests/kernel into DIR, for use in the VM.
# They are made here, not in the VM: its C library is never older than this machine's.
set -euo pipefail
# shellcheck source=testbed/vm/lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

target=${1:?usage: build-programs.sh DIR}
source=$repo_dir/ctests/kernel
flags=(-std=gnu11 -O1 -g -Wall -Wextra -Werror -pthread)
mkdir -p "$target"
for name in demo_hang events extended_cq threads64 unsupported; do
    ${CC:-cc} "${flags[@]}" -o "$target/$name" "$source/$name.c" -libverbs
done
${CC:-cc} "${flags[@]}" -o "$target/acks" "$source"/acks{,_scene}.c -libverbs
${CC:-cc} "${flags[@]}" -o "$target/failures" "$source"/failures{,_pair}.c -libverbs
for name in exit_on_term await_disconnect device_gone; do
    ${CC:-cc} "${flags[@]}" -shared -fPIC -o "$target/$name.so" "$source/$name.c"
done
${CC:-cc} "${flags[@]}" -shared -fPIC -o "$target/acks_plugin.so" "$source/acks_plugin.c" -libverbs
