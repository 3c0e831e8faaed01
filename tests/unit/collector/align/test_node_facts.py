"""What nodes tell refines a verdict: its cause, its evidence, its suspect links. It names no culprit."""

import pytest

from collector.align.stacks.tables.kernel_facts import stack_row
from shared.answer.diagnosis import Diagnosis, GpuEvidence, KernelEvidence
from shared.answer.words import Cause, Kind, Verdict
from shared.missing import Missing, Reason
from shared.wire.devices import Gpu, GpuProcess
from shared.wire.log_events import EventKind, LogEvent, Logs
from shared.wire.snapshot import BlockedThread, Child, Exited, Holder, NodeSnapshot, Process, RankSnapshot
from shared.wire.stacks import Frame
from tests.build.jobs.four_ranks import AWAY, TWO_NODES, looks_at_all_stuck, looks_without
from tests.build.jobs.judged import judged
from tests.build.jobs.placed import event, gpu, telling, with_rank
from tests.build.jobs.simulated import USER, Seen

SYNCHRONIZE = Frame(function="synchronize", file="/venv/lib/python3.11/site-packages/torch/cuda/__init__.py", line=7)
TORCH = "/venv/lib/python3.11/site-packages/torch/utils/_device.py"
FOUR = {"a": "0", "b": "1", "c": "2", "d": "3"}


def absent(seen: Seen = AWAY) -> list[NodeSnapshot]:
    """Rank 3, on node b, stays away."""
    return looks_without({3: seen}, hosts=TWO_NODES)


def lines(diagnosis: Diagnosis) -> list[str]:
    """What the kernel said, as evidence."""
    return [e.line for e in diagnosis.findings[0].evidence if isinstance(e, KernelEvidence)]


XID_79 = event("xid", code=79, device="0000:01:00")


def test_simulated_jobs_are_what_they_should_be() -> None:
    """Without anything that nodes tell."""
    assert judged(looks_at_all_stuck()).findings[0].kind is Kind.STUCK_TOGETHER
    assert judged(looks_at_all_stuck()).findings[0].cause is Cause.UNKNOWN
    assert judged(absent()).findings[0].culprit_ranks == (3,)


def test_stuck_together_names_the_node_with_the_broken_gpu_and_no_rank() -> None:
    """In the sentence, with the line as evidence."""
    finding = judged(telling(looks_at_all_stuck(), "b", XID_79)).findings[0]
    assert (finding.kind, finding.cause, finding.culprits) == (Kind.STUCK_TOGETHER, Cause.GPU_FAULT, ())
    assert "b reports Xid 79 (GPU has fallen off the bus) on device 0000:01:00" in finding.summary
    assert [e.line for e in finding.evidence if isinstance(e, KernelEvidence)] == ["made-up line of xid"]


def test_stuck_together_with_a_link_down_names_both_ends() -> None:
    """A transport fault is a link's, and not a rank's."""
    down = event("link_down", interface="mlx5_1")
    finding = judged(telling(looks_at_all_stuck(), "b", down)).findings[0]
    assert (finding.cause, finding.culprits) == (Cause.NETWORK, ())
    assert [(link.from_.host, link.to.host, link.interface) for link in finding.links] == [("b", "a", "mlx5_1")]


def test_link_that_came_back_is_no_suspect() -> None:
    """It went down, and up again before the end."""
    events = event("link_down", interface="eth0"), event("link_up", interface="eth0", at=1001.0)
    finding = judged(telling(looks_at_all_stuck(), "b", *events)).findings[0]
    assert (finding.cause, finding.links) == (Cause.UNKNOWN, ())


def test_what_most_nodes_tell_accuses_none() -> None:
    """Compare with peers: a driver's habit is no fault."""
    looks = looks_at_all_stuck(hosts=FOUR)
    for host in FOUR:
        looks = telling(looks, host, XID_79) if host != "a" else telling(looks, host)
    assert judged(looks).findings[0].cause is Cause.UNKNOWN


def test_two_nodes_that_both_tell_are_shown_and_not_suspected() -> None:
    """Two have no majority."""
    finding = judged(telling(telling(looks_at_all_stuck(), "a", XID_79), "b", XID_79)).findings[0]
    assert (finding.cause, finding.links) == (Cause.UNKNOWN, ())
    assert len([e for e in finding.evidence if isinstance(e, KernelEvidence)]) == 2


def test_what_was_told_before_the_job_began_is_somebody_elses() -> None:
    """A kernel log reaches back for weeks."""
    assert lines(judged(telling(looks_at_all_stuck(), "b", event("xid", code=79, at=-3600.0)))) == []


@pytest.mark.parametrize("code", [13, 31, 43, 45, 63, 92, 154, 9999])
def test_errors_of_programs_and_notes_make_no_suspect(code: int) -> None:
    """Only what breaks a device does; what ends a program's work on one is shown."""
    finding = judged(telling(looks_at_all_stuck(), "b", event("xid", code=code))).findings[0]
    assert finding.cause is Cause.UNKNOWN
    assert (f"b reports Xid {code} " in finding.summary) is (code in (13, 31, 43))


def test_gpu_that_its_driver_cannot_reach() -> None:
    """NVML says what the log may not."""
    gpus = [gpu(0, 1002), gpu(1, 1003, fault="GPU is lost")]
    finding = judged(telling(looks_at_all_stuck(), "b", gpus=gpus)).findings[0]
    assert finding.cause is Cause.GPU_FAULT
    (evidence,) = (e for e in finding.evidence if isinstance(e, GpuEvidence))
    assert (evidence.index, evidence.device, evidence.host) == (1, "0000:01:00.0", "b")


def test_rank_that_waits_for_a_broken_gpu() -> None:
    """Joined by the address of the GPU that it computes on; one that is lost tells of no process."""
    waits = absent(Seen((USER, SYNCHRONIZE)))
    lost = gpu(1, fault="GPU is lost")
    for gpus, cause in (([gpu(0, 1002), lost], Cause.GPU_FAULT), ([gpu(0), lost], Cause.DEVICE_SYNC)):
        assert judged(telling(waits, "b", gpus=gpus)).findings[0].cause is cause
    for file, cause in ((TORCH, Cause.GPU_FAULT), ("/venv/lib/python3.11/site-packages/nap/nap.py", Cause.USER_CODE)):
        called = absent(Seen((USER, Frame(function="__call__", file=file, line=7))))
        assert judged(telling(called, "b", gpus=[gpu(0, 1002), lost])).findings[0].cause is cause
    looks = telling(waits, "b", XID_79, gpus=[gpu(0, 1002), gpu(1, 1003)])
    finding = judged(looks).findings[0]
    assert (finding.culprit_ranks, finding.cause) == ((3,), Cause.GPU_FAULT)
    assert "Xid 79" in next(e.text for e in finding.evidence if isinstance(e, KernelEvidence))


@pytest.mark.parametrize(
    "told",
    [event("xid", code=79, pid=1002), event("xid", code=79, device="0000:00:00"), event("xid", code=31, pid=1003)],
)
def test_faults_of_other_ranks_and_of_programs_leave_the_cause(told: object) -> None:
    """They are shown, where they are of the same node, and no more."""
    looks = telling(absent(Seen((USER, SYNCHRONIZE))), "b", told, gpus=[gpu(0, 1002), gpu(1, 1003)])  # type: ignore[arg-type]
    assert judged(looks).findings[0].cause is Cause.DEVICE_SYNC


def test_broken_gpu_does_not_excuse_user_code() -> None:
    """A rank asleep in its own code does not wait for a GPU."""
    looks = telling(absent(), "b", XID_79, gpus=[gpu(1, 1003)])
    assert judged(looks).findings[0].cause is Cause.USER_CODE


def without(looks: list[NodeSnapshot], rank: int, exited: Exited) -> list[NodeSnapshot]:
    """A rank that was seen in the first look and has ended by the second."""
    last = max(look.taken_at_ns or 0 for look in looks)
    return [
        look.model_copy(update={"ranks": tuple(r for r in look.ranks if r.identity.rank != rank), "exited": (exited,)})
        if look.taken_at_ns == last and look.host == "b"
        else look
        for look in looks
    ]


def ended(**how: object) -> list[NodeSnapshot]:
    """Rank 3, whose process id is 1003, ends."""
    looks = absent()
    identity = next(r.identity for look in looks for r in look.ranks if r.identity.rank == 3)
    return without(looks, 3, Exited.model_validate({"pid": 1003, "identity": identity, **how}))


def test_end_that_nobody_explains_but_the_kernel() -> None:
    """Killed for want of memory; the count of the control group is not needed."""
    finding = judged(telling(ended(), "b", event("oom_kill", pid=1003, name="python3"))).findings[0]
    assert (finding.kind, finding.culprit_ranks, finding.cause) == (Kind.RANK_EXITED, (3,), Cause.OOM)
    assert any("OOM-killed" in e.text for e in finding.evidence)


@pytest.mark.parametrize(
    ("told", "how", "cause"),
    [
        (event("oom_kill", pid=1002), {}, Cause.UNKNOWN),
        (event("oom_kill", pid=1003, at=-100.0), {}, Cause.UNKNOWN),
        (event("xid", code=79, pid=1003), {"signal": 6}, Cause.GPU_FAULT),
        (event("xid", code=31, pid=1003), {"signal": 6}, Cause.EXCEPTION),
        (event("crash", pid=1003), {}, Cause.SIGNAL),
        (event("oom_kill", pid=1003), {"signal": 9}, Cause.OOM),
        (event("storage"), {"signal": 9}, Cause.SIGNAL),
    ],
)
def test_causes_of_an_end(told: object, how: dict[str, object], cause: Cause) -> None:
    """Only what names the process tells of its end."""
    assert judged(telling(ended(**how), "b", told)).findings[0].cause is cause  # type: ignore[arg-type]


def test_exit_code_that_only_the_launcher_tells() -> None:
    """torchrun writes it where its ranks write, too."""
    line = LogEvent(
        kind=EventKind.SIGNAL,
        text="failed (exitcode: -9) local_rank: 1 (pid: 1003) of binary: /venv/bin/python",
        fields={"exit_code": "-9", "local_rank": "1", "pid": "1003"},
    )
    looks = with_rank(ended(), 2, logs=Logs(events=(line,)))
    finding = judged(looks).findings[0]
    assert (finding.culprit_ranks, finding.cause) == ((3,), Cause.SIGNAL)
    assert any("signal 9" in e.text for e in finding.evidence)


STACK = ("__schedule+0x420/0xd30", "schedule+0x47/0x130", "__mlx5_ib_dereg_mr+0x379/0x5d0 [mlx5_ib]")


def test_rank_that_a_driver_holds_in_the_kernel() -> None:
    """The module in brackets classifies."""
    process = Process(pid=1003, state="D", kernel_stack=STACK)
    finding = judged(with_rank(absent(Seen((USER,), state="D")), 3, process=process)).findings[0]
    assert (finding.culprit_ranks, finding.cause) == ((3,), Cause.NETWORK)
    assert any("blocked in the RDMA driver" in e.text for e in finding.evidence)


def test_hung_task_line_tells_what_the_agent_may_not_read() -> None:
    """Without root nobody reads /proc/PID/stack, and the kernel prints it by itself after two minutes."""
    looks = with_rank(absent(Seen((USER,), state="D")), 3, process=Process(pid=1003, state="D"))
    hung = event("hung_task", pid=1003, stack=STACK)
    assert judged(telling(looks, "b", hung)).findings[0].cause is Cause.NETWORK
    assert judged(telling(looks, "b", event("hung_task", pid=1002, stack=STACK))).findings[0].cause is Cause.UNKNOWN


def test_thread_beside_the_main_one_and_holder_of_a_lock() -> None:
    """Both are told as evidence."""
    thread = BlockedThread(tid=5, name="saver", syscall="write", kernel_stack=("rpc_wait+0x1/0x2 [sunrpc]",))
    process = Process(pid=1003, state="S", blocked_threads=(thread,), lock_holders=(Holder(pid=77, name="cp"),))
    told = " ".join(e.text for e in judged(with_rank(absent(), 3, process=process)).findings[0].evidence)
    assert "thread 5 (saver) of rank 3 is blocked in a remote file system" in told
    assert "is held by pid 77 (cp)" in told


@pytest.mark.parametrize(
    ("frame", "cause"),
    [
        ("os_acquire_semaphore+0x4c/0x60 [nvidia]", Cause.GPU_FAULT),
        ("rpc_wait_bit_killable+0x24/0xb0 [sunrpc]", Cause.FILESYSTEM),
        ("cxiWaitEventWait+0x208/0x330 [mmfslinux]", Cause.FILESYSTEM),
        ("request_wait_answer+0x139/0x220", Cause.FILESYSTEM),
        ("jbd2_log_wait_commit+0xe2/0x180 [jbd2]", Cause.FILESYSTEM),
        ("ib_dereg_mr_user+0x5f/0x120 [ib_core]", Cause.NETWORK),
        ("wait_for_vfork_done+0x3d/0x80", Cause.USER_CODE),
        ("futex_wait_queue+0x60/0x90", None),
        ("something+0x1/0x2 [nvme_but_not]", Cause.FILESYSTEM),
        ("garbage", None),
        ("[nvidia]", None),
    ],
)
def test_what_a_kernel_stack_says(frame: str, cause: Cause | None) -> None:
    """The first function from inside that is known."""
    row = stack_row(("__schedule+0x420/0xd30", frame, "do_syscall_64+0x82/0x190"))
    assert (None if row is None else row.cause) is cause


def test_ranks_on_one_device_are_a_conflict() -> None:
    """LOCAL_RANK was not used; a second context elsewhere is no sharing."""
    gpus = [gpu(0, 1002, 1003), gpu(1)]
    told = [c.text for c in judged(telling(absent(), "b", gpus=gpus)).conflicts]
    assert any("ranks 2-3 compute on one device, GPU 0 of b" in text and "LOCAL_RANK" in text for text in told)
    assert judged(telling(absent(), "b", gpus=[gpu(0, 1002, 1003), gpu(1, 1003)])).conflicts == ()
    assert judged(telling(absent(), "b", gpus=gpus)).findings[0].culprit_ranks == (3,)


def test_what_cannot_be_seen_is_told_and_decides_nothing() -> None:
    """A gap of the node; one without GPUs is none."""
    refused = Missing(source="kernel_events", reason=Reason.NOT_PERMITTED, detail="not allowed")
    nowhere = Missing(source="gpus", reason=Reason.NOT_FOUND, detail="no driver")
    looks = [look.model_copy(update={"kernel_events": refused, "gpus": nowhere}) for look in absent()]
    diagnosis = judged(looks)
    assert diagnosis.verdict is Verdict.HUNG
    sources = {gap.missing.source for gap in diagnosis.coverage.missing}
    assert "kernel_events" in sources
    assert "gpus" not in sources


@pytest.mark.parametrize(
    ("gpus", "device"),
    [
        ([gpu(0, 1002), gpu(3, 1003)], "3"),
        ([gpu(0, 1002, 1003), gpu(3, 1003)], "0,3"),
        ([gpu(0, 1002), gpu(3)], "7"),
        ([], "7"),
    ],
)
def test_device_of_a_culprit_is_what_the_driver_tells(gpus: list[Gpu], device: str) -> None:
    """Its environment names a number that may be counted otherwise, and is asked only where the driver is silent."""
    looks = [
        look.model_copy(update={"ranks": tuple(with_device(rank, "7") for rank in look.ranks)}) for look in absent()
    ]
    (culprit,) = judged(telling(looks, "b", gpus=gpus)).findings[0].culprits
    assert (culprit.pid, culprit.gpu) == (1003, device)


def test_device_of_a_culprit_may_be_held_by_its_child_or_be_a_part() -> None:
    """As in a launcher's wrapper; what the rank itself holds goes before."""
    child = Child(process=Process(pid=1999, state="S"), stacks=Missing(source="stacks", reason=Reason.NOT_FOUND))
    looks = with_rank(absent(), 3, children=(child,))
    part = Gpu(index=2, processes=(GpuProcess(pid=1999, instance="1/0"),))
    assert judged(telling(looks, "b", gpus=[part])).findings[0].culprits[0].gpu == "2 (MIG 1/0)"
    assert judged(telling(looks, "b", gpus=[part, gpu(5, 1003)])).findings[0].culprits[0].gpu == "5"


def with_device(rank: RankSnapshot, device: str) -> RankSnapshot:
    """A rank whose environment names a device."""
    return rank.model_copy(update={"identity": rank.identity.model_copy(update={"gpu": device})})


@pytest.mark.parametrize(
    ("process", "command"),
    [
        (Process(pid=1003, state="S"), "unhang stacks --rank 3 --native"),
        (Process(pid=1003, state="D"), "unhang stacks --rank 3"),
        (Process(pid=1003, state="t", tracer_pid=7), "unhang stacks --rank 3"),
        (
            Process(pid=1003, state="S", blocked_threads=(BlockedThread(tid=1004),)),
            "unhang stacks --rank 3",
        ),
    ],
)
def test_next_step_never_stops_what_is_blocked_in_the_kernel(process: Process, command: str) -> None:
    """Who attaches to it would wait as long as it does."""
    finding = judged(with_rank(absent(), 3, process=process)).findings[0]
    commands = [step.command for step in finding.next_steps if step.command and "--rank" in step.command]
    assert [each.partition(" -- ")[0] for each in commands] == [command]
