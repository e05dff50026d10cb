#!/bin/bash
# daemon.sh: inside the VM, what ../daemon.sh checks. Each step says what happens to the port and what a program must hear.
set -uo pipefail
cd /tmp || exit
export DOUBLE_DIR=/tmp/double
export IBV_SA_SOCKET=/tmp/run/sa.sock
port=/sys/class/infiniband/rxe0/ports/1
events=/proc/evinject

# How sysfs shows an InfiniBand port: these files take the place of rxe0's own, which has no LID and no SM.
mkdir "$DOUBLE_DIR" sysfs run
chmod 755 run
echo "rxe0 0000000000001235" >$DOUBLE_DIR/device
echo 0x7 >sysfs/lid
echo 0x1 >sysfs/sm_lid
echo 0 >sysfs/sm_sl
for file in lid sm_lid sm_sl; do mount --bind sysfs/$file $port/$file || exit 125; done

LD_LIBRARY_PATH=/in /in/ibv-sa daemon --socket $IBV_SA_SOCKET 2>log &
daemon=$!
failed=0
cleanup() {
    kill $daemon 2>/dev/null
    wait $daemon
}

# waits SECONDS CONDITION...
waits() {
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        [ $SECONDS -lt $end ] || return 1
        sleep 0.05
    done
}

# shellcheck disable=SC2317 # called by waits
# said N STATUS: the monitor's line N is this status.
said() { sed -n "$1p" heard | grep -q "\"status\":$2[,}]"; }
heard=0
# hears STATUS... WHAT: the monitor hears these statuses, one after the other.
hears() {
    local what=${*: -1}
    for status in "${@:1:$#-1}"; do
        heard=$((heard + 1))
        if ! waits 30 said $heard "$status"; then
            echo "FAIL  $what: status $status did not come; heard:"
            cat heard
            echo "the daemon says:"
            cat log
            failed=1
            cleanup
            exit 1
        fi
    done
    echo "ok    $what"
}
# shellcheck disable=SC2317 # called by waits
logged() { grep -qF "$1" log; }
# told TEXT: the daemon's log says so.
told() {
    if waits 30 logged "$1"; then
        echo "ok    the daemon says: $1"
    else
        echo "FAIL  the daemon does not say: $1; it says:"
        cat log
        failed=1
    fi
}
inject() { echo "rxe0 port $1 1" >$events; }

waits 30 test -S $IBV_SA_SOCKET || { cat log; exit 125; }
/in/ibv-sa monitor --device rxe0 --trap 64 --json >heard 2>monitor.err &
monitor=$!
hears 0 "a subscription stands"

# Gaps are announced at once, and end when the subscription stands again, within 5 s and a bit. Each of these is known
# only by the kernel's event: the port is looked at every 10 s.
inject 17
hears -102 0 "CLIENT_REREGISTER of the kernel: subscribed again"
echo 0x2 >sysfs/sm_lid
inject 13
hears -102 0 "SM_CHANGE: subscribed at another SM"
told "rxe0/1: ready, LID 7, SM at LID 2"
echo 0x9 >sysfs/lid
inject 11
hears -102 0 "LID_CHANGE: subscribed from another LID"
ip link set dummy0 down
hears -102 "the port goes down, by the kernel itself"
inject 17
ip link set dummy0 up
hears 0 "the port comes back: subscribed once it is active"
# Of lines of one kind one is written in a second.
sleep 1.5
echo 0x3 >sysfs/sm_lid
timeout 20 /in/ibv-sa monitor --device rxe0 --trap 65 --count 1 --timeout 8 >/dev/null 2>&1
hears -102 0 "the SM moved and nobody said so: a request finds it"
told "rxe0/1: ready, LID 9, SM at LID 3"

# A device that is to go must be let go of.
opened() { [ -n "$(find /proc/$daemon/fd -lname '*uverbs*')" ]; }
# shellcheck disable=SC2317 # called by waits
closed() { ! opened; }
opened || { echo "FAIL  the daemon has no uverbs open"; failed=1; }
echo "rxe0 dev 8 1" >$events
told "no events of the device, so that it is looked at twice a second: DEVICE_FATAL"
if waits 30 closed; then echo "ok    DEVICE_FATAL: the device is closed"; else echo "FAIL  uverbs stays open"; failed=1; fi
echo 0x4 >sysfs/sm_lid
hears -102 0 "without events the port is looked at"

if kill $monitor && wait $monitor; then :; fi
[ "$(wc -l <heard)" = $heard ] || { echo "FAIL  more was heard:"; cat heard; failed=1; }
kill $daemon
wait $daemon || { echo "FAIL  the daemon ends with $?"; failed=1; }
exit $failed
