"""Hosts that are asked over ssh: named by a launcher's hostfile, with a host and how many ranks it takes on each line,
or by Slurm's `squeue`; and what they told, sorted out: which job is meant, which have to do with it, which are silent.
"""

import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from cli.sources.ssh_round import HostVisit
from collector.align.expected import Expected, Unanswered
from collector.align.job_owner import apart
from collector.gather.jobs import choose_job, concerns, neighbours_of, nodes_without_ranks, ranks_of
from collector.gather.namesakes import lists_apart, user_of
from shared.errors import InvalidHostlist, InvalidSettings, NotFound, Unreachable, quoted
from shared.missing import Missing
from shared.wire.job_names import OF_SLURM, is_of
from shared.wire.snapshot import Identity, NodeSnapshot, RankList, lists_late


@dataclass(frozen=True)
class Seen:
    """What the hosts told of one job, and which of them did not."""

    snapshots: tuple[NodeSnapshot, ...]
    expected: Expected
    visits: tuple[HostVisit, ...]
    """Those that the snapshots are from."""

    @property
    def homes(self) -> Mapping[tuple[str | None, int], str]:
        """Return the host, as ssh knows it, of each process of the job, by the host's own name and the process id."""
        return {
            (rank.identity.host or look.host, rank.identity.pid): visit.host
            for visit in reversed(self.visits)
            for look in visit.looks
            for rank in look.ranks
            if rank.identity.pid is not None and self._is_of_job(rank.identity)
        }

    def _is_of_job(self, identity: Identity) -> bool:
        job = self.expected.job
        return job is None or is_of(identity, job, self.expected.user)


def see(job: str | None, visits: Sequence[HostVisit], unreadable: Sequence[Missing] = ()) -> Seen:
    """Choose the job, and sort out which hosts have to do with it. Raises as `choose_job` does."""
    lists = {visit.host: who(visit.looks) for visit in visits if visit.looks}
    some_late = any(lists_late(found.missing) for found in lists.values())
    job = choose_job(job, lists.values(), some_silent=some_late or any(not visit.looks for visit in visits))
    user = user_of(job, lists.values())
    used = [visit for visit in visits if visit.host in lists and concerns(lists[visit.host], job, user)]
    used = _without_second_names(used, lists)
    cut_off = [_only_some(visit, lists[visit.host], job) for visit in used if visit.missing is not None]
    expected = Expected(
        job=job,
        user=user,
        neighbours=neighbours_of(job, lists_apart(lists.values(), job, user)),
        unanswered=tuple(
            Unanswered(host=visit.host, missing=visit.missing)
            for visit in visits
            if visit.missing is not None and visit.host not in lists
        ),
        nodes_without_ranks=nodes_without_ranks(lists.values(), job, user),
        unreadable=(*(missing for missing in cut_off if missing is not None), *unreadable),
    )
    return Seen(apart((look for visit in used for look in visit.looks), job, user), expected, tuple(used))


def who(looks: Sequence[NodeSnapshot]) -> RankList:
    """Return whom the last look at all ranks of a host saw there."""
    last = next((look for look in reversed(looks) if look.whole), looks[-1])
    ranks = tuple(rank.identity for rank in last.ranks)
    return RankList(host=last.host or "", ranks=ranks, exited=last.exited, missing=last.missing)


def _without_second_names(visits: Sequence[HostVisit], lists: Mapping[str, RankList]) -> list[HostVisit]:
    """Of two names of one host, leave the first."""
    kept: list[HostVisit] = []
    known: set[tuple[str, int | None, float | None]] = set()
    for visit in visits:
        told = lists[visit.host]
        processes = {(told.host, rank.pid, rank.started_at) for rank in told.ranks}
        if not processes or not processes <= known:
            kept.append(visit)
        known |= processes
    return kept


def _only_some(visit: HostVisit, told: RankList, job: str | None) -> Missing | None:
    if visit.missing is None:
        return None
    detail = f"only {len(visit.looks)} of its looks arrived (ranks {ranks_of(told, job)}): {visit.missing.detail}"
    return visit.missing.model_copy(update={"detail": detail})


_MOST_BYTES = 1 << 20

# worker-1 slots=8                     (DeepSpeed, Open MPI)
# node[01-04] slots=8 max_slots=16
# node07:8                             (MPICH, Intel MPI)
# node07                               (PBS_NODEFILE, which repeats them)
_LINE = re.compile(r"([A-Za-z0-9_.@,\[\]-]+)(?::[0-9]+)?((?:[ \t]+[A-Za-z_-]+=\S+)*)[ \t]*(?:#.*)?")


def read_hosts(text: str) -> str:
    """Return the host list that `--hosts` is given: itself, or that of the hostfile which it names.

    A name without a slash may be a host's, and is taken for a file only where that reads as a hostfile. Raises
    InvalidHostlist.
    """
    path = Path(text)
    try:
        if "/" not in text and not path.is_file():
            return text
        with path.open("rb") as file:
            lines = file.read(_MOST_BYTES).decode("utf-8", "replace").splitlines()
    except (OSError, ValueError) as error:
        raise InvalidHostlist(
            f"{quoted(text)} cannot be read: {error}", advice="name a hostfile, or hosts: node[01-16],gpu7"
        ) from error
    hosts = []
    for line in (each.strip() for each in lines):
        found = _LINE.fullmatch(line)
        if found is not None:
            hosts.append(found[1])
        elif line and not line.startswith("#"):
            if "/" not in text:
                return text
            raise InvalidHostlist(
                f"{text} is no hostfile: {quoted(line)}", advice="a host on each line: node07 slots=8"
            )
    return ",".join(hosts)


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
