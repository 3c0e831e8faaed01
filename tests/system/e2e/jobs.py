"""One job over several hosts: on each its launcher with two ranks, as people start them by hand, all of them forks."""

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tests.system.e2e.cluster import NODES, Cluster
from tests.system.live.fork_server import Forked, fork_server
from tests.system.live.jobs import START_SECONDS, Job
from tests.system.live.launchers import Command, Plan
from tests.system.live.truths import PROGRAMS, REPOSITORY

RANKS_PER_NODE = 2
WORLD = RANKS_PER_NODE * len(NODES)
LAST_CALL_SECONDS = 3


class Start(NamedTuple):
    """One command of a node, without the program, the variables that it gets, and how many ranks it forks."""

    arguments: tuple[str, ...]
    variables: Mapping[str, str]
    ranks: int = 0


@dataclass(frozen=True)
class NodeCommand(Command):
    """A command of a node: beside whom it runs there, and how many ranks it forks."""

    beside: int
    ranks: int


Launch = Callable[[str, str], Iterable[Start]]
"""How a job starts on a node: (node, the job's name) -> commands."""


def ranks_of(node: str) -> frozenset[int]:
    """Return the global ranks of a node."""
    first = RANKS_PER_NODE * NODES.index(node)
    return frozenset(range(first, first + RANKS_PER_NODE))


def one_rendezvous(port: int, *, executing: Iterable[str] = ()) -> Launch:
    """Return how torchrun starts one job of all nodes, which meets at the first; some nodes execute their ranks."""

    def launch(node: str, name: str) -> Iterator[Start]:
        whole = ("--nnodes", str(len(NODES)), "--node-rank", str(NODES.index(node)))
        place = ("--master-addr", NODES[0], "--master-port", str(port))
        yield _torchrun(node, name, *whole, *place, forking=node not in executing)

    return launch


def two_rendezvous(port: int) -> Launch:
    """Return how torchrun starts an elastic job whose last node is given itself as the place to meet at."""

    def launch(node: str, name: str) -> Iterator[Start]:
        alone = node == NODES[-1]
        few = 1 if alone else len(NODES) - 1
        place = ("--rdzv-backend", "c10d", "--rdzv-endpoint", f"{node if alone else NODES[0]}:{port}")
        conf = ("--rdzv-conf", f"last_call_timeout={LAST_CALL_SECONDS}")
        yield _torchrun(node, name, "--nnodes", f"{few}:{len(NODES)}", *place, *conf, forking=True)

    return launch


def two_masters(port: int) -> Launch:
    """Return how a script of one's own starts ranks, and gives the last node itself as the master."""

    def launch(node: str, _: str) -> Iterator[Start]:
        master = node if node == NODES[-1] else NODES[0]
        meeting = {"MASTER_ADDR": master, "MASTER_PORT": str(port), "WORLD_SIZE": str(WORLD)}
        for local_rank, rank in enumerate(sorted(ranks_of(node))):
            own = {"RANK": rank, "LOCAL_RANK": local_rank, "LOCAL_WORLD_SIZE": RANKS_PER_NODE}
            yield Start((), {**meeting, **{key: str(value) for key, value in own.items()}})

    return launch


def _torchrun(node: str, name: str, *options: str, forking: bool) -> Start:
    command = ("-m", "torch.distributed.run", "--nproc-per-node", str(RANKS_PER_NODE))
    ranks = RANKS_PER_NODE if forking else 0
    return Start((*command, "--rdzv-id", name, "--local-addr", node, *options), {}, ranks)


class ClusterJob(Job):
    """A program of tests/programs, or another `script`, on all nodes of a cluster, with the probe."""

    def __init__(
        self,
        program: str,
        cluster: Cluster,
        *,
        directory: Path,
        name: str,
        launch: Launch,
        script: Path | None = None,
        environment: Mapping[str, str] | None = None,
        on: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        """`on` are variables of one node, the others are everybody's."""
        super().__init__(
            program, directory=directory, ranks=WORLD, launch="torchrun", name=name, probe=True, forked=True
        )
        self._expected_lines = WORLD
        self._cluster = cluster
        self._script = script or PROGRAMS / f"{program}.py"
        commands = [
            self._command(
                node, start, {"GLOO_SOCKET_IFNAME": "eth0", **(environment or {}), **(on or {}).get(node, {})}
            )
            for node in NODES
            for start in launch(node, name)
        ]
        self.plan = Plan(name, tuple(commands))

    @property
    def ranks(self) -> dict[int, int]:
        """Process ids by rank, by our count: the ranks know themselves by those of their hosts."""
        found = {}
        for pid in sorted(self.processes()):
            with suppress(OSError):
                entries = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                found.update({int(entry[5:]): pid for entry in entries if entry.startswith(b"RANK=")})
        return found

    def wait_until_still(self) -> None:
        """Wait until no rank runs any more."""
        self._wait_until_still(time.monotonic() + START_SECONDS)

    def signal(self, ranks: Iterable[int], number: int) -> None:
        """Send a signal to some ranks."""
        pids = self.ranks
        for rank in ranks:
            os.kill(pids[rank], number)

    def _command(self, node: str, start: Start, variables: Mapping[str, str]) -> NodeCommand:
        """Let a node have folders of its own where hosts have them: numbers of processes are unique on a host alone."""
        private = self.directory / node
        private.mkdir(exist_ok=True)
        own = {"TMPDIR": str(private), "UNHANG_PROBE_DIR": str(private / "unhang")}
        arguments = (sys.executable, *start.arguments, str(self._script))
        beside = self._cluster.host(node).pid
        return NodeCommand(arguments, {**own, **start.variables, **variables}, beside, start.ranks)

    def _fork(self, command: Command, environment: Mapping[str, str], output: int) -> Forked:
        assert isinstance(command, NodeCommand)
        return fork_server().start(
            command.arguments,
            environment=environment,
            directory=REPOSITORY,
            output=output,
            ranks=command.ranks,
            beside=command.beside,
        )
