"""Step 2 without a recorder: a straggler by samples.

Where the ranks were in many quick looks at a job that moves tells who waits for whom in the long run: a straggler is
hardly ever seen in communication, the others nearly always are. In a balanced job all are seen alike. One long pause
looks the same, such as a validation on rank 0: only who is seen to be let go and to wait again tells of a habit.
"""

from dataclasses import dataclass, replace
from itertools import pairwise

from collector.align.roster import RankView, Roster
from collector.align.stacks.activity import Activity, activity_of
from collector.align.stacks.polls import polling
from collector.align.stacks.tables.row_types import Doing
from collector.align.thresholds import LEAST_SAMPLES, LEAST_WAKES, SAMPLED_STRAGGLER_SHARE, SAMPLED_VICTIM_SHARE
from collector.align.work.beats import beats_between
from shared.isolation import costs_itself
from shared.wire.snapshot import RankSnapshot


@dataclass(frozen=True)
class SampledStraggler:
    """One rank that the others are seen waiting for."""

    rank: int
    waiting_share: float
    others_share: float
    """The least of the others."""
    samples: int


@costs_itself(lambda roster: None)
def find_sampled_straggler(roster: Roster) -> SampledStraggler | None:
    """Return the one rank that is at work while all others wait, in most of at least eight samples; None if none is."""
    shares = {view.rank: _waiting_share(view) for view in roster.present()}
    samples = min((len(view.looks) for view in roster.present()), default=0)
    if samples < LEAST_SAMPLES or len(shares) < 2:
        return None
    slowest = min(shares, key=lambda rank: (shares[rank], rank))
    others = min(share for rank, share in shares.items() if rank != slowest)
    if shares[slowest] > SAMPLED_STRAGGLER_SHARE or others < SAMPLED_VICTIM_SHARE:
        return None
    if min(_wakes(view) for view in roster.present() if view.rank != slowest) < LEAST_WAKES:
        return None
    return SampledStraggler(slowest, shares[slowest], others, samples)


def _waiting_share(view: RankView) -> float:
    """Of all looks. Who builds a group or asks a store waits for a job to begin, not for a slow step."""
    seen = [activity_of(replace(view, looks=(look,))) for look in view.looks]
    return sum(one.waits_for_ranks and one.doing is not Doing.STORE for one in seen) / max(1, len(seen))


def _wakes(view: RankView) -> int:
    seen = activity_of(view)
    return sum(_woke(a, b) and not polling(view, seen, a, b).wakes for a, b in pairwise(view.looks))


def _woke(a: RankSnapshot, b: RankSnapshot) -> bool:
    """Did the main thread run between two looks? One that waits for others does so when they come, or to poll."""
    first, second = beats_between(a.process, b.process) or (None, None)
    if first is None or second is None or first.main_switches is None or second.main_switches is None:
        return False
    return second.main_switches > first.main_switches


def at_work(view: RankView) -> Activity:
    """What the rank does when it is not waiting for others: by its newest look that shows it so, else by the newest."""
    looks = [activity_of(replace(view, looks=(look,))) for look in view.looks]
    return next((seen for seen in reversed(looks) if not seen.waits_for_ranks), looks[-1])
