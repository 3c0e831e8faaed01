"""What one rank's descriptors show that the others' do not is told beside a finding, and convicts nobody."""

from collections.abc import Mapping

import pytest

from collector.align.expected import Expected
from collector.judge.verdict import diagnose
from shared.answer.diagnosis import FdEvidence
from shared.answer.words import Cause, Kind
from shared.wire.snapshot import Fds, NodeSnapshot, NotableFile, Pipe, Process, Socket, Syscall
from tests.build.jobs.four_ranks import AWAY, TWO_NODES, looks_at_all_stuck, looks_without
from tests.build.jobs.placed import with_rank
from tests.build.jobs.simulated import Seen

STORE = Socket(fd=9, kind="tcp", local="10.0.0.2:41000", remote="10.0.0.1:29500", state="ESTABLISHED", to_store=True)


def connected(away: Mapping[int, Seen]) -> list[NodeSnapshot]:
    """Four ranks of which some are `away`; all are connected to the store."""
    found = looks_without(away, hosts=TWO_NODES)
    for rank in range(4):
        found = with_rank(found, rank, fds=Fds(total=20, limit=1024, sockets=(STORE,)))
    return found


def told(changed: list[NodeSnapshot]) -> list[str]:
    """What descriptors say of the culprit, rank 3."""
    (finding,) = diagnose(changed, Expected(world_size=4)).findings
    assert finding.culprit_ranks == (3,)
    evidence = [e for e in finding.evidence if isinstance(e, FdEvidence)]
    assert all(e.ranks == "3" for e in evidence)
    return [e.text for e in evidence]


def with_fds(**fds: object) -> list[NodeSnapshot]:
    """Rank 3 holds something else than the others."""
    return with_rank(
        connected({3: AWAY}), 3, fds=Fds.model_validate({"total": 20, "limit": 1024, "sockets": (STORE,), **fds})
    )


def test_what_all_hold_alike_is_no_evidence() -> None:
    """A connection to the store, a few descriptors."""
    assert told(connected({3: AWAY})) == []


def test_connection_that_nobody_answers() -> None:
    """The address it waits for may be the fault; it is named with the rank that listens there."""
    trying = Socket(fd=31, kind="tcp", local="10.0.0.3:5", remote="10.9.0.7:42307", state="SYN_SENT", retransmits=5)
    assert told(with_fds(sockets=(STORE, trying))) == [
        "rank 3 is trying to connect to 10.9.0.7:42307, which does not answer (SYN_SENT, retried 5 times)"
    ]
    listening = Socket(fd=4, kind="tcp", local="10.9.0.7:42307", remote="0.0.0.0:0", state="LISTEN")
    changed = with_rank(with_fds(sockets=(STORE, trying)), 1, fds=Fds(total=1, sockets=(STORE, listening)))
    assert "10.9.0.7:42307 (rank 1), which does not answer" in told(changed)[0]


def test_data_that_is_sent_again_and_again() -> None:
    """Both ends hold the connection, and nothing gets through."""
    lossy = Socket(fd=30, kind="tcp", remote="10.0.0.8:9", state="ESTABLISHED", unsent_bytes=4096, retransmits=7)
    assert told(with_fds(sockets=(STORE, lossy))) == [
        "10.0.0.8:9 has acknowledged none of the 4096 bytes that rank 3 has sent 8 times"
    ]


@pytest.mark.parametrize(
    "healthy",
    [
        Socket(fd=30, kind="tcp", remote="10.0.0.8:9", state="ESTABLISHED", unsent_bytes=4096, retransmits=1),
        Socket(fd=30, kind="tcp", remote="10.0.0.8:9", state="ESTABLISHED", retransmits=9),
        Socket(fd=30, kind="tcp", remote="10.0.0.8:9", state="CLOSE_WAIT"),
        Socket(fd=30, kind="tcp", local="0.0.0.0:9", state="LISTEN"),
        Socket(fd=30, kind="unix", state="CONNECTING"),
    ],
)
def test_sockets_that_tell_nothing(healthy: Socket) -> None:
    """A lost packet, a server, an old connection to somewhere else."""
    assert told(with_fds(sockets=(STORE, healthy))) == []


def test_store_that_all_others_are_connected_to() -> None:
    """Lacking it is evidence; so is one that the store has closed."""
    assert told(with_fds(sockets=())) == [
        "rank 3 has no connection to the store at 10.0.0.1:29500, which 3 other ranks have"
    ]
    closed = STORE.model_copy(update={"state": "CLOSE_WAIT"})
    assert told(with_fds(sockets=(closed,))) == [
        "the store at 10.0.0.1:29500 has closed its connection with rank 3, which still holds it (CLOSE_WAIT)"
    ]


@pytest.mark.parametrize(
    ("pipe", "text"),
    [
        (Pipe(fd=5, direction="read"), "reads a pipe (fd 5), and no visible process holds its other end"),
        (
            Pipe(fd=5, direction="read", other_end=(7, 8), other_names=("tee",)),
            "reads a pipe (fd 5) whose other end is held by pid 7 (tee), pid 8",
        ),
        (
            Pipe(fd=5, direction="read", other_end=(1003, 7), other_names=("python", "tee")),
            "reads a pipe (fd 5) whose other end is held by pid 7 (tee), the rank itself",
        ),
    ],
)
def test_pipe_that_a_rank_is_blocked_on(pipe: Pipe, text: str) -> None:
    """Who is at the other end, or that nobody is."""
    process = Process(pid=1003, state="S", syscall=Syscall(name="read", fd=5, target="pipe:[7]"))
    others = Pipe(fd=6, direction="write")
    changed = with_rank(with_fds(pipes=(pipe, others)), 3, process=process)
    assert f"rank 3 {text}" in told(changed)


def test_files_that_one_rank_alone_has() -> None:
    """A lock that it holds, a file that was deleted under it; what others have as well is usual."""
    lock = NotableFile(fd=7, path="/data/job.lock", locked=True)
    gone = NotableFile(fd=8, path="/data/shard-3", deleted=True)
    assert told(with_fds(notable_files=(lock, gone))) == [
        "rank 3 alone holds a lock on /data/job.lock",
        "rank 3 alone has open, though it was deleted, /data/shard-3",
    ]
    changed = with_rank(with_fds(notable_files=(lock,)), 0, fds=Fds(total=1, sockets=(STORE,), notable_files=(lock,)))
    assert told(changed) == []


def test_table_that_is_full() -> None:
    """The next open fails."""
    assert told(with_fds(total=1020)) == ["rank 3 has 1020 of at most 1024 descriptors open"]


def test_stuck_together_over_a_link_that_loses_everything() -> None:
    """The link is named with both ends, its cause is the network, and no rank is blamed."""
    here = Socket(
        fd=30, kind="tcp", local="10.0.0.1:7", remote="10.0.0.8:9", state="ESTABLISHED", unsent_bytes=9, retransmits=8
    )
    there = Socket(fd=31, kind="tcp", local="10.0.0.8:9", remote="10.0.0.1:7", state="ESTABLISHED")
    changed = with_rank(looks_at_all_stuck(), 0, fds=Fds(total=1, sockets=(here,)))
    (finding,) = diagnose(with_rank(changed, 3, fds=Fds(total=1, sockets=(there,))), Expected(world_size=4)).findings
    assert (finding.kind, finding.cause, finding.culprits) == (Kind.STUCK_TOGETHER, Cause.NETWORK, ())
    assert [(link.from_.rank, link.to.rank, link.to.host) for link in finding.links] == [(0, 3, "b")]
    barely = here.model_copy(update={"retransmits": 3})
    (finding,) = diagnose(
        with_rank(looks_at_all_stuck(), 0, fds=Fds(total=1, sockets=(barely,))), Expected(world_size=4)
    ).findings
    assert (finding.cause, finding.links) == (Cause.UNKNOWN, ())


def test_descriptors_alone_convict_nobody() -> None:
    """A job in which nobody strays is not accused for a connection."""
    trying = Socket(fd=31, kind="tcp", remote="10.9.0.7:42307", state="SYN_SENT", retransmits=5)
    changed = with_rank(connected({}), 3, fds=Fds(total=1020, limit=1024, sockets=(trying,)))
    without = diagnose(connected({}), Expected(world_size=4))
    assert [f.culprit_ranks for f in diagnose(changed, Expected(world_size=4)).findings] == [
        f.culprit_ranks for f in without.findings
    ]
