"""Follows what a rank prints through pipes to the files where it ends, as with `torchrun … 2>&1 | tee job.log`.

1. A pipe leads to the program that has it as its standard input: a filter. The plain files that it has open for writing
   hold what came through, but for its standard error: `tee`, `ts`, `grep`, `multilog`.
2. Where a filter's own standard output is a pipe, that one is followed the same way: `… | ts | tee job.log`.
3. srun gets its tasks' output over the network. Where it runs on this node, its own output is theirs.

Whoever else reads a pipe has reasons of its own, and files that have nothing to do with it: slurmstepd slurmd's log, a
supervisor its own. Only programs of the rank's own user and of root are followed. One with many files serves many
processes; which of them is this rank's cannot be told, so none is taken. Wherever a job leads us by this, a file is
opened only where those who may have started the job may read it (job_files.py).
"""

import os
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

from agent.errors import Gone
from agent.find.choose_ranks import Rank
from agent.find.process_owner import owner_of
from agent.sources.fds import Descriptor, describe
from agent.sources.look_context import LookContext
from shared.errors import NotPermitted

STREAMS = (1, 2)
_MOST_WRITERS = 16
_MOST_DESCRIPTORS = 1024
_MOST_FILES = 8
"""A reader with more serves others as well."""
_SRUN, _JOB = "srun", "SLURM_JOB_ID"


class StreamEnd(NamedTuple):
    """A plain file at the end of a pipe, as a descriptor of the process that writes it."""

    pid: int
    fd: int
    path: str
    is_shared: bool
    """Does the output of all tasks of a Slurm step end here?"""


def stream_ends(context: LookContext, rank: Rank) -> Iterator[StreamEnd]:
    """Iterate over the files where standard output and error of a rank end, each once; they may not be readable."""
    pipes = _pipes(_written(context, rank.stat.pid, STREAMS))
    sruns = {pid: list(STREAMS) for pid in _sruns(context, rank)} if pipes else {}
    seen: set[str] = set()
    for writer, outputs in _writers(context, rank, pipes, sruns):
        files = {output.target: output for output in outputs if output.kind == "file"}
        for path, file in files.items() if len(files) <= _MOST_FILES else ():
            if path not in seen:
                seen.add(path)
                yield StreamEnd(writer, file.fd, path, bool(sruns))


def _writers(
    context: LookContext, rank: Rank, pipes: list[str], sruns: dict[int, list[int]]
) -> Iterator[tuple[int, list[Descriptor]]]:
    """Iterate over the processes that the rank's output passes through, with what each one writes it to."""
    trusted, met = {owner_of(context.procfs, rank.stat.pid), 0}, {rank.stat.pid}
    followed, waiting = set(pipes), deque([sruns, *(_filters(context, pipe) for pipe in pipes)])
    while waiting and len(met) <= _MOST_WRITERS:
        for pid, fds in waiting.popleft().items():
            if pid in met or owner_of(context.procfs, pid) not in trusted:
                continue
            met.add(pid)
            outputs = _written(context, pid, fds)
            yield pid, outputs
            further = set(_pipes(outputs)) - followed
            followed |= further
            waiting += [_filters(context, pipe) for pipe in further]


def _filters(context: LookContext, pipe: str) -> dict[int, list[int]]:
    """Return who has a pipe as standard input, with the descriptors that may be what they write it to."""
    pids = [pid for pid, fd in context.holders(pipe) if fd == 0]
    return {pid: [fd for fd in _descriptors(context, pid) if fd not in (0, 2)] for pid in pids[:_MOST_WRITERS]}


def _pipes(outputs: Iterable[Descriptor]) -> list[str]:
    """Return the pipes among a program's standard output and error."""
    return list(dict.fromkeys(each.target for each in outputs if each.kind == "pipe" and each.fd in STREAMS))


def _written(context: LookContext, pid: int, fds: Iterable[int]) -> list[Descriptor]:
    """Return those of some descriptors that are open for writing."""
    found = (describe(context, pid, fd) for fd in fds)
    return [each for each in found if each is not None and each.flags & os.O_ACCMODE != os.O_RDONLY]


def _descriptors(context: LookContext, pid: int) -> tuple[int, ...]:
    try:
        return tuple(context.procfs.fds(pid))[:_MOST_DESCRIPTORS]
    except (Gone, NotPermitted):
        return ()


def _sruns(context: LookContext, rank: Rank) -> list[int]:
    """Return the sruns of the rank's own Slurm job on this node (step 3); its steps are not told apart."""
    job, found = rank.environment.get(_JOB), list[int]()
    for pid in context.processes_named(_SRUN) if job is not None else ():
        with suppress(Gone, NotPermitted):
            if f"{_JOB}={job}".encode() in context.procfs.read(pid, "environ").split(b"\0"):
                found.append(pid)
    return found
