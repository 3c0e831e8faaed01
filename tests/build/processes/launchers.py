"""What starts one command on many nodes: an srun whose tasks run here, and the real pdsh and clush over real ssh."""

import os
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.build.processes.commands import environment
from tests.build.processes.sshd import Cluster
from tests.needed import skip_without

SRUN = """#!/bin/sh
# One task for each name in NODES, each a process of its own with the variables of its task, as slurmd starts them.
# As srun does, it refuses options that it does not know, and ends with the highest status of its tasks.
while [ "${1#-}" != "$1" ]; do
    case $1 in
    --jobid=*) job=${1#*=} ;;
    --overlap) overlap=1 ;;
    --ntasks-per-node=1) ;;
    *) echo "srun: unrecognized option '$1'" >&2; exit 1 ;;
    esac
    shift
done
[ -n "${overlap:-}" ] || { echo "srun: Job $job step creation temporarily disabled, retrying" >&2; exit 1; }
export SLURM_JOB_ID="$job" SLURM_STEP_ID=1 SLURM_LOCALID=0
SLURM_NTASKS=$(echo "$NODES" | wc -w) && export SLURM_NTASKS
number=0 tasks=
for node in $NODES; do
    eval "only=\\$RANKS_$node"
    env SLURM_PROCID=$number SLURM_NODEID=$number SLURMD_NODENAME="$node" \\
        UNHANG_AGENT_HOST_NAME="$node" UNHANG_AGENT_ONLY_RANKS="$only" "$@" &
    tasks="$tasks $!" number=$((number + 1))
done
status=0
for task in $tasks; do
    wait "$task" || { ended=$?; [ "$ended" -le "$status" ] || status=$ended; }
done
exit "$status"
"""


def srun(folder: Path, ranks: Mapping[str, str]) -> dict[str, str]:
    """Put an srun into `folder` and return the variables that tell it which nodes there are, with which ranks."""
    _program(folder / "srun", SRUN)
    return {"NODES": " ".join(ranks), **{f"RANKS_{node}": only for node, only in ranks.items()}}


def pdsh(nodes: Cluster) -> dict[str, str]:
    """Return the variables with which pdsh goes to the daemons."""
    skip_without("pdsh")
    return {"PDSH_RCMD_TYPE": "ssh", "PDSH_SSH_ARGS_APPEND": f"-F {nodes.folder / 'config'}"}


def clush(nodes: Cluster, folder: Path) -> dict[str, str]:
    """Return the variables with which clush, of the environment that runs the tests, goes to the daemons."""
    (folder / "clush.conf").write_text(f"[Main]\nssh_options: -F {nodes.folder / 'config'}\n", encoding="ascii")
    return {"CLUSTERSHELL_CFGDIR": str(folder)}


def run(line: str, folder: Path, variables: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a line of the documents in a shell that finds the programs of `folder` first."""
    paths = (str(folder), str(Path(sys.executable).parent), os.environ["PATH"])
    env = environment({**variables, "PATH": os.pathsep.join(paths)})
    return subprocess.run(
        ("sh", "-c", line), cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120
    )


def _program(path: Path, text: str) -> None:
    path.write_text(text, encoding="ascii")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
