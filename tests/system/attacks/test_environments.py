"""Ranks and world sizes that no job has, in real environments and from agents: reported, never counted up to."""

import time

import pytest

from agent.find.choose_ranks import discover
from agent.find.launchers import mistaken
from agent.find.processes import Lister
from agent.proc.procfs import ProcFs
from collector.align.expected import Expected
from collector.judge.verdict import diagnose
from shared.missing import Missing, Reason
from shared.wire.snapshot import Identity, NodeSnapshot, RankSnapshot
from tests.build.processes.processes import SLEEP, running

NOTHING = Missing(source="x", reason=Reason.NOT_FOUND, detail="")


@pytest.mark.parametrize(
    "wrong",
    [
        {"RANK": "0x1"},
        {"RANK": "٣"},
        {"RANK": "-3"},
        {"RANK": "1_0"},
        {"RANK": "9" * 400},
        {"RANK": "1", "WORLD_SIZE": "1000000000"},
    ],
    ids=str,
)
def test_what_is_no_number_is_reported(wrong: dict[str, str]) -> None:
    """A real process with such an environment: it is no rank, or its world size is not known, and that is said."""
    procfs = ProcFs()
    with running(env={"TORCHELASTIC_RUN_ID": "odd", "WORLD_SIZE": "4", **wrong}, program=SLEEP) as process:
        lister = Lister(procfs)
        found = discover(lister.listing(), lister, procfs, "node")
    told = [each.detail for each in found.missing if f"pid {process.pid}:" in each.detail]
    assert len(told) == 1
    assert next(reversed(wrong)) + "=" in told[0]
    assert len(told[0]) < 1000
    ranks = [rank.identity for rank in found.ranks if rank.identity.pid == process.pid]
    assert [(each.rank, each.world_size) for each in ranks] == ([(1, None)] if "WORLD_SIZE" in wrong else [])


@pytest.mark.parametrize(
    "right",
    [{}, {"RANK": "gold"}, {"RANK": "0", "WORLD_SIZE": "1"}, {"RANK": "1", "MASTER_ADDR": "n"}, {"WORLD_SIZE": ""}],
    ids=str,
)
def test_what_is_no_mistake(right: dict[str, str]) -> None:
    """RANK alone is no launcher's, and a launcher that gives no rank starts some."""
    assert mistaken(right) is None


def seen(size: int | None, *ranks: int) -> list[NodeSnapshot]:
    """Two looks at these ranks, which claim that size."""
    return [NodeSnapshot(host="n", taken_at_ns=at, ranks=tuple(_rank(r, size, at) for r in ranks)) for at in (10, 20)]


def _rank(rank: int, size: int | None, at_ns: int) -> RankSnapshot:
    identity = Identity(job="j", rank=rank, world_size=size, host="n", pid=100 + abs(rank) % 1000, started_at=1.0)
    parts = dict.fromkeys(("process", "stacks", "fds", "logs", "recorder"), NOTHING)
    return RankSnapshot(identity=identity, looked_at_ns=at_ns, **parts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("size", "ranks", "expected", "counted", "words"),
    [
        (4, (0, 1, 2, 9_999_999), 4, 3, "these rank numbers are implausible: rank 9999999 by pid"),
        (4, (0, 1, 2, -1), 4, 3, "these rank numbers are implausible: rank -1 by pid"),
        (4, (0, 1, 2, 10**30), 4, 3, "a number of 100 bits"),
        (9_999_999, (0, 1), None, 2, "ignored a world size above 131072: ranks 0-1 say 9999999"),
        (10**4000, (0, 1), None, 2, "ignored a world size above 131072"),
    ],
    ids=["rank", "negative", "huge rank", "world", "huge world"],
)
def test_what_no_job_has_is_reported(
    size: int, ranks: tuple[int, ...], expected: int | None, counted: int, words: str
) -> None:
    """Whatever an agent sends, the verdict says what it did not believe."""
    found = diagnose(seen(size, *ranks), Expected(job="j"))
    assert (found.coverage.expected, found.coverage.seen) == (expected, counted)
    assert any(words in conflict.text for conflict in found.conflicts)
    assert len(found.model_dump_json()) < 5000


@pytest.mark.parametrize(("size", "missing"), [(4, "3"), (None, None)])
def test_a_rank_far_beyond_makes_the_job_no_larger(size: int | None, missing: str | None) -> None:
    """It is there, and those between it and the others are nobody's loss."""
    began = time.process_time()
    found = diagnose(seen(size, 0, 1, 2, 131_071), Expected(job="j"))
    assert time.process_time() - began < 2
    absent = [gap.ranks for gap in found.coverage.missing if gap.missing.source == "rank"]
    assert absent == ([] if missing is None else [missing])
