"""What is told of a node as a whole: kernel log, GPUs and network ports, asked while its ranks are looked at."""

import threading
from collections.abc import Callable, Mapping

from agent.deadline import Deadline, Late, ThreadPool
from agent.errors import missing_for
from agent.sources.kernel_log import KernelLog
from shared.missing import Missing
from shared.wire.devices import Gpus, Ports
from shared.wire.kernel_events import KernelEvents

NodeFact = KernelEvents | Gpus | Ports

Told = dict[str, NodeFact | Missing]
"""Fields of a NodeSnapshot."""


class Surroundings:
    """Asks each source of the node under a deadline; one that hangs costs its own Missing and is not asked again."""

    def __init__(
        self,
        pool: ThreadPool,
        kernel_log: KernelLog,
        read_gpus: Callable[[Deadline], Gpus],
        read_ports: Callable[[], Ports],
        seconds: float = 3.5,
    ) -> None:
        self._pool = pool
        self._kernel_log = kernel_log
        self._read_gpus = read_gpus
        self._read_ports = read_ports
        self._seconds = seconds

    def begin(self, deadline: Deadline) -> "NodeQuestions":
        """Begin to ask; the answer is waited for in `Asking.told`."""
        limit = deadline.at_most(self._seconds)
        tasks: dict[str, Callable[[], NodeFact]] = {
            "kernel_events": lambda: self._kernel_log.read(limit),
            "gpus": lambda: self._read_gpus(limit),
            "ports": self._read_ports,
        }
        return NodeQuestions(self._pool, tasks, limit)

    def close(self) -> None:
        """Let go of the kernel log; the next question opens it anew."""
        self._kernel_log.close()


class NodeQuestions:
    """Questions about the node that are under way."""

    def __init__(self, pool: ThreadPool, tasks: Mapping[str, Callable[[], NodeFact]], deadline: Deadline) -> None:
        self._pool = pool
        self._tasks = tasks
        self._deadline = deadline
        self._outcomes: dict[str, NodeFact | Exception] = {}
        self._thread = threading.Thread(target=self._ask, name="surroundings", daemon=True)
        self._thread.start()

    def _ask(self) -> None:
        self._outcomes = self._pool.run(self._tasks, self._deadline, owner="surroundings")

    def told(self) -> Told:
        """Return what each source gave, or why it gave nothing."""
        self._thread.join()  # the pool comes back by the deadline, whatever becomes of its tasks
        outcomes = {name: self._outcomes.get(name, Late()) for name in self._tasks}
        return {
            name: missing_for(name, outcome) if isinstance(outcome, Exception) else outcome
            for name, outcome in outcomes.items()
        }
