"""Tasks side by side, each with an end."""

import threading

import pytest

from agent.deadline import MOST_ABANDONED, MOST_OF_ONE, Deadline, Late, NoThread, ThreadPool, TooManyAbandoned, Turns
from tests.build.processes.processes import until


def test_each_task_gives_its_value_or_its_error() -> None:
    """One failure is one failure."""
    outcomes = ThreadPool().run({"good": lambda: 1, "bad": lambda: 1 // 0}, Deadline(5))
    assert outcomes["good"] == 1
    assert isinstance(outcomes["bad"], ZeroDivisionError)


def test_tasks_run_side_by_side() -> None:
    """Each of ten waits for the others to have begun."""
    all_there = threading.Barrier(10)
    outcomes = ThreadPool().run({str(n): lambda: all_there.wait(60) for n in range(10)}, Deadline(60))
    assert sorted(outcomes.values()) == list(range(10))


def test_late_task_is_left_behind_and_not_begun_again() -> None:
    """Until it comes back: then it may be tried again."""
    pool, gate = ThreadPool(), threading.Event()
    begun = []
    tasks = {"stuck": lambda: (begun.append(1), gate.wait(60)), "quick": lambda: (begun.append(2), True)}
    outcomes = pool.run(tasks, Deadline(0.1), owner="rank 0")
    assert isinstance(outcomes["stuck"], Late)
    assert outcomes["quick"] == (None, True)
    assert pool.abandoned == 1
    assert isinstance(pool.run(tasks, Deadline(0.1), owner="rank 0")["stuck"], Late)
    assert begun.count(1) == 1
    gate.set()
    assert not isinstance(pool.run(tasks, Deadline(5), owner="rank 1")["stuck"], Late)
    until(lambda: pool.abandoned, lambda abandoned: abandoned == 0)
    assert not isinstance(pool.run(tasks, Deadline(5), owner="rank 0")["stuck"], Late)


def test_who_is_blocked_keeps_no_turn() -> None:
    """The next one waits until that turn is over, and no longer; where that is too late, in vain."""
    turns = Turns(1)
    with turns.one(Deadline(60), 0.3) as blocked:
        with pytest.raises(Late), turns.one(Deadline(0.1), 60):
            pass
        with turns.one(Deadline(60), 60) as turn:
            assert blocked.left() == 0 and turn.left() > 50
    with turns.one(Deadline(0.1), 60) as turn:
        assert turn.left() <= 0.1


def test_late_task_can_be_waited_for() -> None:
    """It gives what it would have given in time; one that nobody began gives nothing."""
    pool, gate = ThreadPool(), threading.Event()
    assert isinstance(pool.run({"slow": lambda: gate.wait(60)}, Deadline(0.1), owner="rank 0")["slow"], Late)
    assert isinstance(pool.wait_on("slow", Deadline(0.1), owner="rank 0"), Late)
    assert isinstance(pool.wait_on("slow", Deadline(5), owner="rank 1"), Late)
    gate.set()
    assert pool.wait_on("slow", Deadline(60), owner="rank 0") is True
    assert pool.abandoned == 0


def test_with_too_many_left_behind_none_is_begun() -> None:
    """Threads that never come back are not piled up for ever."""
    pool, gate = ThreadPool(), threading.Event()
    pool.run({str(n): lambda: gate.wait(60) for n in range(MOST_ABANDONED)}, Deadline(0.1))
    outcomes = pool.run({"one more": lambda: True}, Deadline(1))
    gate.set()
    assert isinstance(outcomes["one more"], TooManyAbandoned)


def test_one_user_uses_up_a_share_alone() -> None:
    """Whose processes block our threads is looked at no more, and others are."""
    pool, gate = ThreadPool(), threading.Event()
    pool.run({str(n): lambda: gate.wait(60) for n in range(MOST_OF_ONE)}, Deadline(0.1), owner=1, whose="eve")
    of_eve = pool.run({"one more": lambda: True}, Deadline(1), owner=2, whose="eve")["one more"]
    of_alice = pool.run({"one": lambda: True}, Deadline(60), owner=3, whose="alice")["one"]
    gate.set()
    assert isinstance(of_eve, TooManyAbandoned)
    assert of_alice is True


def test_without_threads_the_tasks_of_a_round_are_told_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that were begun give their values; nothing is raised, which would end an agent's beat."""
    begin = threading.Thread.start
    begun: list[threading.Thread] = []

    def only_one(thread: threading.Thread) -> None:
        if begun:
            raise RuntimeError("can't start new thread")
        begun.append(thread)
        begin(thread)

    monkeypatch.setattr(threading.Thread, "start", only_one)
    outcomes = ThreadPool().run({"first": lambda: 1, "second": lambda: 2}, Deadline(5))
    assert outcomes["first"] == 1
    assert isinstance(outcomes["second"], NoThread)


def test_deadlines_are_passed_down() -> None:
    """Sooner, never later."""
    deadline = Deadline(10)
    assert deadline.sooner(3).left() == pytest.approx(7, abs=1)
    assert deadline.sooner(30).left() == 0
    assert deadline.at_most(2).left() == pytest.approx(2, abs=1)
    assert deadline.at_most(60) is deadline
    assert Deadline(-1).left() == 0
