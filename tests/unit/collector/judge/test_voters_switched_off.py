"""Every voter on log lines is needed: without it, the case that it is named after is told another way, or not at all.

What has no case here has no place among the voters.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from collector.judge import by_logs
from shared.answer.diagnosis import Diagnosis
from shared.answer.words import Kind
from tests.build.jobs.logged import caught, judged_logs, status

PARAMETERS = (
    "RuntimeError: DDP expects same model across all ranks, but Rank 2 has 3 params, while rank 0 has inconsistent 5 "
    "params."
)


@dataclass(frozen=True)
class Needed:
    """A voter, and lines that nobody else can read so."""

    voter: str
    case: Callable[[], Diagnosis]
    kind: Kind
    culprits: tuple[int, ...]


def a_node_that_slurm_has_lost() -> Diagnosis:
    waits = {rank: [caught(rank, 12), status(rank, 12, 12)] for rank in (0, 1)}
    return judged_logs(waits, common=["srun: error: Node failure on node7"], world_size=4)


def one_that_called_something_else() -> Diagnosis:
    lines = {rank: [caught(rank, 12), status(rank, 12, 13)] for rank in (0, 1, 3)}
    return judged_logs(lines | {2: [caught(2, 12, "BROADCAST"), status(2, 12, 12)]}, world_size=4)


def models_that_differ() -> Diagnosis:
    return judged_logs({rank: [f"[rank{rank}]: {PARAMETERS}"] for rank in range(4)}, world_size=4)


def a_socket_that_timed_out() -> Diagnosis:
    line = "EI0006: Getting socket times out. Reason: Remote Rank did not send the data in time."
    return judged_logs({}, common=[line])


def one_that_ran_out_of_memory() -> Diagnosis:
    lines = {rank: [caught(rank, 12), status(rank, 12, 12)] for rank in (0, 1, 3)}
    return judged_logs(
        lines | {2: ["[rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."]}
    )


def one_that_did_not_come_to_the_start() -> Diagnosis:
    line = (
        "Waiting in store based barrier to initialize process group for rank: {}, key: store_based_barrier_key:1 "
        "(world_size=4, worker_count=3, timeout=0:30:00)"
    )
    return judged_logs({rank: [] for rank in range(4)}, common=[line.format(rank) for rank in (0, 1, 3, 0)])


def a_link_that_broke() -> Diagnosis:
    line = (
        "node1:42:51 [0] NCCL WARN NET/IB : Got completion from peer 10.1.2.4<45678> with status=12 opcode=0 len=0 "
        "vendor err 129 (Send) localGid ::ffff:10.1.2.3 remoteGids ::ffff:10.1.2.4"
    )
    return judged_logs({0: [line], 1: []}, world_size=2)


NEEDED = {
    "a node that Slurm has lost": Needed("opinions_by_failures", a_node_that_slurm_has_lost, Kind.RANK_UNREACHABLE, ()),
    "one that called something else": Needed(
        "opinions_by_marks", one_that_called_something_else, Kind.COLLECTIVE_MISMATCH, (2,)
    ),
    "models that differ": Needed("opinions_by_sizes", models_that_differ, Kind.COLLECTIVE_MISMATCH, ()),
    "a socket of HCCL that timed out": Needed(
        "opinions_by_libraries", a_socket_that_timed_out, Kind.RANK_NOT_JOINED, ()
    ),
    "one that ran out of memory": Needed(
        "opinions_by_own_words", one_that_ran_out_of_memory, Kind.RANK_NOT_JOINED, (2,)
    ),
    "one that did not come to the start": Needed(
        "opinions_by_rendezvous", one_that_did_not_come_to_the_start, Kind.STARTUP_INCOMPLETE, (2,)
    ),
    "a link that broke": Needed("opinions_by_transport", a_link_that_broke, Kind.STUCK_TOGETHER, ()),
}


def told(diagnosis: Diagnosis) -> list[tuple[Kind, tuple[int, ...], str]]:
    return [(finding.kind, finding.culprit_ranks, finding.summary) for finding in diagnosis.findings]


@pytest.mark.parametrize("name", NEEDED)
def test_without_its_voter_the_case_is_not_told_so(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    needed = NEEDED[name]
    found = told(needed.case())
    assert [each[:2] for each in found] == [(needed.kind, needed.culprits)]
    monkeypatch.setattr(by_logs, needed.voter, lambda *_: ())
    assert told(needed.case()) != found


def test_every_voter_has_a_case_that_needs_it() -> None:
    voters = {name for name in vars(by_logs) if name.startswith("opinions_by_")}
    assert voters == {needed.voter for needed in NEEDED.values()}
