"""Fake agents behind real sockets, for collectors in processes of their own."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.build.agents.fake_agents import WORLD, FakeAgent, case_ranks
from tests.build.services.discovery_servers import serving


def whole_job(*, delay_seconds: float = 0.0) -> FakeAgent:
    """One node with a whole recorded job, whose rank 2 has not joined."""
    return FakeAgent("node1", case_ranks("missing_rank2", range(WORLD), host="node1"), delay_seconds=delay_seconds)


@contextmanager
def served(agent: FakeAgent) -> Iterator[str]:
    """Serve an agent on loopback, and give its URL."""
    with serving(agent.app, hurried=True) as url:
        yield url
