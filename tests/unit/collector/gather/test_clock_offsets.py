"""Whose clock is off, by what agents say of the time and when they were asked."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.gather.clock_offsets import Clock, clock_of, clocks_apart
from shared.wire.snapshot import NodeSnapshot

ASKED_NS = 1_700_000_000_000_000_000
SECOND_NS = 1_000_000_000


def clocks(**ahead: float) -> list[Clock]:
    """Clocks that are known to a tenth of a second."""
    return [Clock(host=host, ahead_seconds=seconds, within_seconds=0.1) for host, seconds in ahead.items()]


def test_a_clock_is_known_within_half_of_the_time_on_the_way() -> None:
    """Asked at 0, answered at 1.2 s, looked for 1.0 s: it began between 0 and 0.2 s."""
    snapshot = NodeSnapshot(host="node3", taken_at_ns=ASKED_NS + 47 * SECOND_NS, took_seconds=1.0)
    clock = clock_of(ASKED_NS, ASKED_NS + 1_200_000_000, snapshot)
    assert clock is not None
    assert (clock.host, round(clock.ahead_seconds, 3), round(clock.within_seconds, 3)) == ("node3", 46.9, 0.1)


@given(there=st.floats(0.0, 5.0), took=st.floats(0.0, 5.0), back=st.floats(0.0, 5.0), ahead=st.floats(-7200.0, 7200.0))
def test_the_true_difference_is_within_what_is_said(there: float, took: float, back: float, ahead: float) -> None:
    """However long the question was on its way, there and back."""
    taken_at_ns = ASKED_NS + int((there + ahead) * 1e9)
    answered_at_ns = ASKED_NS + int((there + took + back) * 1e9)
    clock = clock_of(ASKED_NS, answered_at_ns, NodeSnapshot(host="n", taken_at_ns=taken_at_ns, took_seconds=took))
    assert clock is not None
    assert abs(clock.ahead_seconds - ahead) <= clock.within_seconds + 1e-6


@pytest.mark.parametrize(
    "snapshot",
    [
        NodeSnapshot(host="n"),
        NodeSnapshot(taken_at_ns=ASKED_NS),
        NodeSnapshot(host="n", taken_at_ns=ASKED_NS, live=False),
    ],
)
def test_what_does_not_tell(snapshot: NodeSnapshot) -> None:
    """Files, and nodes without a name or a time."""
    assert clock_of(ASKED_NS, ASKED_NS + SECOND_NS, snapshot) is None


def test_our_own_clock_that_was_set_meanwhile_tells_nothing() -> None:
    """It went back between the question and the answer."""
    snapshot = NodeSnapshot(host="n", taken_at_ns=ASKED_NS)
    assert clock_of(ASKED_NS, ASKED_NS - SECOND_NS, snapshot) is None


def test_the_odd_clock_is_told() -> None:
    """The one that differs from the many, whether ours is one of the many or not."""
    for ours in (0.0, 1000.0):
        (conflict,) = clocks_apart(clocks(node1=ours, node2=ours + 0.4, node3=ours + 47.2, node4=ours - 0.3))
        assert conflict.text.startswith("node clocks differ: 'node3' is 47 s ahead, against those of 3 others")


def test_two_clocks_tell_which_is_ahead_of_which() -> None:
    """Of two nodes nobody is the majority: ours decides whose is told as off."""
    (conflict,) = clocks_apart(clocks(node1=-3700.0, node2=0.2))
    assert "'node1' is 62 min behind, against that of 'node2'" in conflict.text


@pytest.mark.parametrize(
    "known",
    [
        [],
        clocks(node1=500.0),
        clocks(node1=500.0, node2=501.9),
        clocks(node1=0.0, node2=2.1),
        [
            Clock(host="a", ahead_seconds=0.0, within_seconds=0.1),
            Clock(host="b", ahead_seconds=9.0, within_seconds=8.0),
        ],
    ],
)
def test_clocks_that_agree_or_are_not_known_are_not_told(known: list[Clock]) -> None:
    """A second or two do no harm, and an answer that was long on its way says little."""
    assert clocks_apart(known) == ()


def test_of_several_answers_the_quickest_counts() -> None:
    """A first look that took long to arrive is no contradiction to a second one that did not."""
    vague = Clock(host="b", ahead_seconds=30.0, within_seconds=20.0)
    exact = Clock(host="b", ahead_seconds=47.0, within_seconds=0.01)
    (conflict,) = clocks_apart([*clocks(a=0.0, c=0.0), vague, exact])
    assert "'b' is 47 s ahead" in conflict.text


def test_many_clocks_are_told_in_short_and_in_any_order() -> None:
    """The farthest first, and how many more there are."""
    known = clocks(**{f"node{n}": 0.01 * n for n in range(40)}, **{f"odd{n}": 100.0 * (n + 1) for n in range(12)})
    (conflict,) = clocks_apart(known)
    assert "'odd11' is 20 min ahead" in conflict.text
    assert "and 4 more, against those of 40 others" in conflict.text
    random.Random(7).shuffle(known)
    assert clocks_apart(known) == (conflict,)
