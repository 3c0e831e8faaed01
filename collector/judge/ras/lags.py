"""What RAS's counts of launches say, operation by operation: who lags behind the many, and how to put it in words."""

from dataclasses import replace

from collector.align.groups.table import GroupView, Lag
from collector.align.observations import Observations
from collector.align.ras.communicators import RasGroup, RasView
from collector.judge.fault import Fault
from collector.judge.marks.behind import lag_in
from shared.answer.diagnosis import SequenceEvidence
from shared.isolation import costs_itself
from shared.plural import counted, ranks_with
from shared.rank_sets import fold, ranks_in_words

BLIND = "NCCL RAS counts launches: it sees no sends, no receives and nothing that a CUDA graph replays"
SHORT = 12
"""Characters of a communicator's hash in a sentence."""


def lags_of(group: RasGroup) -> list[Lag]:
    """Return one lag for each operation in which a minority, all of it known, is behind."""
    lags = [lag_in(table) for table in group.launches if group.is_whole(table)]
    known = (lag for lag in lags if lag is not None and lag.behind and len(lag.behind) == lag.missing)
    return [replace(lag, number=lag.first_lacking) for lag in known]


def lag_evidence(lag: Lag) -> SequenceEvidence:
    """The evidence for a lag."""
    counts, table = _by_count(lag.table), lag.table
    return SequenceEvidence(
        ranks=fold(table.members),
        text=f"NCCL RAS: {_in_words(table)} in communicator {table.name}",
        group=table.ref,
        sequence=lag.first_lacking,
        issued={str(count): fold(ranks) for count, ranks in counts.items()},
        waiting=fold(lag.waiting),
        absent=fold(lag.behind),
    )


def _by_count(told: GroupView) -> dict[int, list[int]]:
    """The ranks that have launched equally often, fewest launches first; of some counts no rank may be known."""
    found: dict[int, list[int]] = {count: [] for count in sorted({*told.issued.values(), *told.unnamed})}
    for rank, count in told.issued.items():
        found[count].append(rank)
    return found


def _in_words(told: GroupView) -> str:
    counts, op = _by_count(told), told.op or ""
    words = "; ".join(
        f"{ranks_in_words(ranks) if ranks else counted(told.unnamed[count], 'rank')} {_launches(count, op)}"
        for count, ranks in list(counts.items())[:4]
    )
    return words + (f"; and {len(counts) - 4} more counts" if len(counts) > 4 else "")


def _launches(count: int, op: str) -> str:
    what = "any collective" if op == "collective" else op
    return f"launched {what} up to {count}" if count else f"launched no {what}"


@costs_itself(lambda faults, observations: list(faults))
def with_lags(faults: list[Fault], observations: Observations) -> list[Fault]:
    """Put RAS's counts beside faults that they agree with: who lags in them is who is at fault."""
    ras = observations.roster.ras
    if ras is None or ras.moved:
        return list(faults)
    told = [(set(lag.behind), lag_evidence(lag)) for group in ras.groups for lag in lags_of(group)]
    return [
        replace(fault, evidence=(*fault.evidence, *(shown for behind, shown in told if behind <= set(fault.culprits))))
        for fault in faults
    ]


@costs_itself(lambda faults, observations: list(faults))
def with_counts(faults: list[Fault], observations: Observations) -> list[Fault]:
    """Put what RAS counted beside faults that rest on other evidence."""
    remark = remark_of(observations.roster.ras)
    return [replace(fault, remarks=(*fault.remarks, remark)) for fault in faults] if remark else faults


def remark_of(ras: RasView | None) -> str:
    """What the counts say without naming anybody; empty where they say nothing."""
    if ras is None or ras.moved or not ras.groups:
        return ""
    for group in ras.groups:
        for table in group.launches:
            if len(_by_count(table)) > 1:
                once = "" if ras.still else " (one look: any job may show this for a moment)"
                return f"NCCL RAS: {_in_words(table)} in communicator {table.name[:SHORT]}{once}"
    if ras.whole and ras.still and any(group.launches for group in ras.groups):
        return "according to NCCL RAS, every rank has launched each communicator's collectives equally often; " + BLIND
    return ""


@costs_itself(lambda observations: "")
def doubt_of(observations: Observations) -> str:
    """Why files that hold unequal counts, or ranks without an answer, are no verdict; empty where there are none."""
    ras = observations.roster.ras
    counts = remark_of(ras)
    if counts and ras is not None and not ras.still:
        counts += "; a second report with the same counts would confirm it"
        counts += " (in text it holds no time: write a `date` beside each)" if not observations.roster.live else ""
    silent = () if ras is None else tuple(ras.trouble)
    if not silent:
        return counts
    unanswered = ranks_with(silent, "does not answer", "do not answer")
    asked = f"{unanswered} NCCL RAS (asked once: a second report would show whether that lasts)"
    return f"{asked}; {counts}" if counts else asked
