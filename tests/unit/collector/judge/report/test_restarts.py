"""After a restart: that it was one, and what the attempt before died of, by lines as torchrun writes them."""

from collections.abc import Sequence

from collector.align.expected import Expected
from collector.judge.verdict import diagnose
from shared.answer.diagnosis import Diagnosis
from shared.formats.logs.parse import find_events
from shared.wire.log_events import Logs
from shared.wire.snapshot import NodeSnapshot
from shared.wire.stacks import Frame
from tests.build.jobs.four_ranks import RANKS
from tests.build.jobs.simulated import Job, Seen, Stay, live_looks

C10D = "/env/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
STARTING = Seen((Frame("main", "/home/ada/train.py", 3), Frame("init_process_group", C10D, 1899)))
API = "E1122 15:02:56.688000 11759 torch/distributed/elastic/multiprocessing/api.py:1002]"
DIED = f"{API} failed (exitcode: 1) local_rank: 1 (pid: 4712) of binary: /usr/bin/python3"
SAID = "[rank1]: RuntimeError: loss is NaN"


def started_again(attempt: int, lines: Sequence[str], *, apart: float = 70.0) -> Diagnosis:
    """All four ranks in rendezvous, in an attempt, with a log that all of them write."""
    events = find_events(list(lines), path="/logs/job.out", rank=None)
    looks = live_looks(
        Job({rank: [Stay()] for rank in RANKS}), dict.fromkeys(RANKS, STARTING), world_size=4, interval_seconds=apart
    )
    return diagnose([_of_attempt(look, attempt, Logs(events=events)) for look in looks], Expected())


def _of_attempt(look: NodeSnapshot, attempt: int, logs: Logs) -> NodeSnapshot:
    ranks = tuple(
        rank.model_copy(
            update={"identity": rank.identity.model_copy(update={"attempt": attempt, "started_at": 1.0}), "logs": logs}
        )
        for rank in look.ranks
    )
    return look.model_copy(update={"ranks": ranks})


def test_the_restart_and_the_death_before_it_are_told() -> None:
    """And that all ranks are there: nobody is looked for."""
    (finding,) = started_again(1, [SAID, DIED]).findings
    assert finding.summary == (
        "the job does not start: ranks 0-3 wait in rendezvous, though all ranks of the job are there"
    )
    assert finding.remarks[-1] == (
        "this is attempt 2 of the job, after 1 restart; before, local rank 1 (pid 4712) exited with code 1: " + SAID
    )
    assert DIED in [each.line for each in finding.evidence if each.kind == "log"]
    assert not finding.culprits


def test_without_lines_the_restart_alone_is_told() -> None:
    """Of a log that nobody can read nothing is made up."""
    (finding,) = started_again(2, []).findings
    assert finding.remarks[-1] == "this is attempt 3 of the job, after 2 restarts"


def test_in_the_first_attempt_nothing_is_told() -> None:
    """Another job's line may stand in the same file."""
    (finding,) = started_again(0, [SAID, DIED]).findings
    assert not any("attempt" in remark for remark in finding.remarks)


def test_it_is_told_before_the_verdict_too() -> None:
    """While it may be a slow start."""
    answer = started_again(1, [SAID, DIED], apart=3.0)
    told = answer.headline + "".join(each for finding in answer.findings for each in finding.remarks)
    assert "this is attempt 2 of the job" in told
