"""A job of which no rank is left: whether it finished, how its ranks ended, and who ended first.

1. Every rank is known to have exited with code 0: it finished. Where nobody saw how some ended, and no other ended
   badly, that is said, and no more.
2. Else it died. Ended first has who was OOM-killed, crashed, was killed or failed by itself, where most ranks ended
   otherwise: in this order, for launchers and lost connections end the others in the weaker ways. Nobody is named for
   a signal that came to most of them. A rank that had stood in one operation before it failed or aborted had waited
   for somebody, and its watchdog or its timeout ended it.
3. Who was asked to end (SIGTERM, SIGINT) is ended by a launcher, a scheduler or a person, and so is who was killed some
   time after others were asked. If all were, the job was cancelled.
4. What each rank did last survives it in its agent. It accuses nobody either: a rank may have gone on after that was
   read. Nobody waits in such a job.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from collector.align.observations import Observations
from collector.align.roster import RankView
from collector.align.thresholds import ENDED_WAITING_SECONDS, LINGERS_SECONDS, is_majority
from collector.judge.certainty import Support, how_sure
from collector.judge.fault import Fault
from collector.judge.logs.own_failures import is_own_failure
from collector.judge.logs.vote import line_of
from collector.judge.report.evidence import exit_evidence, last_issued
from collector.judge.report.findings import finding_of
from collector.judge.report.headline import Interpretation
from collector.judge.report.know_more import where_ends_are_told
from shared.answer.diagnosis import Evidence, Finding, GroupRef, NextStep, ProcessEvidence, SequenceEvidence, Where
from shared.answer.words import Cause, Kind, Verdict
from shared.plural import counted, ranks_with
from shared.rank_sets import fold, ranks_in_words
from shared.wire.endings import JobEnd, asked_to_end, end_of, ended_well, in_words
from shared.wire.log_events import EventKind, LogEvent
from shared.wire.snapshot import Exited
from shared.wire.trace import LastIssued

_MOST_GROUPS = 8
_MOST_RANKS = 16
_MOST_WAYS = 6
"""Ways to end that are told: of a thousand ranks nearly all end alike."""
_LONGEST_LINE = 200
_WHEN = "when last seen, "
_SIGABRT, _SIGKILL = 6, 9
_CRASHES = frozenset({4, 7, 8, 11})
"""SIGILL, SIGBUS, SIGFPE, SIGSEGV, which nobody sends: the process itself is at fault."""
_CAVEAT = "what each rank did last was read from its memory by its agent's last beat: it may have gone on after that"
_BY_CODE = "it ended first, and may have failed because of another rank: its last lines say of what"
_BY_WHOM = "a launcher, a scheduler or a person ended the job"

_Ended = Mapping[int, Exited]
"""How each rank ended, as far as somebody saw it."""


def ended_job(observations: Observations) -> Interpretation:
    """Say how the job ended and what its ranks did last; where it died, with a finding."""
    gone = observations.roster.gone()
    ended = {view.rank: view.exited or Exited(pid=0) for view in gone}
    end = end_of(ended.values(), len(ended))
    if end is JobEnd.FINISHED:  # 1
        return Interpretation(Verdict.NOT_HUNG, f"it has finished: {how_they_ended(ended)}", state="finished")
    if end is JobEnd.ENDED:
        return Interpretation(Verdict.CANNOT_TELL, _half_seen(ended), state="ended")
    return Interpretation(Verdict.DIED, "", findings=(_finding(ended, observations),))  # 2


def _finding(ended: _Ended, observations: Observations) -> Finding:
    told = _last_seen(ended)
    failures = {rank: _failure(observations.roster.ranks[rank], exited) for rank, exited in ended.items()}
    lines = {rank: line for rank, line in failures.items() if line is not None}
    first = _ended_first(ended, lines)
    support = _support(first, ended, lines)
    taken = fold(rank for rank in ended if first and rank not in first)
    fault = Fault(
        kind=Kind.RANK_EXITED,
        culprits=first,
        victims=(),
        certainty=how_sure(Kind.RANK_EXITED, support),
        cause=_cause(first, ended, lines),
        remarks=((_BY_CODE,) if support is Support.EXIT_CODE else ()) + ((_CAVEAT,) if told else ()),
        said=_said(first, ended, lines, told),
    )
    shown = (*first, *(rank for rank in ended if rank not in first))[:_MOST_RANKS]
    logged = (line_of(lines[rank], rank) for rank in shown if rank in lines)
    endings = (_ending(observations.roster.ranks[rank], ended[rank]) for rank in shown)
    evidence: tuple[Evidence, ...] = (*told, *endings, *logged)
    stood = _stood_seconds(ended.values())
    return finding_of(fault, observations, evidence=evidence).model_copy(
        update={
            "ended": taken or fold(ended),
            "where": Where(process=in_words(ended[first[0]])) if first else None,
            "group": told[0].group if told else None,
            "sequence": told[0].sequence if told else None,
            "lasted_seconds": None if stood is None else round(stood, 1),
            "next_steps": tuple(_next_steps(fault, observations)),
        }
    )


def _half_seen(ended: _Ended) -> str:
    unknown = [rank for rank, exited in ended.items() if not ended_well(exited)]
    rest = {rank: exited for rank, exited in ended.items() if rank not in unknown}
    told = f" {ranks_in_words(unknown)} did; {how_they_ended(rest)}" if rest else ""
    return f"the job has ended, and nobody saw how{told}"


def _next_steps(fault: Fault, observations: Observations) -> Iterable[NextStep]:
    if fault.cause is Cause.OOM:
        yield NextStep(text="see what used up the memory, or give the job more of it")
    elif fault.cause is not Cause.CANCELLED:
        whose = f"of {ranks_in_words(fault.culprits)} and " if fault.culprits else ""
        yield NextStep(text=f"read the last lines {whose}of the launcher, which tells how each rank ended")
    yield from where_ends_are_told(observations.roster.job)


# Step 2.


def _ended_first(ended: _Ended, lines: Mapping[int, LogEvent]) -> tuple[int, ...]:
    """Return who ended before the others and made them end, where that is told; else nobody."""
    failed = [rank for rank, exited in ended.items() if _failed(exited)]
    found = (
        [rank for rank, exited in ended.items() if exited.oom_killed]
        or [rank for rank, exited in ended.items() if exited.signal in _CRASHES]
        or [rank for rank, exited in ended.items() if exited.signal == _SIGKILL and not _lingered(exited, ended)]
        or [rank for rank in failed if rank in lines]
        or _failed_alone(failed, ended)
    )
    found = [rank for rank in found if not _lingered(ended[rank], ended)]
    if is_majority(len(found), len(ended)) and len(ended) > 1:
        return ()
    return tuple(rank for rank in found if not _had_waited(ended[rank]))


def _failed(exited: Exited) -> bool:
    return exited.signal == _SIGABRT or bool(exited.exit_code and not asked_to_end(exited))


def _failed_alone(failed: Sequence[int], ended: _Ended) -> list[int]:
    """Return the one that failed alone, or in its own way: who loses a peer raises an exception, and exits with 1.

    An abort tells nothing where it is not known for how long the rank had waited: a watchdog aborts a victim.
    """
    of_their_own = [rank for rank in failed if ended[rank].exit_code != 1] or failed
    told = [rank for rank in of_their_own if ended[rank].signal is None or last_issued(ended[rank]) is not None]
    return told if len(of_their_own) == 1 else []


def _had_waited(exited: Exited) -> bool:
    """Did it fail after it had stood in one operation for long, as who gives up waiting for somebody does?"""
    stood = _stood_seconds([exited])
    return _failed(exited) and stood is not None and stood >= ENDED_WAITING_SECONDS


def _support(first: Collection[int], ended: _Ended, lines: Mapping[int, LogEvent]) -> Support:
    if not first:
        return Support.PROCESS
    unexplained = [rank for rank in first if _failed(ended[rank]) and rank not in lines]
    return Support.EXIT_CODE if unexplained else Support.ENDINGS


def _cause(first: Collection[int], ended: _Ended, lines: Mapping[int, LogEvent]) -> Cause:
    of = {rank: ended[rank] for rank in first} or ended
    if any(exited.oom_killed for exited in of.values()):
        return Cause.OOM
    if first and all(rank in lines for rank in first):
        out_of_memory = any(lines[rank].kind is EventKind.OUT_OF_MEMORY for rank in first)
        return Cause.OOM if out_of_memory else Cause.EXCEPTION
    if not first and _cancelled(ended):
        return Cause.CANCELLED
    return Cause.SIGNAL if any(exited.signal and not asked_to_end(exited) for exited in of.values()) else Cause.UNKNOWN


def _failure(view: RankView, exited: Exited) -> LogEvent | None:
    """Return the last failure that a rank logged before it exited with an error.

    None where that is an echo of another's: it had lost its peers, or waited in vain.
    """
    logged = (event for event in reversed(view.logged) if event.kind in _FAILURES)
    last = exited.last_failure or next(logged, None)
    return last if last is not None and _failed(exited) and is_own_failure(last) else None


_FAILURES = frozenset({EventKind.EXCEPTION, EventKind.OUT_OF_MEMORY, EventKind.DEVICE_ERROR})


# Step 3.


def _cancelled(ended: _Ended) -> bool:
    """Was the job ended as a whole? Some ranks may have come to their end before that."""
    return all(_was_cancelled(exited, ended) or exited.exit_code == 0 for exited in ended.values())


def _was_cancelled(exited: Exited, ended: _Ended) -> bool:
    return asked_to_end(exited) or (exited.signal == _SIGKILL and _lingered(exited, ended))


def _lingered(exited: Exited, ended: _Ended) -> bool:
    """Did it end only some time after others had been asked to, as who does not heed `scancel` or a launcher does?"""
    asked = [each.gone_by_ns for each in ended.values() if each.gone_by_ns and asked_to_end(each)]
    return bool(asked) and (exited.gone_by_ns or 0) - min(asked) >= LINGERS_SECONDS * 1e9


def _stood_seconds(ended: Iterable[Exited]) -> float | None:
    """For how long the ranks that were left in an operation had stood in it, at least; None: none was."""
    lasts = ((exited.gone_by_ns, last_issued(exited)) for exited in ended)
    stood = (max(0.0, (gone_ns - last.since_ns) / 1e9) for gone_ns, last in lasts if gone_ns and last and _was_in(last))
    return min(stood, default=None)


def _said(
    first: tuple[int, ...], ended: _Ended, lines: Mapping[int, LogEvent], told: Sequence[SequenceEvidence]
) -> str:
    doing = [told[0].text, *(each.text.removeprefix(_WHEN) for each in told[1:])] if told else []
    stood = _stood_seconds(ended.values()) or 0.0
    hung = [f"they had stood in it for {stood:.0f} s before that"] if stood >= ENDED_WAITING_SECONDS else []
    return "; ".join([*_said_of_ends(first, ended, lines), *doing, *hung])


def _said_of_ends(first: tuple[int, ...], ended: _Ended, lines: Mapping[int, LogEvent]) -> Iterable[str]:
    if not first:
        yield how_they_ended(ended)
        yield _BY_WHOM if _cancelled(ended) else "which of them ended first is not known"
        return
    line = f": {lines[first[0]].text[:_LONGEST_LINE]}" if first[0] in lines else ""
    yield f"first {how_they_ended({rank: ended[rank] for rank in first})}{line}"
    taken = {rank: ended[rank] for rank in ended if rank not in first}
    cancelled = [rank for rank, exited in taken.items() if _was_cancelled(exited, ended)]
    if cancelled:
        yield f"{how_they_ended({rank: taken.pop(rank) for rank in cancelled})}, as launchers do with the rest"
    if taken:
        yield how_they_ended(taken)


def how_they_ended(ended: Mapping[int, Exited]) -> str:
    """Say how each rank ended; those that ended alike are told together."""
    how: dict[str, list[int]] = defaultdict(list)
    for rank, exited in ended.items():
        how[in_words(exited)].append(rank)
    said = [_of_ranks(ranks, words) for words, ranks in how.items()]
    more = [f"and {counted(len(said) - _MOST_WAYS, 'other way')}"] if len(said) > _MOST_WAYS else []
    return "; ".join([*said[:_MOST_WAYS], *more])


def _of_ranks(ranks: Sequence[int], words: str) -> str:
    return f"{ranks_in_words(ranks)} {words if len(ranks) == 1 else words.replace('was ', 'were ', 1)}"


def _ending(view: RankView, exited: Exited) -> ProcessEvidence:
    return exit_evidence(view, exited, f"rank {view.rank} (pid {exited.pid}) {in_words(exited)}")


# Step 4.


def _was_in(mark: LastIssued) -> bool:
    """Was it in the operation still? Where completions are not told, nobody knows."""
    return mark.sequence is not None and mark.completed is not None and mark.completed < mark.sequence


@dataclass(frozen=True)
class _Seen:
    rank: int
    mark: LastIssued

    @property
    def words(self) -> str:
        """What the rank did, after its name."""
        what = self.mark.op if self.mark.sequence is None else f"{self.mark.op} #{self.mark.sequence}"
        if _was_in(self.mark):
            return f"in {what}"
        return f"done with {what}" if self.mark.completed is not None else f"at {what}"


def _last_seen(ended: _Ended) -> list[SequenceEvidence]:
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
        waiting=fold(each.rank for each in seen if _was_in(each.mark)),
    )
