"""What is told of a node as a whole: kernel log, GPUs and network ports, asked while its ranks are looked at."""

import threading
from collections.abc import Callable, Iterable
from typing import NamedTuple

from agent.deadline import Deadline, Late, ThreadPool
from agent.errors import missing_for
from agent.sources.kernel_log import KernelLog
from shared.missing import Missing
from shared.wire.devices import Gpus, Ports
from shared.wire.kernel_events import KernelEvents

NodeFact = KernelEvents | Gpus | Ports

Told = dict[str, NodeFact | Missing]
"""Fields of a NodeSnapshot."""


class Surroundings(NamedTuple):
    """Asks each source of the node under a deadline; one that hangs costs its own Missing and is not asked again."""

    pool: ThreadPool
    kernel_log: KernelLog
    read_gpus: Callable[[Deadline], Gpus]
    read_ports: Callable[[], Ports]
    seconds: float = 3.5

    def begin(self, deadline: Deadline) -> "NodeQuestions":
        """Begin to ask; the answer is waited for in `NodeQuestions.told`."""
        limit = deadline.at_most(self.seconds)
        tasks: dict[str, Callable[[], NodeFact]] = {
            "kernel_events": lambda: self.kernel_log.read(limit),
            "gpus": lambda: self.read_gpus(limit),
            "ports": self.read_ports,
        }
        return NodeQuestions(tasks, lambda: self.pool.run(tasks, limit, owner="surroundings"))


class NodeQuestions(threading.Thread):
    """Questions about the node that are under way."""

    def __init__(self, names: Iterable[str], ask: Callable[[], dict[str, NodeFact | Exception]]) -> None:
        super().__init__(name="surroundings", daemon=True)
        self._ask = ask
        self._outcomes: dict[str, NodeFact | Exception] = {name: Late() for name in names}
        self.start()

    def run(self) -> None:
        self._outcomes |= self._ask()

    def told(self) -> Told:
        """Return what each source gave, or why it gave nothing."""
        self.join()  # the pool comes back by the deadline, whatever becomes of its tasks
        told = self._outcomes.items()
        return {name: missing_for(name, each) if isinstance(each, Exception) else each for name, each in told}
