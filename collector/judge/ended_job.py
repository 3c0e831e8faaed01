"""A job of which no rank is left: how its ranks ended, and what each did last according to its agent's beats.

1. A job that ended well, or that somebody ended as one ends jobs (SIGTERM, SIGINT), is only said to have ended.
2. A rank that was OOM-killed, crashed or was killed is named, where most ranks ended otherwise. A signal that came to
   most of them names nobody, nor does an exit code: launchers and watchdogs end all ranks, whoever is at fault.
3. What each rank did last survives it in its agent. It accuses nobody either: a rank may have gone on after that was
   read.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from collector.align.observations import Observations
from collector.align.roster import RankView
from collector.align.thresholds import ENDED_WAITING_SECONDS, LINGERS_SECONDS, is_majority
from collector.judge.certainty import Support, how_sure
from collector.judge.fault import Fault
from collector.judge.report.evidence import exit_evidence, how_it_ended, last_issued
from collector.judge.report.findings import finding_of
from collector.judge.report.headline import Interpretation, ended_in_words
from shared.answer.diagnosis import Evidence, Finding, GroupRef, NextStep, ProcessEvidence, SequenceEvidence
from shared.answer.words import Cause, Kind, Verdict
from shared.isolation import costs_itself
from shared.plural import ranks_with
from shared.rank_sets import fold
from shared.shell_commands import copyable
from shared.wire.snapshot import Exited
from shared.wire.trace import LastIssued

_MOST_GROUPS = 8
_MOST_RANKS = 16
_WHEN = "when last seen, "
_SIGKILL = 9
_ASKED_TO_END = frozenset({1, 2, 3, 15})
"""SIGHUP, SIGINT, SIGQUIT, SIGTERM: by signal(7), alike on all architectures."""
_CRASHES = frozenset({4, 7, 8, 11})
"""SIGILL, SIGBUS, SIGFPE, SIGSEGV, which nobody sends: the process itself is at fault. SIGABRT is not among them, for
watchdogs end ranks with it."""
_STEP = "read the last lines of the ranks' logs, and what the incident's earlier diagnoses show"
_CAVEAT = "what each rank did last was read from its memory by its agent's last beat: it may have gone on after that"


_Ended = Mapping[int, Exited]
"""How each rank ended, as far as somebody saw it."""


@costs_itself(lambda _: Interpretation(Verdict.CANNOT_TELL, "its ranks ended, and unhang failed to tell how"))
def ended_job(observations: Observations) -> Interpretation:
    """Say how the job ended, what its ranks did last and, where it did not end as jobs do, that as a finding."""
    roster = observations.roster
    reason = ended_in_words(roster)
    ended = {view.rank: view.exited for view in roster.gone() if view.exited is not None}
    if not _has_died(list(ended.values())):  # 1
        return Interpretation(Verdict.NOT_HUNG, reason, state="finished")
    told = _last_seen(ended)
    doing = "; ".join([told[0].text, *(each.text.removeprefix(_WHEN) for each in told[1:])]) if told else ""
    finding = _finding(ended, told, reason, observations)
    return Interpretation(
        Verdict.NOT_HUNG, f"{reason}; {doing}" if doing else reason, state="finished", findings=(finding,)
    )


def _finding(ended: _Ended, told: Sequence[SequenceEvidence], reason: str, observations: Observations) -> Finding:
    culprits = _at_fault(ended)  # 2
    others = tuple(rank for rank in ended if rank not in culprits)
    oom_killed = any(exited.oom_killed for exited in ended.values())
    fault = Fault(
        kind=Kind.RANK_EXITED,
        culprits=culprits,
        victims=others,
        certainty=how_sure(Kind.RANK_EXITED, Support.ENDINGS if culprits else Support.PROCESS),
        cause=Cause.OOM if oom_killed else Cause.SIGNAL if any(map(_was_killed, ended.values())) else Cause.UNKNOWN,
        remarks=(_CAVEAT,) if told else (),
        said=reason,
    )
    endings = (_ending(observations.roster.ranks[rank], ended[rank]) for rank in (*culprits, *others)[:_MOST_RANKS])
    evidence: tuple[Evidence, ...] = (*told, *endings)
    first = told[0] if told else None
    stood = _stood_seconds(ended.values())
    return finding_of(fault, observations, evidence=evidence).model_copy(
        update={
            "group": None if first is None else first.group,
            "sequence": None if first is None else first.sequence,
            "lasted_seconds": None if stood is None else round(stood, 1),
            "next_steps": (_read_what_is_left(observations.roster.job),),
        }
    )


def _read_what_is_left(job: str | None) -> NextStep:
    """The job cannot be looked at any more; a collector that watched it has what was seen before."""
    command = None if not job else copyable("unhang", "history", "--job", job)
    return NextStep(text=_STEP, command=command)


# Step 1.


def _has_died(ended: Sequence[Exited]) -> bool:
    """Did it end as no healthy job does, and as nobody ends one?"""
    killed = [exited for exited in ended if _was_killed(exited)]
    if killed:
        return not _lingered(killed, ended)
    stood = _stood_seconds(ended)
    return any(exited.exit_code for exited in ended) and stood is not None and stood >= ENDED_WAITING_SECONDS


def _was_killed(exited: Exited) -> bool:
    return bool(exited.oom_killed) or (exited.signal is not None and exited.signal not in _ASKED_TO_END)


def _lingered(killed: Sequence[Exited], ended: Sequence[Exited]) -> bool:
    """Were they killed because they did not end when the job was asked to, as `scancel` and launchers do?"""
    asked = [exited.gone_by_ns or 0 for exited in ended if exited.signal in _ASKED_TO_END]
    first, last = min(asked, default=0), min(exited.gone_by_ns or 0 for exited in killed)
    return first > 0 and last - first >= LINGERS_SECONDS * 1e9 and all(map(_was_sigkilled, killed))


def _was_sigkilled(exited: Exited) -> bool:
    return exited.signal == _SIGKILL and not exited.oom_killed


def _stood_seconds(ended: Iterable[Exited]) -> float | None:
    """For how long the ranks that were left in an operation had stood in it, at least; None: none was."""
    lasts = ((exited.gone_by_ns, last_issued(exited)) for exited in ended)
    stood = (max(0.0, (gone_ns - last.since_ns) / 1e9) for gone_ns, last in lasts if gone_ns and last and _was_in(last))
    return min(stood, default=None)


# Step 2.


def _at_fault(ended: _Ended) -> tuple[int, ...]:
    oom_killed = [rank for rank, exited in ended.items() if exited.oom_killed]
    crashed = [rank for rank, exited in ended.items() if exited.signal in _CRASHES]
    found = oom_killed or crashed or [rank for rank, exited in ended.items() if _was_sigkilled(exited)]
    return () if is_majority(len(found), len(ended)) else tuple(found)


def _ending(view: RankView, exited: Exited) -> ProcessEvidence:
    return exit_evidence(view, exited, f"rank {view.rank} (pid {exited.pid}) {how_it_ended(exited)}")


# Step 3.


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
