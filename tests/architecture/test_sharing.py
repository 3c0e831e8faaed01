"""Workers get each test once: what is steady on two of them from the start, and what must be alone in the end."""

import json
import tempfile
import uuid
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.sharing import LANES, LAST, Sharing

STEADY = [f"tests/system/e2e/test_{n}.py::test_{m}" for n in range(2) for m in range(3)] + [
    "tests/system/live/test_verdicts.py::test_moves[a]",
    "tests/unit/collector/test_slots.py::test_timed",
]
ALONE = [f"{LAST}test_launchers.py::test_{n}" for n in range(3)]
OTHERS = [f"tests/unit/test_{n}.py::test_{m}" for n in range(8) for m in range(4)] + [
    "tests/system/live/test_verdicts.py::test_hangs[a]",
    "tests/unit/collector/test_slots.py::test_not_timed",
]


class Worker:
    """Runs what it is sent, one each time it is asked to."""

    def __init__(self, run: str) -> None:
        self.workerinput = {"testrunuid": run}
        self.gateway = SimpleNamespace(id="gw")
        self.waiting: list[int] = []
        self.shutting_down = False

    def send_runtest_some(self, numbers: Sequence[int]) -> None:
        """Take tests, by their numbers."""
        assert not self.shutting_down
        self.waiting += numbers

    def shutdown(self) -> None:
        """Take no more."""
        self.shutting_down = True


def shared(workers: int, nodeids: Sequence[str], steady: Sequence[str]) -> list[tuple[int, str]]:
    """Let so many workers run tests at the same pace; return who ran which, in the order in which they did."""
    run = uuid.uuid4().hex
    (Path(tempfile.gettempdir()) / f"unhang-steady-{run}").write_text(json.dumps(steady))
    options: dict[str, Any] = {"tx": ["popen"] * workers, "loadscopereorder": False}
    config: Any = SimpleNamespace(option=SimpleNamespace(**options), getvalue=options.get)
    sharing, nodes = Sharing(config, None), [Worker(run) for _ in range(workers)]
    for node in nodes:
        sharing.add_node(node)  # type: ignore[arg-type]
        sharing.add_node_collection(node, nodeids)  # type: ignore[arg-type]
    sharing.schedule()
    ran: list[tuple[int, str]] = []
    while any(node.waiting for node in nodes):
        for number, node in enumerate(nodes):
            if node.waiting:
                test = node.waiting.pop(0)
                ran.append((number, nodeids[test]))
                sharing.mark_test_complete(node, test)  # type: ignore[arg-type]
    assert all(node.shutting_down for node in nodes) and not sharing.has_pending
    return ran


@pytest.mark.parametrize("workers", [1, 2, 3, 5, 40])
@pytest.mark.parametrize("others", [OTHERS, []], ids=["all", "steady alone"])
def test_each_test_is_run_once_and_where_it_belongs(workers: int, others: list[str]) -> None:
    """Also with one worker, and with more than there is to do."""
    nodeids = [*others[:5], *STEADY, *ALONE, *others[5:]]
    ran = shared(workers, nodeids, [*STEADY, *ALONE])
    assert sorted(nodeid for _, nodeid in ran) == sorted(nodeids)
    timed = [(worker, nodeid) for worker, nodeid in ran if nodeid in STEADY]
    assert len({worker for worker, _ in timed}) <= LANES
    assert len({worker for worker, nodeid in ran if nodeid in ALONE}) == 1
    assert len({worker for worker, nodeid in timed if "/e2e/" in nodeid}) == 1
    for worker in range(workers):
        mine = [nodeid for number, nodeid in ran if number == worker]
        ranks = [0 if nodeid in STEADY else 2 if nodeid in ALONE else 1 for nodeid in mine]
        assert ranks == sorted(ranks), mine
