"""Stacks beside those that stand for the ranks: their other threads, and their child processes, merged over all ranks.

Threads are brought together by their names without the numbers in them, children by the program that they run.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Literal

from pydantic import Field

from collector.align.accounting import account_for_ranks
from collector.align.expected import Expected
from collector.align.roster import RankView
from collector.align.stacks.stack_classes import StackNode, merged
from shared.answer.diagnosis import Contract
from shared.wire.snapshot import NodeSnapshot, Process
from shared.wire.stacks import Frame, Stacks

_MOST_KINDS = 32
"""Of names, which are the job's to choose: the rarest are told together."""
_MOST_PROCESSES = 4096
_MOST_THREADS = 256
"""Of one rank."""
_MOST_STACKS = 64
"""Of one name, those of most ranks first."""
_NUMBERS = re.compile(r"\d+")
_THE_REST = "others"

_Stack = tuple[Frame, ...]
_Kind = tuple[Literal["thread", "child"], str]


class ChildProcess(Contract):
    """A process that a rank has started."""

    rank: int
    host: str | None = None
    pid: int
    name: str = ""
    missing: str = Field(default="", description="Why its stacks were not read; empty where they were.")


class OtherStacks(Contract):
    """Threads of one name, or children of one name, of all ranks."""

    what: Literal["thread", "child"]
    name: str = Field(description="Their name, `#` for each number in it.")
    tree: tuple[StackNode, ...] = ()
    left_out: int = Field(default=0, description="Different stacks that the tree leaves out.")
    processes: tuple[ChildProcess, ...] = Field(default=(), description="Of children: which processes these are.")


def other_stacks(snapshots: Sequence[NodeSnapshot]) -> tuple[OtherStacks, ...]:
    """Return the stacks of all other threads and of all children, threads first and those of most ranks first."""
    stacks: dict[_Kind, dict[int, set[_Stack]]] = defaultdict(lambda: defaultdict(set))
    processes: dict[_Kind, list[ChildProcess]] = defaultdict(list)
    for view in account_for_ranks(snapshots, Expected()).present():
        for kind, frames in (*_of_threads(view), *_of_children(view)):
            stacks[kind][view.rank].add(frames)
        for kind, process in _processes(view):
            processes[kind].append(process)
    kinds = sorted({*stacks, *processes}, key=lambda kind: (kind[0] != "thread", -len(stacks[kind]), kind))
    told = [_told(kind, [kind], stacks, processes) for kind in kinds[:_MOST_KINDS]]
    rest = kinds[_MOST_KINDS:]
    whats: tuple[Literal["thread", "child"], ...] = ("thread", "child")
    more = [(what, [kind for kind in rest if kind[0] == what]) for what in whats]
    return (*told, *(_told((what, _THE_REST), these, stacks, processes) for what, these in more if these))


def _told(
    kind: _Kind,
    those: Sequence[_Kind],
    stacks: dict[_Kind, dict[int, set[_Stack]]],
    processes: dict[_Kind, list[ChildProcess]],
) -> OtherStacks:
    alike: dict[_Stack, set[int]] = defaultdict(set)
    for one in those:
        for rank, each in stacks[one].items():
            for frames in each:
                alike[frames].add(rank)
    shown = sorted(alike, key=lambda frames: (-len(alike[frames]), frames))[:_MOST_STACKS]
    return OtherStacks(
        what=kind[0],
        name=kind[1],
        tree=merged([(rank, frames) for frames in shown for rank in sorted(alike[frames])]),
        left_out=len(alike) - len(shown),
        processes=tuple(process for one in those for process in processes[one])[:_MOST_PROCESSES],
    )


def _of_threads(view: RankView) -> Iterator[tuple[_Kind, _Stack]]:
    if view.stacks is None:
        return
    standing = view.thread_in(view.stacks)
    for thread in view.stacks.threads[:_MOST_THREADS]:
        if thread is not standing and thread.frames:
            yield ("thread", _kind_of(thread.name or "unnamed")), view.stacks.stack(thread)


def _of_children(view: RankView) -> Iterator[tuple[_Kind, _Stack]]:
    for child in view.looks[-1].children if view.looks else ():
        if isinstance(child.stacks, Stacks) and child.stacks.main is not None:
            yield _kind_of_child(child.process), child.stacks.stack(child.stacks.main)


def _processes(view: RankView) -> Iterator[tuple[_Kind, ChildProcess]]:
    for child in view.looks[-1].children if view.looks else ():
        why = "" if isinstance(child.stacks, Stacks) else child.stacks.detail or child.stacks.reason.value
        process = child.process
        told = ChildProcess(rank=view.rank, host=view.host, pid=process.pid, name=process.name, missing=why)
        yield _kind_of_child(process), told


def _kind_of_child(process: Process) -> _Kind:
    return "child", _kind_of(process.name or "unnamed")


def _kind_of(name: str) -> str:
    return _NUMBERS.sub("#", name)
