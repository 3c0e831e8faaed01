"""This process's place among the nodes, by the variables of the user's launcher."""

import socket
from collections.abc import Mapping
from dataclasses import dataclass

from agent.find.launchers import identify, number
from collector.hostlists import parse_host_names
from shared.errors import InvalidInput, InvalidSettings

DEFAULT_PORT = 8473
MOST_NODES = 16_384

_ADVICE = (
    "start it with torchrun, srun, mpirun or an indexed Kubernetes Job, name hosts with --ssh --hosts, "
    "or pass --node, --nodes and --coordinator"
)


@dataclass(frozen=True)
class NodePlace:
    """Which of how many nodes this is, and where the first one coordinates."""

    node: int
    nodes: int
    host: str
    port: int
    spare: bool = False
    """Another process of the same node takes part: this one has nothing to do."""

    @property
    def coordinates(self) -> bool:
        """Does the coordinator run here?"""
        return self.node == 0


@dataclass(frozen=True)
class Said:
    """What stood on the command line. None: the launcher says it."""

    node: int | None = None
    nodes: int | None = None
    coordinator: str | None = None


def find_place(environment: Mapping[str, str], said: Said) -> NodePlace:
    """Return the place of this process; alone, where no launcher is seen. Raises InvalidSettings."""
    rank, ranks, local_rank, per_node = _of_launcher(dict(environment))
    node = said.node if said.node is not None else None if rank is None else rank // per_node
    nodes = said.nodes if said.nodes is not None else None if ranks is None else max(1, ranks // per_node)
    if node is None and nodes is None and said.coordinator is None:
        return NodePlace(0, 1, "localhost", 0)
    if node is None or nodes is None:
        missing = "--node" if node is None else "--nodes"
        raise InvalidSettings(f"which node this is, or how many there are, is not known: {missing}", advice=_ADVICE)
    if not 0 <= node < nodes <= MOST_NODES:
        raise InvalidSettings(f"node {node} of {nodes} cannot be", advice="nodes count from 0")
    host, port = _coordinator(environment, said.coordinator, alone=nodes == 1)
    return NodePlace(node, nodes, host, port, spare=said.node is None and (local_rank or 0) > 0)


def _of_launcher(environment: dict[str, str]) -> tuple[int | None, int | None, int | None, int]:
    """Return rank, ranks, local rank and ranks of each node."""
    index = number(environment, "JOB_COMPLETION_INDEX")
    identity = identify(environment)
    if identity is None:
        return index, None, 0, 1
    ranks, per_node = identity.world_size, identity.local_world_size
    nodes = number(environment, "SLURM_STEP_NUM_NODES") or number(environment, "SLURM_NNODES")
    if identity.launcher == "slurm":
        node = number(environment, "SLURM_NODEID")
        if node is not None and nodes is not None:
            return node, nodes, identity.local_rank, 1
    return identity.rank, ranks, identity.local_rank, per_node or 1


def _coordinator(environment: Mapping[str, str], said: str | None, *, alone: bool) -> tuple[str, int]:
    if said is not None:
        host, _, port = said.rpartition(":") if ":" in said else (said, "", str(DEFAULT_PORT))
        if not host or not port.isascii() or not port.isdecimal() or not 0 < int(port) < 65_536:
            raise InvalidSettings(f"--coordinator {said!r} is not HOST:PORT", advice="for example node01:8473")
        return host.strip("[]"), int(port)
    if environment.get("MASTER_ADDR"):
        return environment["MASTER_ADDR"], DEFAULT_PORT
    hosts = environment.get("SLURM_STEP_NODELIST") or environment.get("SLURM_JOB_NODELIST")
    if hosts:
        try:
            return parse_host_names(hosts)[0], DEFAULT_PORT
        except (InvalidInput, IndexError) as error:
            raise InvalidSettings(f"Slurm's list of nodes cannot be read: {error}") from error
    if alone:
        return socket.gethostname(), 0
    raise InvalidSettings(
        "the first node's address is not known", advice="set MASTER_ADDR, or pass --coordinator HOST:PORT"
    )
