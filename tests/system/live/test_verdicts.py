"""Each program hangs for real, and `unhang diagnose` is right about it: verdict, kind, cause, culprits, victims.

These are a fifth of the programs; `python -m tests.system.live.zoo` runs all of them and prints a table.
"""

import json
import os
from pathlib import Path

import pytest

from shared.answer.diagnosis import Diagnosis
from tests.build.jobs.advice_rules import Situation, complaints
from tests.build.processes.memory_groups import memory_group
from tests.system.live.asking import Reply, diagnose, diagnosed, unhang
from tests.system.live.jobs import Job
from tests.system.live.truths import Mode, Truth

pytestmark = [pytest.mark.live, pytest.mark.ptrace]

MODES: tuple[Mode, ...] = ("probe", "bare")

EVERY_DAY: dict[str, str] = {
    "probe bare": "rank_conditional_collective killed_rank",
    "probe": """
        chain_of_victims groups_on_threads new_group_skipped pipeline_stage_never_sends recv_ring two_halves wrong_op
    """,
    "memory": "crossed_groups sibling_pipeline_sends",
    "bare": """
        barrier_against_backward blocked_pipe build_lock_left_behind dataloader_hang debugger_attached
        exception_on_one_rank gil_held hook_on_autograd_thread loop_in_thread stopped_rank uninterruptible
    """,
}
"""A fifth of all programs: each way to hang that no other test has, in the mode in which it is harder to tell. Others
stand below by name, and so does `asleep_before_collective`: by each launcher, with the probe and without, as rank 0 and
as the last one."""

EXECUTED = {
    "stopped_rank": "bare",
    "killed_rank": "probe",
}
"""The modes in which ranks of the programs above are real interpreters; all others are forks (see fork_server.py).

Two of them each: every interpreter imports PyTorch, and other tests have four ranks in this mode, as forks.
"""

ONE_OF_TWO = {"FAULTY_RANK": "1"}

ON_NODE = frozenset({"build_lock_left_behind"})
"""Forks that are in no container: that nobody has a file open can be said of a whole node alone."""

RUNS = [
    pytest.param(
        program,
        mode,
        EXECUTED.get(program) != mode,
        id=f"{program}-{mode}",
        marks=[pytest.mark.steady, pytest.mark.node] if program in ON_NODE else [],
    )
    for modes, programs in EVERY_DAY.items()
    for program in programs.split()
    for mode in modes.split()
]


def assert_right(truth: Truth, reply: Reply) -> None:
    """Fail with all that is wrong, absurd next steps included, and the answer itself."""
    absurd = map(str, complaints(Diagnosis.model_validate(reply.answer), Situation()))
    wrong = [*truth.disagreements(reply.answer, reply.status), *absurd]
    assert not wrong, f"{'; '.join(wrong)}\n{json.dumps(reply.answer, indent=1)}"


def pids_named(reply: Reply) -> set[int]:
    """Return the process ids of all culprits."""
    return {culprit["pid"] for finding in reply.answer["findings"] for culprit in finding["culprits"]}


@pytest.mark.parametrize(("program", "mode", "forked"), RUNS)
def test_the_answer_agrees_with_the_truth(
    program: str, mode: Mode, forked: bool, container: int, tmp_path: Path
) -> None:
    """Whatever goes wrong, the one to blame is named and nobody else, with the probe and without.

    Forks are in a container, and the question is asked there: to look at all processes of this machine, among them
    those of other tests, is half of what a diagnosis costs. Real interpreters are not, nor are some jobs below.
    """
    probe, recorded = mode == "probe", mode == "memory"
    beside = container if forked and program not in ON_NODE else None
    ranks, environment = (4, {}) if forked else (2, ONE_OF_TWO)
    with Job(
        program,
        directory=tmp_path,
        probe=probe,
        recorded=recorded,
        forked=forked,
        ranks=ranks,
        environment=environment,
        beside=beside,
    ) as job:
        reply = diagnosed(job)
    assert_right(Truth.of(program, mode) if forked else Truth.of(program, mode, 1, ranks=2), reply)
    assert reply.answer["job"] == job.name


@pytest.mark.steady
def test_patience_ends_when_the_job_moves_again(container: int, tmp_path: Path) -> None:
    """Where only time tells slow from stuck it goes on by itself, accuses nobody, and gives up when that is no use.

    Three steps in ten seconds: without a record that is hard to tell from none.
    """
    with Job("validation_for_a_while", directory=tmp_path, forked=True, beside=container) as job:
        reply = diagnosed(job, patience=None)
    assert reply.answer["verdict"] in ("not_hung", "cannot_tell", "slow")
    assert reply.answer["took_seconds"] < 60.0


@pytest.mark.parametrize("launch", ["accelerate", "direct", "slurm", "open_mpi"])
def test_ranks_are_found_whoever_launched_them(launch: str, container: int, tmp_path: Path) -> None:
    """Each launcher says in its own variables who is which rank, and what the job is called."""
    forked = launch != "accelerate"  # the others give nothing but variables
    beside = container if forked else None
    faulty, ranks = (2, 4) if forked else (1, 2)
    environment = {"FAULTY_RANK": str(faulty)}
    with Job(
        "asleep_before_collective",
        directory=tmp_path,
        launch=launch,
        forked=forked,
        ranks=ranks,
        environment=environment,
        beside=beside,
    ) as job:
        reply = diagnosed(job)
    assert_right(Truth.of("asleep_before_collective", "bare", faulty, ranks=ranks), reply)
    assert pids_named(reply) == {job.ranks[faulty]}


def test_a_job_in_a_container_is_judged_from_its_node(container: int, tmp_path: Path) -> None:
    """Its processes have other numbers in there, and other users."""
    with Job("asleep_before_collective", directory=tmp_path, beside=container, forked=True, recorded=True) as job:
        reply = diagnose(job.name, directory=tmp_path)
        (culprit,) = pids_named(reply)
        for namespace in ("pid", "user", "mnt"):
            assert os.readlink(f"/proc/{culprit}/ns/{namespace}") == os.readlink(f"/proc/{container}/ns/{namespace}")
            assert os.readlink(f"/proc/{culprit}/ns/{namespace}") != os.readlink(f"/proc/self/ns/{namespace}")
    assert_right(Truth.of("asleep_before_collective", "memory"), reply)


def test_what_a_container_hides_from_its_node_is_said(container: int, tmp_path: Path) -> None:
    """Without a record native frames alone show that ranks wait for each other, and they can be read inside."""
    with Job("async_work_handles", directory=tmp_path, beside=container, forked=True) as job:
        reply = diagnose(job.name, directory=tmp_path)
    assert reply.answer["verdict"] == "cannot_tell"
    advice = reply.answer["next_steps"][0]["text"]
    assert "may wait for others in C" in advice and "in the container" in advice


def test_two_ranks_that_call_different_operations(container: int, tmp_path: Path) -> None:
    """Their records prove at once that they differ; that neither of two is in the majority leaves the blame open."""
    with Job(
        "wrong_op", directory=tmp_path, recorded=True, ranks=2, environment=ONE_OF_TWO, forked=True, beside=container
    ) as job:
        reply = diagnosed(job)
    (finding,) = reply.answer["findings"]
    assert (finding["kind"], finding["certainty"], finding["victims"]) == ("collective_mismatch", "proven", "0-1")
    assert not finding["culprits"]
    assert "rank 0 (all_reduce) vs. rank 1 (all_gather)" in finding["summary"]


def test_ranks_that_say_so_only_after_they_have_started(tmp_path: Path) -> None:
    """A spawned child sets RANK itself, where the kernel's copy of its environment does not show it.

    The children are real interpreters; who spawns them is a fork.
    """
    with Job("spawned", directory=tmp_path, ranks=2, environment=ONE_OF_TWO, forked=True) as job:
        reply = diagnosed(job)
    assert_right(Truth.of("spawned", "bare", 1, ranks=2), reply)
    assert pids_named(reply) == {job.ranks[1]}


def test_run_loads_the_probe(tmp_path: Path) -> None:
    """`unhang run -- COMMAND` gives the same as the probe's path in PYTHONPATH."""
    wrapper = unhang("run", "--")
    with Job("asleep_before_collective", directory=tmp_path, wrapper=wrapper, ranks=2, environment=ONE_OF_TWO) as job:
        reply = diagnosed(job)
    assert_right(Truth.of("asleep_before_collective", "probe", 1, ranks=2), reply)
    assert reply.answer["coverage"]["with_trace"] == 2


@pytest.mark.steady
@pytest.mark.node
@pytest.mark.root
def test_a_rank_that_the_kernel_kills_for_want_of_memory(tmp_path: Path) -> None:
    """In a control group of its own, as a Slurm step or a pod has one, and gone before anybody looks."""
    with memory_group(64 * 1024 * 1024) as group:
        environment = {"UNHANG_TEST_MEMORY_GROUP": str(group)}
        with Job("killed_rank", directory=tmp_path, environment=environment, forked=True) as job:
            reply = diagnosed(job)
    assert_right(Truth.of("killed_rank", "bare"), reply)
    (finding,) = reply.answer["findings"]
    assert finding["cause"] == "oom"
    assert any(f"Killed process {job.ranks[2]} " in evidence.get("line", "") for evidence in finding["evidence"])


def test_a_job_killed_and_started_again_under_the_same_name(container: int, tmp_path: Path) -> None:
    """Of the first attempt nothing is left in the answer about the second one. Rank 0 is a rank like any other."""
    name = f"again-{tmp_path.name}"

    def start(faulty_rank: int) -> Job:
        return Job(
            "asleep_before_collective",
            directory=tmp_path,
            probe=True,
            name=name,
            environment={"FAULTY_RANK": str(faulty_rank)},
            forked=True,
            beside=container,
        )

    with start(3) as first:
        reply = diagnosed(first)
        assert_right(Truth.of("asleep_before_collective", "probe", 3), reply)
        assert pids_named(reply) == {first.ranks[3]}
    with start(0) as second:
        reply = diagnosed(second)
    assert_right(Truth.of("asleep_before_collective", "probe", 0), reply)
    assert pids_named(reply) == {second.ranks[0]}


def test_two_jobs_on_one_machine(container: int, tmp_path: Path) -> None:
    """Each is judged by its own ranks."""
    environment = {"FAULTY_RANK": "1"}
    with (
        Job(
            "asleep_before_collective", directory=tmp_path, environment=environment, forked=True, beside=container
        ) as asleep,
        Job("stopped_rank", directory=tmp_path, probe=True, forked=True, beside=container) as stopped,
    ):
        about_asleep = diagnosed(asleep)
        about_stopped = diagnosed(stopped)
    assert_right(Truth.of("asleep_before_collective", "bare", 1), about_asleep)
    assert_right(Truth.of("stopped_rank", "probe"), about_stopped)
    assert pids_named(about_asleep) == {asleep.ranks[1]}
    assert pids_named(about_stopped) == {stopped.ranks[2]}


@pytest.mark.steady
@pytest.mark.parametrize("times", [2, pytest.param(20, marks=[pytest.mark.repeated, pytest.mark.timeout(900)])])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("program", ["healthy", "slow_rank"])
def test_the_same_every_time(program: str, mode: Mode, times: int, container: int, tmp_path: Path) -> None:
    """A job that moves is never called hung, at whatever instant it is looked at."""
    with Job(program, directory=tmp_path, probe=mode == "probe", forked=True, beside=container) as job:
        replies = [diagnosed(job) for _ in range(times)]
    for reply in replies:
        assert_right(Truth.of(program, mode), reply)
