"""How workers share the tests: whole files, what shares more than a file together, and what is timed first.

Tests that are `steady` fail where the machine pauses for seconds, and spend most of their time waiting. So they run
beside the others, from the start, on at most two workers (`LANES`), one after the other on each; all other workers step
back behind these in the kernel's queue. The two help with the rest when they have no more of them, and one of them has
in the end what must be alone.
"""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

LANES = 2
"""Workers for what is steady: one has a cluster of hosts for as long as the other takes for all the rest."""

TOGETHER = ("tests/system/e2e", "tests/unit/agent", "tests/system/packaging")
"""What one worker takes as a whole: a cluster or a wheel that all tests share, and ranks of the same names."""

ONE_BY_ONE = ("tests/system/live/", "tests/system/attacks/test_memory.py::")
"""What workers take test by test: each takes long, and has no fixtures to share."""

LAST = "tests/system/frameworks/"
"""An agent that has just started searches every process with PyTorch, other tests' too: in the end there are none."""

_STEADY = "@steady"
"""Ends the names of units of such tests."""

_BEHIND = 5
"""By how much workers are nicer to the rest of the machine than those who have what is steady."""


class Sharing(LoadFileScheduling):
    """Gives what is steady to the first workers, and to these alone."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        self._steady: frozenset[str] = frozenset()

    def schedule(self) -> None:
        """Begin, with what the workers have written down."""
        if self.collection is None:
            written = _list_of(next(iter(self.registered_collections)).workerinput)
            self._steady = frozenset(json.loads(written.read_text()))
            written.unlink()
        super().schedule()

    def _split_scope(self, nodeid: str) -> str:
        steady = nodeid in self._steady
        if nodeid.startswith(ONE_BY_ONE) and not steady:
            return nodeid
        whole = (folder for folder in TOGETHER if nodeid.startswith(f"{folder}/"))
        scope: str = next(whole, super()._split_scope(nodeid))
        return f"{scope}{_STEADY}" if steady else scope

    def _assign_work_unit(self, node: WorkerController) -> None:
        quick, steady, last = list[str](), list[str](), list[str]()
        for scope in self.workqueue:
            (last if scope.startswith(LAST) else steady if scope.endswith(_STEADY) else quick).append(scope)
        mine = steady or quick or last if node in self.nodes[:LANES] else quick
        if not mine:
            node.shutdown()
            return
        self.workqueue.move_to_end(mine[0], last=False)
        super()._assign_work_unit(node)


def prepare(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Have a worker begin with what takes longest and cannot be divided, and write down what is steady."""
    given: dict[str, str] | None = getattr(config, "workerinput", None)
    if given is None:
        return
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: _turn(item, item.path in slow))
    draft = _list_of(given).with_suffix(f".{given['workerid']}")
    draft.write_text(json.dumps([item.nodeid for item in items if item.get_closest_marker("steady")]))
    draft.replace(_list_of(given))


def step_back(item: pytest.Item) -> None:
    """Let a worker that has come to what is not steady stay behind those that have not, with all that it starts."""
    steady = item.get_closest_marker("steady") is not None
    if hasattr(item.config, "workerinput") and not steady and not os.nice(0):
        os.nice(_BEHIND)


def _list_of(given: dict[str, str]) -> Path:
    """Where workers of a run write the ids of what is steady, all the same; the scheduler sees nothing but ids."""
    return Path(tempfile.gettempdir()) / f"unhang-steady-{given['testrunuid']}"


def _turn(item: pytest.Item, in_slow_file: bool) -> int:
    """Folders; files with slow tests; what goes one by one; other files with real jobs; all the rest."""
    if item.nodeid.startswith(ONE_BY_ONE):
        return len(TOGETHER) + 1
    if in_slow_file and not item.nodeid.startswith(TOGETHER):
        return len(TOGETHER)
    turns = (turn for turn, folder in enumerate(TOGETHER) if item.nodeid.startswith(f"{folder}/"))
    return next(turns, len(TOGETHER) + 2 + (item.get_closest_marker("live") is None))
