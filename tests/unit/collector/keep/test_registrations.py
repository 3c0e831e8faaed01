"""Registrations in the store, on each kind of database: ages by its clock alone, the newest word, nothing for ever."""

import threading

import pytest
from sqlalchemy import select, update

from collector.agents.agent_source import parse_one, place_of
from collector.hostlists import AgentAddress
from collector.keep.database import Database, StoreTrouble
from collector.keep.registrations import REMEMBERED_SECONDS, RegisteredAgent, Registrations, Renewal
from collector.keep.store import Store
from collector.keep.tables import agents
from collector.keep.url import parse_store_place
from tests.unit.collector.conftest import Opener


def renewal(address: AgentAddress | str, age_seconds: float = 0.0) -> Renewal:
    """A registration that long ago."""
    agent = parse_one(address) if isinstance(address, str) else address
    return Renewal(agent, place_of(agent), age_seconds)


def ages(found: tuple[RegisteredAgent, ...]) -> dict[str, float]:
    """Seconds by URL."""
    return {each.address.url: each.age_seconds for each in found}


def test_older_word_does_not_replace_a_newer_one(opened: Opener) -> None:
    """A replica that could not write for a while comes late, with what it heard then."""
    one, two = opened().registrations, opened().registrations
    one.exchange([renewal("http://192.0.2.2:8471")])
    late = parse_one("http://192.0.2.1:8471").model_copy(update={"host": "192.0.2.2"})
    found = two.exchange([renewal(late, 500.0)])
    assert [each.address.url for each in found] == ["http://192.0.2.2:8471"]
    assert found[0].age_seconds < 400


def test_moment_of_the_last_word_stays_the_same(opened: Opener) -> None:
    """However often it is read: nothing has to be merged anew for an agent that says nothing."""
    registrations = opened().registrations
    (first,) = registrations.exchange([renewal("node1")])
    (again,) = registrations.exchange([])
    assert again.heard_ms == first.heard_ms
    (later,) = registrations.exchange([renewal("node1")])
    assert later.heard_ms >= first.heard_ms


def test_agents_are_forgotten_after_a_day(opened: Opener) -> None:
    """When somebody registers."""
    registrations = opened().registrations
    registrations.exchange([renewal("old", REMEMBERED_SECONDS + 1), renewal("nearly", REMEMBERED_SECONDS - 60)])
    assert ages(registrations.exchange([renewal("new")])).keys() == {"http://nearly:8471", "http://new:8471"}


@pytest.mark.parametrize("renewals", [[], [renewal("new")]])
def test_clock_of_the_database_that_was_set_back(opened: Opener, place: str, renewals: list[Renewal]) -> None:
    """An agent that registered in the future must not live on, silent, until the clock has caught up."""
    registrations = opened().registrations
    registrations.exchange([renewal("node1")])
    database = Database(parse_store_place(place))
    with database.write() as connection:
        connection.execute(update(agents).values(heard_ms=database.now_ms + 3_600_000))
    registrations.exchange(renewals)
    with database.read() as connection:
        ahead_ms = connection.execute(select(agents.c.heard_ms - database.now_ms)).scalars().all()
    database.close()
    assert max(ahead_ms) <= 0


def test_replicas_that_write_the_same_agents_at_once(place: str) -> None:
    """In whatever order they have heard them, neither is refused, and none is lost."""
    stores = [Store(place) for _ in range(2)]
    names = [f"node{number}" for number in range(200)]
    troubles: list[StoreTrouble] = []

    def write(store: Store, hosts: list[str]) -> None:
        try:
            for _ in range(5):
                store.registrations.exchange([renewal(host) for host in hosts])
        except StoreTrouble as trouble:
            troubles.append(trouble)

    orders = (names, names[::-1])
    writing = [threading.Thread(target=write, args=pair) for pair in zip(stores, orders, strict=True)]
    for thread in writing:
        thread.start()
    for thread in writing:
        thread.join()
    found = stores[0].registrations.exchange([])
    for store in stores:
        store.close()
    assert troubles == []
    assert len(found) == len(names)


def test_database_that_fails_is_told(new_place: str) -> None:
    """By the error that everything about the store raises."""
    database = Database(parse_store_place(new_place))
    with pytest.raises(StoreTrouble):
        Registrations(database).exchange([renewal("node1")])  # nobody has made its tables
    database.close()
