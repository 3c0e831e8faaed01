"""Which hosts a Slurm job runs on, and what it is called, asked of `squeue`."""

import re
import subprocess
from typing import NamedTuple

from shared.errors import InvalidSettings, NotFound, Unreachable, quoted
from shared.wire.job_names import OF_SLURM

_SECONDS = 20.0

# 4242    4242_7    4242+1
_JOB_ID = re.compile(r"[0-9]{1,10}(?:[_+][0-9]{1,10})?")


class SlurmJob(NamedTuple):
    """A job that runs."""

    hosts: str
    """Such as `node[01-16]`."""
    name: str | None
    """What its ranks are said to be of; None where the number is that of several: an array, or parts of one job."""


def find_slurm_job(job_id: str) -> SlurmJob:
    """Ask where a job runs. Raises UnhangError."""
    if _JOB_ID.fullmatch(job_id) is None:
        raise InvalidSettings(f"{quoted(job_id)} is not a Slurm job", advice="write its number, as squeue shows it")
    command = ["squeue", "--noheader", f"--jobs={job_id}", "--states=RUNNING,SUSPENDED,COMPLETING", "--format=%A %N"]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, start_new_session=True
        )
    except FileNotFoundError as error:
        raise InvalidSettings("squeue is not installed here", advice="name the hosts with --hosts") from error
    except subprocess.TimeoutExpired as error:
        raise Unreachable(
            f"squeue does not answer within {_SECONDS:g} s", advice="name the hosts with --hosts"
        ) from error
    if done.returncode != 0:
        raise NotFound(f"squeue knows no job {job_id}: {quoted(done.stderr, most=200)}")
    rows = [line.split() for line in done.stdout.decode("utf-8", "replace").splitlines()]
    placed = [row for row in rows if len(row) == 2]
    if not placed:
        raise NotFound(f"Slurm job {job_id} is not running", advice="squeue lists running jobs")
    numbers = {number for number, _ in placed}
    name = f"{OF_SLURM}{numbers.pop()}" if len(numbers) == 1 else None
    return SlurmJob(" ".join(dict.fromkeys(hosts for _, hosts in placed)), name)
