# shellcheck shell=bash
# Shared by the scripts of this directory: where things are, how progress and errors are told.

vm_dir=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
# shellcheck disable=SC2034 # used by the scripts that source this file
repo_dir=$(readlink -f "$vm_dir/../..")

# Several clones of the repository may share the images by naming one directory.
# shellcheck disable=SC2034
images_dir=${TESTBED_DIR:-$repo_dir/build/testbed}

# The rdma-core versions under test and the Debian suites that carry them.
# shellcheck disable=SC2034
all_versions=(44 56 65)
suite_of() {
    case $1 in
        44) echo bookworm ;;
        56) echo trixie ;;
        65) echo forky ;;
        *) die "no image for rdma-core version '$1': the choice is ${all_versions[*]}" ;;
    esac
}

say() { printf '%s\n' "$*" >&2; }

die() {
    say "${0##*/}: $*"
    exit 1
}

# The step under way, for cleaning up.
step_pid=
end_step() {
    [ -n "$step_pid" ] || return 0
    kill -- "-$step_pid" 2>/dev/null || true
    # Only when all of it is gone will nothing more be written.
    while kill -0 -- "-$step_pid" 2>/dev/null; do sleep 0.1; done
}

# step TEXT COMMAND...: runs COMMAND with its output in $log and tells on stderr how long it took;
# a terminal sees the seconds pass. A failure shows the end of the log and ends the script.
step() {
    local text=$1 start=$SECONDS status=0 pid
    shift
    printf '  %s ...' "$text" >&2
    # A process group of its own, so that an interrupted script can end all of it.
    set -m
    "$@" >"${log:?}" 2>&1 </dev/null &
    pid=$!
    set +m
    step_pid=$pid
    while [ -t 2 ] && kill -0 "$pid" 2>/dev/null; do
        printf '\r  %s ... %d s ' "$text" $((SECONDS - start)) >&2
        sleep 1
    done
    wait "$pid" || status=$?
    step_pid=
    if [ -t 2 ]; then
        printf '\r  %s ... %d s \n' "$text" $((SECONDS - start)) >&2
    else
        printf ' %d s\n' $((SECONDS - start)) >&2
    fi
    if [ "$status" -ne 0 ]; then
        tail -n 20 "$log" >&2
        die "'$text' failed (status $status); the lines above are the end of its output"
    fi
}

# checksum FILE...: one line that changes with the content of any of the files.
checksum() { sha256sum "$@" | cut -d' ' -f1 | sha256sum | cut -d' ' -f1; }
