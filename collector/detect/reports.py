"""What the digests of a watched job's agents say of all its ranks together, for whoever looks at the job now."""

from collector.align.marks.agent_marks import Reported, StandsAt
from collector.align.thresholds import FROZEN_SECONDS
from collector.detect.job_view import JobView
from collector.detect.limits import SILENT_SECONDS


def reported_by(view: JobView, user: str | None, now: float) -> Reported | None:
    """Return how far the job's ranks are; None where that says too little.

    All ranks of which agents have told lately must stand still, by their counters, or all go on.
    """
    stood = view.stood_since(now)
    told = {rank: each for rank, each in view.ranks.items() if now - each.heard <= SILENT_SECONDS}
    marked = all(each.still_since is not None for each in told.values())
    going = not any(each.is_still for each in told.values())
    stands = stood is not None and now - stood >= FROZEN_SECONDS
    if not told or not marked or view.exited or view.world_size is None or not (going or stands):
        return None
    befallen = {sign.host for sign in view.signs(now)}
    on_befallen = {rank for rank, each in told.items() if each.host in befallen}
    return Reported(
        user=user,
        places={rank: StandsAt(each.group, each.sequence, each.pending) for rank, each in told.items()},
        hosts={rank: each.host for rank, each in told.items()},
        world_size=view.world_size,
        goes_on=going,
        suspects=frozenset((view.timed_out | on_befallen) & told.keys()),
    )
