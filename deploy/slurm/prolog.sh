#!/usr/bin/env bash
# Prolog of slurmd: starts the node's agent when a job comes; epilog.sh stops it after the last one. For sites that want
# no agent on idle nodes. A prolog that fails drains the node, so this one never fails, and takes seconds at most.
set -u
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
seats=/run/unhang-jobs

case "${SLURM_JOB_ID:-}" in
'' | *[!0-9]*) exit 0 ;;
esac

begin() {
    mkdir -p "$seats" && exec 9> "$seats/.lock" && flock -w 5 9 || return
    : > "$seats/$SLURM_JOB_ID"
    timeout 10 systemctl start --no-block unhang-agent.service 9>&-
}

(begin) || logger -t unhang "prolog of job $SLURM_JOB_ID: the agent was not started"
exit 0
