"""Ranks that pass different roots to one operation: no recorder tells, the variables of who is in the call do."""

from pathlib import Path

import pytest

from tests.system.live.asking import diagnosed
from tests.system.live.jobs import Job
from tests.system.live.test_verdicts import assert_right
from tests.system.live.truths import Truth

pytestmark = [pytest.mark.live, pytest.mark.ptrace]

PROGRAM = "takes_another_source"


def test_the_one_with_another_root_is_named(container: int, tmp_path: Path) -> None:
    """Three against one: by who passes which root, and where."""
    with Job(PROGRAM, directory=tmp_path, recorded=True, forked=True, beside=container) as job:
        reply = diagnosed(job)
    assert_right(Truth.of(PROGRAM, "memory"), reply)
    assert "rank 2 issued broadcast from rank 0 where ranks 0-1,3 issued broadcast #" in reply.answer["headline"]
    assert reply.answer["headline"].endswith("from rank 2")
    assert "have all ranks pass the same root (src or dst) to broadcast" in reply.answer["action"]["text"]


def test_one_against_one_is_a_tie(container: int, tmp_path: Path) -> None:
    environment = {"FAULTY_RANK": "1"}
    with Job(
        PROGRAM, directory=tmp_path, recorded=True, forked=True, beside=container, ranks=2, environment=environment
    ) as job:
        reply = diagnosed(job)
    (finding,) = reply.answer["findings"]
    assert (finding["kind"], finding["culprits"]) == ("collective_mismatch", [])
    assert "rank 0 (broadcast from rank 1) vs. rank 1 (broadcast from rank 0)" in reply.answer["headline"]
