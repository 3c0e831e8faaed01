"""Fake agents behind real sockets, for collectors in processes of their own."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from tests.build.agents.fake_agents import WORLD, FakeAgent, case_ranks


def whole_job(*, delay_seconds: float = 0.0) -> FakeAgent:
    """One node with a whole recorded job, whose rank 2 has not joined."""
    return FakeAgent("node1", case_ranks("missing_rank2", range(WORLD), host="node1"), delay_seconds=delay_seconds)


@contextmanager
def served(agent: FakeAgent) -> Iterator[str]:
    """Serve an agent on loopback, and give its URL."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(agent.app, log_level="critical", access_log=False, ws="none"))
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        server.force_exit = True
        thread.join()
        listening.close()
