"""Jobs put together from lists of ranks: attempts apart, order without influence, hostile numbers left out."""

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.gather.jobs import choose_job, concerns, summarise_jobs, unread_by
from shared.answer.incidents import JobState
from shared.errors import InvalidInput, NotFound
from shared.missing import WAITING_LAUNCHERS, Missing, Reason
from shared.wire.snapshot import Exited, Identity, RankList


def rank(number: int, **fields: object) -> Identity:
    """One running rank of job `a`."""
    return Identity.model_validate({"job": "a", "rank": number, "world_size": 4, "pid": 100 + number, **fields})


def node(host: str, *ranks: Identity, exited: tuple[Exited, ...] = ()) -> RankList:
    """One agent's list."""
    return RankList(host=host, ranks=ranks, exited=exited)


def test_left_overs_of_an_older_attempt_are_told_apart() -> None:
    """A restarted job is its newest attempt; processes of the one before are shown, never mixed in."""
    (job,) = summarise_jobs([node("n1", rank(0, attempt=1), rank(1, attempt=1), rank(3, attempt=0))])
    assert (job.attempt, job.ranks, job.absent) == (1, "0-1", "2-3")
    assert [(old.attempt, old.ranks, old.hosts) for old in job.older_attempts] == [(0, "3", ("n1",))]


def test_job_whose_ranks_have_all_ended_is_still_known() -> None:
    """Nothing runs, but the agent remembers: the job is listed with what exited."""
    (job,) = summarise_jobs([node("n1", exited=(Exited(pid=1, identity=rank(3)),))])
    assert (job.ranks, job.exited, job.hosts, job.state) == ("", "3", ("n1",), JobState.ENDED)


@pytest.mark.parametrize(
    ("last", "state"),
    [({"exit_code": 0}, "finished"), ({"exit_code": 1}, "died"), ({"signal": 15}, "died"), ({}, "ended")],
)
def test_job_that_is_over_says_how_it_ended(last: dict[str, int], state: str) -> None:
    """Also where the collector does not watch it; of one that runs its watcher says what it is doing."""
    gone = tuple(Exited(pid=n, identity=rank(n), **({"exit_code": 0} if n else last)) for n in range(4))
    assert [job.state for job in summarise_jobs([node("n1", exited=gone)])] == [state]
    assert [job.state for job in summarise_jobs([node("n1", rank(0), exited=gone[1:])])] == [None]


@pytest.mark.parametrize("fields", [{"rank": -1}, {"rank": 2**40}, {"world_size": 2**60}, {"world_size": -5}])
def test_made_up_numbers_cost_nothing(fields: dict[str, int]) -> None:
    """A process that claims an impossible rank or world does not break the list of the others."""
    began = time.thread_time()
    (job,) = summarise_jobs([node("n1", rank(0), rank(1)), node("n2", rank(2, **fields))])
    assert job.ranks.startswith("0-")
    assert job.world_size == 4
    assert time.thread_time() - began < 1.0


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 2), st.sampled_from(["n1", "n2"])), max_size=12))
def test_order_of_lists_and_ranks_changes_nothing(found: list[tuple[int, int, str]]) -> None:
    """Shuffling what the agents said gives the same jobs."""
    lists = [
        node(host, *(rank(r, attempt=a, launcher=f"l{r}") for r, a, h in found if h == host)) for host in ("n1", "n2")
    ]
    shuffled = [node(each.host, *random.sample(each.ranks, len(each.ranks))) for each in reversed(lists)]
    assert summarise_jobs(lists) == summarise_jobs(shuffled)


def test_choosing() -> None:
    """The job asked for, or the only one; else an error that names what is there."""
    one, other = node("n1", rank(0)), node("n2", rank(0, job="b"))
    assert choose_job("a", [one, other], some_silent=False) == "a"
    assert choose_job(None, [one], some_silent=False) == "a"
    with pytest.raises(InvalidInput, match="a, b"):
        choose_job(None, [one, other], some_silent=False)
    with pytest.raises(NotFound) as caught:
        choose_job("c", [one, other], some_silent=False)
    assert "a, b" in caught.value.advice


def test_a_job_by_its_number() -> None:
    """As Slurm shows it: with and without its user; nothing else that ends so, and not where a job has that name."""
    of_slurm = [node("n1", rank(0, job="slurm-71"), rank(1, job="x-72")), node("n2", rank(0, job="73"))]
    of_slurm.append(node("n3", rank(0, job="slurm-73")))
    for asked, found in (("71", "slurm-71"), ("slurm-71", "slurm-71"), ("73", "73"), ("slurm-73", "slurm-73")):
        assert choose_job(asked, of_slurm, some_silent=False) == found
    for asked in ("72", "7", "slurm-72"):
        with pytest.raises(NotFound):
            choose_job(asked, of_slurm, some_silent=False)


def test_node_that_was_too_busy_to_list_its_processes_is_named() -> None:
    """That nobody was found there says nothing of who is there."""
    late = Missing(source="ranks", reason=Reason.TIMED_OUT, detail="listing the processes takes too long")
    told = unread_by([RankList(host="n7", missing=(late,)), node("n1", rank(0))])
    assert told[0] == "n7 did not list the processes there in time: ask again"


def test_choosing_the_only_one_that_runs() -> None:
    """A job that has ended does not stand in the way of the one that runs."""
    ended = node("n2", exited=(Exited(pid=1, identity=rank(0, job="b")),))
    assert choose_job(None, [node("n1", rank(0)), ended], some_silent=False) == "a"


def test_silent_agents_keep_the_question_open() -> None:
    """While an agent is silent, a job that nobody knows may be on its node."""
    assert choose_job("c", [node("n1", rank(0))], some_silent=True) == "c"
    assert choose_job(None, [], some_silent=True) is None


def test_no_ranks_says_why() -> None:
    """No ranks at all: the advice tells of processes that could not be read, else what makes a rank."""
    with pytest.raises(NotFound) as caught:
        choose_job(None, [node("n1")], some_silent=False)
    assert "RANK" in caught.value.advice
    blind = RankList(host="n1", missing=(Missing(source="find", reason=Reason.NOT_PERMITTED, detail="17 processes"),))
    with pytest.raises(NotFound) as caught:
        choose_job(None, [blind], some_silent=False)
    assert "17 processes" in caught.value.advice


def test_launchers_that_wait_are_told_where_no_rank_is() -> None:
    """The job may be theirs; where it is there, they are somebody else's and no reason to look at a node."""
    waits = Missing(
        source=WAITING_LAUNCHERS, reason=Reason.NOT_FOUND, detail="the launcher with pid 7 has started no rank"
    )
    lists = [RankList(host=host, missing=(waits,)) for host in ("n1", "n2")]
    for job in (None, "slurm-7"):
        with pytest.raises(NotFound) as caught:
            choose_job(job, lists, some_silent=False)
        assert "on n1 the launcher with pid 7 has started no rank; on n2 the launcher" in caught.value.advice
        assert "could not be read" not in caught.value.advice
    with pytest.raises(NotFound) as caught:
        choose_job(None, [RankList(host=f"n{at}", missing=(waits,)) for at in range(9)], some_silent=False)
    assert "6 more such launchers" in caught.value.advice
    assert not concerns(lists[0], "a")
    assert choose_job(None, [*lists, node("n3", rank(0))], some_silent=False) == "a"


def test_nodes_that_concern_a_job() -> None:
    """A node is looked at if it has the job's ranks, alive or dead, or cannot say what it has."""
    sibling = Exited(pid=1, sibling_jobs=("a",))
    blind = RankList(host="n", missing=(Missing(source="find", reason=Reason.NOT_PERMITTED),))
    assert concerns(node("n", rank(0)), "a")
    assert concerns(node("n", exited=(sibling,)), "a")
    assert concerns(blind, "a")
    assert not concerns(node("n", rank(0, job="b")), "a")
    assert not concerns(node("n"), None)
