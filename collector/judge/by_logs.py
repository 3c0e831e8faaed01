"""Step 9 of the verdict, from logs: the lines of all ranks as votes.

1. Take what counts: no line of an earlier time accuses anybody. (`align/logs/`)
2. Let each kind of line vote over all ranks; group ranks become global ones where that is clear. (`judge/logs/`)
3. Put together who names the same ranks. Two kinds of witnesses, or the culprits' own lines against several others'
   that agree, or the processes as they are seen now, make a finding `supported`; one alone makes it `suspected`.
4. Voters who name different ranks: the better founded is followed, the other reported; two that are well founded are
   two faults; else nobody is named and all are told.
5. A rank that is seen waiting for others now has joined them: the stack stands above a counter.
6. Nobody is named: the wait is told only where no stack could tell more.
7. Stacks and process states beside it: what they prove stands, with the lines as further evidence. Where they name
   others, who is seen now goes before what was written; of a job that is gone, what was written goes before.

Who prints the first timeout, who sends the dump signal and torchelastic's "root cause" are the earliest victims more
often than not, and have no vote.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from collector.align.groups.table import Witness
from collector.align.logs.aftermath import Aftermath
from collector.align.logs.attributed_lines import Statements
from collector.align.logs.group_members import membership_of
from collector.align.logs.interface_choice import odd_interfaces
from collector.align.observations import Observations
from collector.align.roster import Presence
from collector.align.wait_states import WaitState
from collector.judge.certainty import Support, how_sure
from collector.judge.fault import Accuser, Fault, kind_of
from collector.judge.logs.by_marks import opinions_by_marks
from collector.judge.logs.connections import opinions_by_transport
from collector.judge.logs.job_failures import opinions_by_failures
from collector.judge.logs.nobody_named import opinions_by_libraries, opinions_by_sizes
from collector.judge.logs.own_failures import opinions_by_own_words
from collector.judge.logs.rendezvous import opinions_by_rendezvous
from collector.judge.logs.vote import Opinion
from shared.answer.diagnosis import Conflict, Finding, LogEvidence
from shared.answer.words import Kind
from shared.isolation import costs_itself
from shared.rank_sets import ranks_in_words

_ORDER = tuple(Witness)
_MOST_GROUND = 24


@dataclass(frozen=True)
class ByLogs:
    """What log lines show of one job, read when it is first asked for: of a job that moves it never is."""

    observations: Observations

    @cached_property
    def faults(self) -> list[Fault]:
        return faults_by_logs(self.observations)


@costs_itself(lambda observations: [])
def faults_by_logs(observations: Observations) -> list[Fault]:
    """Return the faults that log lines show; empty where lines do not suffice."""
    statements = observations.statements  # 1
    if not statements.by_rank and not statements.unowned and not statements.communicators:
        return []
    opinions = _opinions(statements, observations)  # 2
    named = _agreed(
        [seen for opinion in opinions if (seen := _as_seen(opinion, observations)) is not None], observations
    )  # 3 to 5
    if any(fault.culprits for fault in named):
        return named
    if any(activity.frames or activity.process for activity in observations.activities.values()):
        return []
    unnamed = sorted((opinion for opinion in opinions if not opinion.culprits), key=lambda opinion: opinion.vague)
    return named or [_fault([opinion], observations) for opinion in unnamed[:1]]  # 6


@costs_itself(lambda logged, seen, observations: seen or logged)
def weighed(logged: list[Fault], seen: list[Fault], observations: Observations) -> list[Fault]:
    """7. Choose between what logs and what stacks show; the two of them agree, or one of them is told as well."""
    by_logs = {rank for fault in logged for rank in fault.culprits}
    by_stacks = {rank for fault in seen for rank in fault.culprits}
    if not by_logs:
        return seen or logged
    if not by_stacks:
        return logged
    if by_logs & by_stacks:
        return _with_lines(seen, logged) if any(fault.certainty.is_proven for fault in seen) else logged
    if observations.roster.live:
        return seen
    told = f"according to the stacks it is {ranks_in_words(sorted(by_stacks))}"
    return [replace(fault, remarks=(*fault.remarks, told)) for fault in logged]


@costs_itself(lambda faults, logged: faults)
def with_logs(faults: list[Fault], logged: ByLogs) -> list[Fault]:
    """Return faults found by other sources, with the lines that agree with them as further evidence."""
    return _with_lines(faults, logged.faults) if faults else []


def _with_lines(faults: list[Fault], logged: list[Fault]) -> list[Fault]:
    return [_joined(fault, [one for one in logged if set(one.culprits) & set(fault.culprits)]) for fault in faults]


@costs_itself(lambda findings, logged: ())
def conflicts_by_logs(findings: Iterable[Finding], logged: ByLogs) -> tuple[Conflict, ...]:
    """Return where log lines and the findings cannot both be right, and what nodes chose differently by their logs."""
    told = tuple(findings)
    culprits = {rank for finding in told for rank in finding.culprit_ranks}
    others = [fault for fault in (logged.faults if told else []) if fault.culprits]
    named = ranks_in_words(sorted(culprits)) if culprits else "nobody"
    against = tuple(
        Conflict(sources=("logs", "verdict"), text=f"according to the logs, {fault.said}; the finding names {named}")
        for fault in others
        if not set(fault.culprits) & culprits
    )
    return against + odd_interfaces(logged.observations.roster)


def _opinions(statements: Statements, observations: Observations) -> list[Opinion]:
    membership = membership_of(observations, statements)
    aftermath = Aftermath(statements)
    opinions = [
        *opinions_by_failures(statements, observations, aftermath),
        *opinions_by_marks(statements, membership),
        *opinions_by_sizes(statements),
        *opinions_by_libraries(statements),
        *opinions_by_own_words(statements, observations, aftermath),
        *opinions_by_rendezvous(statements, membership),
        *opinions_by_transport(statements, observations, aftermath),
    ]
    known = observations.roster.ranks.keys()
    return [opinion for opinion in opinions if set(opinion.culprits) <= known]


def _as_seen(opinion: Opinion, observations: Observations) -> Opinion | None:
    """5. Compare an opinion that names ranks with where they, and those who wait for them, are seen now."""
    if not opinion.culprits:
        return None
    waits = [rank for rank in opinion.culprits if observations.state(rank) is WaitState.WAITING]
    if opinion.kind is not Kind.COLLECTIVE_MISMATCH and waits:
        return None
    elsewhere = [observations.state(r) is WaitState.ELSEWHERE for r in opinion.victims or observations.activities]
    return None if observations.roster.live and all(elsewhere) else opinion


def _agreed(opinions: list[Opinion], observations: Observations) -> list[Fault]:
    """3, 4. One fault for all opinions on the same ranks; of those that contradict each other the better founded."""
    sets: dict[tuple[int, ...], list[Opinion]] = {}
    for opinion in sorted(opinions, key=lambda each: (_ORDER.index(each.witness), each.culprits)):
        home = next((ranks for ranks in sets if set(ranks) & set(opinion.culprits)), opinion.culprits)
        sets.setdefault(home, []).append(opinion)
    faults = [_fault(together, observations) for together in sets.values()]
    firm = [fault for fault in faults if fault.blames_somebody]
    if len(faults) < 2:
        return faults
    if not firm:
        return [_undecided(faults)]
    weaker = tuple(f"another reading: {fault.said}" for fault in faults if fault not in firm)
    return [replace(firm[0], remarks=(*firm[0].remarks, *weaker)), *firm[1:]]


def _fault(opinions: list[Opinion], observations: Observations) -> Fault:
    """Put opinions on the same ranks together; where they overlap only, those are named on whom all agree."""
    first = opinions[0]
    agreed = set(first.culprits).intersection(*(opinion.culprits for opinion in opinions[1:]))
    culprits = tuple(sorted(agreed or first.culprits))
    kinds = (
        {kind_of(rank, observations) for rank in culprits}
        if observations.roster.live and first.kind in _BY_PRESENCE
        else set()
    )
    cause = next((opinion.cause for opinion in opinions if opinion.cause is not None), None)
    victims = {rank for opinion in opinions for rank in (*opinion.victims, *opinion.culprits)} - set(culprits)
    evidence = tuple({repr(item): item for opinion in opinions for item in opinion.evidence}.values())
    kind = kinds.pop() if len(kinds) == 1 else first.kind
    return Fault(
        kind=kind,
        culprits=culprits,
        victims=tuple(sorted(victims & observations.roster.ranks.keys())),
        certainty=how_sure(kind, _support(opinions, culprits, observations)),
        cause=cause,
        op=next((opinion.op for opinion in opinions if opinion.op is not None), None),
        sequence=next((opinion.sequence for opinion in opinions if opinion.sequence is not None), None),
        ref=next((opinion.ref for opinion in opinions if opinion.ref is not None), None),
        named_by=frozenset({Accuser.LOGS}),
        evidence=evidence[:_MOST_GROUND],
        said=first.said,
        links=tuple(link for opinion in opinions for link in opinion.links),
        remarks=tuple(dict.fromkeys(remark for opinion in opinions for remark in opinion.remarks)),
    )


_BY_PRESENCE = frozenset({Kind.RANK_NOT_JOINED, Kind.RANK_EXITED})
"""Kinds that say what has become of a process, and so follow from what is seen of it."""


def _undecided(faults: list[Fault]) -> Fault:
    """4. Several weak voices for different ranks: all are told and nobody is named."""
    first = faults[0]
    victims = {rank for fault in faults for rank in (*fault.culprits, *fault.victims)}
    return replace(
        first,
        culprits=(),
        victims=tuple(sorted(victims)),
        certainty=how_sure(first.kind, Support.LINES),
        said="the logs blame different ranks: " + "; or ".join(fault.said for fault in faults[:4]),
        evidence=tuple(item for fault in faults for item in fault.evidence)[:_MOST_GROUND],
        ref=None,
        sequence=None,
    )


def _joined(fault: Fault, agreeing: list[Fault]) -> Fault:
    lines = tuple(item for each in agreeing for item in each.evidence if isinstance(item, LogEvidence))
    if not lines:
        return fault
    return replace(fault, named_by=fault.named_by | {Accuser.LOGS}, evidence=(*fault.evidence, *lines[:4]))


def _support(opinions: Sequence[Opinion], culprits: Sequence[int], observations: Observations) -> Support:
    """Return whether log lines stand alone: by the kinds of witnesses that agree, and by what is seen of culprits."""
    if not culprits:
        return Support.LINES
    if len({opinion.witness for opinion in opinions}) > 1 or all(_is_outside(rank, observations) for rank in culprits):
        return Support.AGREED_LINES
    return Support.OWN_LINES if any(opinion.firm for opinion in opinions) else Support.LINES


def _is_outside(rank: int, observations: Observations) -> bool:
    """Do process or stack show, by themselves, that a rank cannot have joined? Absence from files shows nothing."""
    if observations.roster.ranks[rank].presence in (Presence.UNSEEN, Presence.LEFT_OUT):
        return False
    return observations.state(rank) in (WaitState.GONE, WaitState.ELSEWHERE)
