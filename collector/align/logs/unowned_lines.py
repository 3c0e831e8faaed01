"""What all logs of a job hold together, besides what each rank has said itself."""

from collections.abc import Mapping, Sequence

from shared.wire.log_events import LogEvent, Logs
from shared.wire.nccl_calls import LoggedCommunicator
from shared.wire.snapshot import NodeSnapshot, RankSnapshot

_Looks = Mapping[int, tuple[RankSnapshot, ...]]
"""The looks at each rank, from oldest to newest."""


def unowned_events(looks: _Looks, snapshots: Sequence[NodeSnapshot]) -> tuple[LogEvent, ...]:
    """Return the events of lines that do not say who wrote them, in files that several ranks write."""
    events = (event for logs in _logs(looks, snapshots) for event in logs.events if event.rank is None)
    return tuple({repr(event): event for event in events}.values())


def logged_communicators(looks: _Looks, snapshots: Sequence[NodeSnapshot]) -> tuple[LoggedCommunicator, ...]:
    """Return the newest word of each process on each of its communicators."""
    told = (each for logs in _logs(looks, snapshots) for each in logs.communicators)
    return tuple({(c.host, c.pid, c.rank, c.identity, c.comm_rank, c.size): c for c in told}.values())


def _logs(looks: _Looks, snapshots: Sequence[NodeSnapshot]) -> list[Logs]:
    own = [look.logs for _, seen in sorted(looks.items()) for look in seen if isinstance(look.logs, Logs)]
    common = [snapshot.logs for snapshot in snapshots if snapshot.logs is not None]
    return [*own, *sorted(common, key=repr)]
