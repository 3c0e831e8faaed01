"""What lets a held rank go on is said, with the very command."""

import pytest

from shared.answer.diagnosis import NextStep
from shared.wire.snapshot import Fds, Pipe, Process, ProcessState, Syscall
from shared.wire.stacks import Frame
from tests.build.jobs.four_ranks import looks_without
from tests.build.jobs.judged import judged
from tests.build.jobs.placed import with_rank
from tests.build.jobs.simulated import USER, Seen

READ = Frame("readline", "/home/ada/feed.py", 7)
FREEZE = "/sys/fs/cgroup/system.slice/docker-4f1c.scope/cgroup.freeze"


def steps(process: Process, *, fds: Fds | None = None) -> list[NextStep]:
    """What is advised about rank 1, which is in this state while the others wait."""
    told = {"process": process} | ({} if fds is None else {"fds": fds})
    (finding,) = judged(with_rank(looks_without({1: Seen((USER, READ))}, after_seconds=600), 1, **told)).findings
    return list(finding.next_steps)


@pytest.mark.parametrize(
    ("file", "command"),
    [
        (FREEZE, f"echo 0 > {FREEZE}"),
        (
            "/sys/fs/cgroup/freezer/docker/4f1c/freezer.state",
            "echo THAWED > /sys/fs/cgroup/freezer/docker/4f1c/freezer.state",
        ),
        ("/sys/fs/cgroup/a b;reboot/cgroup.freeze", "echo 0 > '/sys/fs/cgroup/a b;reboot/cgroup.freeze'"),
        ("/sys/fs/cgroup/\x1b[2J/cgroup.freeze", None),
    ],
)
@pytest.mark.parametrize(("state", "wchan"), [("S", "do_freezer_trap"), ("D", "hrtimer_nanosleep")])
def test_a_frozen_cgroup_is_thawed(state: ProcessState, wchan: str, file: str, command: str | None) -> None:
    """By writing to the file of the group that was frozen, quoted; version 1 leaves a sleep where it was."""
    (first, *_) = steps(Process(pid=71, state=state, wchan=wchan, frozen_by=file))
    assert "thaw the cgroup of rank 1" in first.text and "docker unpause" in first.text
    assert first.command == command


def test_who_holds_the_other_end_of_a_pipe_is_named() -> None:
    """Nobody has to look for the process that the evidence names."""
    pipe = Pipe(fd=3, direction="read", other_end=(132,), other_names=("cat",))
    process = Process(pid=71, state="S", wchan="pipe_read", syscall=Syscall(name="read", fd=3, target="pipe:[8]"))
    texts = [step.text for step in steps(process, fds=Fds(total=4, pipes=(pipe,)))]
    assert any("find out why pid 132 (cat) writes nothing into the pipe (fd 3) of rank 1" in text for text in texts)
    assert not any("find the process" in text for text in texts)
