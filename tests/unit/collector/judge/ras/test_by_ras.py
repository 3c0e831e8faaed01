"""What RAS's counts say of a job, and what they must not be made to say."""

import random

import pytest

from collector.align.expected import Unanswered
from shared.answer.words import Certainty, Kind, Verdict
from shared.missing import Missing, Reason
from shared.wire.ras import RasLook, RasNetwork
from shared.wire.snapshot import Exited
from shared.wire.stacks import Frame
from tests.build.jobs.simulated import ALL_REDUCE, RECV, USER, Collective, Job, Seen, Stay, live_looks
from tests.system.ras.looks import ADDRESS, OUTSIDE, WAITING, judge, looks_with_ras, member, members, report, seen_by
from tests.system.ras.reports import Comm

DEVICE = Frame("synchronize", "/env/lib/python3.11/site-packages/torch/cuda/__init__.py", 985)


@pytest.mark.parametrize("text", [False, True])
def test_a_laggard_outside_is_named(text: bool) -> None:
    """Frozen counts and the stack say the same: two independent weaker sources."""
    told = report(members({0: 64, 1: 64, 2: 60, 3: 64}), text=text)
    verdict = judge(looks_with_ras(seen_by(4, r2=OUTSIDE), told, told))
    assert verdict.verdict is Verdict.HUNG
    (finding,) = verdict.findings
    assert (finding.kind, finding.culprit_ranks, finding.victims) == (Kind.RANK_NOT_JOINED, (2,), "0-1,3")
    assert (finding.op, finding.sequence, finding.certainty) == ("all_reduce", 61, Certainty.SUPPORTED)
    (counts,) = [item for item in finding.evidence if item.kind == "sequence"]
    assert counts.issued == {"60": "2", "64": "0-1,3"}
    assert "NCCL RAS" in counts.text
    assert any("no sends" in remark for remark in finding.remarks)


def test_counts_decide_where_stacks_do_not() -> None:
    """Two stand outside; the counts tell which of them the others wait for."""
    told = report(members({0: 64, 1: 64, 2: 60, 3: 64}))
    verdict = judge(looks_with_ras(seen_by(4, r2=OUTSIDE, r3=OUTSIDE), told, told))
    assert verdict.findings[0].culprit_ranks == (2,)


def test_counts_that_move_are_no_hang() -> None:
    first, second = report(members({0: 64, 1: 64, 2: 60, 3: 64})), report(members({0: 70, 1: 70, 2: 66, 3: 70}))
    verdict = judge(looks_with_ras(seen_by(4, r2=OUTSIDE), first, second))
    assert verdict.verdict is Verdict.NOT_HUNG
    assert verdict.findings == ()


def test_a_healthy_job_with_equal_counts_is_not_accused() -> None:
    told = report(members(dict.fromkeys(range(4), 64)))
    later = report(members(dict.fromkeys(range(4), 80)))
    assert judge(looks_with_ras(seen_by(4), told, later)).verdict is Verdict.NOT_HUNG


def test_equal_counts_prove_nothing() -> None:
    """Everybody launched, nobody completes: no name, and the remark says what that rules out."""
    told = report(members(dict.fromkeys(range(4), 64)))
    verdict = judge(looks_with_ras(seen_by(4), told, told))
    (finding,) = verdict.findings
    assert (finding.kind, finding.culprits) == (Kind.STUCK_TOGETHER, ())
    assert any("equally often" in remark for remark in finding.remarks)


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        (
            {0: 64, 1: 64, 2: 63, 3: 63},
            "ranks 2-3 launched all_reduce up to 63; ranks 0-1 launched all_reduce up to 64",
        ),
        ({0: 64, 1: 64, 2: 64, 3: 65}, "ranks 0-2 launched all_reduce up to 64; rank 3 launched all_reduce up to 65"),
        ({0: 64, 1: 63}, "rank 1 launched all_reduce up to 63; rank 0 launched all_reduce up to 64"),
    ],
)
def test_no_minority_lags_so_nobody_is_named(counts: dict[int, int], words: str) -> None:
    """A tie, or a few ahead: both readings stand beside what the stacks say."""
    told = report(members(counts))
    (finding,) = judge(looks_with_ras(seen_by(len(counts)), told, told)).findings
    assert finding.culprits == ()
    assert any(words in remark for remark in finding.remarks)


@pytest.mark.parametrize("frame", [RECV, ALL_REDUCE, DEVICE])
def test_a_laggard_that_waits_itself_is_not_named(frame: Frame) -> None:
    """RAS sees no receive: whom it waits for is not known, and it may be anybody's victim."""
    told = report(members({0: 64, 1: 64, 2: 60, 3: 64}))
    verdict = judge(looks_with_ras(seen_by(4, r2=Seen(frames=(USER, frame))), told, told))
    assert 2 not in {rank for finding in verdict.findings for rank in finding.culprit_ranks}


def test_the_root_of_a_chain() -> None:
    """0 and 1 wait for 2 in one communicator, 2 waits for 3 in another."""
    told = report(members({0: 9, 1: 9, 2: 8}), members({2: 5, 4: 5, 3: 4}, first=1))
    verdict = judge(looks_with_ras(seen_by(5, r3=OUTSIDE), told, told))
    (finding,) = verdict.findings
    assert (finding.culprit_ranks, finding.victims) == ((3,), "0-2,4")


def test_two_faults_at_once_are_two_findings() -> None:
    """Each in its own communicator and operation."""
    told = report(members({0: 9, 1: 9, 2: 8}), members({3: 5, 4: 5, 5: 2}, op="AllGather", first=1))
    findings = judge(looks_with_ras(seen_by(6, r2=OUTSIDE, r5=OUTSIDE), told, told)).findings
    assert {(f.culprit_ranks, f.op, f.sequence, f.victims) for f in findings} == {
        ((2,), "all_reduce", 9, "0-1"),
        ((5,), "all_gather", 3, "3-4"),
    }


def test_crossed_communicators_name_nobody_by_counts() -> None:
    told = report(members({0: 9, 1: 9, 2: 8}), members({1: 5, 2: 5, 0: 4}, first=1))
    verdict = judge(looks_with_ras(seen_by(3), told, told))
    assert all(finding.culprits == () for finding in verdict.findings)


def test_another_operation_in_the_place_of_the_others() -> None:
    """One lags in all_reduce and leads in all_gather: it launched one for the other."""
    usual = {"AllReduce": 64, "AllGather": 4}
    odd = member(3, counts={"AllReduce": 63, "AllGather": 5})
    told = report(Comm((*(member(rank, counts=usual) for rank in range(3)), odd)))
    (finding,) = judge(looks_with_ras(seen_by(4), told, told)).findings
    assert (finding.kind, finding.culprit_ranks) == (Kind.COLLECTIVE_MISMATCH, (3,))
    assert "launched all_gather where ranks 0-2 launched all_reduce" in finding.summary


def test_once_is_no_verdict_without_the_stacks() -> None:
    """In one report any busy job shows unequal counts."""
    told = report(members({0: 64, 1: 64, 2: 60, 3: 64}))
    verdict = judge(looks_with_ras(seen_by(4), told, None))
    assert all(finding.culprits == () for finding in verdict.findings)
    named = judge(looks_with_ras(seen_by(4, r2=OUTSIDE), told, None)).findings[0]
    assert (named.culprit_ranks, named.certainty) == ((2,), Certainty.SUSPECTED)


def test_two_answers_of_one_moment_are_one_look() -> None:
    """Two agents ask in each look; only time between reports tells what stands still."""
    told = report(members({0: 64, 1: 64, 2: 60, 3: 64}))
    first, last = looks_with_ras(seen_by(4), told, told)
    at_once = last.model_copy(update={"ras": first.ras})
    verdict = judge([first, at_once])
    assert all(finding.culprits == () for finding in verdict.findings)


def test_who_left_a_communicator() -> None:
    gone = Comm((*(member(rank) for rank in range(3)), member(3, status="NOCOMM")))
    told = report(gone)
    (finding,) = judge(looks_with_ras(seen_by(4, r3=OUTSIDE), told, told)).findings
    assert (finding.kind, finding.culprit_ranks, finding.certainty) == (Kind.RANK_NOT_JOINED, (3,), Certainty.SUSPECTED)
    assert any("or not created it" in remark for remark in finding.remarks)


def test_most_left_so_nobody_is_named() -> None:
    gone = Comm((member(0), *(member(rank, status="NOCOMM") for rank in range(1, 4))))
    told = report(gone)
    verdict = judge(looks_with_ras({0: WAITING, 1: OUTSIDE, 2: OUTSIDE, 3: OUTSIDE}, told, told))
    assert all(finding.culprits == () for finding in verdict.findings)


def dead(status: str, text: bool = False) -> RasNetwork:
    counted = {"AllReduce": 9}
    return report(
        Comm((*(member(rank, counts=counted) for rank in range(3)), member(3, status=status, counts=counted))),
        text=text,
    )


@pytest.mark.parametrize("text", [False, True])
def test_a_dead_peer_that_no_agent_sees(text: bool) -> None:
    """Nobody saw rank 3, RAS knows its process: named with host and pid, by the job's own communicator."""
    told = dead("dead", text)
    (finding,) = judge(looks_with_ras(seen_by(3), told, told, world_size=4)).findings
    assert (finding.kind, finding.culprit_ranks, finding.victims) == (Kind.RANK_UNREACHABLE, (3,), "0-2")
    assert finding.certainty is Certainty.SUPPORTED
    assert "pid 1003 on 10.3.0.14" in finding.summary
    assert finding.culprits[0].pid == 1003


def test_a_dead_peer_that_has_ended() -> None:
    """The roster knows how it ended: that is proven, and RAS agrees."""
    snapshots = looks_with_ras(seen_by(4), dead("dead"), dead("dead"))
    identity = snapshots[-1].ranks[3].identity
    ended = Exited(pid=1003, identity=identity, signal=9)
    last = snapshots[-1].model_copy(update={"ranks": snapshots[-1].ranks[:3], "exited": (ended,)})
    (finding,) = judge([snapshots[0], last]).findings
    assert (finding.kind, finding.culprit_ranks, finding.certainty) == (Kind.RANK_EXITED, (3,), Certainty.PROVEN)
    assert any("considered dead by NCCL RAS" in item.text for item in finding.evidence)


@pytest.mark.parametrize("pid", [1003, 1004])
def test_a_dead_peer_whose_pid_no_process_has(pid: int) -> None:
    """RAS knows a node by its address; the node's agent finds no such process, or none of another pid."""
    gone = RasLook(addresses=(ADDRESS,), networks=(dead("silent"),), gone=((ADDRESS, pid),))
    silent = looks_with_ras(seen_by(3), dead("silent"), None, world_size=4)
    (finding,) = judge([each.model_copy(update={"ras": gone}) for each in silent]).findings
    ended = pid == 1003
    assert finding.kind is (Kind.RANK_EXITED if ended else Kind.RANK_UNREACHABLE)
    assert (finding.culprit_ranks, finding.culprits[0].pid) == ((3,), 1003)
    assert any("no process on its node has" in item.text for item in finding.evidence) is ended


def test_a_silent_peer_that_is_stopped() -> None:
    (finding,) = judge(looks_with_ras(seen_by(4, r3=Seen(state="T")), dead("silent"), dead("silent"))).findings
    assert (finding.kind, finding.culprit_ranks, finding.certainty) == (Kind.RANK_STOPPED, (3,), Certainty.PROVEN)


def test_a_silent_peer_that_is_seen_to_run_is_not_named() -> None:
    """Its RAS thread may starve; its own agent sees it wait like everybody."""
    verdict = judge(looks_with_ras(seen_by(4), dead("silent"), dead("silent")))
    assert all(finding.culprits == () for finding in verdict.findings)


def test_a_peer_on_a_node_that_does_not_answer() -> None:
    silent = Unanswered(host="node-b", ranks="3", missing=Missing(source="http://node-b", reason=Reason.TIMED_OUT))
    told = dead("dead")
    (finding,) = judge(looks_with_ras(seen_by(3), told, told, world_size=4), unanswered=(silent,)).findings
    assert (finding.kind, finding.culprit_ranks) == (Kind.RANK_UNREACHABLE, (3,))


def test_a_dead_peer_that_nobody_waits_for() -> None:
    """A rank may end before the others, who are at work."""
    told = dead("dead")
    verdict = judge(looks_with_ras(dict.fromkeys(range(3), OUTSIDE), told, told, world_size=4))
    assert all(3 not in finding.culprit_ranks for finding in verdict.findings)


def test_a_recorder_comes_first() -> None:
    """Sequence numbers are stronger than counts: by them it is rank 3. Counts that say the same stand beside them."""
    told, agrees = report(members({0: 64, 1: 64, 2: 60, 3: 64})), report(members({0: 64, 1: 64, 2: 64, 3: 63}))
    many = [Collective("0")] * 3
    job = Job({0: many, 1: many, 2: many, 3: [Collective("0"), Stay()]})
    plain = live_looks(job, seen_by(4, r3=OUTSIDE))
    for counts, shown in ((told, 0), (agrees, 1)):
        with_ras = [s.model_copy(update={"ras": RasLook(addresses=(ADDRESS,), networks=(counts,))}) for s in plain]
        (finding,) = judge(with_ras).findings
        assert finding.culprit_ranks == (3,)
        assert sum(each.text.startswith("NCCL RAS: rank 3 launched") for each in finding.evidence) == shown


@pytest.mark.parametrize("seed", range(20))
def test_any_lag_names_the_laggard_or_nobody(seed: int) -> None:
    """Random communicators over eight ranks, one rank outside: never an innocent."""
    chance = random.Random(seed)
    culprit = chance.randrange(8)
    comms = []
    for number in range(chance.randint(1, 4)):
        chosen = sorted(chance.sample(range(8), chance.randint(2, 8)))
        count = chance.randint(1, 500)
        behind = chance.randint(1, count)
        comms.append(members({r: count - behind if r == culprit else count for r in chosen}, first=number))
    told = report(*comms, text=chance.random() < 0.5)
    verdict = judge(looks_with_ras(seen_by(8, **{f"r{culprit}": OUTSIDE}), told, told))
    assert {rank for finding in verdict.findings for rank in finding.culprit_ranks} <= {culprit}
