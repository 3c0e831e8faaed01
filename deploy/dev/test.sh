#!/usr/bin/env bash
# Runs all tests; those that wait for most of their time, or that a busy machine would fail, in a lane of their own, three
# at a time. All others run meanwhile, and step back for them.
# What fails beside others is tried once more by itself, aloud: a fault fails there, too, a machine that paused for
# seconds does not. It is named as flaky in the end, and of more than MOST_FLAKY all fail.
# Where root runs it, most tests are in a namespace of processes of their own: each `unhang` there would else search the
# memory of all jobs of the machine, those of the other lane among them. What concludes from a whole machine is steady.
# Takes VENV, WORKERS (0: one test after the other), MARKS (which tests there are), STEADY (the folders of that lane) and
# MOST_FLAKY (any number) from the environment.
set -muo pipefail # each lane is a group of processes, as which it is interrupted

own=()
if [ "$(id -u)" -eq 0 ] && unshare --pid --fork --mount-proc true 2> /dev/null; then
    # The first process there has to wait for all orphans, as a shell does.
    # shellcheck disable=SC2016 # its own words
    own=(unshare --pid --fork --kill-child --mount-proc sh -c '"$@"; exit $?' sh)
fi

lane() { # NAME NICENESS MARKS WORKERS MORE...: becomes pytest on these tests, which remembers by this name which failed
    exec nice -n "$2" ${within[@]+"${within[@]}"} "$VENV/bin/python" -m pytest -o cache_dir=".pytest_cache/$1" -m "$MARKS and $3" -n "$4" "${@:5}"
}

most() { within=("${own[@]}"); lane most 10 'not steady' "$WORKERS" --no-loadscope-reorder --cache-clear; }

steady() { # shellcheck disable=SC2086 # several folders
    lane steady 0 steady "$((WORKERS > 3 ? 3 : WORKERS))" --no-loadscope-reorder --cache-clear $STEADY
}

alone() { # NAME MARKS STATUS: once more what failed in the lane that ended so
    [ "$3" -eq 1 ] || return "$3"
    mapfile -t -O "${#flaky[@]}" flaky < <(grep -o '"[^"]*::[^"]*"' ".pytest_cache/$1/v/cache/lastfailed")
    echo "These failed beside others. Once more, each by itself:" >&2
    lane "$1" 0 "$2" 0 --last-failed --last-failed-no-failures none --maxfail 1 &
    wait $!
}

# shellcheck disable=SC2329 # the trap does it
leave() {
    for job in $(jobs -p); do kill -INT -- "-$job" 2> /dev/null; done
    wait
    cat "$said"
    rm -f "$said"
}

said=$(mktemp)
trap leave EXIT
trap 'exit 130' INT TERM

most &
if [ "$WORKERS" -eq 0 ]; then
    wait $!; of_most=$?
    steady &
    wait $!; of_steady=$?
else
    at_once=$!
    steady > "$said" 2>&1 & # comes in one piece, not between the dots of the others
    wait "$at_once"; of_most=$?
    wait $!; of_steady=$?
    cat "$said"
    : > "$said"
fi

failed=0 flaky=()
alone most 'not steady' "$of_most" || failed=$?
alone steady steady "$of_steady" || failed=$?
if [ "$failed" -eq 0 ] && [ "${#flaky[@]}" -gt 0 ]; then
    printf '%s\n' "${#flaky[@]} flaky, passed alone:" "${flaky[@]}" >&2
    [ "${#flaky[@]}" -le "${MOST_FLAKY:-${#flaky[@]}}" ] || failed=1
fi
exit "$failed"
