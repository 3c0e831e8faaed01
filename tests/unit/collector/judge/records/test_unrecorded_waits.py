"""Ranks that wait in operations which no recorder holds: who can be named, and where nobody can."""

from array import array

import pytest

from collector.align.accounting import account_for_ranks
from collector.align.expected import Expected
from collector.judge.slow.sampled_straggler import find_sampled_straggler
from collector.judge.verdict import diagnose
from shared.answer.diagnosis import Diagnosis
from shared.answer.words import Kind
from shared.missing import Missing, Reason
from shared.wire.snapshot import Process, RankSnapshot, Syscall
from shared.wire.stacks import Frame
from shared.wire.trace import Trace
from tests.build.jobs.four_ranks import looks_without
from tests.build.jobs.judged import judged
from tests.build.jobs.placed import with_rank
from tests.build.jobs.simulated import ALL_REDUCE, RECV, USER, WORLD, Collective, Job, Seen, Stay, Step, live_looks

TORCH = "/env/lib/python3.11/site-packages/torch/distributed"
WAIT_TENSOR = Frame("wait_tensor", f"{TORCH}/_functional_collectives.py", 129)
NEW_GROUP = Frame("new_group", f"{TORCH}/distributed_c10d.py", 5610)
RENDEZVOUS = Frame("rendezvous", f"{TORCH}/rendezvous.py", 90)


def judged_in(away: dict[int, Frame]) -> Diagnosis:
    """The verdict where the ranks `away` are in a frame of their own, and the others in the next reduction."""
    return judged(looks_without({rank: Seen((USER, frame)) for rank, frame in away.items()}))


def told(diagnosis: Diagnosis) -> list[tuple[Kind, tuple[int, ...], str]]:
    return [(finding.kind, finding.culprit_ranks, finding.victims) for finding in diagnosis.findings]


@pytest.mark.parametrize("frame", [RECV, WAIT_TENSOR], ids=["a receive", "a work handle"])
@pytest.mark.parametrize("away", [(2,), (2, 3)], ids=["one", "a chain"])
def test_who_waits_for_an_unknown_peer_is_a_victim(away: tuple[int, ...], frame: Frame) -> None:
    """Rank 2 may wait for a send of rank 1, which went on to the reduction, and rank 3 for one of rank 2."""
    assert told(judged_in(dict.fromkeys(away, frame))) == [(Kind.P2P_UNMATCHED, (), "0-3")]


@pytest.mark.parametrize(("made", "culprits"), [(2, (2,)), (3, ())], ids=["alone", "others, too"])
def test_who_makes_a_group_while_others_have_made_one_may_be_left_by_another_order(
    made: int, culprits: tuple[int, ...]
) -> None:
    """Each group of Gloo's has a thread, and the one that is being made has."""
    looks = looks_without({2: Seen((USER, NEW_GROUP))})
    process = looks[0].ranks[0].process
    assert isinstance(process, Process)
    for rank, threads in ((0, made), (2, 3)):
        looks = with_rank(looks, rank, process=process.model_copy(update={"group_threads": {"gloo_tcp_loop": threads}}))
    assert told(judged(looks))[0][:2] == (Kind.RANK_NOT_JOINED, culprits)


@pytest.mark.parametrize("outside", [(2,), (2, 3)], ids=["one", "two"])
def test_who_waits_in_what_no_record_holds_counts_where_only_the_culprits_wait_for_nobody(
    outside: tuple[int, ...],
) -> None:
    """With NCCL that is who makes a group's communicator, at its first use."""
    seen = {0: Seen((USER, RECV))} | {rank: Seen(frames=(USER,)) for rank in outside}
    victims = "0-1,3" if outside == (2,) else "0-1"
    assert told(judged(looks_without(seen))) == [(Kind.RANK_NOT_JOINED, outside, victims)]


@pytest.mark.parametrize(("line", "culprits"), [(40, (1, 2)), (44, ())], ids=["one line", "two lines"])
def test_who_waits_in_different_calls_may_wait_in_a_circle(line: int, culprits: tuple[int, ...]) -> None:
    """In first uses of groups, by which each keeps another from the next one."""
    seen = {1: Seen((USER, ALL_REDUCE)), 2: Seen((USER._replace(line=line), ALL_REDUCE))}
    assert told(judged(looks_without(seen)))[0][:2] == (Kind.RANK_NOT_JOINED, culprits)


def test_who_makes_a_group_alone_is_the_odd_one() -> None:
    assert told(judged_in({0: NEW_GROUP})) == [(Kind.RANK_NOT_JOINED, (0,), "1-3")]


def test_who_went_past_a_group_that_all_others_make_is_the_odd_one() -> None:
    assert told(judged_in(dict.fromkeys((0, 1, 3), NEW_GROUP))) == [(Kind.RANK_NOT_JOINED, (2,), "0-1,3")]


@pytest.mark.parametrize(
    "away", [dict.fromkeys((0, 1, 3), RENDEZVOUS), dict.fromkeys((0, 1), NEW_GROUP)], ids=["a key", "half of them"]
)
def test_many_who_wait_in_the_store_convict_nobody_else(away: dict[int, Frame]) -> None:
    """Where they stand, in what the others wait for them, and whose key to look for."""
    (finding,) = judged_in(away).findings
    assert (finding.kind, finding.culprit_ranks, finding.victims) == (Kind.RANK_NOT_JOINED, (), "0-3")
    assert "in the store" not in finding.summary and "for them in all_reduce #" in finding.summary
    assert ("which key" in finding.next_steps[0].text) is (len(away) == 3)


@pytest.mark.parametrize(("switches_per_second", "found"), [(0.0, None), (50.0, 2)])
def test_a_straggler_by_samples_lets_the_others_go_again_and_again(
    switches_per_second: float, found: int | None
) -> None:
    """A validation on rank 2 looks alike in every sample, but nobody comes out of a wait meanwhile."""
    waiters = {rank: Seen(switches_per_second=switches_per_second) for rank in (0, 1, 3)}
    job = Job({rank: [Stay()] for rank in range(4)})
    looks = live_looks(job, waiters | {2: Seen(frames=(USER,))}, recorder=False, looks=10)
    straggler = find_sampled_straggler(account_for_ranks(looks, Expected()))
    assert (None if straggler is None else straggler.rank) == found


@pytest.mark.parametrize("op", ["all_reduce", "gather", "all_to_all"])
@pytest.mark.parametrize("missing", [(), (1,)], ids=["all traced", "one without"])
def test_groups_that_name_ranks_the_job_does_not_have_cost_nothing(op: str, missing: tuple[int, ...]) -> None:
    """A hostile rank, or a world size that is told wrong: what is known of the others is told all the same."""
    steps: dict[int, list[Step]] = {rank: [Collective(WORLD, op)] * 4 for rank in range(4)}
    steps[2][3:] = [Stay()]
    looks = live_looks(Job(steps), {rank: Seen(frames=(USER,)) if rank == 2 else Seen() for rank in range(4)})
    hostile = [
        look.model_copy(update={"ranks": tuple(_claiming(rank, missing) for rank in look.ranks)}) for look in looks
    ]
    victims = "0,3" if missing else "0-1,3"
    assert told(diagnose(hostile, Expected())) == [(Kind.RANK_NOT_JOINED, (2,), victims)]


def _claiming(rank: RankSnapshot, missing: tuple[int, ...]) -> RankSnapshot:
    trace = rank.recorder
    assert isinstance(trace, Trace)
    if rank.identity.rank in missing:
        return rank.model_copy(update={"recorder": Missing(source="recorder", reason=Reason.TIMED_OUT)})
    groups = tuple(group.model_copy(update={"members": "0-9"}) for group in trace.groups)
    return rank.model_copy(update={"recorder": trace.model_copy(update={"groups": groups})})


def test_who_may_wait_in_what_gloo_does_not_record_and_was_not_read_is_asked_for_and_not_blamed() -> None:
    """Rank 2 is in C code that nobody has looked into, and its group sends what no record holds."""
    looks = looks_without({2: Seen((USER,))})
    for look in looks[-1:]:
        for rank in look.ranks:
            trace = rank.recorder
            assert isinstance(trace, Trace)
            gloo = tuple(signature._replace(backend="gloo") for signature in trace.signatures)
            numbers = array("q", [2 * at for at in range(len(trace))])
            changed = trace.model_copy(update={"signatures": gloo, "op_id": numbers})
            looks = with_rank(looks, rank.identity.rank, recorder=changed)
    process = Process(pid=1002, state="S", syscall=Syscall(name="futex"))
    answer = judged(with_rank(looks, 2, process=process))
    assert told(answer) == [(Kind.RANK_NOT_JOINED, (), "0-1,3")]
    assert "what it does was not read" in answer.headline
