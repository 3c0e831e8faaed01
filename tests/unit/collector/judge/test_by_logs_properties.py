"""What holds for all logs: nothing breaks the votes, no order changes them, and no innocent is named."""

import time

from hypothesis import example, given, settings
from hypothesis import strategies as st

from collector.align.expected import Expected
from collector.judge.by_logs import ByLogs, conflicts_by_logs, faults_by_logs
from collector.judge.verdict import set_scene
from shared.answer.diagnosis import Diagnosis
from shared.formats.logs.rows_all import MATCHERS
from shared.rank_sets import unfold
from shared.wire.log_events import EventKind, LogEvent, Logs
from shared.wire.nccl_calls import LoggedCall, LoggedCommunicator
from shared.wire.snapshot import NodeSnapshot
from tests.build.jobs.logged import (
    bare,
    call,
    caught,
    fingerprint,
    init,
    judged_logs,
    logs_of,
    signal,
    snapshot,
    status,
)

RANKS = st.integers(0, 6)
NUMBERS = st.integers(0, 9) | st.sampled_from([10**17, 4096])
OPS = st.sampled_from(["ALLREDUCE", "BROADCAST", "_ALLGATHER_BASE", "SEND", "COALESCED", "GATHER"])
GROUPS = st.sampled_from(["0(default_pg)", "7(tp)", "8(tp)", "9", ""])
SIZES = st.tuples(NUMBERS, NUMBERS)
MADE = st.one_of(
    st.builds(caught, RANKS, NUMBERS, OPS, SIZES, RANKS),
    st.builds(status, RANKS, NUMBERS, NUMBERS, GROUPS, RANKS, RANKS),
    st.builds(signal, RANKS, RANKS, NUMBERS, GROUPS, RANKS),
    st.builds(fingerprint, RANKS, st.sampled_from(["", "1", "2, 2"]), RANKS, st.just("3"), OPS, OPS),
    st.builds(call, RANKS, NUMBERS, st.sampled_from(["AllReduce", "Send", "Broadcast"]), NUMBERS, root=RANKS),
    st.builds(init, RANKS, RANKS),
    st.builds(
        "RuntimeError: [Rank {}]: Ranks {}, {} failed to pass monitoredBarrier in 1 ms".format, RANKS, RANKS, RANKS
    ),
    st.builds("[{}, {}] joined but didn't finish collective #{}".format, RANKS, RANKS, NUMBERS),
    st.builds("[{}, ...] finished collective #1, but didn't join collective #{}".format, RANKS, NUMBERS),
    st.builds("[rank{}]: NCCL WARN Got completion from peer 10.1.2.{}<4> with status=12".format, RANKS, RANKS),
    st.builds("node{}:{}:1 [0] NCCL INFO Bootstrap : Using eth{}:10.1.2.3<0>".format, RANKS, RANKS, RANKS),
    st.builds("[{}] is setting up NCCL communicator and retrieving ncclUniqueId from [{}]".format, RANKS, RANKS),
    st.builds("Timed out after 6 seconds waiting for clients. {}/{} clients joined".format, NUMBERS, NUMBERS),
    st.builds(
        "[rank{}]: Rank {} successfully reached monitoredBarrier, but received errors while".format, RANKS, RANKS
    ),
    st.builds("[Service thread] Connection closed by localRank {}".format, RANKS),
    st.builds("  rank      : {} (local_rank: {})".format, RANKS, RANKS),
    st.builds("  exitcode  : -{} (pid: 42)".format, RANKS),
    st.builds(
        "on rank: {}, for key: store_based_barrier_key:1 (world_size={}, worker_count={}".format, RANKS, RANKS, RANKS
    ),
    st.sampled_from(["Traceback (most recent call last):", "ValueError: x", "CUDA out of memory", "", "[rank3]:"]),
)
HINTS = sorted({matcher.hint for matcher in MATCHERS})
GARBAGE = st.builds(
    "".join, st.lists(st.sampled_from([*HINTS, "[rank1]:", "[PG 0 Rank 1]", " ", "1", ", 2", "#9", "(", "x<9>"]))
)
LINES = st.lists(MADE | GARBAGE, max_size=12)
JOBS = st.dictionaries(RANKS, LINES, max_size=6)


def named(diagnosis: Diagnosis) -> set[int]:
    return {rank for finding in diagnosis.findings for rank in finding.culprit_ranks}


@given(JOBS, LINES, st.none() | st.integers(1, 8))
@settings(max_examples=100, deadline=None)
def test_nothing_breaks_it_and_every_culprit_is_grounded(
    lines: dict[int, list[str]], common: list[str], world_size: int | None
) -> None:
    diagnosis = judged_logs(lines, common=common, world_size=world_size)
    for finding in diagnosis.findings:
        told = {rank for evidence in finding.evidence for rank in unfold(evidence.ranks)}
        assert set(finding.culprit_ranks) <= told
        assert not set(finding.culprit_ranks) & set(unfold(finding.victims))


GROUPS_OF_ROWS = {name for row in MATCHERS for name in row.pattern.groupindex}
FIELD = st.sampled_from(
    sorted(GROUPS_OF_ROWS | {"rank", "other_rank", "other_op", "shape", "writer_pid", "ready", "apart"})
)
WORDS = st.sampled_from(
    ["", "0", "1", "2", "-5", "9" * 5000, "x", "1, 2", "\u0663", "1e9", "nan", "all_reduce", "0x1", "1, -2"]
)
STAMPS = st.sampled_from(["", "x", "11-21 09:00:00", "2026-11-21 09:00:00+02:00", "99-99 99:99:99"])
WRITERS = st.sampled_from([None, -1, 0, 1, 10**12])
EVENTS = st.builds(
    LogEvent,
    kind=st.sampled_from(EventKind),
    rank=WRITERS,
    text=st.sampled_from(["", "timed out", "CUDA out of memory", "Timed out"]),
    fields=st.dictionaries(FIELD, WORDS),
    stamp=STAMPS,
    at=st.sampled_from([None, 0.0, float("nan"), float("inf")]),
) | st.sampled_from(MATCHERS).flatmap(
    lambda row: st.builds(
        LogEvent,
        kind=st.just(row.kind),
        rank=WRITERS,
        text=st.just(row.hint),
        fields=st.fixed_dictionaries({}, optional=dict.fromkeys(row.pattern.groupindex, WORDS)),
        stamp=STAMPS,
    )
)
"""Of any fields, and of those that its own row would have."""
SMALL = st.sampled_from([-1, 0, 1, 2, 10**15])
COMMUNICATORS = st.builds(
    LoggedCommunicator,
    host=st.sampled_from(["", "node1"]),
    pid=st.integers(1, 3),
    identity=st.sampled_from(["", "0x1"]),
    comm_rank=st.none() | SMALL,
    rank=st.none() | SMALL,
    size=SMALL,
    calls=st.lists(
        st.builds(LoggedCall, SMALL, st.sampled_from(["AllReduce", "Send", ""]), SMALL, SMALL, SMALL, SMALL)
    ).map(tuple),
)

COUNTED_BY_HALF = LogEvent(kind=EventKind.RENDEZVOUS, text="timed out", fields={"joined": "0"})
"""It tells how many came, and not of how many."""
UNLIKE_WHAT = LogEvent(kind=EventKind.COLLECTIVE_MISMATCH, text="", fields={"unlike_params": "0"})
HANDLED_BY_NOBODY = LogEvent(kind=EventKind.SIGNAL, text="", fields={"handled": "x", "signal": "9" * 5000})
LEFT_BY_NO_SIGNAL = LogEvent(kind=EventKind.DUMP_SIGNAL, text="", fields={"jax_task": "x", "hangup": ""})
KILLED_BY_NOTHING = LogEvent(kind=EventKind.SIGNAL, text="", fields={"pid": "7", "signal": ""})
FIRST_TO_END_SOMEHOW = LogEvent(kind=EventKind.SIGNAL, text="", fields={"first_to_end": "1"})


@given(st.lists(EVENTS, max_size=8), st.lists(EVENTS, max_size=4), st.lists(COMMUNICATORS, max_size=5), st.booleans())
@settings(max_examples=100, deadline=None)
@example(own=[], common=[COUNTED_BY_HALF], called=[], huge=False)
@example(own=[], common=[KILLED_BY_NOTHING], called=[], huge=False)
@example(own=[], common=[FIRST_TO_END_SOMEHOW], called=[], huge=False)
@example(own=[], common=[UNLIKE_WHAT], called=[], huge=False)
@example(own=[], common=[HANDLED_BY_NOBODY], called=[], huge=False)
@example(own=[], common=[LEFT_BY_NO_SIGNAL], called=[], huge=False)
def test_a_snapshot_that_anybody_may_have_written_breaks_nothing(
    own: list[LogEvent], common: list[LogEvent], called: list[LoggedCommunicator], huge: bool
) -> None:
    """What should be numbers is words, ranks are negative, the world is as large as it likes."""
    logs = Logs(events=tuple(own), communicators=tuple(called))
    ranks = tuple(bare(r, world_size=10**12 if huge else None).model_copy(update={"logs": logs}) for r in range(3))
    looks = [NodeSnapshot(live=False, ranks=ranks, logs=Logs(events=tuple(common), communicators=tuple(called)))]
    observations = set_scene(looks, Expected(world_size=3 if huge else None))
    for fault in faults_by_logs(observations):
        assert set(fault.culprits) <= {0, 1, 2}
    conflicts_by_logs((), ByLogs(observations))


@st.composite
def stragglers(draw: st.DrawFn) -> tuple[int, dict[int, list[str]]]:
    """A world in which one rank does not come; some logs are lost, the others' queues run on as they like."""
    size, sequence = draw(st.integers(3, 8)), draw(st.integers(2, 500))
    culprit = draw(st.integers(0, size - 1))
    lines: dict[int, list[str]] = {}
    for rank in range(size):
        if rank == culprit:
            said = [signal(rank, 0, sequence - draw(st.integers(1, 2)))]
        else:
            said = [caught(rank, sequence), status(rank, sequence, sequence + draw(st.integers(0, 40)))]
        noise = ["[rank0]: First PG on this rank to signal dumping", "  rank      : 1 (local_rank: 1)", "step 3"]
        lines[rank] = [*draw(st.lists(st.sampled_from(noise), max_size=2)), *said] if draw(st.booleans()) else []
    return culprit, lines


@given(stragglers())
@settings(max_examples=100, deadline=None)
def test_nobody_but_the_one_who_did_not_come_is_named(job: tuple[int, dict[int, list[str]]]) -> None:
    culprit, lines = job
    told = named(judged_logs(lines, world_size=len(lines)))
    assert told <= {culprit}
    waiting = sum(any("caught" in line for line in said) for said in lines.values())
    if lines[culprit] and (waiting > 1 or waiting == len(lines) - 1):  # of three, one against one is a tie
        assert told == {culprit}


@given(st.integers(2, 8), st.integers(1, 99), st.data())
@settings(max_examples=60, deadline=None)
def test_where_all_came_nobody_is_named(size: int, sequence: int, data: st.DataObject) -> None:
    """However far their queues had run on, and whichever logs are lost."""
    lines = {
        rank: [caught(rank, sequence), status(rank, sequence, sequence + data.draw(st.integers(0, 9)))]
        if data.draw(st.booleans())
        else []
        for rank in range(size)
    }
    assert named(judged_logs(lines, world_size=size)) == set()


@given(st.integers(3, 7), st.data())
@settings(max_examples=60, deadline=None)
def test_of_calls_the_odd_one_or_nobody_is_named(size: int, data: st.DataObject) -> None:
    """One rank calls something else; each log begins where it likes."""
    culprit, at = data.draw(st.integers(0, size - 1)), data.draw(st.integers(0, 12))
    lines = {
        rank: [
            init(4000 + rank, rank, size=size),
            *(
                call(4000 + rank, n, count=65 if rank == culprit and n == at else 64, size=size)
                for n in range(data.draw(st.integers(0, 12)), 13)
            ),
        ]
        for rank in range(size)
    }
    assert named(judged_logs(lines)) <= {culprit}


def test_a_hostile_log_costs_little() -> None:
    """A line that names everybody, ten thousand times."""
    every = ", ".join(str(rank) for rank in range(600))
    lines = [f"RuntimeError: [Rank {n}]: Ranks {every} failed to pass monitoredBarrier in 1 ms" for n in range(2000)]
    common = logs_of(lines, rank=None)
    observations = set_scene([snapshot({0: []}).model_copy(update={"logs": common})], Expected())
    begun = time.process_time()
    faults_by_logs(observations)
    assert time.process_time() - begun < 2
