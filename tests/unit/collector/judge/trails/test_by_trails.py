"""Step F: whose fault a wait beyond the groups is, by who holds the other end of it and what that does."""

from collections.abc import Sequence
from typing import Any

import pytest

from collector.detect.roots import roots_of
from shared.answer.words import Act, Cause, Certainty, Kind, Verdict
from shared.missing import Missing, Reason
from shared.wire.fds import Fds, Holder, OtherEnd, Socket
from shared.wire.snapshot import Beat, Child, Identity, NodeSnapshot, Process, RankSnapshot, Syscall
from shared.wire.stacks import Awaited, Frame, OfProcesses, Stacks, Thread
from tests.build.jobs.four_ranks import AWAY, TWO_NODES, looks_without
from tests.build.jobs.judged import judged
from tests.build.jobs.placed import with_rank

SERVICE, FAR = 700, "10.0.0.9:443"
HANDLER = Frame("score", "/srv/reward.py", 12)
ACCEPT = Frame("serve_forever", "/usr/lib/python3.11/socketserver.py", 232)
JOINS = (*AWAY.frames, Frame("Popen._try_wait", "/usr/lib/python3.11/subprocess.py", 2004))
UNREAD = Missing(source="stacks", reason=Reason.NOT_PERMITTED)


def at(kind: str, *holders: int, call: str = "recvfrom", name: str = FAR, **more: object) -> dict[str, object]:
    """What a process waits at, and in which call."""
    held = [Holder(pid=pid, name="python") for pid in holders]
    end = OtherEnd.model_validate({"kind": kind, "fd": 9, "name": name, "holders": held, **more})
    return {"syscall": Syscall(name=call, fd=9), "awaits": (end,)}


def other(pid: int, *frames: Frame, busy: bool = False, **more: object) -> list[Child]:
    """Two looks at a process that is no rank, three seconds apart."""
    identity = more.pop("identity", None)
    stacks: Stacks | Missing = UNREAD
    if frames:
        stacks = Stacks(pid=pid, frames=frames, threads=(Thread(tid=pid, frames=tuple(range(len(frames)))),))
    found = []
    for look in range(2):
        cpu = 3.0 * look if busy else 0.0
        beats = {
            name: Beat(at_ns=int((3.0 * look + later) * 1e9), cpu_seconds=cpu, main_cpu_seconds=cpu, main_switches=1)
            for name, later in (("before", 0.0), ("after", 0.1))
        }
        told = {"pid": pid, "name": "python", "state": "S", "syscall": Syscall(name="futex"), **beats, **more}
        found.append(
            Child.model_validate({"process": Process.model_validate(told), "stacks": stacks, "identity": identity})
        )
    return found


def waiting(
    ends: dict[int, dict[str, object]],
    followed: Sequence[list[Child]] = (),
    *,
    own: bool = False,
    after: float = 90.0,
    **how: Any,
) -> list[NodeSnapshot]:
    """Two looks at four ranks that wait for the first of `ends`; each of these waits at what it says.

    `followed`: other processes to which that leads; `own`: the rank has started them.
    """
    first = min(ends)
    looks = looks_without({first: AWAY}, after_seconds=after, **how)
    return [
        look.model_copy(update={"ranks": tuple(_with(rank, ends, followed, number, own=own) for rank in look.ranks)})
        for number, look in enumerate(looks)
    ]


def _with(
    rank: RankSnapshot, ends: dict[int, dict[str, object]], followed: Sequence[list[Child]], look: int, *, own: bool
) -> RankSnapshot:
    if rank.identity.rank not in ends:
        return rank
    assert isinstance(rank.process, Process)
    process = rank.process.model_copy(update=ends[rank.identity.rank])
    others = tuple(each[look] for each in followed)
    return rank.model_copy(update={"process": process, "children" if own else "followed": others})


def blamed(looks: Sequence[NodeSnapshot]) -> tuple[Verdict, tuple[int, ...], str]:
    """The verdict, whom it names and what it says."""
    answer = judged(looks)
    return answer.verdict, tuple(rank for each in answer.findings for rank in each.culprit_ranks), answer.headline


def pid_of(rank: int) -> int:
    """The process id of a rank of the simulated job."""
    (found,) = (each.identity.pid for each in looks_without({2: AWAY})[0].ranks if each.identity.rank == rank)
    assert found is not None
    return found


def test_a_stopped_service_is_named_at_once_and_nobody_of_the_job() -> None:
    """The rank that waits for it is a victim; resuming it is the step."""
    looks = waiting({2: at("socket", SERVICE, unread_bytes=10)}, [other(SERVICE, HANDLER, state="T")], after=12.0)
    answer = judged(looks)
    (finding,) = answer.findings
    assert (finding.kind, finding.cause, finding.certainty) == (
        Kind.RANK_NOT_JOINED,
        Cause.OTHER_PROCESS,
        Certainty.SUPPORTED,
    )
    assert finding.culprits == () and finding.victims == "0-3"
    assert "to hear from pid 700 (python) at 10.0.0.9:443, which is stopped by a signal at score" in answer.headline
    assert "has not read 10 bytes" in answer.headline
    assert finding.next_steps[0].command == "kill -CONT 700" and finding.next_steps[0].frees


@pytest.mark.parametrize("held", [{"state": "T"}, {"frozen_by": "/jobs/7"}], ids=["stopped", "frozen"])
def test_who_is_held_waits_for_nothing_more_in_whatever_call_it_is(held: dict[str, str]) -> None:
    """It was just telling somebody who is gone."""
    end = other(SERVICE, HANDLER, **at("pipe", call="write", name=""), **held)
    verdict, named, headline = blamed(waiting({2: at("socket", SERVICE)}, [end]))
    assert (verdict, named) == (Verdict.HUNG, ())
    assert "which is stopped by a signal" in headline or "which is frozen" in headline


@pytest.mark.parametrize(("after", "verdict"), [(30.0, Verdict.CANNOT_TELL), (90.0, Verdict.HUNG)])
def test_a_service_that_stands_still_has_as_long_as_a_rank_at_the_same_place(after: float, verdict: Verdict) -> None:
    """A minute; and nobody of the job is to blame either way."""
    said = blamed(waiting({2: at("socket", SERVICE)}, [other(SERVICE, HANDLER)], after=after))
    assert said[:2] == (verdict, ()) and "score (/srv/reward.py:12)" in said[2]


@pytest.mark.parametrize(
    "end",
    [
        other(SERVICE, ACCEPT, **at("clients", call="accept4")),
        other(SERVICE),
        [],
    ],
    ids=["idle", "unread", "unseen"],
)
def test_one_that_may_be_idle_has_as_long_as_who_works(end: list[Child]) -> None:
    """An idle server, one whose stack was not read, and one that nobody examined."""
    followed = [end] if end else []
    assert blamed(waiting({2: at("socket", SERVICE)}, followed, after=500.0))[:2] == (Verdict.CANNOT_TELL, ())
    assert blamed(waiting({2: at("socket", SERVICE)}, followed, after=700.0))[:2] == (Verdict.HUNG, ())


def test_a_service_at_work_holds_the_job_up() -> None:
    """It is told what it does, and no rank is named."""
    answer = judged(waiting({2: at("socket", SERVICE)}, [other(SERVICE, HANDLER, busy=True, state="R")], after=20.0))
    assert answer.verdict is Verdict.SLOW and answer.findings[0].kind is Kind.HELD_UP
    assert not answer.findings[0].culprits
    assert "rank 2 waits for pid 700 (python), which uses" in answer.headline


def test_a_rank_of_another_job_is_named_by_it_and_asked_about() -> None:
    """What that job waits for its own diagnosis tells."""
    whose = Identity(job="rollout", rank=5, host="a", pid=SERVICE)
    answer = judged(waiting({2: at("socket", SERVICE)}, [other(SERVICE, HANDLER, identity=whose)]))
    assert "to hear from rank 5 of job rollout (pid 700)" in answer.headline
    (finding,) = answer.findings
    assert finding.next_steps[0].command == "unhang diagnose -- rollout"
    assert [(link.who, link.job) for link in finding.chain] == [
        ("ranks 0-1,3", None), ("rank 2", None), ("rank 5 of job rollout (pid 700)", "rollout"),
    ]  # fmt: skip
    assert finding.chain[-1].does.endswith(" at score (/srv/reward.py:12)") and roots_of(finding) == ("job rollout",)


def test_while_nobody_can_tell_the_chain_is_told_all_the_same() -> None:
    """Who was asked may still answer."""
    answer = judged(waiting({2: at("socket", SERVICE)}, [other(SERVICE, HANDLER)], after=30.0))
    assert answer.findings == () and [link.who for link in answer.chain] == [
        "ranks 0-1,3",
        "rank 2",
        "pid 700 (python)",
    ]


def test_an_address_on_another_machine_is_said_with_how_to_ask_there() -> None:
    """Nobody examined it: nobody is to blame."""
    looks = waiting({2: at("socket", local="10.0.0.1:5")}, after=700.0)
    answer = judged(looks)
    assert answer.findings[0].culprits == () and "10.0.0.9:443" in answer.headline
    assert answer.findings[0].next_steps[0].command == "ss -tnp 'sport = :443'"


def test_two_ranks_that_wait_for_each_other_by_a_socket_and_a_group_are_a_deadlock() -> None:
    """Both are named, whoever should have come first."""
    looks = waiting({2: at("socket", pid_of(3))})
    verdict, culprits, said = blamed(looks)
    assert (verdict, culprits) == (Verdict.HUNG, (2, 3))
    assert "to hear from rank 3" in said and said.endswith("for rank 2: a deadlock")
    assert [(link.who, link.closes) for link in judged(looks).findings[0].chain] == [
        ("ranks 0-1,3", False), ("rank 2", False), ("rank 3", True),
    ]  # fmt: skip


def test_the_other_end_is_found_on_another_node_by_both_addresses() -> None:
    """As the ranks' own tables of sockets show them."""
    looks = waiting({2: at("socket", name="10.0.0.8:80", local="10.0.0.7:999")}, hosts=TWO_NODES)
    far = Fds(total=1, sockets=(Socket(fd=4, kind="tcp", local="10.0.0.8:80", remote="10.0.0.7:999"),))
    assert blamed(with_rank(looks, 0, fds=far))[1] == (0, 2)


def test_what_a_rank_has_started_itself_is_its_own_fault() -> None:
    """With the whole way to the end told."""
    fifo = other(701, parent_pid=pid_of(2), **at("fifo", call="openat", name="/tmp/feed"))
    looks = waiting({2: at("child", 701, call="wait4", name="")}, [fifo], own=True)
    verdict, culprits, said = blamed(looks)
    assert (verdict, culprits) == (Verdict.HUNG, (2,))
    assert (
        "waits for the end of pid 701 (python), which waits for somebody to open the other end of the FIFO /tmp/feed"
        in said
    )
    looks = with_rank(looks, 2, stacks=Stacks(pid=pid_of(2), frames=JOINS, threads=(Thread(tid=1, frames=(0, 1)),)))
    assert "the kernel shows whom it waits for" in judged(looks).findings[0].certainty_reason


def test_a_child_that_sleeps_for_a_while_holds_the_others_up() -> None:
    """As the rank would that sleeps itself; one that sleeps for a day does nothing."""
    held = {}
    for left in (10.0, 86_400.0):
        child = other(701, HANDLER, parent_pid=pid_of(2), syscall=Syscall(name="pause", ends_in_seconds=left))
        held[left] = blamed(waiting({2: at("socket", 701, name="")}, [child], own=True))
    assert held[10.0][0] is Verdict.SLOW and "waits for pid 701 (python), which sleeps for 10 s more" in held[10.0][2]
    assert held[86_400.0][:2] == (Verdict.HUNG, (2,))


@pytest.mark.parametrize(("quiet", "verdict"), [(2.0, Verdict.CANNOT_TELL), (80.0, Verdict.HUNG)])
def test_who_asks_the_network_again_has_its_time_from_then_on(quiet: float, verdict: Verdict) -> None:
    """A long poll returns empty, and is sent again."""
    end = at("socket", local="10.0.0.1:5", quiet_seconds=quiet, own=True)
    assert blamed(waiting({2: end}))[0] is verdict


@pytest.mark.parametrize(("call", "after"), [("poll", 30.0), ("recvfrom", 30.0), ("poll", 90.0), ("recvfrom", 90.0)])
def test_who_waits_for_clients_while_others_await_its_part_has_a_minute(call: str, after: float) -> None:
    """As ZeroMQ does, any loop of events, and who receives datagrams of anybody: nobody else is known to owe it."""
    verdict, named, said = blamed(waiting({2: at("clients", call=call, name="127.0.0.1:80")}, after=after))
    assert (verdict, named) == ((Verdict.HUNG, (2,)) if after > 60.0 else (Verdict.CANNOT_TELL, ()))
    assert after < 60.0 or "waiting for clients" in said


def test_a_server_whose_thread_holds_the_answer_stands_where_that_does() -> None:
    """Its main thread waits for work, as always."""
    frames = (ACCEPT, HANDLER)
    threads = (Thread(tid=SERVICE, frames=(0,)), Thread(tid=SERVICE + 1, name="handler", frames=(1,)))
    end = [
        each.model_copy(update={"stacks": Stacks(pid=SERVICE, frames=frames, threads=threads)})
        for each in other(SERVICE, ACCEPT)
    ]
    verdict, named, said = blamed(waiting({2: at("socket", SERVICE)}, [end]))
    assert (verdict, named) == (Verdict.HUNG, ()) and "score (/srv/reward.py:12)" in said


GRPC = Frame("_blocking", "/env/lib/python3.11/site-packages/grpc/_channel.py", 1190)
STILL_AT_HOME = Frame("Condition.wait", "/usr/lib/python3.11/threading.py", 331)


@pytest.mark.parametrize(
    ("frames", "named"), [((*AWAY.frames, GRPC, STILL_AT_HOME), ()), ((*AWAY.frames, STILL_AT_HOME), (2,))]
)
def test_what_other_threads_watch_is_awaited_by_who_calls_by_grpc(
    frames: tuple[Frame, ...], named: tuple[int, ...]
) -> None:
    """Else nobody knows who waits for it."""
    ends = at("socket", SERVICE, call="futex")
    looks = waiting({2: ends}, [other(SERVICE, HANDLER)])
    stacks = Stacks(pid=pid_of(2), frames=frames, threads=(Thread(tid=pid_of(2), frames=tuple(range(len(frames)))),))
    assert blamed(with_rank(looks, 2, stacks=stacks))[:2] == (Verdict.HUNG, named)


def test_of_all_that_an_actor_is_connected_to_the_actor_at_work_is_awaited() -> None:
    """By its title: Ray's own processes have connections to every worker."""
    actor, agent = (
        OtherEnd(kind="socket", fd=fd, name=f"10.0.0.7:{fd}", holders=(Holder(pid=SERVICE + fd, name=name),))
        for fd, name in ((1, "ray::RewardModel.score"), (2, "ray::DashboardAgent"))
    )
    looks = waiting({2: {**at("socket", call="futex"), "awaits": (agent, actor)}}, [other(SERVICE + 1, HANDLER)])
    frames = (*AWAY.frames, Frame("get_objects", "/env/site-packages/ray/_private/worker.py", 1007))
    stacks = Stacks(pid=pid_of(2), frames=frames, threads=(Thread(tid=pid_of(2), frames=tuple(range(len(frames)))),))
    verdict, named, said = blamed(with_rank(looks, 2, stacks=stacks))
    assert (verdict, named) == (Verdict.HUNG, ()) and "pid 701 (ray::RewardModel.score)" in said


def test_what_no_other_process_has_nobody_releases() -> None:
    """A semaphore of processes that have ended: no time heals that, and the rank is named."""
    shared = OfProcesses(kind="semaphore", memory="00:1a 7", lone=True)
    awaited = Awaited(tid=pid_of(2), at=AWAY.frames[-1], kind="semaphore", call="acquire", shared=shared)
    answer = judged(with_rank(looks_without({2: AWAY}, after_seconds=12.0), 2, awaited=(awaited,)))
    assert (answer.verdict, answer.findings[0].culprit_ranks) == (Verdict.HUNG, (2,))
    assert "that no other process has" in answer.headline
    looks = looks_without({2: AWAY}, after_seconds=12.0)
    (stacks,) = (each.stacks for each in looks[0].ranks if each.identity.rank == 2)
    assert isinstance(stacks, Stacks)
    beside = stacks.model_copy(update={"threads": (*stacks.threads, Thread(tid=9, name="releases", frames=(0,)))})
    assert judged(with_rank(looks, 2, awaited=(awaited,), stacks=beside)).verdict is Verdict.CANNOT_TELL


def test_a_child_that_its_rank_does_not_read_is_a_circle() -> None:
    """The rank waits for its end, and it for the rank: no time heals that."""
    child = other(701, parent_pid=pid_of(2), **at("pipe", pid_of(2), call="write", name=""))
    looks = waiting({2: at("child", 701, call="wait4", name="")}, [child], own=True, after=12.0)
    verdict, culprits, said = blamed(looks)
    assert (verdict, culprits) == (Verdict.HUNG, (2,))
    assert "which waits for rank 2 to read its pipe: a circle" in said
    action = judged(looks).action
    assert action is not None and action.do is Act.FIX_CODE and "where rank 2 and pid 701" in action.text


def test_the_store_is_no_service() -> None:
    """Its connection leads to the launcher, and whoever waits there waits for other ranks."""
    looks = waiting({2: at("socket", SERVICE)}, [other(SERVICE, HANDLER)])
    store = Fds(total=1, sockets=(Socket(fd=9, kind="tcp", remote=FAR, to_store=True),))
    assert blamed(with_rank(looks, 2, fds=store))[1] == (2,)
