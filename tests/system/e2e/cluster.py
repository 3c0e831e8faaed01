"""A cluster for tests: three nodes with an agent each, and a head node with the collector."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import httpx

from tests.system.e2e.asking import ANSWER_SECONDS, Asker, Told
from tests.system.e2e.hosts import START_SECONDS, Guest, Host
from tests.system.e2e.network import Network

NODES = ("node1", "node2", "node3")
HEAD = "head"
DEADLINE_SECONDS = 20.0
LATE_SECONDS = 10.0
"""A busy machine may take that long to judge; without a deadline it would be no bound that these tests know."""

INTERVAL_SECONDS = 2.0
LEASE_SECONDS = 2.0
AGENT_PORT, COLLECTOR_PORT = 8471, 8470

_TOKEN = "of-these-tests-alone"
_READY_SECONDS = 3 * START_SECONDS


class Cluster:
    """Agents and a collector, real processes on hosts of their own."""

    def __init__(self, network: Network, directory: Path) -> None:
        self.network = network
        self.directory = directory
        self.agents: dict[str, Guest] = {}
        self._token_file = directory / "token"
        self._collector: Guest | None = None
        self._asker: Asker | None = None

    def __enter__(self) -> Self:
        """Start all services, and wait until the collector knows all agents."""
        self._token_file.write_text(f"{_TOKEN}\n")
        self._token_file.chmod(0o600)
        address = f"http://{self.network.addresses[HEAD]}:{COLLECTOR_PORT}"
        self._asker = Asker(self.host(HEAD), address, _TOKEN)
        try:
            for node in NODES:
                self.start_agent(node)
            self.start_collector()
            self.wait_for_collector()
            self.wait_for_agents()
        except BaseException:
            self._asker.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of the network; its hosts end with the services in them."""
        self.asker.close()

    @property
    def asker(self) -> Asker:
        """The client on the head node."""
        assert self._asker is not None
        return self._asker

    @property
    def collector(self) -> Guest:
        """The collector's process."""
        assert self._collector is not None
        return self._collector

    def host(self, name: str) -> Host:
        """A host by its name."""
        return self.network.hosts[name]

    def start_agent(self, node: str) -> None:
        """Start the agent of a node: it is called there what the node is called."""
        listen = f"{self.network.addresses[node]}:{AGENT_PORT}"
        self.agents[node] = self._start(
            node, "agent", "--listen", listen, "--token-file", str(self._token_file), "--discover-seconds", "1"
        )

    def start_collector(self) -> None:
        """Start the collector, on the store that the one before has left."""
        self._collector = self._start(
            HEAD, "collector", "--listen", f"{self.network.addresses[HEAD]}:{COLLECTOR_PORT}",
            "--agents", "node[1-3]", "--token-file", str(self._token_file), "--agent-token-file", str(self._token_file),
            "--store", str(self.directory / "collector.sqlite3"), "--deadline", str(DEADLINE_SECONDS),
            "--patience", "0", "--interval", str(INTERVAL_SECONDS), "--lease-seconds", str(LEASE_SECONDS),
        )  # fmt: skip

    def wait_for_collector(self) -> None:
        """Wait until the collector answers."""
        until = time.monotonic() + _READY_SECONDS
        while not self._collector_answers():
            assert self.collector.lives and time.monotonic() < until, self.said("collector")
            time.sleep(0.05)

    def _collector_answers(self) -> bool:
        try:
            return self.asker.get("/healthz").json()["status"] == "ok"
        except httpx.TransportError:
            return False

    def wait_for_agents(self) -> None:
        """Wait until all agents answer the collector."""
        until = time.monotonic() + _READY_SECONDS
        while (left := self.asker.get("/v1/jobs").json()["unanswered"]) and time.monotonic() < until:
            time.sleep(0.1)
        assert not left, f"{left}\n{self.said('agent')}"

    def restart_collector(self) -> None:
        """Kill the collector, and start another one in its place."""
        self.collector.end()
        self.start_collector()
        self.wait_for_collector()

    def diagnose(self, *jobs: str) -> list[Told]:
        """Have several jobs diagnosed at the same time; each verdict must come by its deadline, and be kept."""
        told = self.asker.diagnose(*jobs)
        for each in told:
            assert each.diagnosis.took_seconds <= DEADLINE_SECONDS + LATE_SECONDS, each.text
        return told

    def until(self, job: str, holds: Callable[[Told], bool]) -> Told:
        """Ask again and again until what is told holds, as one does who was told to look again later."""
        until = time.monotonic() + ANSWER_SECONDS
        (told,) = self.diagnose(job)
        while not holds(told) and time.monotonic() < until:
            (told,) = self.diagnose(job)
        assert holds(told), told.text
        return told

    @contextmanager
    def without_agents(self, *nodes: str) -> Iterator[None]:
        """Nodes whose agents have been killed."""
        for node in nodes:
            self.agents[node].end()
        try:
            yield
        finally:
            for node in nodes:
                self.start_agent(node)
            self.wait_for_agents()

    @contextmanager
    def with_stopped_agent(self, node: str) -> Iterator[None]:
        """A node whose agent has been stopped: it accepts connections, by its kernel, and answers nothing."""
        self.agents[node].signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.agents[node].signal(signal.SIGCONT)
            self.wait_for_agents()

    def said(self, service: str) -> str:
        """Return what the services of a kind have written."""
        return "\n".join(path.read_text() for path in sorted(self.directory.glob(f"*-{service}.log")))

    def _start(self, node: str, service: str, *flags: str) -> Guest:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "UNHANG"))}
        output = self.directory / f"{node}-{service}.log"
        return self.host(node).fork((service, *flags), output=output, environment=environment)


def lacking_for_hosts() -> str:
    """Return what this machine lacks or forbids that hosts of ours need; nothing where all is there."""
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "/dev/net/tun cannot be opened"
    try:
        tried = subprocess.run(("unshare", "--net", "true"), capture_output=True, text=True, timeout=60, check=False)
    except OSError as error:
        return f"{error.filename}: {error.strerror}"
    return tried.stderr.strip()
