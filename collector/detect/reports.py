"""What the digests of a watched job's agents say of all its ranks together, for whoever looks at the job now."""

from collector.align.reported import Place, Reported
from collector.align.thresholds import FROZEN_SECONDS
from collector.detect.job_view import JobView
from collector.detect.limits import SILENT_SECONDS


def reported_by(view: JobView, user: str | None, now: float) -> Reported | None:
    """Return how far the job's ranks are; None where that says too little.

    All ranks must stand still, by their counters, and all agents that told of them must have done so lately.
    """
    stood = view.stood_since(now)
    lately = all(now - each.heard <= SILENT_SECONDS and each.still_since is not None for each in view.ranks.values())
    if stood is None or now - stood < FROZEN_SECONDS or not lately or view.exited or view.world_size is None:
        return None
    befallen = {sign.host for sign in view.signs(now)}
    return Reported(
        user=user,
        places={rank: Place(each.group, each.sequence, each.pending) for rank, each in view.ranks.items()},
        hosts={rank: each.host for rank, each in view.ranks.items()},
        suspects=frozenset(
            {*view.timed_out, *(rank for rank, each in view.ranks.items() if each.host in befallen)} & view.ranks.keys()
        ),
    )
