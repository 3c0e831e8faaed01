"""Who waits is no root, whoever it waits for; and one against one is a tie."""

import json
from typing import Any

import pytest

from collector.align.expected import Expected
from shared.answer.diagnosis import Diagnosis
from shared.answer.words import Kind, Verdict
from shared.formats.recorder.dump import parse_dump
from shared.wire.snapshot import NodeSnapshot
from tests.build.jobs.dumps import bare_rank
from tests.build.jobs.judged import judged
from tests.build.jobs.simulated import PIPELINES, WORLD, Collective, Job, Recv, Send, Stay, Step, a_send_too_many

REDUCE = Collective(WORLD)


def named(answer: Diagnosis) -> set[int]:
    return {rank for finding in answer.findings for rank in finding.culprit_ranks}


def test_who_waits_for_a_rank_that_no_dump_names_is_a_victim() -> None:
    steps: dict[int, list[Step]] = {0: [REDUCE] * 2, 1: [REDUCE, Recv(3, "pp1"), REDUCE], 2: [REDUCE] * 2}
    job = Job(steps | {3: [REDUCE, Stay()]}, PIPELINES)
    answer = judged(job.dumps(without=[3], members=False))
    assert (answer.verdict, answer.findings) == (Verdict.CANNOT_TELL, ())
    assert "rank 1 waits in recv for a rank that no dump names, and ranks 0,2 wait for rank 1" in answer.headline


def test_with_its_partners_dump_the_partner_is_the_root() -> None:
    steps: dict[int, list[Step]] = {0: [REDUCE] * 2, 1: [REDUCE, Recv(3, "pp1"), REDUCE], 2: [REDUCE] * 2}
    job = Job(steps | {3: [REDUCE, Stay()]}, PIPELINES)
    assert named(judged(job.dumps())) == {3}


@pytest.mark.parametrize("seen", [(0, 9), (0, 4)])
def test_one_against_one_of_a_larger_group_is_a_tie(seen: tuple[int, int]) -> None:
    ahead, behind = seen
    steps: dict[int, list[Step]] = {rank: [REDUCE] * 10 + [Stay()] for rank in range(10)} | {ahead: [REDUCE] * 11}
    job = Job(steps)
    assert behind not in named(judged(job.dumps(without=[rank for rank in range(10) if rank not in seen])))


def test_two_that_are_one_call_apart_are_a_tie_where_no_other_member_is_seen() -> None:
    """Rank 0 left out the second call of line 51, or rank 1 made one too many: the calls after it fit again."""
    lines = {0: (50, 51, 50, 50, 51), 1: (50, 51, 50, 51, 50, 51)}
    answer = judged([called_from(rank, lines[rank]) for rank in lines])
    assert named(answer) == set()


def test_who_left_no_dump_is_not_accused_besides_a_rank_that_holds_all_who_wait() -> None:
    steps: dict[int, list[Step]] = {rank: [REDUCE] * 2 for rank in range(4)}
    assert named(judged(Job(steps | {2: [REDUCE, Stay()]}).dumps(without=[3]))) == {2}


def test_in_a_group_of_two_who_has_not_come_is_waited_for() -> None:
    assert named(judged(Job({0: [REDUCE] * 2, 1: [REDUCE, Stay()]}).dumps())) == {1}


def test_a_receive_that_was_left_out_is_no_other_order() -> None:
    """Rank 1 goes on to the collective; no record says that it would post the receive later."""
    steps: dict[int, list[Step]] = {0: [REDUCE, Send(1), REDUCE], 1: [REDUCE, REDUCE], 2: [REDUCE, REDUCE]}
    (finding,) = judged(Job(steps).dumps()).findings
    assert (finding.kind, finding.culprit_ranks) == (Kind.P2P_UNMATCHED, ())
    assert "rank 0 waits in send for rank 1, which has not posted the recv and waits in all_reduce" in finding.summary


def test_who_posts_one_send_too_many_is_not_what_its_peer_is_accused_of() -> None:
    answer = judged(a_send_too_many().dumps())
    assert 2 not in named(answer)
    assert "one of them posted one too many, or the other one too few" in answer.headline


def test_who_stays_before_its_receive_is_named_as_before() -> None:
    steps: dict[int, list[Step]] = {0: [Send(2, "pp0"), REDUCE] * 3, 2: [Recv(0, "pp0"), REDUCE, Stay()]}
    others: dict[int, list[Step]] = {1: [Send(3, "pp1"), REDUCE] * 3, 3: [Recv(1, "pp1"), REDUCE] * 3}
    assert named(judged(Job(steps | others, PIPELINES).dumps())) == {2}


def xccl(rank: int, *, reduced: bool) -> NodeSnapshot:
    """A rank that has exchanged with another in a batch, of which XCCL records no end, between two reductions."""
    entries = [entry(1, 0, "all_reduce", "completed")]
    entries += [
        entry(1, 1, f"send {rank}->{1 - rank}", "scheduled"),
        entry(1, 1, f"recv {rank}<-{1 - rank}", "scheduled"),
    ]
    entries += [entry(2, 1, "all_reduce", "scheduled")] if reduced else []
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}
    dump = {"version": "2.10", "entries": entries, "pg_config": config, "pg_status": {}}
    return NodeSnapshot(live=False, ranks=(bare_rank(rank, parse_dump(json.dumps(dump).encode())),))


def entry(collective: int, p2p: int, name: str, state: str) -> dict[str, Any]:
    return {
        "process_group": ["0", "default_pg"],
        "collective_seq_id": collective,
        "p2p_seq_id": p2p,
        "is_p2p": " " in name,
        "profiling_name": f"xccl:{name}",
        "input_sizes": [[4]],
        "output_sizes": [[4]],
        "state": state,
        "time_created_ns": 1_750_000_000_000_000_000 + collective * 1000 + p2p,
    }


def test_a_batch_of_xccl_hangs_nobody_and_hides_nobody() -> None:
    assert judged([xccl(rank, reduced=False) for rank in range(2)], Expected()).verdict is not Verdict.HUNG
    (finding,) = judged([xccl(0, reduced=True), xccl(1, reduced=False)], Expected()).findings
    assert (finding.kind, finding.culprit_ranks, finding.op) == (Kind.RANK_NOT_JOINED, (1,), "all_reduce")


@pytest.mark.parametrize(("uses", "culprits"), [(1, set()), (2, {0, 2})])
def test_of_two_that_are_behind_one_may_wait_in_the_making_of_a_communicator(uses: int, culprits: set[int]) -> None:
    """The others used a group of theirs for the first time just before: ranks 0 and 2 may be making theirs."""
    steps: dict[int, list[Step]] = {rank: [REDUCE, Stay()] for rank in range(4)}
    for rank in (1, 3):
        steps[rank] = [REDUCE, *[Collective("ep1")] * uses, REDUCE]
    answer = judged(Job(steps, {"ep1": (1, 3)}).dumps())
    assert [finding.kind for finding in answer.findings] == [Kind.RANK_NOT_JOINED]
    assert named(answer) == culprits


def called_from(rank: int, lines: tuple[int, ...]) -> NodeSnapshot:
    """A rank that reduced once from each of `lines`, rank 1 the last time in vain; no record names the members."""
    last = len(lines) if rank else 0
    entries = [
        entry(at, 0, "all_reduce", "scheduled" if at == last else "completed")
        | {"frames": [{"name": "step", "filename": "/srv/train.py", "line": line}]}
        for at, line in enumerate(lines, 1)
    ]
    dump = {"version": "2.10", "entries": entries, "pg_config": {}, "pg_status": {}}
    return NodeSnapshot(live=False, ranks=(bare_rank(rank, parse_dump(json.dumps(dump).encode())),))
