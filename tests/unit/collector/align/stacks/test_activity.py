"""Step 8: where a rank is, from its stack, its kernel state, its children and, at need, its native frames."""

import pytest

from collector.align.expected import Expected
from collector.align.roster import Presence, RankView
from collector.align.stacks.activity import activity_of
from collector.align.stacks.process_text import process_in_words
from collector.align.stacks.tables.row_types import Doing
from collector.align.stacks.telling_threads import with_telling_threads
from collector.looks.next_looks import pids_to_look_deeper
from shared.answer.words import Cause
from shared.missing import Missing, Reason
from shared.wire.fds import Holder, OtherEnd
from shared.wire.snapshot import Child, Identity, NodeSnapshot, Process, RankSnapshot, Syscall
from shared.wire.stacks import Frame, Stacks, Thread

SITE = "/env/lib/python3.11/site-packages"
USER = Frame("main", "/home/ada/train.py", 40)
LOADER = Frame("_MultiProcessingDataLoaderIter._try_get_data", f"{SITE}/torch/utils/data/dataloader.py", 1310)
WORKER_LOOP = Frame("_worker_loop", f"{SITE}/torch/utils/data/_utils/worker.py", 349)
FETCH = Frame("_MapDatasetFetcher.fetch", f"{SITE}/torch/utils/data/_utils/fetch.py", 52)
READ_SHARD = Frame("Shards.read_shard", "/home/ada/data.py", 12)
SAVE = Frame("save", f"{SITE}/torch/serialization.py", 944)
EXPORT = Frame("export_trace", "/home/ada/profile.py", 7)
WAIT = Frame("Popen._try_wait", "/usr/lib/python3.11/subprocess.py", 2004)
PIPE_RECV = Frame("Connection._recv", "/usr/lib/python3.11/multiprocessing/connection.py", 395)
QUEUE_GET = Frame("Queue.get", "/usr/lib/python3.11/multiprocessing/queues.py", 113)
TRACKER = Frame("main", "/usr/lib/python3.11/multiprocessing/resource_tracker.py", 227)
JOIN = Frame("Thread.join", "/usr/lib/python3.11/threading.py", 1119)
ALL_REDUCE = Frame("all_reduce", f"{SITE}/torch/distributed/distributed_c10d.py", 3252)
C_WAIT = Frame("c10d::Work::wait", "libtorch_cpu.so", 0, native=True)
STORE_WAIT = Frame("c10d::TCPStore::wait", "libtorch_cpu.so", 0, native=True)


def stacks(*frames: Frame, pid: int = 10, native: bool = False, more: tuple[tuple[Frame, ...], ...] = ()) -> Stacks:
    """Stacks of one process: the main thread's frames, and those of other threads."""
    table = [*frames, *(frame for thread in more for frame in thread)]
    threads = [Thread(tid=pid, name="MainThread", frames=tuple(range(len(frames))))]
    for number, thread in enumerate(more):
        threads.append(Thread(tid=pid + 1 + number, name="worker", frames=tuple(table.index(f) for f in thread)))
    return Stacks(pid=pid, native=native, frames=tuple(table), threads=tuple(threads))


def look(
    seen: Stacks, *, process: Process | None = None, children: tuple[Child, ...] = (), at: int = 1
) -> RankSnapshot:
    nothing = Missing(source="x", reason=Reason.NOT_FOUND)
    return RankSnapshot(
        identity=Identity(job="j", rank=0, host="a", pid=10, started_at=1.0),
        looked_at_ns=at,
        process=process or nothing,
        stacks=seen,
        children=children,
        fds=nothing,
        logs=nothing,
        recorder=nothing,
    )


def view(*looks: RankSnapshot) -> RankView:
    return with_telling_threads({0: RankView(0, Presence.RUNNING, looks, host="a")})[0]


def blocked(name: str, wchan: str, target: str | None = None, pid: int = 10) -> Process:
    return Process(pid=pid, state="S", name="python3", wchan=wchan, syscall=Syscall(name=name, fd=9, target=target))


def test_a_child_that_a_signal_has_stopped_is_not_idle() -> None:
    """It stands where one that waits for its next task does, and comes before one that is slow."""
    stopped = Child(
        process=blocked("poll", "do_signal_stop", pid=22).model_copy(update={"state": "T"}),
        stacks=stacks(WORKER_LOOP, QUEUE_GET, pid=22),
    )
    slow = Child(
        process=blocked("read", "anon_pipe_read", pid=21), stacks=stacks(WORKER_LOOP, FETCH, READ_SHARD, pid=21)
    )
    seen = activity_of(view(look(stacks(USER, LOADER), children=(slow, stopped))))
    assert "child 22 (python3) is stopped by a signal" in seen.child
    assert (seen.cause, seen.may_pass) == (Cause.DATALOADER, False)


def test_a_rank_that_waits_for_its_dataloader_tells_which_worker_is_blocked_and_where() -> None:
    idle = Child(
        process=blocked("poll", "poll_schedule_timeout", pid=20), stacks=stacks(WORKER_LOOP, QUEUE_GET, pid=20)
    )
    stuck = Child(
        process=blocked("read", "anon_pipe_read", "/mnt/data/shard-3", pid=21),
        stacks=stacks(WORKER_LOOP, FETCH, READ_SHARD, pid=21),
    )
    seen = activity_of(view(look(stacks(USER, LOADER), children=(idle, stuck))))
    assert (seen.doing, seen.cause) == (Doing.OUTSIDE, Cause.DATALOADER)
    assert "child 21" in seen.child
    assert "read_shard" in seen.child
    assert "/mnt/data/shard-3" in seen.child


def test_a_worker_whose_stack_cannot_be_read_may_yet_deliver() -> None:
    nothing = Missing(source="stacks", reason=Reason.NOT_PERMITTED)
    worker = Child(process=blocked("poll", "poll_schedule_timeout", pid=20), stacks=nothing)
    seen = activity_of(view(look(stacks(USER, LOADER), children=(worker,))))
    assert (seen.child, seen.may_pass) == ("", True)


RUN = Frame("Process.run", "/usr/lib/python3.11/multiprocessing/process.py", 108)
RUN_UNDER_PDB = Frame("Bdb.run", "/usr/lib/python3.11/bdb.py", 598)
RUN_BY_AGENT = Frame("Agent._run_job", f"{SITE}/wandb/agents/pyagent.py", 297)
BACKWARD = Frame("_engine_run_backward", f"{SITE}/torch/autograd/graph.py", 869)


@pytest.mark.parametrize("caller", [RUN, RUN_UNDER_PDB, RUN_BY_AGENT, BACKWARD])
def test_who_called_the_user_s_code_does_not_tell_what_it_does(caller: Frame) -> None:
    seen = activity_of(view(look(stacks(caller, USER), process=blocked("clock_nanosleep", "hrtimer_nanosleep"))))
    assert (seen.doing, seen.cause, seen.may_pass) == (Doing.OUTSIDE, Cause.USER_CODE, False)


SIGWAIT = Frame("sigwait", "/usr/lib/python3.11/signal.py", 60)


@pytest.mark.parametrize(("frames", "syscall"), [((USER, SIGWAIT), "rt_sigtimedwait"), ((USER,), "pause")])
def test_who_waits_for_a_signal_is_told_by_the_kernel(frames: tuple[Frame, ...], syscall: str) -> None:
    """As a sleeper is: no native frames are asked for. Whoever sends it may do so yet."""
    seen = activity_of(view(look(stacks(*frames), process=blocked(syscall, "do_sigtimedwait"))))
    assert (seen.label, seen.cause, seen.may_pass) == ("waiting for a signal", Cause.USER_CODE, True)
    assert (seen.kernel_tells, seen.in_c) == (True, False)


@pytest.mark.parametrize(
    ("syscall", "wchan", "target", "label"),
    [
        ("semtimedop", "__do_semtimedop", None, "waiting for a semaphore that processes share"),
        ("mq_timedreceive", "wq_sleep", "/jobs", "waiting for a message from a queue that processes share"),
        ("msgrcv", "do_msgrcv", None, "waiting for a message from a queue that processes share"),
        ("msgsnd", "do_msgsnd", None, "waiting for room in a queue that processes share"),
        ("io_uring_enter", "io_cqring_wait", "anon_inode:[io_uring]", "waiting for what it has asked io_uring for"),
        ("read", "wait_woken", "anon_inode:inotify", "waiting for an event of the kernel"),
        ("read", "eventfd_read", "anon_inode:[eventfd]", "waiting for an event of the kernel"),
    ],
)
def test_what_others_send_in_older_ways_may_come_yet(syscall: str, wchan: str, target: str | None, label: str) -> None:
    seen = activity_of(view(look(stacks(USER), process=blocked(syscall, wchan, target))))
    assert (seen.label, seen.cause, seen.may_pass) == (label, Cause.USER_CODE, True)


@pytest.mark.parametrize("syscall", ["pselect6", "poll", "epoll_wait"])
def test_what_descriptors_bring_may_come_yet(syscall: str) -> None:
    """A line that calls select.select() is the innermost one of Python, as one that never returns is."""
    seen = activity_of(view(look(stacks(USER), process=blocked(syscall, "poll_schedule_timeout"))))
    assert (seen.label, seen.may_pass) == ("waiting for a descriptor to become ready", True)


def test_what_stack_and_kernel_both_tell_is_said_once() -> None:
    waiting = Process(pid=10, state="S", syscall=Syscall(name="wait4"), wchan="do_wait")
    seen = activity_of(view(look(stacks(USER, WAIT), process=waiting)))
    assert (seen.label, seen.kernel_agrees) == ("waiting for a child process", True)


def test_a_data_set_s_own_reader_is_part_of_loading() -> None:
    assert activity_of(view(look(stacks(USER, FETCH, READ_SHARD)))).cause is Cause.DATALOADER


def test_idle_workers_are_not_named() -> None:
    idle = Child(
        process=blocked("poll", "poll_schedule_timeout", pid=20), stacks=stacks(WORKER_LOOP, QUEUE_GET, pid=20)
    )
    assert activity_of(view(look(stacks(USER, LOADER), children=(idle,)))).child == ""


def test_the_resource_tracker_of_spawned_workers_is_not_the_one_that_is_waited_for() -> None:
    """It reads an empty pipe all its life; the worker that sleeps in the data set's code has a higher process id."""
    tracker = Child(process=blocked("read", "anon_pipe_read", "pipe:[7]", pid=20), stacks=stacks(TRACKER, pid=20))
    worker = Child(
        process=blocked("clock_nanosleep", "hrtimer_nanosleep", pid=22),
        stacks=stacks(WORKER_LOOP, FETCH, READ_SHARD, pid=22),
    )
    server = Child(process=blocked("read", "anon_pipe_read", "pipe:[8]", pid=21), stacks=stacks(EXPORT, pid=21))
    seen = activity_of(view(look(stacks(USER, LOADER), children=(tracker, server, worker))))
    assert "child 22" in seen.child
    assert activity_of(view(look(stacks(USER, LOADER), children=(tracker,)))).child == ""


@pytest.mark.parametrize(("frames", "label"), [((USER,), "running in user code"), ((), "running, and in no two")])
def test_of_a_thread_that_moved_it_is_said(frames: tuple[Frame, ...], label: str) -> None:
    """The frames below were not certain."""
    seen = stacks(*frames)
    moving = seen.model_copy(update={"threads": (seen.threads[0].model_copy(update={"moves": True}),)})
    assert activity_of(view(look(moving))).label.startswith(label)


def test_a_main_thread_that_joins_a_thread_in_a_collective_is_a_waiter() -> None:
    assert activity_of(view(look(stacks(USER, JOIN, more=((ALL_REDUCE,),))))).doing is Doing.COLLECTIVE


def test_a_helper_thread_in_a_collective_does_not_hide_a_main_thread_at_work() -> None:
    assert activity_of(view(look(stacks(USER, more=((ALL_REDUCE,),))))).doing is Doing.OUTSIDE


@pytest.mark.parametrize(("native", "doing"), [(C_WAIT, Doing.WORK), (STORE_WAIT, Doing.STORE)])
def test_native_frames_tell_what_python_frames_hide(native: Frame, doing: Doing) -> None:
    plain, deep = look(stacks(USER)), look(stacks(USER, native, native=True), at=2)
    assert activity_of(view(plain)).doing is Doing.OUTSIDE
    assert activity_of(view(plain, deep)).doing is doing


def test_python_frames_tell_what_a_lock_of_python_s_is_waited_for() -> None:
    """Its native frames are the same in any wait for an event."""
    ends = Frame("_all_gather", f"{SITE}/torch/distributed/rpc/api.py", 257)
    wait = Frame("Condition.wait", "/usr/lib/python3.11/threading.py", 327)
    lock = Frame("acquire_timed", "python3.11", 0, native=True)
    seen = activity_of(view(look(stacks(USER, ends, wait)), look(stacks(USER, ends, wait, lock, native=True), at=2)))
    assert (seen.doing, seen.label) == (Doing.WORK, "waiting for other ranks")


def test_native_frames_are_asked_for_where_a_library_s_c_code_holds_it() -> None:
    library = Frame("wait_until_ready", f"{SITE}/someones_library/handles.py", 9)
    process = blocked("futex", "futex_do_wait")
    looks = [
        NodeSnapshot(host="a", taken_at_ns=at, ranks=(look(stacks(USER, library), process=process, at=at),))
        for at in (1, 2)
    ]
    assert pids_to_look_deeper(looks, Expected()) == (("a", 10),)


@pytest.mark.parametrize(
    ("function", "process", "asked"),
    [
        ("main", blocked("futex", "futex_do_wait"), True),
        ("commit_checkpoint", blocked("poll", "poll_schedule_timeout"), True),
        ("main", blocked("clock_nanosleep", "hrtimer_nanosleep"), False),
        ("main", blocked("read", "anon_pipe_read", "pipe:[1]"), False),
    ],
)
def test_native_frames_are_asked_for_where_c_code_holds_the_user_and_nothing_says_which(
    function: str, process: Process, asked: bool
) -> None:
    user = Frame(function, "/home/ada/train.py", 40)
    looks = [
        NodeSnapshot(host="a", taken_at_ns=at, ranks=(look(stacks(user), process=process, at=at),)) for at in (1, 2)
    ]
    assert pids_to_look_deeper(looks, Expected()) == ((("a", 10),) if asked else ())


def keeping_the_gil(*frames: Frame) -> Stacks:
    """The main thread asleep, and nobody else able to run."""
    asleep = Thread(tid=10, name="MainThread", active=False, holds_gil=True, frames=tuple(range(len(frames))))
    return Stacks(pid=10, frames=frames, threads=(asleep,))


@pytest.mark.parametrize(
    ("frames", "process", "cause"),
    [
        ((USER,), blocked("pause", "sigsuspend"), Cause.GIL),
        ((USER, SAVE), blocked("write", "pipe_write", "pipe:[1]"), Cause.CHECKPOINT),
        ((USER,), blocked("write", "anon_pipe_write", "pipe:[1]"), Cause.PIPE_BLOCKED),
        ((USER,), blocked("clone3", "kernel_clone").model_copy(update={"state": "D"}), Cause.USER_CODE),
        ((USER,), blocked("ioctl", "uvm_ioctl").model_copy(update={"state": "D"}), Cause.UNKNOWN),
    ],
)
def test_a_kept_gil_is_the_cause_only_where_nothing_else_is_told(
    frames: tuple[Frame, ...], process: Process, cause: Cause
) -> None:
    seen = activity_of(view(look(keeping_the_gil(*frames), process=process)))
    assert (seen.doing, seen.cause) == (Doing.OUTSIDE, cause)
    assert "GIL" in seen.label
    assert cause is not Cause.GIL or not seen.may_pass  # Python's own waits for signals let go of it


def test_a_thread_that_keeps_the_gil_is_the_story_and_not_the_main_thread() -> None:
    table = (USER, EXPORT)
    threads = (
        Thread(tid=10, name="MainThread", active=True, holds_gil=False, frames=(0,)),
        Thread(tid=11, name="exporter", active=False, holds_gil=True, frames=(1,)),
    )
    seen = activity_of(view(look(Stacks(pid=10, frames=table, threads=threads))))
    assert (seen.cause, seen.thread, seen.user) == (Cause.GIL, "exporter", EXPORT)


def test_a_debugger_from_outside_holds_a_rank_but_is_not_held_against_one_that_waits() -> None:
    held = blocked("running", "ptrace_stop").model_copy(update={"state": "t", "tracer_pid": 77})
    assert activity_of(view(look(stacks(USER), process=held))).cause is Cause.DEBUGGER
    assert activity_of(view(look(stacks(USER, ALL_REDUCE), process=held))).doing is Doing.COLLECTIVE


@pytest.mark.parametrize("frame", [QUEUE_GET, PIPE_RECV], ids=["queue", "pipe"])
def test_who_reads_a_queue_is_idle_though_the_kernel_shows_an_empty_pipe(frame: Frame) -> None:
    seen = activity_of(view(look(stacks(USER, frame), process=blocked("read", "pipe_read", "pipe:[1]"))))
    assert (seen.may_be_idle, seen.may_pass) == (True, True)


@pytest.mark.parametrize(
    ("own", "holders", "threads", "may_pass"),
    [(True, (), (), False), (True, (Holder(pid=77),), (), True), (False, (), (), True), (True, (), ((USER,),), True)],
    ids=["by itself", "by another, too", "by nobody that is seen", "by itself, with another thread"],
)
def test_a_pipe_that_only_its_reader_could_write_stays_empty(
    own: bool, holders: tuple[Holder, ...], threads: tuple[tuple[Frame, ...], ...], may_pass: bool
) -> None:
    reader = blocked("read", "anon_pipe_read", "pipe:[1]")
    reader = reader.model_copy(update={"awaits": (OtherEnd(kind="pipe", fd=9, own=own, holders=holders),)})
    seen = activity_of(view(look(stacks(USER, more=threads), process=reader)))
    assert (seen.cause, seen.may_pass) == (Cause.PIPE_BLOCKED, may_pass)


@pytest.mark.parametrize(
    ("target", "wchan", "may_pass"),
    [("/mnt/data/shard-3", "folio_wait_bit_common", True), ("/feed", "pipe_read", False)],
)
def test_a_rank_may_wait_for_its_dataloader_as_long_as_the_worker_may_for_what_it_reads(
    target: str, wchan: str, may_pass: bool
) -> None:
    worker = Child(
        process=blocked("read", wchan, target, pid=21), stacks=stacks(WORKER_LOOP, FETCH, READ_SHARD, pid=21)
    )
    assert activity_of(view(look(stacks(USER, LOADER), children=(worker,)))).may_pass is may_pass


def test_state_d_is_no_wait_for_other_ranks_even_where_no_stack_can_be_read() -> None:
    nothing = Missing(source="stacks", reason=Reason.REFUSED)
    process = blocked("ioctl", "uvm_ioctl").model_copy(update={"state": "D"})
    seen = activity_of(view(look(stacks(USER), process=process).model_copy(update={"stacks": nothing})))
    assert (seen.doing, seen.cause, seen.may_pass) == (Doing.OUTSIDE, Cause.UNKNOWN, True)


def test_a_process_in_words() -> None:
    process = Process(
        pid=1,
        state="D",
        wchan="rpc_wait_bit_killable",
        syscall=Syscall(name="read", fd=37, target="/mnt/data/x", file_system="nfs4"),
    )
    words = process_in_words(process)
    assert words == "in uninterruptible sleep in read() on /mnt/data/x (nfs4), fd 37 [rpc_wait_bit_killable]"


def test_an_operation_is_called_without_its_class() -> None:
    """Inference engines have collectives of their own, as methods."""
    file = "/env/lib/python3.11/site-packages/vllm/distributed/device_communicators/cpu_communicator.py"
    seen = activity_of(view(look(stacks(Frame("_CPUSHMDistributed.all_reduce", file, 275)))))
    assert (seen.doing, seen.op) == (Doing.COLLECTIVE, "all_reduce")


def test_what_is_not_seen_is_unknown() -> None:
    nothing = Missing(source="stacks", reason=Reason.NOT_PERMITTED)
    unseen = look(stacks(USER)).model_copy(update={"stacks": nothing})
    assert activity_of(view(unseen)).doing is Doing.UNKNOWN
