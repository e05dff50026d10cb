#!/bin/bash
# run.sh - what calls cost through the shim, beside what they cost without it. `run.sh --help` says more.
set -euo pipefail
export LC_ALL=C
here=$(dirname "$(readlink -f "$0")")
top=$(dirname "$here")

usage() {
  cat <<'END'
usage: benches/run.sh [--json FILE] [--shim FILE] [--rounds N]

Measures single verbs calls and the start-up of /bin/true four ways, in turn, in one run:
  none      libibverbs alone (a bench double: see benches/provider.c)
  off       libibv_sa.so.1 preloaded, IBV_SA_CQ=off
  errors    libibv_sa.so.1 preloaded, as it is by default
  full      libibv_sa.so.1 preloaded, IBV_SA_CQ=full, and IBV_SA_REPORT set
Prints times (best and median of all batches) and instruction counts (callgrind). Nothing passes or fails by
its time. Takes about a minute; progress goes to stderr.

  --json FILE    also write the numbers to FILE, as JSON
  --shim FILE    the shim to measure (default: build/release/libibv_sa.so.1)
  --rounds N     processes of each kind that are timed, 1 or more (default: 60); /bin/true is run five times as often
END
}
say() { echo "bench: $*" >&2; }

rounds=60
# shellcheck source=benches/options.sh
. "$here/options.sh" "$@"
for tool in "${CC:-cc}" valgrind; do
  command -v "$tool" >/dev/null || die "$tool is missing: run \`make setup\` (as root) or install it"
done

# ---- programs
out=$top/build/bench
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# A build that goes on meanwhile must not change what is measured.
cp "$shim" "$work/libibv_sa.so.1"
shim=$work/libibv_sa.so.1
flags=(-Wall -Wextra -Werror -O2 -g -std=gnu11)
"${CC:-cc}" "${flags[@]}" -fPIC -shared -Wl,-soname,libibverbs.so.1 -Wl,--version-script="$here/provider.map" \
  -Wl,--no-undefined-version -o "$out/libibverbs.so.1" "$here/provider.c"
"${CC:-cc}" "${flags[@]}" -pthread -Wl,-z,now -o "$out/calls" "$here/calls.c" -L"$out" -l:libibverbs.so.1
"${CC:-cc}" "${flags[@]}" -o "$out/startup" "$here/startup.c"

variants=(none off errors full)
batches=$(sed -n 's/^#define BATCHES //p' "$here/calls.c")
cases=(poll_empty poll_1 poll_16 poll_empty_2 poll_1_2 poll_16_2 post_poll async_event comp_event comp_event_8 forwarded forwarded_context)

# through VARIANT COMMAND...: runs it as this variant.
through() {
  local settings=("LD_LIBRARY_PATH=$out")
  case $1 in
    off) settings+=("LD_PRELOAD=$shim" "IBV_SA_CQ=off") ;;
    errors) settings+=("LD_PRELOAD=$shim") ;;
    full) settings+=("LD_PRELOAD=$shim" "IBV_SA_CQ=full" "IBV_SA_REPORT=json:$work/report") ;;
  esac
  shift
  env "${settings[@]}" "$@"
}

# ---- instructions
# instructions VARIANT COMMAND...: how many it executes, from the first of the dynamic loader on.
instructions() {
  local variant=$1 counted
  shift
  if ! through "$variant" valgrind --tool=callgrind --callgrind-out-file="$work/callgrind" "$@" \
    >"$work/valgrind.log" 2>&1; then
    cat "$work/valgrind.log" >&2
    die "valgrind $* failed (above)"
  fi
  counted=$(awk '$1 == "totals:" || $1 == "summary:" { print $2; exit }' "$work/callgrind")
  [ -n "$counted" ] || die "callgrind counted nothing for $*"
  echo "$counted"
}

few=1000 many=11000
say "counting instructions"
for variant in "${variants[@]}"; do
  counted=$(instructions "$variant" /bin/true)
  echo "startup $variant $counted" >>"$work/instructions"
done
for name in "${cases[@]}"; do
  say "counting instructions: $name"
  for variant in "${variants[@]}"; do
    # What happens once is in both counts and cancels out.
    low=$(instructions "$variant" "$out/calls" "$variant" "$name" "$few")
    high=$(instructions "$variant" "$out/calls" "$variant" "$name" "$many")
    echo "$name $variant $(((high - low + (many - few) / 2) / (many - few)))" >>"$work/instructions"
  done
done

# ---- times
say "timing /bin/true"
"$out/startup" "$shim" $((5 * rounds)) /bin/true >"$work/times"
for ((round = 0; round < rounds; round++)); do
  ((round % 20)) || say "timing calls: round $((round + 1)) of $rounds"
  # Each goes first in its turn.
  for ((i = 0; i < ${#variants[@]}; i++)); do
    variant=${variants[(round + i) % ${#variants[@]}]}
    through "$variant" "$out/calls" "$variant" >>"$work/times"
  done
done
[ -s "$work/report" ] || die "the shim wrote no report: it was not measured with one"

# ---- results: CASE VARIANT BEST MEDIAN INSTRUCTIONS
sort -k1,1 -k2,2 -k3,3n "$work/times" | awk -v instructions="$work/instructions" '
  function flush() { if (count) print key, times[1], times[int((count + 1) / 2)], counted[key]; count = 0 }
  BEGIN { while ((getline line < instructions) > 0) { split(line, field); counted[field[1] " " field[2]] = field[3] } }
  $1 " " $2 != key { flush(); key = $1 " " $2 }
  { times[++count] = $3 }
  END { flush() }' >"$work/results"

# shellcheck disable=SC2034 # machine.sh reads it
machine_valgrind=$(valgrind --version)
# shellcheck source=benches/machine.sh
. "$here/machine.sh"
print_machine
cat <<END
Best and median of $((batches * rounds)) batches, processes in turn ${variants[*]}; of $((5 * rounds)) runs of /bin/true.

END
awk -v order="startup ${cases[*]}" -v names_of_variants="${variants[*]}" '
  function shown(value) { return value < 100 ? sprintf("%.1f", value) : sprintf("%.0f", value) }
  BEGIN {
    label["startup"] = "start-up of /bin/true, us"
    label["poll_empty"] = "poll, empty"
    label["poll_1"] = "poll, 1 completion"
    label["poll_16"] = "poll, 16 completions"
    label["poll_empty_2"] = "poll, empty, of 2 threads"
    label["poll_1_2"] = "poll, 1, of 2 threads"
    label["poll_16_2"] = "poll, 16, of 2 threads"
    label["post_poll"] = "post + poll, 1 receive"
    label["async_event"] = "async event, get + ack"
    label["comp_event"] = "completion event, get + ack"
    label["comp_event_8"] = "the same, of 8 threads"
    label["forwarded"] = "forwarded call"
    label["forwarded_context"] = "forwarded call, of a context"
    many = split(names_of_variants, variants)
  }
  { best[$1, $2] = $3; median[$1, $2] = $4; counted[$1, $2] = $5 }
  END {
    printf "%-28s  %-31s  %-31s  %s\n", "", "time, best: ns", "time, median: ns", "instructions"
    printf "%-28s", "one call (with its loop)"
    for (group = 1; group <= 3; group++)
      for (v = 1; v <= many; v++) printf (v == 1 ? "  %" : " %") (group == 3 ? 8 : 7) "s", variants[v]
    printf "\n"
    number = split(order, names)
    for (n = 1; n <= number; n++) {
      name = names[n]; unit = name == "startup" ? 1000 : 1
      printf "%-28s", label[name]
      for (v = 1; v <= many; v++) printf (v == 1 ? "  %7s" : " %7s"), shown(best[name, variants[v]] / unit)
      for (v = 1; v <= many; v++) printf (v == 1 ? "  %7s" : " %7s"), shown(median[name, variants[v]] / unit)
      for (v = 1; v <= many; v++) printf (v == 1 ? "  %8d" : " %8d"), counted[name, variants[v]]
      printf "\n"
    }
  }' "$work/results"

# ---- JSON
if [ -n "$json" ]; then
  {
    printf '{%s,\n' "$(json_machine ibv_sa.bench/1)"
    printf '"rounds":%d,"results":[' "$rounds"
    awk '{ printf "%s\n{\"case\":\"%s\",\"variant\":\"%s\",\"ns_best\":%s,\"ns_median\":%s,\"instructions\":%s}",
           (NR > 1 ? "," : ""), $1, $2, $3, $4, $5 }' "$work/results"
    printf '\n]}\n'
  } >"$json"
  say "wrote $json"
fi
