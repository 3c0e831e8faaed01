"""Leases: who is lost, for how long it is asked, and who claims another's name."""

from collector.agents.agent_source import parse_one
from collector.agents.registration.registered import ASKED_SECONDS, REMEMBERED_SECONDS, Leases


class Clock:
    """Time that passes when the test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        """Tell the time."""
        return self.now


def made() -> tuple[Leases, Clock]:
    """Leases of a minute."""
    clock = Clock()
    return Leases(60.0, clock=clock, wall_clock=clock), clock


def test_agent_that_renews_is_there() -> None:
    """However long it lives."""
    leases, clock = made()
    for _ in range(100):
        leases.renew(parse_one("node1"))
        clock.now += 59
    assert [(s.lost_at, s.asked) for s in leases.sightings()] == [(None, True)]
    assert leases.lost == 0


def test_agent_that_falls_silent_is_lost_and_remembered() -> None:
    """It is asked for an hour, told for a day, and then forgotten; coming back it is there again."""
    leases, clock = made()
    leases.renew(parse_one("node1"))
    clock.now += 61
    assert [(s.lost_at, s.asked) for s in leases.sightings()] == [(1000.0, True)]
    assert leases.lost == 1
    clock.now += ASKED_SECONDS
    assert [(s.lost_at, s.asked) for s in leases.sightings()] == [(1000.0, False)]
    leases.renew(parse_one("node1"))
    assert [s.lost_at for s in leases.sightings()] == [None]
    clock.now += REMEMBERED_SECONDS + 1
    assert leases.sightings() == ()


def test_two_agents_with_one_name_are_told_until_one_is_gone() -> None:
    """The last one to register is asked; a name that moved for good is no conflict for longer than a lease."""
    leases, clock = made()
    one, other = (parse_one(f"http://192.0.2.{n}:8471").model_copy(update={"host": "node1"}) for n in (1, 2))
    leases.renew(one)
    leases.renew(other)
    (conflict,) = leases.conflicts()
    assert "192.0.2.1" in conflict.detail and "192.0.2.2" in conflict.detail
    assert [s.address.url for s in leases.sightings()] == [other.url]
    clock.now += 40
    leases.renew(other)
    clock.now += 40
    leases.renew(other)
    assert leases.conflicts() == ()


def test_two_agents_on_one_node_are_two() -> None:
    """They have a port each."""
    leases, _ = made()
    leases.renew(parse_one("node1:8471"))
    leases.renew(parse_one("node1:8472"))
    assert len(leases.sightings()) == 2
    assert leases.conflicts() == ()
