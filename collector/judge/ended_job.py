"""A job of which no rank is left: whether it finished, how its ranks ended, and who ended first.

1. Every rank is known to have exited with code 0: it finished. Where nobody saw how some ended, and no other ended
   badly, that is said, and no more.
2. Else it died: who ended first, and why, is read from how all of them ended (`ended_first.py`). Nobody waits in it.
   Where nobody did, and it was found hung before, it is that (`found_before.py`).
3. What each rank did last survives it in its agent. It accuses nobody: a rank may have gone on after that was read.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from collector.align.observations import Observations
from collector.align.roster import RankView, Roster, place_raised
from collector.align.thresholds import ENDED_WAITING_SECONDS
from collector.judge.certainty import Support, how_sure
from collector.judge.ended_first import Endings, endings_of, how_they_ended, stood_seconds, was_in
from collector.judge.fault import Fault
from collector.judge.found_before import fault_before
from collector.judge.logs.vote import line_of
from collector.judge.report.actions import action_for
from collector.judge.report.evidence import exit_evidence, last_issued
from collector.judge.report.findings import finding_of
from collector.judge.report.headline import Interpretation
from collector.judge.report.know_more import where_ends_are_told
from shared.answer.diagnosis import Evidence, Finding, GroupRef, NextStep, ProcessEvidence, SequenceEvidence, Where
from shared.answer.words import Cause, Kind, Verdict
from shared.endings import JobEnd, end_of, ended_well, in_words
from shared.isolation import costs_itself
from shared.plural import ranks_with
from shared.rank_sets import fold, ranks_in_words
from shared.shell_commands import listed
from shared.wire.snapshot import Exited
from shared.wire.trace import LastIssued

_MOST_GROUPS = 8
_MOST_RANKS = 16
_LONGEST_LINE = 200
_WHEN = "when last seen, "
_CAVEAT = "what each rank did last was read from its memory by its agent's last beat: it may have gone on after that"
_BY_CODE = "it ended first, and may have failed because of another rank: its last lines say of what"
_BY_WHOM = "a launcher, a scheduler or a person ended the job"


@costs_itself(lambda _: Interpretation(Verdict.CANNOT_TELL, "its ranks ended, and unhang failed to tell how"))
def ended_job(observations: Observations) -> Interpretation:
    """Say how the job ended and what its ranks did last; where it died, with a finding."""
    endings = endings_of(observations.roster.gone())
    end = end_of(endings.of.values(), len(endings.of))
    if end is JobEnd.FINISHED:  # 1
        return Interpretation(Verdict.NOT_HUNG, f"it has finished: {how_they_ended(endings.of)}", state="finished")
    if end is JobEnd.ENDED:
        return Interpretation(Verdict.CANNOT_TELL, _half_seen(endings.of), state="ended")
    hung = fault_before(observations)
    found = _finding(endings, observations) if hung is None else _hung(hung, endings, observations)
    return Interpretation(Verdict.DIED, "", findings=(found,))  # 2


def _finding(endings: Endings, observations: Observations) -> Finding:
    told, first, ended = _last_seen(endings.of), endings.first, endings.of
    rest = [rank for rank in ended if rank not in first]
    fault = Fault(
        kind=Kind.RANK_EXITED,
        culprits=first,
        victims=(),
        certainty=how_sure(Kind.RANK_EXITED, endings.support),
        cause=endings.cause,
        remarks=((_BY_CODE,) if endings.support is Support.EXIT_CODE else ()) + ((_CAVEAT,) if told else ()),
        said="; ".join(_said(endings, told)),
    )
    shown = (*first, *rest)[:_MOST_RANKS]
    processes = (_ending(observations.roster.ranks[rank], ended[rank]) for rank in shown)
    logged = (line_of(endings.failures[rank], rank) for rank in shown if rank in endings.failures)
    evidence: tuple[Evidence, ...] = (*told, *processes, *logged)
    stood = stood_seconds(ended.values())
    steps = tuple(_next_steps(fault, endings, observations.roster))
    return finding_of(fault, observations, evidence=evidence).model_copy(
        update={
            "ended": fold(rest or ended),
            "where": _where(first[0], endings) if first else None,
            "group": told[0].group if told else None,
            "sequence": told[0].sequence if told else None,
            "lasted_seconds": None if stood is None else round(stood, 1),
            "action": action_for(fault, endings.cause, observations, evidence, steps),
            "next_steps": steps,
        }
    )


def _where(rank: int, endings: Endings) -> Where:
    """Where the failure that ended it came from, if its traceback shows that, and how it ended."""
    return Where(user=place_raised(endings.failures.get(rank)), process=in_words(endings.of[rank]))


def _hung(fault: Fault, endings: Endings, observations: Observations) -> Finding:
    """What it hung with, of which nobody is a victim any more."""
    ended, hung = endings.of, observations.found_hung
    processes = (_ending(observations.roster.ranks[rank], ended[rank]) for rank in list(ended)[:_MOST_RANKS])
    evidence: tuple[Evidence, ...] = (*fault.evidence, *_last_seen(ended), *processes)
    where = None if hung is None else hung.findings[0].where
    rest = fold(rank for rank in ended if rank not in fault.culprits)
    since = {"victims": "", "ended": rest or fold(ended), "where": where}
    return finding_of(fault, observations, evidence=evidence).model_copy(update=since)


def _half_seen(ended: Mapping[int, Exited]) -> str:
    unknown = [rank for rank, exited in ended.items() if not ended_well(exited)]
    rest = {rank: exited for rank, exited in ended.items() if rank not in unknown}
    told = f" {ranks_in_words(unknown)} did; {how_they_ended(rest)}" if rest else ""
    return f"the job has ended, and nobody saw how{told}"


def _next_steps(fault: Fault, endings: Endings, roster: Roster) -> Iterable[NextStep]:
    logs = dict.fromkeys(endings.failures[rank].path for rank in fault.culprits if rank in endings.failures)
    if fault.cause is Cause.OOM:
        yield NextStep(text="see what used up the memory, or give the job more of it")
    if logs:
        yield NextStep(text=f"read the traceback at the end of {listed(list(logs), most=2)}")
    elif fault.cause not in (Cause.OOM, Cause.CANCELLED):
        whose = f"of {ranks_in_words(fault.culprits)} and " if fault.culprits else ""
        yield NextStep(text=f"read the last lines {whose}of the launcher, which tells how each rank ended")
    yield from where_ends_are_told(roster.job)


# Step 2.


def _said(endings: Endings, told: Sequence[SequenceEvidence]) -> Iterable[str]:
    yield from _said_of_ends(endings)
    if told:
        yield from (told[0].text, *(each.text.removeprefix(_WHEN) for each in told[1:]))
    stood = stood_seconds(endings.of.values()) or 0.0
    if stood >= ENDED_WAITING_SECONDS:
        yield f"they had stood in it for {stood:.0f} s before that"


def _said_of_ends(endings: Endings) -> Iterable[str]:
    first, left = endings.first, dict(endings.of)
    if not first:
        yield how_they_ended(left)
        yield _BY_WHOM if endings.is_cancelled else "which of them ended first is not known"
        return
    line = endings.failures.get(first[0])
    text = "" if line is None else f": {line.text.removeprefix(f'[rank{first[0]}]: ')[:_LONGEST_LINE]}"
    yield f"first {how_they_ended({rank: left.pop(rank) for rank in first})}{text}"
    cancelled = {rank: left.pop(rank) for rank in endings.cancelled if rank in left}
    if cancelled:
        yield f"{how_they_ended(cancelled)}, as launchers do with the rest"
    if left:
        yield how_they_ended(left)


def _ending(view: RankView, exited: Exited) -> ProcessEvidence:
    return exit_evidence(view, exited, f"rank {view.rank} (pid {exited.pid}) {in_words(exited)}")


# Step 3.


@dataclass(frozen=True)
class _Seen:
    rank: int
    mark: LastIssued

    @property
    def words(self) -> str:
        """What the rank did, after its name."""
        what = self.mark.op if self.mark.sequence is None else f"{self.mark.op} #{self.mark.sequence}"
        if was_in(self.mark):
            return f"in {what}"
        return f"done with {what}" if self.mark.completed is not None else f"at {what}"


def _last_seen(ended: Mapping[int, Exited]) -> list[SequenceEvidence]:
    """Return what the ranks did last, by group: those of most ranks first."""
    groups: dict[tuple[str, str], list[_Seen]] = defaultdict(list)
    for rank, exited in ended.items():
        mark = last_issued(exited)
        if mark is not None:
            groups[mark.group, mark.description].append(_Seen(rank, mark))
    largest = sorted(groups.items(), key=lambda each: (-len(each[1]), each[0]))
    return [_of_group(name, description, seen) for (name, description), seen in largest[:_MOST_GROUPS]]


def _of_group(name: str, description: str, seen: Sequence[_Seen]) -> SequenceEvidence:
    issued: dict[str, list[int]] = defaultdict(list)
    doing: dict[str, list[int]] = defaultdict(list)
    for each in seen:
        issued["unknown" if each.mark.sequence is None else str(each.mark.sequence)].append(each.rank)
        doing[each.words].append(each.rank)
    highest = max((each.mark.sequence for each in seen if each.mark.sequence is not None), default=0)
    ordered = sorted(doing.items(), key=lambda each: each[1][0])
    said = ", ".join(f"{ranks_with(ranks, 'was', 'were')} {words}" for words, ranks in ordered[:_MOST_GROUPS])
    return SequenceEvidence(
        ranks=fold(each.rank for each in seen),
        text=f"{_WHEN}{said} of group {description or name}",
        group=GroupRef(name=name, description=description, ranks=fold(each.rank for each in seen)),
        sequence=highest,
        issued={number: fold(ranks) for number, ranks in sorted(issued.items())},
        waiting=fold(each.rank for each in seen if was_in(each.mark)),
    )
