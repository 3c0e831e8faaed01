"""How much was looked at: ranks expected, seen, answered, and every gap with its reason."""

from collections import defaultdict
from collections.abc import Sequence

from collector.align.expected import Expected
from collector.align.roster import Presence, RankView, Roster
from shared.answer.diagnosis import Coverage, Gap
from shared.isolation import costs_itself
from shared.missing import WAITING_LAUNCHERS, Missing, Reason
from shared.rank_sets import fold, unfold
from shared.wire.devices import Gpus
from shared.wire.snapshot import NodeSnapshot

_SOURCES = ("process", "stacks", "recorder", "fds", "logs")
_ABSENT = {
    Presence.EXITED: (Reason.GONE, "its process has exited"),
    Presence.ABSENT: (Reason.NOT_FOUND, "no process or dump was found for it"),
    Presence.LEFT_OUT: (Reason.NOT_FOUND, "no process or dump was found for it"),
    Presence.UNREACHABLE: (Reason.UNREACHABLE, "its node did not answer"),
    Presence.UNSEEN: (
        Reason.NOT_FOUND,
        "it was not examined: found in no given file and on no given node",
    ),
}


@costs_itself(lambda roster, expected, snapshots: Coverage())
def coverage_of(roster: Roster, expected: Expected, snapshots: Sequence[NodeSnapshot]) -> Coverage:
    """Count what was seen and list what was not, ranks with the same gap folded together."""
    inside = [view for view in roster.ranks.values() if roster.world_size is None or view.rank < roster.world_size]
    seen = [view for view in inside if view.looks]
    return Coverage(
        expected=roster.world_size,
        seen=len(seen),
        answered=sum(not view.gone for view in seen),
        with_stacks=sum(view.stacks is not None for view in seen),
        with_trace=sum(view.trace is not None and view.trace.is_recorded for view in seen),
        with_counters=sum(view.trace is not None and not view.trace.is_recorded for view in seen),
        with_ras=0 if roster.ras is None else sum(view.rank in roster.ras.places for view in seen),
        with_gpu=_with_gpu(seen, snapshots),
        missing=(
            *_gone(roster, frozenset(unfold(expected.told))),
            *_silent_sources(roster),
            *_nodes(expected, snapshots),
        ),
    )


def _with_gpu(seen: Sequence[RankView], snapshots: Sequence[NodeSnapshot]) -> int:
    """Count those with a device of their own by their environment, by the driver, or by what they call."""
    of_driver = {
        (each.host, process.pid)
        for each in snapshots
        if isinstance(each.gpus, Gpus)
        for gpu in each.gpus.gpus
        for process in gpu.processes
    }
    count = 0
    for view in seen:
        identity, signatures = view.identity, () if view.trace is None else view.trace.signatures
        known = identity is not None and (identity.gpu is not None or (view.host, identity.pid) in of_driver)
        count += known or any(signature.backend in _ON_GPUS for signature in signatures)
    return count


_ON_GPUS = frozenset({"nccl", "rccl"})

_UNDUMPED = (Reason.NOT_FOUND, "neither a dump nor stacks of it were found, as they were of others")
_TOLD = (
    Reason.NOT_ENABLED,
    "it was not examined: its agent reports that it stands still, or goes on, as the ranks do that were",
)


def _gone(roster: Roster, told: frozenset[int]) -> list[Gap]:
    together: dict[tuple[tuple[Reason, str], str | None], list[int]] = defaultdict(list)
    for view in roster.gone():
        known = _TOLD if view.rank in told else _UNDUMPED if view.undumped else _ABSENT[view.presence]
        together[known, view.host].append(view.rank)
    return [
        Gap(ranks=fold(ranks), host=host, missing=Missing(source="rank", reason=reason, detail=detail))
        for ((reason, detail), host), ranks in together.items()
    ]


def _silent_sources(roster: Roster) -> list[Gap]:
    together: dict[tuple[str, Reason, str], list[int]] = defaultdict(list)
    for view in roster.present():
        for source in _SOURCES if view.looks else ():
            missing = getattr(view.looks[-1], source)
            if isinstance(missing, Missing) and (_never_seen(view, source) or missing.reason is Reason.UNREADABLE):
                together[missing.source, missing.reason, missing.detail].append(view.rank)
        untold = None if view.trace is None else view.trace.members_missing
        if untold is not None:
            together[untold.source, untold.reason, untold.detail].append(view.rank)
    return [
        Gap(ranks=fold(ranks), missing=Missing(source=source, reason=reason, detail=detail))
        for (source, reason, detail), ranks in together.items()
    ]


def _never_seen(view: RankView, source: str) -> bool:
    """Was it missing in every look? One that was late for one of them is no gap."""
    return all(isinstance(getattr(look, source), Missing) for look in view.looks)


def _nodes(expected: Expected, snapshots: Sequence[NodeSnapshot]) -> list[Gap]:
    silent = [Gap(ranks=u.ranks, host=u.host, missing=u.missing) for u in expected.unanswered]
    missing = {(s.host, m) for s in snapshots for m in (*s.missing, *_untold(s))}
    partly = sorted((each for each in missing if each[1].source != WAITING_LAUNCHERS), key=repr)
    return [
        *sorted(silent, key=repr),
        *(Gap(host=host, missing=missing) for host, missing in partly),
        *(Gap(missing=missing) for missing in sorted(expected.unreadable, key=repr)),
    ]


def _untold(snapshot: NodeSnapshot) -> list[Missing]:
    """What the node did not tell of itself; that it has no GPU is nothing to tell of."""
    told = (snapshot.kernel_events, snapshot.gpus)
    return [part for part in told if isinstance(part, Missing) and part.reason is not Reason.NOT_FOUND]
