"""Log lines beside what is seen now: agreement, contradiction, and lines of an earlier time."""

from typing import Any

import pytest

from collector.align.expected import Expected
from collector.judge.verdict import diagnose
from shared.answer.words import Certainty, Kind, Verdict
from shared.wire.log_events import LogFile, Logs
from shared.wire.snapshot import NodeSnapshot
from tests.build.jobs.logged import caught, logs_of, signal, status
from tests.build.jobs.simulated import USER, WORLD, Collective, Job, Seen, Stay, live_looks

BARRIER = "RuntimeError: [Rank 0]: Ranks {} failed to pass monitoredBarrier in 30000 ms"
OUTSIDE = Seen(frames=(USER,))


def job(root: int = 2) -> Job:
    steps: dict[int, list[Any]] = {rank: [Collective(WORLD)] * 4 for rank in range(4)}
    steps[root] = [Collective(WORLD), Stay()]
    return Job(steps)


def logging(
    looks: list[NodeSnapshot],
    said: dict[int, list[str]],
    *,
    at: float | None = None,
    written: float | None = None,
    **identity: Any,
) -> list[NodeSnapshot]:
    """The looks, with what ranks have logged; `at`: when, in Unix seconds."""

    def of(rank: int) -> Logs:
        logs = logs_of(said.get(rank, []), rank=rank, path=f"rank{rank}.log")
        return Logs(
            files=tuple(LogFile(path=f.path, lines=f.lines, modified_at=written) for f in logs.files),
            events=tuple(event.model_copy(update={"at": at}) for event in logs.events),
        )

    return [
        look.model_copy(
            update={
                "ranks": tuple(
                    r.model_copy(
                        update={"logs": of(r.identity.rank), "identity": r.identity.model_copy(update=identity)}
                    )
                    for r in look.ranks
                )
            }
        )
        for look in looks
    ]


def bare_looks(root: int, seen: Seen, **how: Any) -> list[NodeSnapshot]:
    """Looks without a recorder, far enough apart for a hang."""
    return live_looks(
        job(root), {r: seen if r == root else Seen() for r in range(4)}, recorder=False, interval_seconds=70.0, **how
    )


def test_stack_and_log_are_two_grounds() -> None:
    looks = logging(bare_looks(2, OUTSIDE), {0: [BARRIER.format("2")], 1: [], 3: []})
    (finding,) = diagnose(looks, Expected()).findings
    assert (finding.kind, finding.culprit_ranks, finding.certainty) == (
        Kind.RANK_NOT_JOINED,
        (2,),
        Certainty.SUPPORTED,
    )
    assert any(evidence.kind == "log" for evidence in finding.evidence)


def test_a_rank_that_is_seen_waiting_has_joined() -> None:
    looks = logging(bare_looks(2, Seen()), {0: [BARRIER.format("2")]})
    told = diagnose(looks, Expected())
    assert all(not finding.culprits for finding in told.findings)


def test_a_moving_job_is_not_hung_by_old_lines() -> None:
    looks = live_looks(job(), {r: Seen() for r in range(4)}, looks=1) + live_looks(
        Job({r: [Collective(WORLD)] * 9 for r in range(4)}), {r: Seen() for r in range(4)}, looks=1, after_seconds=0.1
    )
    said = {r: [caught(r, 12), status(r, 12, 12)] for r in (0, 1, 3)} | {2: [signal(2, 0, 11)]}
    told = diagnose(logging(looks, said), Expected())
    assert told.verdict is Verdict.NOT_HUNG
    assert told.conflicts == ()


@pytest.mark.parametrize(
    ("at", "written", "identity", "counts"),
    [
        (1000.0, 1001.0, {"started_at": 900.0}, True),
        (1000.0, 1001.0, {"started_at": 1100.0}, False),
        (1000.0, 9000.0, {"started_at": 900.0}, False),
        (None, 1001.0, {"started_at": 900.0}, True),
        (None, 1001.0, {"started_at": 900.0, "attempt": 1}, False),
    ],
    ids=["fresh", "before the process began", "survived for hours", "undated", "undated, after a restart"],
)
def test_a_line_counts_in_its_time(at: float | None, written: float, identity: dict[str, Any], counts: bool) -> None:
    """Rank 1's stack is as free as rank 2's: without the line both are outside."""
    looks = live_looks(job(2), {0: Seen(), 1: Seen(), 2: OUTSIDE, 3: Seen()}, recorder=False, interval_seconds=70.0)
    told = diagnose(logging(looks, {0: [BARRIER.format("2")]}, at=at, written=written, **identity), Expected())
    logged = [e for finding in told.findings for e in finding.evidence if e.kind == "log"]
    assert [finding.culprit_ranks for finding in told.findings] == [(2,)]
    assert bool(logged) is counts


def test_the_recorder_stands_and_logs_that_agree_are_ground() -> None:
    looks = logging(live_looks(job(), {r: OUTSIDE if r == 2 else Seen() for r in range(4)}), {0: [BARRIER.format("2")]})
    told = diagnose(looks, Expected())
    (finding,) = told.findings
    assert (finding.culprit_ranks, finding.certainty) == ((2,), Certainty.PROVEN)
    assert any(evidence.kind == "log" for evidence in finding.evidence)
    assert told.conflicts == ()


def test_logs_that_name_another_are_told_as_a_conflict() -> None:
    seen = {r: OUTSIDE if r in (1, 2) else Seen() for r in range(4)}
    looks = logging(live_looks(job(), seen), {0: [BARRIER.format("1")]})
    told = diagnose(looks, Expected())
    assert [finding.culprit_ranks for finding in told.findings] == [(2,)]
    (conflict,) = told.conflicts
    assert "rank 1 did not reach" in conflict.text
    assert "names rank 2" in conflict.text


def test_what_process_states_prove_stands_and_the_log_is_ground() -> None:
    looks = bare_looks(2, Seen(state="T"))
    (finding,) = diagnose(logging(looks, {0: [BARRIER.format("2")]}), Expected()).findings
    assert (finding.kind, finding.certainty) == (Kind.RANK_STOPPED, Certainty.PROVEN)
    assert any(evidence.kind == "log" for evidence in finding.evidence)


def test_who_is_seen_outside_now_goes_before_who_is_named_by_a_log() -> None:
    """And the log's word is told as a conflict."""
    told = diagnose(logging(bare_looks(2, OUTSIDE), {0: [BARRIER.format("3")]}), Expected())
    assert 3 not in {rank for finding in told.findings for rank in finding.culprit_ranks}


def test_of_a_job_that_is_gone_the_log_goes_before_the_stacks() -> None:
    """Files alone: whose stacks were taken when is not known, and what they say is told as well."""
    looks = [
        look.model_copy(
            update={"live": False, "ranks": tuple(r.model_copy(update={"looked_at_ns": None}) for r in look.ranks)}
        )
        for look in bare_looks(2, OUTSIDE)[:1]
    ]
    (finding,) = diagnose(
        logging(
            looks, {0: [caught(0, 12), status(0, 12, 12)], 1: [caught(1, 12), status(1, 12, 12)], 2: [signal(2, 0, 11)]}
        ),
        Expected(),
    ).findings
    assert (finding.culprit_ranks, finding.certainty) == ((2,), Certainty.SUPPORTED)
