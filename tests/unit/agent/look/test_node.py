"""Finding ranks on a machine that is slow, or on which reading about a process blocks."""

import itertools
import os
import time
from collections.abc import Callable

import pytest

import agent.look.node
from agent.deadline import Deadline, ThreadPool
from agent.look.node import Node
from agent.proc.procfs import ProcFs
from shared.missing import Reason
from shared.wire.snapshot import lists_late

FIRST, SECOND = (41, 1000), (42, 1001)


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Node:
    """One whose listings must be over within a moment."""
    monkeypatch.setattr(agent.look.node, "_FIND_SECONDS", 0.1)
    return Node(ProcFs(), "here", ThreadPool())


def listing_that(node: Node, reads: Callable[[], tuple[int, int]]) -> Callable[[bool], None]:
    """A listing that is not over in time, and what it reads about meanwhile."""
    lister = node._lister

    def find(quick: bool) -> None:
        end = time.monotonic() + 1.0
        while time.monotonic() < end:
            lister.reading = reads()
            time.sleep(0.01)

    return find


def test_machine_that_is_slow_loses_no_process(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it happened to read about when the time was over is left out of no later list."""
    turns = itertools.cycle((FIRST, FIRST, FIRST, SECOND))
    monkeypatch.setattr(node, "_find", listing_that(node, lambda: next(turns)))
    found = node.find(Deadline(1.0))
    assert node.avoided() == ()
    assert (found.ranks, [each.reason for each in found.missing]) == ((), [Reason.TIMED_OUT])
    assert lists_late(found.missing) and "it is busy" in found.missing[0].detail


def test_machine_that_is_only_slow_is_waited_for(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """There are seconds left: who is here is not unknown because a listing took longer than usual."""
    turns, find = itertools.cycle((FIRST, SECOND)), node._find
    slow = listing_that(node, lambda: next(turns))

    def find_slowly(quick: bool) -> object:
        slow(quick)
        return find(quick)

    monkeypatch.setattr(node, "_find", find_slowly)
    assert not any("listing" in each.detail for each in node.find(Deadline(20.0)).missing)
    assert (node.avoided(), node.abandoned) == ((), 0)


def test_a_search_that_begins_too_late_leaves_open_who_is_a_rank(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine its thread may not have had a turn when the time is over."""
    monkeypatch.setattr(agent.look.node, "_SEARCH_SECONDS", 0.1)
    monkeypatch.setattr(node._search, "search", lambda due, limit: time.sleep(1.0))
    node._search_groups([ProcFs().stat(os.getpid())], Deadline(5.0), quick=False)
    assert lists_late(node._search.missing(node._lister.listing()))


def test_process_that_blocks_its_reader_is_left_out(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "_find", listing_that(node, lambda: FIRST))
    node.find(Deadline(1.0))
    assert FIRST in node._blockers


@pytest.mark.parametrize(("seconds", "blocks"), [(0.3, False), (3.0, True)])
def test_a_search_that_is_slow_in_one_process_again_is_not_blocked_by_it(
    seconds: float, blocks: bool, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each comes back soon after it was late, or does not until it is given up."""
    search, due = node._search, [ProcFs().stat(os.getpid())]

    def read(_due: object, _limit: Deadline) -> None:
        search.reading = FIRST
        time.sleep(seconds)

    monkeypatch.setattr(agent.look.node, "_SEARCH_SECONDS", 0.1)
    monkeypatch.setattr(search, "search", read)
    for _ in range(2):
        node._search_groups(due, Deadline(5.0), quick=False)
        time.sleep(0.4)
    assert (FIRST in node._blockers, node._search is not search) == (blocks, blocks)
