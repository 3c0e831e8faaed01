"""Which hosts a Slurm job runs on, asked of `squeue`."""

import re
import subprocess

from shared.errors import InvalidSettings, NotFound, Unreachable, quoted

_SECONDS = 20.0

# 4242    4242_7    4242+1
_JOB_ID = re.compile(r"[0-9]{1,10}(?:[_+][0-9]{1,10})?")


def hosts_of_slurm_job(job_id: str) -> str:
    """Return the host list of a job, such as `node[01-16]`. Raises UnhangError."""
    if _JOB_ID.fullmatch(job_id) is None:
        raise InvalidSettings(f"{quoted(job_id)} is not a Slurm job", advice="write its number, as squeue shows it")
    command = ["squeue", "--noheader", f"--jobs={job_id}", "--states=RUNNING,SUSPENDED,COMPLETING", "--format=%N"]
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
    hosts = " ".join(done.stdout.decode("utf-8", "replace").split())
    if not hosts:
        raise NotFound(f"Slurm job {job_id} is not running", advice="squeue lists running jobs")
    return hosts
