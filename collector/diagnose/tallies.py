"""Step 6, a second opinion across stages: how many calls of one role every rank has made before a landmark.

Stages of a pipeline call in different orders, yet each has reduced over its pair as often as all others when the
whole job meets for the fourth time. A rank that alone has another number there, its own partner included in the
others, has left a call out or made one too many.
"""

from collections.abc import Collection, Mapping, Sequence

LEAST_VOTES = 3

_Called = tuple[str, int, object]
"""(role of the group, sequence, what); sequence 0 where calls are not numbered alike on all ranks."""
_Tally = dict[str, int]
"""The last sequence of each role."""


def tallies(calls: Sequence[_Called]) -> dict[tuple[str, int], _Tally]:
    """For each numbered call of one rank, as a landmark: which number each other role has come to before it."""
    last: _Tally = {}
    at: dict[tuple[str, int], _Tally] = {}
    for role, sequence, _ in calls:
        if sequence:
            at.setdefault((role, sequence), {other: number for other, number in last.items() if other != role})
            last[role] = sequence
    return at


def odd_tally(
    rank: int, at: Mapping[int, Mapping[tuple[str, int], _Tally]], partners: Mapping[str, Collection[int]]
) -> tuple[str, str, tuple[int, ...]] | None:
    """Return (what `rank` had called, what the others had, who they are) at the first landmark that tells it apart.

    `partners`: by role, the other members of the group that `rank` plays the role in; one of them must disagree.
    """
    for (role, sequence), mine in at[rank].items():
        for other, number in mine.items():
            theirs = {
                voter: tally[role, sequence][other]
                for voter, tally in at.items()
                if voter != rank and other in tally.get((role, sequence), {})
            }
            agreed = set(theirs.values())
            if len(agreed) != 1 or number in agreed or len(theirs) < LEAST_VOTES:
                continue
            if set(partners.get(other, ())) & theirs.keys():
                before = f"before #{sequence} of group {role}"
                return f"#{number} of group {other} last {before}", f"#{agreed.pop()} of it", tuple(sorted(theirs))
    return None
