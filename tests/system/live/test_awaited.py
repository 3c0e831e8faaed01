"""Ranks that wait for something in their own process: what for is told; a hang only where nobody is left to end it."""

from pathlib import Path

import pytest

from tests.system.live.asking import diagnosed
from tests.system.live.jobs import Job
from tests.system.live.test_verdicts import assert_right
from tests.system.live.truths import Truth

pytestmark = [pytest.mark.live, pytest.mark.ptrace]

CASES = {
    "producer_died": "waiting in Queue.get() of an empty queue (its thread 'Thread-1 (produce)' has ended, and no",
    "rollout_never_filled": "for rank 2, which is waiting in Queue.get() of an empty queue (task '",
    "requests_by_thread": "in broadcast #4, and it is waiting in Queue.get() of an empty queue at serve (",
}
"""What the headline says, by program: a dead producer hangs its rank, an idle server and a rollout may be idle."""


@pytest.mark.parametrize("program", CASES)
def test_what_is_awaited_is_told(program: str, container: int, tmp_path: Path) -> None:
    """Named by the call, by how much the queue holds, and by the user's line, that of a coroutine as well."""
    with Job(program, directory=tmp_path, recorded=True, forked=True, beside=container) as job:
        reply = diagnosed(job)
    assert_right(Truth.of(program, "memory"), reply)
    assert CASES[program] in reply.answer["headline"]
