"""A rank that nobody saw end, on a node whose kernel has killed a process that nobody knew."""

import pytest

from collector.judge.hardware.refine_faults import event_in_words
from shared.answer.diagnosis import KernelEvidence
from shared.answer.words import Cause, Kind
from shared.wire.kernel_events import KernelEvent
from shared.wire.snapshot import NodeSnapshot, Process, RankSnapshot
from tests.build.jobs.four_ranks import TWO_NODES, looks_without
from tests.build.jobs.judged import judged
from tests.build.jobs.placed import event, telling, with_rank


def looks_lacking(*lacking: int, uid: int | None = 7, cgroup: str | None = None) -> list[NodeSnapshot]:
    """Four ranks on two nodes wait in vain for those that lack on the second; all run `python` as one user."""
    made = looks_without({}, absent=lacking, hosts=TWO_NODES)
    for rank in {0, 1, 2, 3} - set(lacking):
        process = Process(pid=1000 + rank, state="S", name="python", uid=uid, memory_cgroup=cgroup)
        made = with_rank(made, rank, process=process)
    return [look.model_copy(update={"ranks": tuple(_local(rank) for rank in look.ranks)}) for look in made]


def _local(rank: RankSnapshot) -> RankSnapshot:
    place = {"local_rank": rank.identity.rank % 2, "local_world_size": 2}
    return rank.model_copy(update={"identity": rank.identity.model_copy(update=place)})


def kill(
    pid: int = 1999, *, name: str = "python", uid: int = 7, at: float = 1000.0, kind: str = "oom_kill"
) -> KernelEvent:
    """A line of the kernel's about the end of a process."""
    return event(kind, pid=pid, name=name, at=at, text=f"Killed process {pid} ({name}) total-vm:9kB, UID:{uid} x")


def evidence(found: list[KernelEvent], *lacking: int, uid: int | None = 7) -> tuple[Cause, int, bool]:
    """The finding's cause, how many of the lines it shows, and whether it says why they are taken for the ranks'."""
    answer = judged(telling(looks_lacking(*lacking, uid=uid), "b", *found))
    (finding,) = answer.findings
    assert finding.culprit_ranks == lacking
    assert finding.kind is Kind.RANK_MISSING
    shown = {evidence.line for evidence in finding.evidence if isinstance(evidence, KernelEvidence)}
    return finding.cause, len(shown), any("assumed to be these ranks" in remark for remark in finding.remarks)


def test_one_lacks_and_one_was_killed() -> None:
    """It is taken for the rank, and said so."""
    assert evidence([kill()], 3) == (Cause.OOM, 1, True)
    assert evidence([kill(kind="crash")], 3) == (Cause.SIGNAL, 1, True)
    assert evidence([kill()], 3, uid=None) == (Cause.OOM, 1, True)


def test_nobody_was_killed() -> None:
    """Then nothing is made up."""
    assert evidence([], 3) == (Cause.UNKNOWN, 0, False)


@pytest.mark.parametrize(
    "other",
    [kill(name="sshd"), kill(uid=8), kill(pid=1002), kill(at=-3600.0)],
    ids=["another program", "another user", "a rank that runs", "before the job"],
)
def test_others_that_were_killed_explain_nothing(other: KernelEvent) -> None:
    """They are no rank of this job."""
    cause, shown, said = evidence([other], 3)
    assert (cause, shown, said) == (Cause.UNKNOWN, 0, False)


def test_more_were_killed_than_lack() -> None:
    """They are shown, and decide nothing."""
    assert evidence([kill(), kill(pid=1998)], 3) == (Cause.UNKNOWN, 2, False)


@pytest.mark.parametrize(
    ("ranks", "killed", "cause"),
    [
        ("/job/step_0", "/job/step_0", Cause.OOM),
        ("/job/step_0/task_0", "/job/step_0/task_1", Cause.OOM),
        ("/job", "/job/step_0/task_1", Cause.OOM),
        (None, "/build", Cause.OOM),
        ("/job/step_0", None, Cause.OOM),
        ("/kubepods.slice/pod1.slice/cri-1.scope", "/kubepods.slice/pod2.slice/cri-2.scope", Cause.OOM),
        ("/job/step_0", "/build", Cause.UNKNOWN),
        ("/job", "/build", Cause.UNKNOWN),
        ("/", "/build", Cause.OOM),
    ],
)
def test_cgroups_that_have_nothing_to_do_with_the_job(ranks: str | None, killed: str | None, cause: Cause) -> None:
    """Whoever was killed in one of these is no rank; that all lie below the root tells nothing."""
    answer = judged(telling(looks_lacking(3, cgroup=ranks), "b", kill().model_copy(update={"cgroup": killed})))
    assert answer.findings[0].cause is cause


def test_numbers_of_the_host_match_nobody() -> None:
    """Where the agent lives in a PID namespace of its own, whoever was killed may be anybody on the host."""
    event = kill().model_copy(update={"pid": None, "host_pid": 1999})
    assert event_in_words(event) == "an OOM-killed process, process 1999 of the host (python)"
    assert evidence([event], 3) == (Cause.UNKNOWN, 0, False)
