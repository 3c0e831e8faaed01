#!/usr/bin/env bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --signal=B:USR1@300
# A batch script that asks what is wrong by itself: five minutes before its time is up, and whenever somebody says
# `scancel --batch --signal=USR1 JOBID`. It needs no service: only `unhang` on every node.
set -u
looks="looks-$SLURM_JOB_ID"

ask() {
    # Beside the job on the same nodes. Three minutes, so that an answer is there before the job is ended.
    timeout 180 srun --jobid="$SLURM_JOB_ID" --overlap --ntasks-per-node=1 unhang snapshot --allow-empty -o "$looks/"
    unhang diagnose "slurm-$SLURM_JOB_ID" --from "$looks/" > "verdict-$SLURM_JOB_ID.txt"
    echo "unhang: see verdict-$SLURM_JOB_ID.txt" >&2
}
trap ask USR1

srun unhang run -- torchrun --nnodes="$SLURM_JOB_NUM_NODES" --nproc-per-node=8 --rdzv-backend=c10d \
    --rdzv-endpoint="$(hostname):29400" --rdzv-id="$SLURM_JOB_ID" train.py &
job=$!

# `wait` ends when the signal comes, and is begun again until the job itself has ended.
while kill -0 "$job" 2> /dev/null; do
    wait "$job"
done
wait "$job"
