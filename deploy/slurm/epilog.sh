#!/usr/bin/env bash
# Epilog of slurmd: stops the node's agent when no other job is left on the node. See prolog.sh. Never fails.
set -u
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
seats=/run/unhang-jobs

case "${SLURM_JOB_ID:-}" in
'' | *[!0-9]*) exit 0 ;;
esac

finish() {
    mkdir -p "$seats" && exec 9> "$seats/.lock" && flock -w 5 9 || return
    rm -f "$seats/$SLURM_JOB_ID"
    for seat in "$seats"/*; do
        [ ! -e "$seat" ] || return 0
    done
    timeout 10 systemctl stop --no-block unhang-agent.service 9>&-
}

(finish) || logger -t unhang "epilog of job $SLURM_JOB_ID: the agent was not stopped"
exit 0
