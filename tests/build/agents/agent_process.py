"""A fake agent in a process of its own, to be killed or stopped: `python -m ... CASE HOST RANK...`."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn

from tests.build.agents.fake_agents import FakeAgent, case_ranks

REPOSITORY = Path(__file__).parents[3]


@contextmanager
def agent_process(case: str, ranks: tuple[int, ...], *, host: str) -> Iterator[tuple[str, int]]:
    """Run an agent of some ranks of a recorded case; gives its URL and process id."""
    command = [sys.executable, "-m", "tests.build.agents.agent_process", case, host, *map(str, ranks)]
    process = subprocess.Popen(
        command, cwd=REPOSITORY, env={**os.environ, "PYTHONPATH": str(REPOSITORY)}, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}", process.pid
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def _serve(case: str, host: str, *ranks: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    agent = FakeAgent(host, case_ranks(case, [int(rank) for rank in ranks], host=host))

    class Server(uvicorn.Server):
        """Tells its port once it listens."""

        async def startup(self, sockets: object = None) -> None:
            await super().startup()
            print(self.servers[0].sockets[0].getsockname()[1], flush=True)

    Server(uvicorn.Config(agent.app, port=0, log_level="critical", access_log=False, ws="none")).run()


if __name__ == "__main__":
    _serve(*sys.argv[1:])
