"""What an agent sends to collectors unasked: its ranks' progress in short, made of what its beats have read already.

It is made anew after each beat. Who waits for it is woken where a state has changed: a rank has come, has ended, has
stood still for a while, or goes on again, or a sign of the node has come or gone. Texts and numbers come from the
ranks' memory, which they may fill as they like: what does not fit the digest's bounds is left out.
"""

import threading
import time
from collections.abc import Iterable, Sequence
from heapq import nlargest

from pydantic import ValidationError

from agent.look.node_signs import NodeSigns
from agent.look.progress_watch import RankProgress, Watch
from shared.wire.registration import (
    MOST_EXITED,
    MOST_GROUP_NAME,
    MOST_GROUPS,
    MOST_JOBS,
    MOST_NAME,
    MOST_RANKS,
    STILL_SECONDS,
    ExitedRank,
    JobDigest,
    NodeDigest,
)
from shared.wire.snapshot import Exited

_MOST_RANK = (1 << 31) - 1
_MOST_TIMEOUT_MS = 7 * 86_400_000

_Job = tuple[str, str | None]


class Digests:
    """The newest digest of a node. Safe from many threads."""

    def __init__(self, watch: Watch, signs: NodeSigns | None = None) -> None:
        self._watch = watch
        self._signs = signs
        self._changed = threading.Condition()
        self._digest = NodeDigest()
        self._states: object = None
        self._version = 0

    def renew(self) -> None:
        """Make it anew; wake those who wait, if a state has changed."""
        spinning = frozenset[int]() if self._signs is None else self._signs.spinning
        digest = digest_of(*self._watch.progress(), spinning=spinning)
        if self._signs is not None:
            digest = digest.model_copy(update={"signs": self._signs.signs()})
        states = _states_of(digest)
        with self._changed:
            self._digest = digest
            if states != self._states:
                self._states = states
                self._version += 1
                self._changed.notify_all()

    def newest(self) -> tuple[NodeDigest, int]:
        """Return the digest, and the number of its states."""
        with self._changed:
            return self._digest, self._version

    def wait(self, seconds: float, *, known: int, stop: threading.Event) -> None:
        """Wait until the states are others than the `known` ones, or `stop` is set, for some seconds at most."""
        until = time.monotonic() + seconds
        with self._changed:
            while self._version == known and not stop.is_set() and (left := until - time.monotonic()) > 0:
                self._changed.wait(left)

    def wake(self) -> None:
        """Let those who wait look at their `stop`."""
        with self._changed:
            self._changed.notify_all()


def digest_of(
    living: Iterable[RankProgress], exited: Iterable[Exited], *, spinning: frozenset[int] = frozenset()
) -> NodeDigest:
    """Return the digest of these ranks: of each job the newest attempt, of each rank the newest operation.

    `spinning`: processes whose GPUs only spin.
    """
    jobs: dict[_Job, list[RankProgress]] = {}
    for progress in living:
        job = progress.identity.job
        if job and len(job) <= MOST_NAME and 0 <= progress.identity.rank <= _MOST_RANK:
            jobs.setdefault((job, progress.identity.user), []).append(progress)
    gone: dict[_Job, list[Exited]] = {}
    for each in exited:
        if each.identity is not None and each.identity.job and len(each.identity.job) <= MOST_NAME:
            gone.setdefault((each.identity.job, each.identity.user), []).append(each)
    lately = sorted(gone, key=lambda name: -max(each.gone_by_ns or 0 for each in gone[name]))
    names = list(dict.fromkeys([*jobs, *lately]))[:MOST_JOBS]  # else many that ended long ago would hide one
    told = (_job_digest(name, jobs.get(name, ()), gone.get(name, ()), spinning) for name in names)
    return NodeDigest(jobs=tuple(each for each in told if each is not None))


def _job_digest(
    name: _Job, living: Sequence[RankProgress], gone: Sequence[Exited], spinning: frozenset[int]
) -> JobDigest | None:
    attempts = [each.identity.attempt for each in living]
    attempt = max(attempts or [each.identity.attempt for each in gone if each.identity is not None])
    now = [each for each in living if each.identity.attempt == attempt]
    now = nlargest(MOST_RANKS, now, key=lambda each: each.still or 0.0)
    now.sort(key=lambda each: each.identity.rank)
    groups = {each.newest.name[:MOST_GROUP_NAME]: 0 for each in now if each.newest is not None}
    table = {group: index for index, group in enumerate(list(groups)[:MOST_GROUPS])}
    newest = [(each.newest.timeout_ms, each.may_be_pending) for each in now if each.newest is not None]
    timeouts = [(ms / 1000, pending) for ms, pending in newest if 0 < ms < _MOST_TIMEOUT_MS]
    # A rank that still makes the communicator of its next operation has none pending, and as long as for one.
    timed = [seconds for seconds, pending in timeouts if pending] or [seconds for seconds, _ in timeouts]
    sizes = [each.identity.world_size for each in now if each.identity.world_size is not None]
    try:
        return JobDigest(
            job=name[0],
            user=name[1],
            attempt=attempt,
            world_size=max(sizes, default=None),
            timeout_seconds=min(timed, default=None),
            ranks=tuple(each.identity.rank for each in now),
            still=tuple(_tenths(each.still) for each in now),
            idle=tuple(_tenths(each.idle) for each in now),
            pending=tuple(each.may_be_pending for each in now),
            group=tuple(
                -1 if each.newest is None else table.get(each.newest.name[:MOST_GROUP_NAME], -1) for each in now
            ),
            sequence=tuple(_sequence(each) for each in now),
            groups=tuple(table),
            exited=tuple(_exited(each) for each in gone if _is_told(each, attempt))[:MOST_EXITED],
            spinning=tuple(each.identity.rank for each in now if each.identity.pid in spinning),
            timed_out=tuple(each.identity.rank for each in now if each.timed_out),
            unanswered=_tenths(max((each.unanswered for each in now if each.unanswered is not None), default=None)),
        )
    except ValidationError:
        return None  # a job that is named or numbered as no job is


def _sequence(progress: RankProgress) -> int:
    issued = None if progress.newest is None else progress.newest.issued
    return -1 if issued is None or not 0 <= issued < 1 << 53 else issued


def _is_told(gone: Exited, attempt: int) -> bool:
    identity = gone.identity
    return identity is not None and identity.attempt == attempt and 0 <= identity.rank <= _MOST_RANK


def _exited(gone: Exited) -> ExitedRank:
    assert gone.identity is not None
    return ExitedRank(
        rank=gone.identity.rank, exit_code=gone.exit_code, signal=gone.signal, oom_killed=bool(gone.oom_killed)
    )


def _tenths(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)


def _states_of(digest: NodeDigest) -> object:
    """Return what is sent at once when it changes."""
    return tuple(
        (
            job.job,
            job.user,
            job.attempt,
            tuple(zip(job.ranks, map(_is_still, job.still), map(_is_still, job.idle), strict=True)),
            tuple(gone.rank for gone in job.exited),
            job.spinning,
            job.timed_out,
            _is_still(job.unanswered),
        )
        for job in digest.jobs
    ) + tuple((sign.kind, sign.name) for sign in digest.signs)


def _is_still(seconds: float | None) -> bool | None:
    return None if seconds is None else seconds >= STILL_SECONDS
