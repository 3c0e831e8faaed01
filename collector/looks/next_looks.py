"""Which further looks would decide what the looks so far leave open.

More time, where ranks are waited for that may only be slow; many quick samples, where a job moves and no recorder tells
who keeps it waiting; and native frames, which stop a process for about a second.
After a survey of a large job: which ranks to look at whole.
Native frames are asked only of frozen ranks whose Python stack does not say what they wait for, one per stack: a work
handle's wait, a lock in C or a backward pass leave no telling Python frame. And of those that sleep while others have
locked a file of theirs: SQLite polls in C.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from collector.align.accounting import account_for_ranks
from collector.align.expected import Expected
from collector.align.groups.process_groups import line_up
from collector.align.job_owner import one_users
from collector.align.observations import Observations
from collector.align.progress import JobMotion, Motion, motion_of
from collector.align.roster import Presence, Roster
from collector.align.stacks.activity import Activity
from collector.align.stacks.polls import may_poll
from collector.align.stacks.rank_activities import activities_of
from collector.align.stacks.tables.row_types import Doing
from collector.align.thresholds import FROZEN_SECONDS
from collector.judge.by_lock_files import may_poll_for_lock
from collector.judge.report.headline import Interpretation
from collector.judge.verdict import read
from shared.answer.words import Verdict
from shared.plural import either
from shared.rank_sets import ranks_in_words, unfold
from shared.wire.snapshot import NodeSnapshot, RankSnapshot
from shared.wire.stacks import Frame

MOST_DEEP_LOOKS = 8


MOST_CLOSER_LOOKS = 64
MOST_OF_A_KIND = 16
"""Suspects of one finding, members of its group, or kinds of stacks."""

_FRESH_SECONDS = 15.0
"""Marks older than three beats show that the agent no longer reads them."""

Process = tuple[str | None, int]
"""(host, process id)"""


@dataclass(frozen=True)
class NextLooks:
    """What to look at after a survey."""

    decided: bool
    """Does it tell by itself that the job hangs?"""
    decided_after: float | None
    """Seconds after which another one would; None where time decides nothing."""
    reason: str
    """What that time tells."""
    closer: tuple[Process, ...]
    native: tuple[Process, ...]


def next_looks(snapshots: Sequence[NodeSnapshot], expected: Expected) -> NextLooks:
    """Return whom to look at more closely after a survey: the suspects, and some of each kind of bystander."""
    return looks_after(*read(snapshots, expected))


def looks_after(reading: Interpretation, observations: Observations) -> NextLooks:
    """Return the same, where the survey has been read already."""
    return NextLooks(
        decided=reading.verdict is Verdict.HUNG,
        decided_after=_undecided_for(reading),
        reason=_what_time_tells(reading),
        closer=_processes(_worth_a_closer_look(reading, observations), observations)[:MOST_CLOSER_LOOKS],
        native=_of_suspects(
            _worth_native_frames(observations.roster, observations.motion, observations.activities),
            reading,
            observations,
        ),
    )


def parts_are_late(snapshots: Sequence[NodeSnapshot], expected: Expected) -> bool:
    """Was a rank not read in time by any look, as on a busy machine, so that another, longer look may show it?

    Or were the members of its groups not, and are there groups of which nothing else tells them?
    """
    roster = account_for_ranks(snapshots, expected)
    traces = [view.trace for view in roster.present() if view.trace is not None]
    untold = any(trace.members_missing is not None for trace in traces)
    return bool(roster.late or roster.unlisted) or (untold and any(group.others for group in line_up(roster)))


def one_look_will_do(snapshots: Sequence[NodeSnapshot], expected: Expected) -> bool:
    """Does one look tell that the job hangs, and who is to blame, since agents have watched all ranks stand still?

    Their counters and their marks must have: a rank at work between two operations issues none. Where nobody is to
    blame, only a second look tells whether data is still under way.
    """
    ranks = [rank for snapshot in snapshots for rank in snapshot.ranks]
    if not ranks or expected.unanswered or not all(map(_was_seen_still, ranks)):
        return False
    reading, _ = read(snapshots, expected)
    named = reading.findings and all(finding.culprit_ranks for finding in reading.findings)
    return reading.verdict is Verdict.HUNG and bool(named) and _undecided_for(reading) is None


def _was_seen_still(rank: RankSnapshot) -> bool:
    idle, marks, looked_at_ns = rank.idle_for_seconds, rank.marks, rank.looked_at_ns
    if idle is None or marks is None or looked_at_ns is None or not marks.groups:
        return False
    still = (looked_at_ns - max(group.since_ns for group in marks.groups)) / 1e9
    return min(idle, still) >= FROZEN_SECONDS and looked_at_ns - marks.read_at_ns <= _FRESH_SECONDS * 1e9


def _of_suspects(
    unclear: tuple[Process, ...], reading: Interpretation, observations: Observations
) -> tuple[Process, ...]:
    """Where somebody is found at fault, what bystanders do in C is not worth stopping them for."""
    culprits = [rank for finding in reading.findings for rank in finding.culprit_ranks]
    suspects = set(_processes(culprits, observations))
    return tuple(process for process in unclear if process in suspects) if suspects else unclear


def _worth_a_closer_look(reading: Interpretation, observations: Observations) -> Iterable[int]:
    """Ranks, the most telling first; some come more than once."""
    findings, everybody = reading.findings, observations.roster.ranks
    yield from (rank for finding in findings for rank in finding.culprit_ranks[:MOST_OF_A_KIND])
    yield from reading.waited_for[:MOST_OF_A_KIND]
    yield from (min(everybody), max(everybody)) if everybody else ()  # whose nodes ask NCCL RAS
    for finding in findings:
        yield from unfold(finding.group.ranks)[:MOST_OF_A_KIND] if finding.group is not None else ()
        yield from unfold(finding.victims)[:MOST_OF_A_KIND]
    alike: dict[tuple[Frame, ...], list[int]] = {}
    for rank, activity in observations.activities.items():
        alike.setdefault(activity.frames, []).append(rank)
    kinds = sorted(alike.values(), key=len)[:MOST_OF_A_KIND]
    yield from (ranks[0] for ranks in kinds)


def _processes(ranks: Iterable[int], observations: Observations) -> tuple[Process, ...]:
    views = [observations.roster.ranks[rank] for rank in dict.fromkeys(ranks) if rank in observations.roster.ranks]
    identities = [(view.host, view.identity) for view in views if not view.gone]
    return tuple((host, i.pid) for host, i in identities if i is not None and i.pid is not None)


def pids_to_look_deeper(snapshots: Sequence[NodeSnapshot], expected: Expected) -> tuple[Process, ...]:
    """Return (host, pid) of the ranks whose native stacks would help, at most eight; often none.

    One rank stands for all that have the same Python stack; a stack that was looked at natively is not looked at again.
    Of many stacks those that fewest ranks have come first: the odd ones are the suspects.
    """
    roster = account_for_ranks(*one_users(snapshots, expected)[:2])
    activities = activities_of(roster.present())
    return _worth_native_frames(roster, motion_of(roster, activities), activities)


def _worth_native_frames(roster: Roster, motion: JobMotion, activities: Mapping[int, Activity]) -> tuple[Process, ...]:
    if motion.ranks(Motion.ADVANCED):
        return ()
    alike: dict[tuple[Frame, ...], list[Process]] = {}
    known: set[tuple[Frame, ...]] = set()
    for view in roster.present():
        pid = None if view.identity is None else view.identity.pid
        if pid is None or view.presence is not Presence.RUNNING or view.apart is not None:
            continue  # of another thread than the main one nothing native is read
        activity = activities[view.rank]
        polls = may_poll_for_lock(view, activity) or may_poll(view, activity)
        if view.rank in motion.woken and not polls:
            continue
        if polls or activity.in_c or activity.doing is Doing.WORK or view.native_stacks is not None:
            alike.setdefault(activity.frames, []).append((view.host, pid))
        if view.native_stacks is not None:
            known.add(activity.frames)
    asked = [who for frames, who in alike.items() if frames not in known]
    return tuple(who[0] for who in sorted(asked, key=len)[:MOST_DEEP_LOOKS])


@dataclass(frozen=True)
class FurtherLooks:
    """What would decide a verdict that the looks so far leave open."""

    pauses: tuple[float, ...] = ()
    """Seconds before each further look."""
    seconds: float = 0.0
    """How long it may take in all until it is decided, if nothing moves."""
    reason: str = ""
    """What the time decides, for whoever waits; empty where samples decide."""


QUICK_LOOKS = 8
QUICK_PAUSE_SECONDS = 0.3
"""Long enough that ranks come out of a wait between the looks in several steps, where one takes most of a second."""
MOST_SAMPLED_RANKS = 256
"""Many looks at a larger job would cost more than they tell."""
LONGEST_PAUSE_SECONDS = 10.0
"""Between two looks of a long wait: a job that moves again ends it."""
MOST_SECONDS_FOR_ANOTHER_FINDING = 15.0
"""Where one finding is certain already."""
_MOST_SECONDS_OF_A_PHASE = 45.0
"""An evaluation or a checkpoint may take many minutes: one that ends sooner is waited for, and no other."""
_SPARE_SECONDS = 0.5


def further_looks(snapshots: Sequence[NodeSnapshot], expected: Expected) -> FurtherLooks:
    """Return the further looks that would decide the verdict; often none."""
    reading, observations = read(snapshots, expected)
    if not observations.roster.live or len({look.taken_at_ns for look in snapshots}) < 2:
        return FurtherLooks()
    seconds = _undecided_for(reading)
    if seconds is not None:
        pause = seconds if seconds <= 1.5 * LONGEST_PAUSE_SECONDS else LONGEST_PAUSE_SECONDS
        return FurtherLooks((pause,), seconds, _what_time_tells(reading))
    if (
        reading.verdict is Verdict.NOT_HUNG
        and not observations.traces
        and 1 < len(observations.activities) <= MOST_SAMPLED_RANKS
    ):
        return FurtherLooks((QUICK_PAUSE_SECONDS,) * QUICK_LOOKS, QUICK_PAUSE_SECONDS * QUICK_LOOKS)
    return FurtherLooks()


def _undecided_for(reading: Interpretation) -> float | None:
    """Return for how many seconds more ranks must stand still; None where time alone decides nothing."""
    after = reading.decided_after
    if after is None or (reading.findings and after > MOST_SECONDS_FOR_ANOTHER_FINDING):
        return None
    if reading.phase is not None:
        after = min(after, _MOST_SECONDS_OF_A_PHASE)
    return after + _SPARE_SECONDS


def _what_time_tells(reading: Interpretation) -> str:
    if not reading.waited_for:
        return "to see whether there is a second fault"
    if reading.sent is not None:
        return "to see whether data still moves"
    verb = either(reading.waited_for, "is", "are")
    return f"to tell whether {ranks_in_words(reading.waited_for)} {verb} slow or stuck"
