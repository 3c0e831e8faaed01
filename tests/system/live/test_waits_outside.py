"""A rank waits outside the groups of PyTorch, for real: whoever owes it that is named, and its victims are not."""

import threading
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.system.live.asking import Reply, diagnosed
from tests.system.live.jobs import Job
from tests.system.live.test_verdicts import assert_right
from tests.system.live.truths import Truth, named

pytestmark = [pytest.mark.live, pytest.mark.ptrace]


def asked(program: str, directory: Path, container: int | None, **environment: str) -> Reply:
    """Ask about a job of four ranks, once it has stood still for a while."""
    with recorded(program, directory, container, {"TMPDIR": str(directory), **environment}) as job:
        return diagnosed(job, patience=12.0)


def recorded(
    program: str,
    directory: Path,
    container: int | None,
    environment: Mapping[str, str],
    *,
    ranks: int = 4,
    name: str = "",
) -> Job:
    """Return a job that keeps a flight record."""
    options: dict[str, Any] = {"forked": True, "recorded": True, "beside": container, "environment": environment}
    return Job(program, directory=directory, ranks=ranks, name=name or None, **options)


@pytest.mark.parametrize(
    ("way", "told"),
    [
        ("hung_service", "which sleeps for 24 hours more at reward_model"),
        ("deaf_service", "and has not read 10 bytes that lie there"),
        ("stopped_service", "which is stopped by a signal"),
        ("service_that_takes_nothing", "to read what it sends"),
        ("deadlocked_service", "at deadlock"),
        ("long_poll", "which sleeps for"),
        ("select_until_answer", "which sleeps for"),
    ],
)
def test_whoever_waits_for_a_service_is_not_to_blame(way: str, told: str, container: int, tmp_path: Path) -> None:
    """Its process is named, and what that does."""
    reply = asked("waits_outside", tmp_path, container, WAITS_OUTSIDE=way)
    assert named(reply.answer) == frozenset()
    assert told in reply.answer["headline"] and "(python)" in reply.answer["headline"]
    assert (reply.answer["verdict"] == "hung") == (way == "stopped_service")


@pytest.mark.parametrize(
    ("way", "told"),
    [
        ("stopped_child", "(sleep), which is stopped by a signal"),
        ("frozen_child", "(sleep), which is frozen with its cgroup"),
        ("child_at_fifo", "(cat), which waits for somebody to open the other end of the FIFO"),
        ("popen_circle", "(seq), which waits for rank 2 to read its pipe: a circle"),
        ("both_pipes", "(cat) to read its pipe, which waits for rank 2 to read its pipe: a circle"),
        ("prompt", "waiting for terminal input"),
        ("executed_text", "it is asleep in user code at wait_for_quota (<string>:3)"),
        ("fifo_of_nobody", "opening a FIFO whose other end is not open"),
    ],
)
def test_whoever_waits_for_what_is_its_own_is_told_to_its_end(
    way: str, told: str, container: int, tmp_path: Path
) -> None:
    """It hangs, and nothing of that passes by itself."""
    reply = asked("waits_outside", tmp_path, container, WAITS_OUTSIDE=way)
    assert (reply.answer["verdict"], named(reply.answer)) == ("hung", frozenset({2}))
    assert told in reply.answer["headline"]


@pytest.mark.parametrize("way", ["dripping_service", "child_works", "back_off"])
def test_what_only_looks_so_holds_the_others_up(way: str, container: int, tmp_path: Path) -> None:
    """As long as it moves."""
    reply = asked("waits_outside", tmp_path, container, WAITS_OUTSIDE=way)
    assert reply.answer["verdict"] == "slow" and reply.answer["findings"][0]["kind"] == "held_up"


@pytest.mark.parametrize(
    ("way", "told"),
    [
        ("barrier", "for a multiprocessing barrier that 1 of 4 processes have reached"),
        ("event", "for a multiprocessing event that nobody has set"),
        ("slots", "for a multiprocessing semaphore that nobody has released"),
        ("lock_of_the_dead", "for a multiprocessing lock that another process holds, or has ended with"),
    ],
)
def test_who_owes_what_processes_share_is_not_known(way: str, told: str, container: int, tmp_path: Path) -> None:
    """What it waits for is told, and how to find those who share it; nobody is named."""
    reply = asked("shared_by_processes", tmp_path, container, SHARED_WAY=way)
    assert (reply.answer["verdict"], named(reply.answer)) == ("cannot_tell", frozenset())
    assert told in reply.answer["headline"]
    assert reply.answer["next_steps"][0]["command"].endswith("/proc/[0-9]*/maps")


@pytest.mark.parametrize(
    ("way", "culprits", "told"),
    [
        ("sleep", frozenset({2}), "rank 2 has not joined multiprocessing.Barrier: it is asleep"),
        ("skip", frozenset(range(4)), "rank 2 waits in all_reduce for rank 0: a deadlock"),
    ],
)
def test_who_lacks_at_a_barrier_is_known(
    way: str, culprits: frozenset[int], told: str, container: int, tmp_path: Path
) -> None:
    """Where all other ranks of the node wait there, and nobody else."""
    reply = asked("shared_by_processes", tmp_path, container, SHARED_WAY=way)
    assert (reply.answer["verdict"], named(reply.answer)) == ("hung", culprits)
    assert told in reply.answer["headline"]


@pytest.mark.root
@pytest.mark.parametrize(
    ("who", "told"),
    [
        ("one", "it is waiting for a page of its memory that userfaultfd should bring"),
        ("all", " were not read: a page of its memory does not come"),
    ],
)
def test_memory_that_answers_no_read_is_told(who: str, told: str, tmp_path: Path) -> None:
    """Its readers wait, on a machine that is not overloaded. In a container of tests nobody may do that to others."""
    reply = asked("memory_unanswered", tmp_path, None, UNANSWERED=who)
    assert told in reply.answer["headline"]
    gaps = [gap["missing"] for gap in reply.answer["coverage"]["missing"] if gap["missing"]["source"] == "stacks"]
    assert any("(handle_userfault)" in gap["detail"] for gap in gaps)


@pytest.mark.parametrize("way", ["by_fifo", "by_tcp", "by_unix_socket"])
def test_a_circle_of_a_connection_and_a_group(way: str, container: int, tmp_path: Path) -> None:
    """Both ranks are named, and no other."""
    reply = asked("waits_for_rank", tmp_path, container, WAITS_FOR_RANK=way)
    assert (reply.answer["verdict"], named(reply.answer)) == ("hung", frozenset({2, 3}))
    assert reply.answer["headline"].endswith("rank 3 waits in all_reduce for rank 2: a deadlock")


@pytest.mark.parametrize(
    ("rollout", "verdicts", "told"),
    [
        ("hung_rank", {"cannot_tell"}, "which is in a collective at hung_rank"),
        ("mutual", {"hung"}, "which waits to hear from rank 0 of this job"),
        ("works", {"slow", "cannot_tell"}, "% of a CPU"),  # and where, unless the machine is busy
    ],
)
def test_a_trainer_is_the_victim_of_its_rollout(
    rollout: str, verdicts: set[str], told: str, container: int, tmp_path: Path
) -> None:
    """The other job is named, with the command that asks about it."""
    common = {"MEETING": str(tmp_path / "meeting"), "ROLLOUT": rollout}
    jobs = [
        recorded("trainer_and_rollout", tmp_path, container, {**common, "PART": part}, ranks=2, name=part)
        for part in ("rollout", "trainer")
    ]
    with ExitStack() as stack:
        starts = [threading.Thread(target=stack.enter_context, args=(job,)) for job in jobs]
        for start in starts:
            start.start()
        for start in starts:
            start.join()
        reply = diagnosed(jobs[1], patience=12.0)
    assert reply.answer["verdict"] in verdicts and named(reply.answer) == frozenset()
    assert "rank 0 of job rollout" in reply.answer["headline"] and told in reply.answer["headline"]
    if rollout != "works":
        steps = [*reply.answer["next_steps"], *(s for each in reply.answer["findings"] for s in each["next_steps"])]
        assert any(step["command"] == "unhang diagnose -- rollout" for step in steps)


@pytest.mark.parametrize(
    ("way", "told"),
    [
        ("semaphore_of_ended_process", "that no other process has"),
        ("answer_of_itself", "rank 2 has not joined all_reduce"),
        ("manager_that_is_stopped", "which is stopped by a signal"),
    ],
)
def test_what_nobody_is_left_to_end_is_told_at_once(way: str, told: str, container: int, tmp_path: Path) -> None:
    """Who owes it has ended, is the rank itself, or is stopped before it has accepted."""
    reply = asked("nobody_ends_it", tmp_path, container, NOBODY_ENDS_IT=way)
    assert (reply.answer["verdict"], named(reply.answer)) == ("hung", frozenset({2}))
    assert told in reply.answer["headline"]


@pytest.mark.parametrize("way", ["by_accept", "by_datagrams", "from_queue", "on_trio", "until_signalled"])
def test_who_waits_for_work_that_it_will_hand_out_is_not_hung(way: str, container: int, tmp_path: Path) -> None:
    """Others wait in a broadcast, for days."""
    reply = asked("only_looks_so", tmp_path, container, ONLY_LOOKS_SO=way)
    assert_right(Truth.of("only_looks_so", "memory"), reply)
