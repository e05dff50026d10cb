#!/bin/bash
# demo.sh RDMA-CORE-VERSION KERNEL-VERSION: inside the VM, what ../demo.sh shows.
rounds=500
address=10.9.0.1
shim=/in/libibv_sa.so.1
patience=5
settings="LD_PRELOAD=libibv_sa.so.1 IBV_SA_CQ=full IBV_SA_REPORT=text"

heading() { printf '\n== %s\n\n' "$1"; }
text() { fold -s -w 100 <<<"$1" | sed 's/ *$//'; }
shown() { sed 's/^/    | /' "$1"; }
typed() { printf '    $ %s\n' "$*"; }

# watched FILE PROGRAM...: runs PROGRAM under the shim; what it prints goes to FILE, what the shim says to FILE.report.
# The shim writes to standard error, as the programs do: they are told apart by the shim's prefix.
watched() {
    local file=$1
    shift
    env LD_PRELOAD="$extra$shim" IBV_SA_CQ=full IBV_SA_REPORT=text stdbuf -oL "$@" >"$file" 2>"$file.err"
    local status=$?
    grep -v '^ibv_sa\[' "$file.err" >>"$file"
    grep '^ibv_sa\[' "$file.err" >"$file.report"
    return $status
}

# hung STATUS: what became of a program that timeout(1) may have killed.
hung() {
    if [ "$1" = 124 ]; then echo "    Killed after $patience seconds."; else echo "    It ended with exit code $1."; fi
}

# number REPORT TEXT: the number that follows TEXT in a report.
number() { sed -n "s/.*$2 \([0-9]*\).*/\1/p" "$1" | head -n 1; }

cd /tmp || exit
extra=
heading "libibv_sa on a real kernel"
text "This is Linux $2 with Soft-RoCE, an RDMA device in software (rxe0, $address), and Debian's rdma-core $1. \
The programs below are Debian's own, not changed and not recompiled. libibv_sa.so.1 is put between them and \
libibverbs by LD_PRELOAD; it forwards every call and counts what passes."

heading "1. A pingpong: $rounds messages each way between two processes"
text "Each process sends $rounds messages and receives $rounds: $((2 * rounds)) completions. With -e it sleeps until a \
completion event wakes it; several completions may share one event."
echo
typed "$settings ibv_rc_pingpong -d rxe0 -g 1 -e -n $rounds            # server"
watched server ibv_rc_pingpong -d rxe0 -g 1 -e -n $rounds &
server=$!
sleep 1
typed "$settings ibv_rc_pingpong -d rxe0 -g 1 -e -n $rounds $address   # client"
watched client ibv_rc_pingpong -d rxe0 -g 1 -e -n $rounds $address
client_status=$?
wait $server
server_status=$?
for who in server client; do
    printf '\n  The %s printed:\n' $who
    shown $who
    printf '  and libibv_sa reported at its exit:\n'
    shown $who.report
done

heading "2. An event watcher: the port goes down and comes back"
text "ibv_asyncwatch prints the asynchronous events of a device. It ends only by a signal, so it gets a second small \
preload that turns SIGTERM into a normal exit. The network device dummy0 carries rxe0."
echo
typed "$settings ibv_asyncwatch -d rxe0"
extra="/in/exit_on_term.so "
watched watcher ibv_asyncwatch -d rxe0 &
watcher=$!
sleep 1
for state in down up; do
    typed "ip link set dummy0 $state"
    ip link set dummy0 $state
    sleep 1
done
typed "kill \$(pgrep ibv_asyncwatch)"
kill "$(pgrep -x ibv_asyncwatch)"
wait $watcher
printf '\n  The watcher printed:\n'
shown watcher
printf '  and libibv_sa reported at its exit:\n'
shown watcher.report

heading "3. A program that never ends"
text "demo_hang is a small program with a mistake: one thread waits for a completion event, another then takes everything \
apart, and nobody calls ibv_ack_cq_events(). ibv_destroy_cq() waits for that for ever. First it runs alone; after \
$patience seconds it is killed."
echo
typed "demo_hang"
timeout $patience /in/demo_hang >alone 2>&1
alone_status=$?
printf '\n'
shown alone
hung $alone_status
printf '\n'
text "The same under the library, which is told to speak of a destroy that has waited for 2 seconds (5 if it is not told). \
ibv-sa run sets LD_PRELOAD and the settings; it hangs as before, but says why:"
echo
typed "ibv-sa run --hang-secs 2 -- demo_hang"
timeout $patience /in/ibv-sa run --hang-secs 2 -- /in/demo_hang >explained 2>&1
explained_status=$?
printf '\n'
shown explained
hung $explained_status
printf '\n'
text "With --ack rescue the library acknowledges the event in the program's place when the 2 seconds are over:"
echo
typed "ibv-sa run --ack rescue --hang-secs 2 -- demo_hang"
timeout $patience /in/ibv-sa run --ack rescue --hang-secs 2 -- /in/demo_hang >rescued 2>&1
rescued_status=$?
printf '\n'
shown rescued
echo "    It ended with exit code $rescued_status."

heading "Do the counts agree, and is what was said true?"
verdict=0
# compare WHAT COUNTED EXPECTED WHY
compare() {
    if [ "${2:-0}" = "$3" ]; then
        printf '  yes  %s: libibv_sa counted %s, and %s\n' "$1" "$2" "$4"
    else
        printf '  NO   %s: libibv_sa counted %s, but %s\n' "$1" "${2:-nothing}" "$4"
        verdict=1
    fi
}
for who in server client; do
    compare "completions, $who" "$(number $who.report 'completions polled')" $((2 * rounds)) "$rounds sends and $rounds receives were asked for"
done
for event in PORT_ERR PORT_ACTIVE; do
    compare "$event" "$(number watcher.report "async events got:.*$event")" "$(grep -c "IBV_EVENT_$event " watcher)" "the watcher printed as many"
done
[ $((client_status + server_status)) = 0 ] || verdict=1
# answer WHAT STATUS: whether WHAT is so.
answer() {
    if [ "$2" = 0 ]; then
        printf '  yes  %s\n' "$1"
    else
        printf '  NO   %s: that is not so\n' "$1"
        verdict=1
    fi
}
# What the program printed of itself, in the form in which the library names it.
handle() { sed -n 's/.*the CQ with handle \([0-9]*\).*/CQ handle \1 (rxe0)/p' "$1"; }
reader() { sed -n 's/^\(thread [0-9]*\): the write is done$/\1 (reader, ended)/p' "$1"; }
destroyer() { sed -n 's/^\(thread [0-9]*\): the CQ with.*/\1 (demo_hang)/p' "$1"; }
# said FILE TEXT: the library says TEXT in a line of its own about this CQ.
said() { grep '^ibv_sa\[' "$1" | grep -F "ibv_destroy_cq: $(handle "$1"): " | grep -qF "$2"; }
hangs() { [ "$1" = 124 ] && grep -q 'is destroyed \.\.\.$' "$2" && ! grep -q 'all is destroyed' "$2"; }
ends() { [ "$1" = 0 ] && grep -q 'all is destroyed' "$2"; }
hangs $alone_status alone
answer "demo_hang alone never ends" $?
hangs $explained_status explained && said explained "$(destroyer explained) has waited for 2." &&
    said explained "1 completion event, taken by $(reader explained) "
answer "under libibv_sa neither, and the line names the CQ and the threads that the program printed" $?
ends $rescued_status rescued && said rescued "1 completion event, taken by $(reader rescued) " &&
    said rescued "is acknowledged for the program"
answer "with --ack rescue it ends, and the line says why" $?
echo
if [ $verdict = 0 ]; then
    echo "Every count equals what the programs were asked to do, and the programs of Debian did not notice."
else
    echo "Something does not agree: see the lines that begin with NO, or the programs' output above."
fi
exit $verdict
