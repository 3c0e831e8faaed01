"""Agents from DNS, asked of a real name server over UDP."""

import pytest

from collector.agents.dns import NamedAgents
from collector.agents.polling import PolledSource
from shared.errors import InvalidSettings
from shared.missing import Reason
from tests.build.services.discovery_servers import Zone, name_server

URL = "https://{host}:9000"
RECORDS = {
    ("_unhang._tcp.test", "SRV"): ("0 0 9001 node2.test.", "0 0 9000 node1.test."),
    ("_none._tcp.test", "SRV"): ("0 0 0 .",),
    ("agents.test", "A"): ("192.0.2.8", "192.0.2.7"),
    ("both.test", "A"): ("192.0.2.9",),
    ("both.test", "AAAA"): ("2001:db8::9",),
    ("many.test", "A"): tuple(f"10.1.{number // 250}.{number % 250 + 1}" for number in range(2000)),
    ("empty.test", "TXT"): ("nothing",),
}


async def found(name: str, *, silent: bool = False, seconds: float = 60.0) -> tuple[list[str], PolledSource]:
    """Ask once for the agents of a name."""
    with name_server(Zone(RECORDS, silent)) as server:
        source = NamedAgents(name, agent_url=URL, server=server, deadline_seconds=seconds)
        standing = PolledSource(source, deadline_seconds=seconds)
        await standing.refresh()
    return [sighting.address.url for sighting in standing.reading.sightings], standing


@pytest.mark.parametrize(
    ("name", "urls"),
    [
        ("_unhang._tcp.test", ["https://node1.test:9000", "https://node2.test:9001"]),
        ("_none._tcp.test", []),
        ("agents.test", ["https://192.0.2.7:9000", "https://192.0.2.8:9000"]),
        ("both.test", ["https://192.0.2.9:9000", "https://[2001:db8::9]:9000"]),
    ],
)
async def test_records_are_agents(name: str, urls: list[str]) -> None:
    """Services bring their ports, addresses take the one of the setting, whatever the order of the answer."""
    agents, standing = await found(name)
    assert (agents, standing.trouble) == (urls, None)


async def test_many_addresses_in_one_answer() -> None:
    """As a headless service of a large cluster gives them."""
    agents, standing = await found("many.test")
    assert (len(agents), standing.trouble) == (2000, None)


@pytest.mark.parametrize("name", ["nix.test", "empty.test", "_unhang._udp.test"])
async def test_name_without_agents_is_told(name: str) -> None:
    """It may be a misspelling."""
    agents, standing = await found(name)
    assert agents == []
    assert standing.trouble is not None and standing.trouble.reason is Reason.NOT_FOUND


async def test_server_that_is_silent_costs_the_deadline() -> None:
    """No answer is told as such, in time."""
    _, standing = await found("agents.test", silent=True, seconds=0.3)
    assert standing.trouble is not None and standing.trouble.reason is Reason.TIMED_OUT


@pytest.mark.parametrize(("name", "server"), [("a" * 300, ""), ("agents.test", "ns.test:53"), ("agents.test", "x")])
def test_what_cannot_be_asked_is_refused(name: str, server: str) -> None:
    """At the start, in one sentence."""
    with pytest.raises(InvalidSettings):
        NamedAgents(name, agent_url=URL, server=server)
