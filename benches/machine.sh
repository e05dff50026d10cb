# shellcheck shell=bash
# machine.sh - for the scripts beside it: what is measured, where and when. Sourced; machine_valgrind is named where
# the script has set it.

version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$(dirname "${BASH_SOURCE[0]}")/../Cargo.toml" | head -1)
machine_cpu=$(awk -F': *' '/^model name|^Model/ { print $2; exit }' /proc/cpuinfo)
machine_cpus=$(nproc)
machine_kernel=$(uname -sr)
machine_libc=$(getconf GNU_LIBC_VERSION)
machine_rustc=$(rustc --version 2>/dev/null || echo "rustc unknown")
machine_cc=$("${CC:-cc}" --version | head -1)

# The first lines of the results.
print_machine() {
  echo "libibv_sa $version, $(date -u +%Y-%m-%d)"
  echo "${machine_cpu:-unknown CPU}, $machine_cpus CPUs, load $(cut -d' ' -f1 /proc/loadavg); $machine_kernel"
  echo "$machine_libc; $machine_rustc; $machine_cc${machine_valgrind:+; ${machine_valgrind}}"
}

quoted() { printf '"%s"' "$(printf '%s' "$1" | tr -d '\000-\037' | sed 's/[\\"]/\\&/g')"; }

# json_machine SCHEMA: the first members of the results for machines.
json_machine() {
  printf '"schema":%s,"library_version":%s,"date":%s,"load":%s,\n' \
    "$(quoted "$1")" "$(quoted "$version")" "$(quoted "$(date -u +%Y-%m-%d)")" "$(cut -d' ' -f1 /proc/loadavg)"
  printf '"machine":{"cpu":%s,"cpus":%s,"kernel":%s,"libc":%s,"rustc":%s,"cc":%s' "$(quoted "$machine_cpu")" \
    "$machine_cpus" "$(quoted "$machine_kernel")" "$(quoted "$machine_libc")" "$(quoted "$machine_rustc")" \
    "$(quoted "$machine_cc")"
  [ -z "${machine_valgrind:-}" ] || printf ',"valgrind":%s' "$(quoted "$machine_valgrind")"
  printf '}'
}
