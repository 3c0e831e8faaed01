"""The ends of log files: of each rank's last look, of ranks that have ended, and of files that are nobody's alone."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from collector.align.expected import Expected
from collector.align.job_owner import one_users
from shared.answer.diagnosis import Finding
from shared.answer.log_line import LogLine
from shared.formats.logs.writers import rank_of_line
from shared.isolation import costs_itself
from shared.rank_sets import unfold
from shared.wire.log_events import LogFile, Logs
from shared.wire.snapshot import NodeSnapshot, RankSnapshot

Owned = tuple[str | None, int | None, tuple[LogFile, ...]]
"""Files with the node that they are on, and the rank that writes them."""

_MOST_RANKS, _LINES, _MOST_LINES, _LONGEST = 3, 30, 60, 300
"""What a verdict shows of logs: a glance. `unhang logs` and the bundle have what was read."""


def last_looks(snapshots: Iterable[NodeSnapshot]) -> Iterator[tuple[str | None, RankSnapshot]]:
    """Yield each process's last look with its host, by rank."""
    last: dict[tuple[int, str | None, int | None], tuple[str | None, RankSnapshot]] = {}
    for snapshot in sorted(snapshots, key=lambda snapshot: snapshot.taken_at_ns or 0):
        for look in snapshot.ranks:
            host = look.identity.host or snapshot.host
            last[look.identity.rank, host, look.identity.pid] = (host, look)
    return iter(last[key] for key in sorted(last, key=lambda key: (key[0], key[1] or "", key[2] or 0)))


def logs_of(snapshots: Sequence[NodeSnapshot]) -> list[tuple[str | None, int | None, Logs]]:
    """Return what was read of each rank's logs, and of those that are nobody's alone."""
    looks = ((host, look.identity.rank, look.logs) for host, look in last_looks(snapshots))
    owned = [(host, rank, logs) for host, rank, logs in looks if isinstance(logs, Logs)]
    return [*owned, *((each.host, None, each.logs) for each in snapshots if each.logs is not None)]


def left_logs(snapshots: Iterable[NodeSnapshot], job: str | None) -> list[Owned]:
    """Return the ends of the files of this job's ranks that have ended, by rank."""
    gone = {
        (each.identity.rank, each.identity.host or snapshot.host, each.pid): each.last_logs
        for snapshot in snapshots
        for each in snapshot.exited
        if each.identity is not None and each.identity.job == job
    }
    return [(host, rank, gone[rank, host, pid]) for rank, host, pid in sorted(gone, key=repr)]


def last_lines(every: Sequence[Owned], most: int) -> Iterator[LogLine]:
    """Yield the last lines of each file. Of one that several write, what does not say whose it is comes first, once."""
    writers = Counter((host, file.path) for host, _, files in every for file in files)
    told: set[tuple[str | None, str]] = set()
    for host, rank, files in every:
        for file in files:
            place = host, file.path
            shared = file.shared or writers[place] > 1
            for text in file.lines[-most:]:
                author = rank_of_line(text) if shared else rank
                if author is not None or place not in told:
                    yield LogLine(rank=author, host=host, path=file.path, text=text)
            told |= {place} if shared else set()


@costs_itself(lambda snapshots, expected, finding: (), part="the last lines of logs")
def last_words(snapshots: Sequence[NodeSnapshot], expected: Expected, finding: Finding) -> tuple[LogLine, ...]:
    """Return the last lines of who is at fault, else of some that ended or wait; with what is nobody's alone."""
    those = finding.culprit_ranks or unfold(finding.ended or finding.victims)
    ranks = {*sorted(those)[:_MOST_RANKS], None}
    mine = one_users(snapshots, expected).snapshots
    every = [*left_logs(mine, expected.job), *((host, rank, logs.files) for host, rank, logs in logs_of(mine))]
    lines = last_lines([each for each in every if each[1] in ranks], _LINES)
    return tuple(each.model_copy(update={"text": each.text[:_LONGEST]}) for each in islice(lines, _MOST_LINES))
