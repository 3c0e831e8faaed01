"""Many sources, one list: who is one agent, and what the sources disagree on."""

from hypothesis import given
from hypothesis import strategies as st

from collector.agents.agent_source import Sighting, address_at, parse_one
from collector.agents.merging import merge

TEMPLATE = "http://{host}:8471"


def sighting(url: str, source: str, *, host: str | None = None, **more: object) -> Sighting:
    """An agent by one source; `host` where it is not what the URL says."""
    address = parse_one(url)
    return Sighting(address if host is None else address.model_copy(update={"host": host}), source, **more)  # type: ignore[arg-type]


def test_one_url_is_one_agent_that_says_from_whom() -> None:
    """In the order in which they were first named."""
    agents, conflicts = merge(
        [sighting("node1", "agents"), sighting("node2", "agents"), sighting("http://node1:8471", "slurm")]
    )
    assert [(a.address.host, a.learnt_from) for a in agents] == [("node1", ("agents", "slurm")), ("node2", ("agents",))]
    assert conflicts == ()


def test_name_and_address_of_one_node_are_one_agent() -> None:
    """Kubernetes tells the address of a node that the list calls by its name: no conflict, and the first is asked."""
    agents, conflicts = merge(
        [sighting("node1", "agents"), Sighting(address_at("192.0.2.1", TEMPLATE, name="node1"), "kubernetes")]
    )
    assert [(a.address.url, a.learnt_from) for a in agents] == [("http://node1:8471", ("agents", "kubernetes"))]
    assert conflicts == ()


def test_a_name_that_begins_with_a_digit_is_no_address() -> None:
    """So two of them may be one node's, as a node has several interfaces."""
    one = sighting("http://9front:8471", "agents", host="node1")
    _, conflicts = merge([one, sighting("http://9front-ib:8471", "registered", host="node1")])
    assert conflicts == ()


def test_name_is_kept_from_whom_knows_it() -> None:
    """DNS gives an address, Kubernetes gives it a name."""
    agents, _ = merge(
        [
            Sighting(address_at("192.0.2.1", TEMPLATE), "dns agents"),
            Sighting(address_at("192.0.2.1", TEMPLATE, name="node1"), "kubernetes", {"pod": "a"}),
        ]
    )
    assert [(a.address.host, a.address.url, a.labels) for a in agents] == [
        ("node1", "http://192.0.2.1:8471", {"pod": "a"})
    ]


def test_two_agents_of_one_node_stay_two() -> None:
    """Their ports differ; they are told apart by them."""
    agents, conflicts = merge([sighting("node1:8471", "agents"), sighting("node1:8472", "registered")])
    assert [a.address.host for a in agents] == ["node1:8471", "node1:8472"]
    assert conflicts == ()


def test_sources_that_send_us_to_different_places_are_told() -> None:
    """Two addresses for one node, and plain against TLS."""
    agents, conflicts = merge(
        [
            sighting("http://192.0.2.1:8471", "registered", host="node1"),
            sighting("http://192.0.2.9:8471", "kubernetes", host="node1"),
            sighting("https://node2:8471", "agents"),
            sighting("http://node2:8471", "slurm"),
        ]
    )
    assert [a.address.url for a in agents] == ["http://192.0.2.1:8471", "https://node2:8471"]
    assert [(c.source, "the first is asked" in c.detail) for c in conflicts] == [("kubernetes", True), ("slurm", True)]


def test_lost_agent_is_asked_while_another_source_names_it() -> None:
    """It stays lost: that it registers no more is a fact of its own."""
    lost = sighting("node1", "registered", lost_at=7.0, asked=False)
    assert [(a.asked, a.lost_at) for a in merge([lost])[0]] == [(False, 7.0)]
    assert [(a.asked, a.lost_at) for a in merge([lost, sighting("node1", "slurm")])[0]] == [(True, 7.0)]


_HOSTS = st.sampled_from(["node1", "node2", "192.0.2.1"])
_URLS = st.sampled_from(["node1", "node2", "192.0.2.1", "https://node1:8471", "node1:9000", "http://192.0.2.2:8471"])


@given(st.lists(st.tuples(_URLS, _HOSTS, st.sampled_from("abc")), max_size=12))
def test_nothing_is_lost_and_nothing_is_twice(seen: list[tuple[str, str, str]]) -> None:
    """Every URL is one agent or part of one; names and URLs of the result are unique; repeating changes nothing."""
    sightings = [sighting(url, source, host=host) for url, host, source in seen]
    agents, _ = merge(sightings)
    urls = [agent.address.url for agent in agents]
    assert len(set(urls)) == len(urls)
    assert len({agent.address.host for agent in agents}) == len(agents)
    assert set(urls) <= {each.address.url for each in sightings}
    assert {source for agent in agents for source in agent.learnt_from} == {source for _, _, source in seen}
    assert [a.address.url for a in merge([*sightings, *sightings])[0]] == urls
