"""A rank that waits for a child of its own, which a signal has stopped: what to resume is said."""

from shared.wire.snapshot import Child, Process
from shared.wire.stacks import Frame, Stacks, Thread
from tests.build.jobs.judged import judged
from tests.build.jobs.placed import with_rank
from tests.build.jobs.simulated import LOADER, USER, WORLD, Collective, Job, Seen, Stay, live_looks

IDLE = (
    Frame("_worker_loop", "/env/lib/python3.11/site-packages/torch/utils/data/_utils/worker.py", 290),
    Frame("get", "/usr/lib/python3.11/multiprocessing/queues.py", 113),
)


ASKS = (Frame("ask", "/home/ada/console.py", 4), IDLE[1])
"""A child that has nothing to do with the DataLoader."""


FREEZER = "/sys/fs/cgroup/workers/cgroup.freeze"


def commands(*states: str, frames: tuple[Frame, ...] = IDLE, frozen_by: str | None = None) -> list[str]:
    """What is advised about rank 1, which waits for its DataLoader and has children in these states."""
    children = tuple(
        Child(
            process=Process(pid=pid, name="worker", state=state, frozen_by=frozen_by),  # type: ignore[arg-type]
            stacks=Stacks(pid=pid, frames=frames, threads=(Thread(tid=pid, name="MainThread", frames=(0, 1)),)),
        )
        for pid, state in enumerate(states, start=71)
    )
    job = Job({0: [Collective(WORLD)] * 3, 1: [Collective(WORLD), Stay()]})
    looks = with_rank(live_looks(job, {0: Seen(), 1: Seen((USER, LOADER))}), 1, children=children)
    (finding,) = judged(looks).findings
    return [step.command or "" for step in finding.next_steps]


def test_stopped_workers_are_to_be_resumed() -> None:
    """All of them, first of all; where none was stopped nothing is."""
    assert commands("S", "T", "T")[0] == "kill -CONT 72 73"
    assert not any("kill" in command for command in commands("S", "S"))


def test_frozen_workers_are_to_be_thawed() -> None:
    assert commands("S", "S", frozen_by=FREEZER)[0] == f"echo 0 > {FREEZER}"


def test_stopped_child_that_loads_nothing_is_left_alone() -> None:
    assert not any("kill" in command for command in commands("T", frames=ASKS))
