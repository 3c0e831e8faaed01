"""Bare log files: which rank each belongs to, and what a directory of only logs shows about the job.

1. Whose file: its name, torchrun's directories, or the one process whose NCCL lines it holds; else the lines' marks.
   Marks that are not always the global rank count where no file of the job speaks against it.
2. Of several attempts in torchrun's directories, the last one counts.
3. Where there are logs only, the ranks that lines name are known to exist, and the world is as large as they say.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from collector.align.marks.call_lines import ranks_of_processes
from collector.files.long_logs import Shortened
from collector.files.merge import BareRank, join_logs
from collector.files.other_tools import shown_by, tool_of
from collector.files.rank_of_file import rank_of_log
from collector.files.tree.bounded_file import ReadDeadline
from shared.formats.logs.nccl_calls import find_communicators
from shared.formats.logs.parse import find_events, may_tell
from shared.formats.logs.writers import Naming, naming_of
from shared.isolation import costs_itself
from shared.missing import Missing, refused
from shared.rank_sets import MOST_RANKS
from shared.redaction.redact import redact_lines
from shared.wire.log_events import VOICES, EventKind, LogEvent, LogFile, Logs
from shared.wire.nccl_calls import LoggedCommunicator
from shared.wire.snapshot import NodeSnapshot

_KEPT_LINES = 200
"""Of each log, for people. Events are found in all of it."""
_MOST_LINE = 4000
_HEAD = 200
_SHOWN_LINE = 2000
_MOST_NAMED = 4096
_LINE_BYTES = 80
"""Of memory that a line takes beside its characters."""
_MOST_EVENTS = 100_000
"""Of one file: all ranks of a large job may write into it, a dozen telling lines each."""

# run_4242/none_k3j/attempt_1/3/stderr.log                  torchrun --log-dir; the number is the rank on its node
_TORCHRUN = re.compile(r"(?P<run>(?:.*/)?)attempt_(?P<attempt>\d{1,6})/(?P<local>\d{1,7})/[^/]+$")
_NAMING = ("ranks", "never_joined", "speaker", "waiter", "failed_rank", "ended_rank", "ready", "apart")
_NAMING_BY_KIND = {
    EventKind.COLLECTIVE_MISMATCH: ("rank", "other_rank"),
    EventKind.TRANSPORT_ERROR: ("local_rank",),
}
"""Fields of events that hold ranks. Where there is a local rank, there are as many ranks at least."""


class LogText(NamedTuple):
    """One file while it is sorted out."""

    name: str
    lines: list[str]
    size_bytes: int
    ended: bool
    """Does it end with a whole line?"""
    whole: bool
    """Is all here that may matter?"""


def read_log(name: str, data: bytes, shortened: Shortened | None = None) -> LogText:
    """Cut a log, or what is kept of it, into lines."""
    lines = [line[:_MOST_LINE] for line in data.decode("utf-8", "replace").splitlines()]
    size, cut = (len(data), False) if shortened is None else (shortened.size_bytes, shortened.cut)
    return LogText(name, lines, size, data.endswith(b"\n"), not cut)


def memory_of(text: LogText) -> int:
    """Return how many bytes of memory a log takes, at most."""
    return len(text.lines) * _LINE_BYTES + 2 * sum(map(len, text.lines))


def assign_logs(
    texts: Iterable[LogText], bares: dict[int, BareRank], known: Collection[int], clock: ReadDeadline
) -> tuple[Logs | None, list[Missing]]:
    """Give each line to the rank that wrote it; return what belongs to no one rank, and the files left out.

    `known`: the ranks in other files.
    """
    current, left_out = _last_attempts(list(texts))
    called: dict[str, tuple[LoggedCommunicator, ...]] = {}
    for text in current:
        if clock.left > 0:
            called[text.name] = find_communicators(text.lines, ended=text.ended, whole=text.whole)
    processes = ranks_of_processes(tuple(each for told in called.values() for each in told), None)
    local = _local_ranks(current)
    naming = naming_of((text.lines for text in current), may_tell)
    unowned: list[Logs] = []
    for text in current:
        if clock.left <= 0:
            left_out.append(refused(text.name, clock.told))
            continue
        named = rank_of_log(text.name, known)
        owner = named if named is not None else local.get(text.name, _one_process(called[text.name], processes))
        own = _share(text, owner, called[text.name], processes, bares, naming)
        (unowned if owner is None else bares[owner].logs).append(own)
    return join_logs(unowned) if unowned else None, left_out


@costs_itself(lambda texts: (texts, []), part="attempts of logs")
def _last_attempts(texts: list[LogText]) -> tuple[list[LogText], list[Missing]]:
    """2. Keep the last attempt of each run."""
    attempts = {text.name: match for text in texts if (match := _TORCHRUN.match(text.name)) is not None}
    last: dict[str, int] = defaultdict(int)
    for match in attempts.values():
        last[match["run"]] = max(last[match["run"]], int(match["attempt"]))
    older = {name for name, match in attempts.items() if int(match["attempt"]) < last[match["run"]]}
    told = [refused(n, "of an earlier attempt, left out") for n in sorted(older)]
    return [text for text in texts if text.name not in older], told


def _local_ranks(texts: Iterable[LogText]) -> dict[str, int]:
    """On a job's only node the rank on the node is the rank; of several nodes the order is unknown."""
    matches = {text.name: match for text in texts if (match := _TORCHRUN.match(text.name)) is not None}
    runs = {match["run"] for match in matches.values()}
    return {name: int(match["local"]) for name, match in matches.items()} if len(runs) == 1 else {}


def _one_process(called: tuple[LoggedCommunicator, ...], processes: Mapping[tuple[str, int], int]) -> int | None:
    writers = {(each.host, each.pid) for each in called}
    return processes.get(next(iter(writers))) if len(writers) == 1 else None


@costs_itself(lambda text, *_: Logs(), part=lambda text, *_: text.name)
def _share(
    text: LogText,
    owner: int | None,
    called: tuple[LoggedCommunicator, ...],
    processes: Mapping[tuple[str, int], int],
    bares: dict[int, BareRank],
    naming: Naming,
) -> Logs:
    """1. Hand out what others wrote into this file; return the rest."""
    found = find_events(text.lines, path=text.name, rank=owner, most=_MOST_EVENTS, naming=naming, voices=True)
    tool = tool_of("\n".join(text.lines[:_HEAD]))
    events = found if tool is None else (*filter(_is_of_job, found), *shown_by(tool, text.lines, text.name))
    others: dict[int, list[LogEvent]] = defaultdict(list)
    for event in events:
        if event.rank is not None and event.rank != owner and event.rank < MOST_RANKS:
            others[event.rank].append(event)
    mine: list[LoggedCommunicator] = []
    theirs: dict[int, list[LoggedCommunicator]] = defaultdict(list)
    for each in called:
        rank = owner if owner is not None else processes.get((each.host, each.pid))
        (mine if rank in (None, owner) else theirs[rank or 0]).append(each.model_copy(update={"rank": rank}))
    for rank in sorted(others.keys() | theirs.keys()):
        bares[rank].logs.append(Logs(events=tuple(others[rank]), communicators=tuple(theirs[rank])))
    last = tuple(line[:_SHOWN_LINE] for line in redact_lines(text.lines, most=_KEPT_LINES))
    kept = LogFile(path=text.name, size_bytes=text.size_bytes, lines=last)
    rest = tuple(event for event in events if event.rank == owner)
    return Logs(files=(kept,), events=rest, communicators=tuple(mine))


def _is_of_job(event: LogEvent) -> bool:
    """What no row knows of another tool's output shows nothing of a job."""
    known = event.fields.keys() & {"writer", "waited_seconds"}
    return event.kind not in VOICES or event.rank is not None or bool(known)


@costs_itself(lambda *_: None, part="ranks that logs name")
def add_named_ranks(bares: dict[int, BareRank], unowned: Logs | None) -> None:
    """3. Let ranks that lines name, and that left no file, be known."""
    logs = [*(each for bare in bares.values() for each in bare.logs), *([] if unowned is None else [unowned])]
    named = {rank for each in logs for event in each.events for rank in _named_in(event)}
    for rank in sorted(named)[:_MOST_NAMED]:
        if not bares[rank].logs:
            bares[rank].logs.append(Logs())


def _named_in(event: LogEvent) -> Iterable[int]:
    for name in _NAMING_BY_KIND.get(event.kind, _NAMING):
        for part in event.fields.get(name, "").split(","):
            if part.strip().isdecimal() and len(part.strip()) < 8 and int(part) < MOST_RANKS:
                yield int(part)


@costs_itself(lambda snapshots: snapshots, part="world size by logs")
def with_world_size(snapshots: tuple[NodeSnapshot, ...]) -> tuple[NodeSnapshot, ...]:
    """3. Return snapshots of logs only, with the world size according to the lines."""
    size = _world_size([rank.logs for each in snapshots for rank in each.ranks] + [each.logs for each in snapshots])
    if size is None:
        return snapshots
    return tuple(
        snapshot.model_copy(
            update={
                "ranks": tuple(
                    rank.model_copy(update={"identity": rank.identity.model_copy(update={"world_size": size})})
                    for rank in snapshot.ranks
                )
            }
        )
        for snapshot in snapshots
    )


def _world_size(told: Iterable[object]) -> int | None:
    logs = [each for each in told if isinstance(each, Logs)]
    expected = [int(e.fields["expected"]) for each in logs for e in each.events if e.fields.get("expected")]
    sizes = [c.size for each in logs for c in each.communicators]
    return max((size for size in (*expected, *sizes) if 0 < size <= MOST_RANKS), default=None)
