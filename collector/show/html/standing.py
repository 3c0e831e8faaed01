"""What a verdict makes of each rank: the one at fault, who waits, who is gone, who was not seen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from collector.align.roster import UNKNOWN, Presence, Roster
from shared.answer.diagnosis import Diagnosis
from shared.rank_sets import fold, unfold


class Standing(StrEnum):
    """One word per rank; of several that fit, the first one below."""

    CULPRIT = "culprit"
    GONE = "gone"
    UNSEEN = "unseen"
    VICTIM = "victim"
    SEEN = "seen"


MEANINGS = {
    Standing.CULPRIT: "at fault",
    Standing.GONE: "exited or missing",
    Standing.UNSEEN: "not examined",
    Standing.VICTIM: "waiting",
    Standing.SEEN: "examined, in no finding",
}
"""What the legend says of each."""


@dataclass(frozen=True)
class RankStanding:
    """One rank: where it runs, and what the verdict makes of it. `host` None: not known."""

    rank: int
    host: str | None
    local_rank: int | None
    standing: Standing


def places_of(diagnosis: Diagnosis, roster: Roster | None) -> tuple[RankStanding, ...]:
    """Return every rank that is known of, in their order. Without a roster, those that the verdict names."""
    culprits = {culprit.rank: culprit for finding in diagnosis.findings for culprit in finding.culprits}
    victims = {rank for finding in diagnosis.findings for rank in unfold(finding.victims)}
    classes = {rank for each in diagnosis.stack_classes for rank in unfold(each.ranks)}
    ended = {rank for finding in diagnosis.findings for rank in unfold(finding.ended)}
    known = {} if roster is None else roster.ranks
    ranks = sorted({*known, *culprits, *victims, *ended, *classes, *range(diagnosis.coverage.expected or 0)})
    seen_all = roster is None and diagnosis.coverage.seen >= (diagnosis.coverage.expected or len(ranks) + 1)
    places = []
    for rank in ranks:
        view, culprit = known.get(rank), culprits.get(rank)
        host, local = (None, None) if culprit is None else (culprit.host, culprit.local_rank)
        presence = Presence.RECORDED if seen_all or rank in classes or rank in victims else Presence.UNSEEN
        if rank in ended:
            presence = Presence.EXITED
        if view is not None:
            presence, host = view.presence, view.host or host
            local = local if view.identity is None else view.identity.local_rank
        places.append(RankStanding(rank, host, local, _standing(rank, culprits, victims, presence)))
    return tuple(places)


def _standing(rank: int, culprits: Mapping[int, object], victims: set[int], presence: Presence) -> Standing:
    if rank in culprits:
        return Standing.CULPRIT
    if presence in UNKNOWN or presence is Presence.LEFT_OUT:
        return Standing.UNSEEN
    if presence in (Presence.EXITED, Presence.ABSENT):
        return Standing.GONE
    return Standing.VICTIM if rank in victims else Standing.SEEN


def ranks_by_standing(places: Sequence[RankStanding]) -> dict[Standing, str]:
    """Return the folded ranks of each standing that occurs."""
    together = {each: [place.rank for place in places if place.standing is each] for each in Standing}
    return {standing: fold(ranks) for standing, ranks in together.items() if ranks}
