"""What RAS's counts of launches say, operation by operation: who lags behind the many, and how to put it in words."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from collector.align.observations import Observations
from collector.align.ras.communicators import Level, RasGroup, RasView
from collector.align.thresholds import is_majority
from collector.judge.fault import Fault
from shared.answer.diagnosis import SequenceEvidence
from shared.plural import counted, ranks_with
from shared.rank_sets import fold, ranks_in_words
from shared.wire.ras import RasStatus

BLIND = "NCCL RAS counts launches: it sees no sends, no receives and nothing that a CUDA graph replays"
SHORT = 12
"""Characters of a communicator's hash in a sentence."""


@dataclass(frozen=True)
class Lag:
    """Who lags in one operation of one communicator, and who waits for them there."""

    group: RasGroup
    op: str
    levels: tuple[Level, ...]
    behind: tuple[int, ...]
    """Global ranks with less than what more than half have."""
    ahead: tuple[int, ...]

    @cached_property
    def next_operation(self) -> int:
        """The first that one of `behind` has not launched."""
        return 1 + min(level.operations for level in self.levels if set(level.ranks) & set(self.behind))


def lags_of(group: RasGroup) -> list[Lag]:
    """Return one lag for each operation in which a minority, all of it known, is behind."""
    found = []
    for op, levels in group.levels.items():
        total = sum(level.number for level in levels)
        many = common(levels)
        below = [level for level in levels if level.operations < many]
        if below and total >= group.size - len(group.standings.get(RasStatus.NOCOMM, ())) - _unheard(group):
            behind = tuple(sorted(rank for level in below for rank in level.ranks))
            if len(behind) == sum(level.number for level in below):
                ahead = tuple(sorted(r for level in levels if level.operations >= many for r in level.ranks))
                found.append(Lag(group, op, levels, behind, ahead))
    return found


def common(levels: Sequence[Level]) -> int:
    """The most launches that more than half have reached."""
    total = sum(level.number for level in levels)
    reached = 0
    for level in sorted(levels, key=lambda level: -level.operations):
        reached += level.number
        if is_majority(reached, total):
            return level.operations
    return 0


def _unheard(group: RasGroup) -> int:
    return sum(len(group.standings.get(status, ())) for status in (RasStatus.SILENT, RasStatus.DEAD, RasStatus.UNKNOWN))


def lag_evidence(lag: Lag) -> SequenceEvidence:
    """The evidence for a lag."""
    return SequenceEvidence(
        ranks=fold(lag.group.members),
        text=f"NCCL RAS: {_in_words(lag.op, lag.levels)} in communicator {lag.group.name}",
        group=lag.group.ref,
        sequence=lag.next_operation,
        issued={str(level.operations): fold(level.ranks) for level in lag.levels},
        waiting=fold(lag.ahead),
        absent=fold(lag.behind),
    )


def _in_words(op: str, levels: Sequence[Level]) -> str:
    told = "; ".join(f"{_whose(level)} {_launches(level, op)}" for level in levels[:4])
    return told + (f"; and {len(levels) - 4} more counts" if len(levels) > 4 else "")


def _launches(level: Level, op: str) -> str:
    what = "any collective" if op == "collective" else op
    return f"launched {what} up to {level.operations}" if level.operations else f"launched no {what}"


def _whose(level: Level) -> str:
    if level.ranks:
        return ranks_in_words(level.ranks)
    return counted(level.number, "rank")


def with_counts(faults: list[Fault], observations: Observations) -> list[Fault]:
    """Put what RAS counted beside faults that rest on other evidence."""
    remark = remark_of(observations.roster.ras)
    return [replace(fault, remarks=(*fault.remarks, remark)) for fault in faults] if remark else faults


def remark_of(ras: RasView | None) -> str:
    """What the counts say without naming anybody; empty where they say nothing."""
    if ras is None or ras.moved or not ras.groups:
        return ""
    for group in ras.groups:
        for op, levels in group.levels.items():
            if len(levels) > 1:
                once = "" if ras.still else " (asked once: any job may show this for a moment)"
                return f"NCCL RAS: {_in_words(op, levels)} in communicator {group.name[:SHORT]}{once}"
    if ras.whole and ras.still and any(group.levels for group in ras.groups):
        return "according to NCCL RAS, every rank has launched each communicator's collectives equally often; " + BLIND
    return ""


def doubt_of(observations: Observations) -> str:
    """Why files that hold unequal counts, or ranks without an answer, are no verdict; empty where there are none."""
    remark = remark_of(observations.roster.ras)
    counts = (
        f"{remark}; a second report with the same counts would confirm it"
        if remark and not _is_still(observations)
        else remark
    )
    silent = () if observations.roster.ras is None else tuple(observations.roster.ras.trouble)
    if not silent:
        return counts
    unanswered = ranks_with(silent, "does not answer", "do not answer")
    asked = f"{unanswered} NCCL RAS (asked once: a second report would show whether that lasts)"
    return f"{asked}; {counts}" if counts else asked


def _is_still(observations: Observations) -> bool:
    return observations.roster.ras is not None and observations.roster.ras.still
