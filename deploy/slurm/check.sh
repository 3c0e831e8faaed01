#!/usr/bin/env bash
# For sites whose agents always run: Prolog, or HealthCheckProgram of slurm.conf. Starts the agent where it does not run,
# and says so in the node's log; never fails, because a node without an agent trains as well as one with it.
set -u
export PATH=/usr/sbin:/usr/bin:/sbin:/bin

if ! timeout 5 systemctl is-active --quiet unhang-agent.service; then
    logger -t unhang "the agent of this node did not run; starting it"
    timeout 10 systemctl start --no-block unhang-agent.service ||
        logger -t unhang "the agent of this node cannot be started"
fi
exit 0
