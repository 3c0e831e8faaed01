#!/usr/bin/env bash
# Prolog of slurmd: tests the node alone before a job starts there. slurmd drains a node whose prolog fails, so this one
# fails where the node is found to be bad, and only there: if a test that cannot run failed, one wrong path below would
# drain every node. That it could not run is said in the node's log instead.
set -u
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
unhang=/opt/unhang/bin/unhang
python=/opt/torch/bin/python
log=/var/log/unhang-preflight.log

timeout 90 "$unhang" preflight --python "$python" --deadline 60 > "$log" 2>&1
status=$?
case $status in
0) exit 0 ;;
10)
    logger -t unhang "preflight: this node is bad, see $log"
    exit 1
    ;;
esac
logger -t unhang "preflight: this node was NOT tested (status $status): $(tail -n 1 "$log")"
exit 0
