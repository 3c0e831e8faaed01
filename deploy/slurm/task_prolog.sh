#!/usr/bin/env bash
# TaskProlog: gives the probe to tasks of jobs that ask for it with UNHANG_PROBE=1. Runs as the job's user; slurmd sets
# in the task what is printed here as `export NAME=value`. Whatever goes wrong, it prints nothing and the task starts.
set -u
unhang=/opt/unhang/bin/unhang

[ "${UNHANG_PROBE:-}" = 1 ] && [ -x "$unhang" ] || exit 0
case "${PYTHONPATH:-}" in
*$'\n'*) exit 0 ;; # cannot be said in one line
esac

probe=$(timeout 10 "$unhang" probe-path 2> /dev/null) || exit 0
[ -d "$probe" ] && echo "export PYTHONPATH=$probe${PYTHONPATH:+:$PYTHONPATH}"
exit 0
