"""Of a watched job: whom to look at, and whether that was enough for the verdict.

All ranks are where their agents' counters say (`agent_marks.py`). A few looks settle the verdict where looks at all
would say the same:

1. Looked at are all whose counters stand apart (few stand where they stand, nothing of theirs is pending, or nothing
   is known of them), and some of each place where many stand.
2. If those wait for ranks that nobody looked at, these are next. So the wait is followed to its root.
3. Who is found at fault was looked at, and waits for nobody. All who stand where it stands are looked at as well.
4. Each rank that was looked at is at fault, or waits for one that is. So whoever stands where it stands waits, too.
5. Of a job that goes on, as all its agents report, some are looked at twice. It is well where one of them has gone on,
   and two of them hardly wait: a straggler keeps all others waiting.
6. What else there is to be seen (a second fault, a deadlock, a disagreement, a stop of all, sends and receives) is left
   to looks at all ranks.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from collector.align.expected import Expected
from collector.align.marks.agent_marks import Reported, StandsAt
from collector.align.observations import Observations
from collector.align.progress import Motion
from collector.align.roster import Presence
from collector.judge.report.headline import Interpretation
from collector.judge.slow.straggler import may_have_straggler
from collector.judge.verdict import read
from collector.looks.next_looks import NextLooks, looks_after
from shared.answer.words import Kind, Verdict
from shared.rank_sets import unfold
from shared.wire.snapshot import NodeSnapshot

MOST_PLACES = 64
"""Where ranks stand. More show no pattern, and would make many looks."""
MOST_ALL_LOOKED_AT = 16
"""Ranks at one place that are all looked at."""
_SAMPLES = 4
"""Of the ranks at a place where more stand."""

_SAMPLES_OF_ALL = 8
"""Of the ranks of a job that goes on."""

_KINDS = frozenset({Kind.RANK_NOT_JOINED, Kind.RANK_STOPPED})
"""What a look at the culprit and at those who wait for it shows."""


@dataclass(frozen=True)
class FewLooks:
    """What a few looks have come to."""

    settled: NextLooks | None
    """Whom to look at more closely, where the verdict is settled."""
    more: frozenset[int] = frozenset()
    """Else: ranks that are to be looked at for it; none: all are."""


NOT_BY_FEW = FewLooks(None)


def first_ranks(reported: Reported) -> frozenset[int]:
    """Return the ranks that are to be looked at first; none where looks at all are called for."""
    if reported.goes_on:
        every = sorted(reported.places)
        return frozenset(every[at * (len(every) - 1) // (_SAMPLES_OF_ALL - 1)] for at in range(_SAMPLES_OF_ALL))  # 5
    if len(reported.alike) > MOST_PLACES:
        return frozenset()
    chosen = {min(reported.places), max(reported.places), *reported.suspects}
    for place, ranks in reported.alike.items():
        chosen.update(_some(place, ranks))
    return frozenset(chosen)  # 1


def _some(place: StandsAt, ranks: tuple[int, ...]) -> Iterable[int]:
    if not place.waits or len(ranks) <= MOST_ALL_LOOKED_AT:
        return ranks
    return (ranks[at * (len(ranks) - 1) // (_SAMPLES - 1)] for at in range(_SAMPLES))


def goes_on(snapshots: Sequence[NodeSnapshot], expected: Expected) -> bool:
    """Do two looks at some ranks of a job, whose agents all report that it goes on, show that it is well?"""
    reading, observations = read(snapshots, expected)
    advanced = observations.motion.ranks(Motion.ADVANCED)
    gone = any(view.presence is not Presence.UNSEEN for view in observations.roster.gone())
    well = reading.verdict is Verdict.NOT_HUNG and bool(advanced) and not gone
    return well and not may_have_straggler(observations.groups, observations.traces)  # 5


def few_looks(snapshots: Sequence[NodeSnapshot], expected: Expected, reported: Reported) -> FewLooks:
    """Return whether looks at some ranks have settled the verdict, and else whom to look at for it."""
    reading, observations = read(snapshots, expected)
    seen = frozenset(view.rank for view in observations.roster.present())
    if reading.unseen:
        return FewLooks(None, frozenset(reading.unseen) & reported.places.keys() - seen)  # 2
    if not _is_plain(reading, observations):
        return NOT_BY_FEW
    culprits = {rank for finding in reading.findings for rank in finding.culprit_ranks}
    places = {reported.places[rank] for rank in culprits if rank in reported.places}
    alike = frozenset(rank for place in places for rank in reported.alike[place])
    if more := alike - seen:
        return FewLooks(None, more)  # 3
    victims = {rank for finding in reading.findings for rank in unfold(finding.victims)}
    if seen - culprits - victims:
        return NOT_BY_FEW  # 4
    return FewLooks(looks_after(reading, observations))


def _is_plain(reading: Interpretation, observations: Observations) -> bool:
    """Does a rank that was looked at keep the others waiting, and is that all there is? Steps 3 and 6."""
    looks = looks_after(reading, observations)
    if reading.verdict is not Verdict.HUNG or len(reading.findings) != 1 or looks.decided_after is not None:
        return False
    if any(group.p2p for group in observations.groups):
        return False
    return all(
        finding.kind in _KINDS and finding.culprits and not any(map(observations.may_wait, finding.culprit_ranks))
        for finding in reading.findings
    )
