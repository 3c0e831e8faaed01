"""Which user a job belongs to, and the name that distinguishes it from another user's job of the same name.

Any user can give a job any name, so a job is a name and a user. `demo` names the job where that is unambiguous;
`demo@1001` always means the processes of user 1001. If another user, 1002, names a job `demo@1001`, it is shown as
`demo@1001@1002`: nobody can take the name of someone else's job.
"""

import re

from shared.wire.snapshot import Exited, Identity

OF_SLURM = "slurm-"
"""Before the number of a Slurm job."""

UNKNOWN_USER = "?"
"""In place of a user: older agents and files do not report the owner of a process."""

NAMESPACE = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
"""Of Kubernetes: a label of RFC 1123."""
USER = rf"(?:{NAMESPACE}\.)?c?[0-9]{{1,10}}"
"""As in `Identity.user`: 1001, c1000, team-a.0."""

# demo@1001        slurm-71@c0        demo@team-a.0        demo@?
_QUALIFIED = re.compile(rf".*@({USER}|\?)", re.DOTALL)


def qualified(job: str, user: str | None) -> str:
    """Return the name that no other user's job can have."""
    user = user or UNKNOWN_USER
    return job if job.endswith(f"@{user}") else f"{job}@{user}"


def poses(identity: Identity) -> bool:
    """Does this rank's job have a name that is reserved for another user's?"""
    if identity.job is None or identity.user is None or "@" not in identity.job:
        return False
    found = _QUALIFIED.fullmatch(identity.job)
    return found is not None and found[1] != identity.user


def goes_by(identity: Identity, job: str) -> bool:
    """Is `job` a name of this rank's job: the launcher's, or the one with the user appended?"""
    if identity.job is None:
        return False
    if identity.job == job and not poses(identity):
        return True
    return "@" in job and qualified(identity.job, identity.user) == job


def is_of(identity: Identity, job: str, user: str | None) -> bool:
    """Is this a rank of `job` of `user` (None: any user)? A rank whose user is unknown may be."""
    return goes_by(identity, job) and (user is None or identity.user in (user, None))


def is_same_job(one: Identity, other: Identity) -> bool:
    """Are two ranks of one job?"""
    return (one.job, one.user) == (other.job, other.user)


def was_of(gone: Exited, job: str, user: str | None) -> bool:
    """Did this process belong to the job, or run beside ranks of it?"""
    if gone.identity is not None and gone.identity.job is not None:
        return is_of(gone.identity, job, user)
    beside = (Identity(job=name, user=gone.sibling_user, rank=0) for name in gone.sibling_jobs)
    return any(is_of(each, job, user) for each in beside)


def plain_name(job: str) -> str:
    """Return a job's name without the user, as a scheduler knows it."""
    found = _QUALIFIED.fullmatch(job)
    return job if found is None else job[: found.start(1) - 1]


def with_job_name(identity: Identity, job: str | None, user: str | None) -> Identity:
    """Return the rank with `job` as its job's name if it belongs to that job and user, and never otherwise."""
    if job is None or identity.job is None:
        return identity
    if "@" not in job and (identity.job != job or user is None or identity.user in (user, None)):
        return identity  # nearly all of them
    if is_of(identity, job, user):
        name = job
    else:
        name = qualified(identity.job, identity.user) if identity.job == job else identity.job
    return identity if name == identity.job else identity.model_copy(update={"job": name})
