"""Each row of the tables matches the real frames it was written for, and not its near misses."""

import pytest

from collector.align.stacks.tables.kernel_facts import kernel_pattern
from collector.align.stacks.tables.match_frames import frame_pattern, waits_for_work
from collector.align.stacks.tables.row_types import Doing
from shared.answer.words import Cause

SITE = "/env/lib/python3.11/site-packages"


@pytest.mark.parametrize(
    ("function", "file", "doing", "cause"),
    [
        ("_all_gather_base", f"{SITE}/torch/distributed/distributed_c10d.py", Doing.COLLECTIVE, Cause.COMMUNICATION),
        ("recv_object", f"{SITE}/sglang/srt/distributed/parallel_state.py", Doing.P2P, Cause.COMMUNICATION),
        ("Manager.should_commit", f"{SITE}/torchft/manager.py", Doing.STORE, Cause.RENDEZVOUS),
        ("_engine_run_backward", f"{SITE}/torch/autograd/graph.py", Doing.WORK, Cause.COMMUNICATION),
        ("_communicate", "/srv/megatron/core/pipeline_parallel/p2p_communication.py", Doing.WORK, Cause.COMMUNICATION),
        ("JITFunction.run", f"{SITE}/triton/runtime/jit.py", Doing.DEVICE, Cause.DEVICE_SYNC),
        ("Pdb.interaction", "/usr/lib/python3.11/pdb.py", Doing.OUTSIDE, Cause.DEBUGGER),
        ("load_ckpt", "/home/ada/train.py", Doing.OUTSIDE, Cause.CHECKPOINT),
        ("_find_and_load", "<frozen importlib._bootstrap>", Doing.OUTSIDE, Cause.IMPORT),
        ("generate", f"{SITE}/torch/_inductor/codegen/wrapper.py", Doing.OUTSIDE, Cause.COMPILE),
        ("Retry.sleep", f"{SITE}/urllib3/util/retry.py", Doing.OUTSIDE, Cause.NETWORK),
        ("unix_getpass", "/usr/lib/python3.11/getpass.py", Doing.OUTSIDE, Cause.USER_CODE),
    ],
)
def test_python_frames(function: str, file: str, doing: Doing, cause: Cause) -> None:
    """Of each row one is in `test_frames_switched_off.py`; here: names with their class, and whole paths."""
    row = frame_pattern(function, file, native=False)
    assert row is not None
    assert (row.doing, row.cause) == (doing, cause)


@pytest.mark.parametrize(
    ("function", "file"),
    [
        ("all_reduce", "/home/ada/collectives.py"),
        ("all_reduce_hook", f"{SITE}/torch/distributed/distributed_c10d.py"),
        ("get_rank", f"{SITE}/torch/distributed/distributed_c10d.py"),
        ("train_step", "/home/ada/train.py"),
        ("checkpointed_forward", "/home/ada/model.py"),
        ("checkpoint", f"{SITE}/torch/utils/checkpoint.py"),
        ("run", "/home/ada/pdb_reader.py"),
        ("read", "/home/ada/websocket.py"),
        ("wait", "/usr/lib/python3.11/threading.py"),
        ("_fn", f"{SITE}/torch/_dynamo/eval_frame.py"),
        ("waiting_room", "/home/ada/deepspeed/runtime.py"),
        ("forward", f"{SITE}/torch/distributed/fsdp/_fully_shard/_fsdp_state.py"),
        ("CompiledFxGraph.__call__", f"{SITE}/torch/_inductor/output_code.py"),
        ("run", f"{SITE}/torch/_inductor/compile_fx.py"),
        ("runtime_wrapper", f"{SITE}/torch/_functorch/_aot_autograd/runtime_wrappers.py"),
        ("main", "/home/ada/code.py"),
        ("main", "/home/ada/requests/train.py"),
        ("train_step", "/home/ada/datasets/loop.py"),
        ("Trainer._shutdown", "/home/ada/trainer.py"),
        ("socket.accept", "/usr/lib/python3.11/socket.py"),
    ],
)
def test_near_misses_among_python_frames(function: str, file: str) -> None:
    assert frame_pattern(function, file, native=False) is None


@pytest.mark.parametrize(
    ("function", "doing"),
    [
        ("c10d::TCPStore::wait", Doing.STORE),
        ("c10d::PrefixStore::get", Doing.STORE),
        ("c10d::ProcessGroupGloo::RecvWork::wait", Doing.P2P),
        ("c10d::Work::wait", Doing.WORK),
        ("c10d::Reducer::finalize_backward", Doing.WORK),
        ("ncclLocalOpAppend", Doing.WORK),
        ("cudaStreamSynchronize", Doing.DEVICE),
        ("take_gil", Doing.OUTSIDE),
        ("gc_collect_main", Doing.OUTSIDE),
        ("acquire_timed", Doing.OUTSIDE),
        ("MPI_Allreduce", Doing.WORK),
        ("hipStreamSynchronize", Doing.DEVICE),
    ],
)
def test_native_frames(function: str, doing: Doing) -> None:
    row = frame_pattern(function, "libtorch_cpu.so", native=True)
    assert row is not None
    assert row.doing is doing


@pytest.mark.parametrize(
    "function", ["pthread_cond_wait", "std::condition_variable::wait", "nccl", "at::native::copy_"]
)
def test_near_misses_among_native_frames(function: str) -> None:
    assert frame_pattern(function, "libc.so.6", native=True) is None


@pytest.mark.parametrize(
    ("syscall", "target", "wchan", "cause"),
    [
        ("read", "pipe:[81234]", "anon_pipe_read", Cause.PIPE_BLOCKED),
        ("write", "pipe:[81234]", "pipe_write", Cause.PIPE_BLOCKED),
        ("openat", "", "wait_for_partner", Cause.PIPE_BLOCKED),
        ("flock", "", "locks_lock_inode_wait", Cause.FILESYSTEM),
        ("newfstatat", "", "rpc_wait_bit_killable", Cause.FILESYSTEM),
        ("read", "/dev/pts/3", "wait_woken", Cause.USER_CODE),
        ("read", "/mnt/data/shard-3.tar", "folio_wait_bit", Cause.FILESYSTEM),
        ("fsync", "", "jbd2_log_wait_commit", Cause.FILESYSTEM),
        ("newfstatat", "", "ptlrpc_set_wait", Cause.FILESYSTEM),
        ("openat", "", "autofs_wait", Cause.FILESYSTEM),
        ("sendto", "socket:[4711]", "sk_stream_wait_memory", Cause.NETWORK),
        ("clone3", "", "kernel_clone", Cause.USER_CODE),
        ("wait4", "", "do_wait", Cause.USER_CODE),
        ("ioctl", "/dev/nvidia0", "", Cause.DEVICE_SYNC),
        ("futex", "", "do_freezer_trap", Cause.SIGNAL),
        ("running", "", "mem_cgroup_oom_synchronize", Cause.OOM),
    ],
)
def test_kernel_facts(syscall: str, target: str, wchan: str, cause: Cause) -> None:
    row = kernel_pattern(syscall, target, wchan)
    assert row is not None
    assert row.cause is cause


@pytest.mark.parametrize(
    ("syscall", "target", "wchan"),
    [("futex", "", "futex_do_wait"), ("poll", "", "poll_schedule_timeout"), ("read", "/dev/nvidia0", ""), ("", "", "")],
)
def test_near_misses_among_kernel_facts(syscall: str, target: str, wchan: str) -> None:
    assert kernel_pattern(syscall, target, wchan) is None


@pytest.mark.parametrize(
    ("function", "file"),
    [
        ("Queue.get", "/usr/lib/python3.11/queue.py"),
        ("Connection._recv", "/usr/lib/python3.11/multiprocessing/connection.py"),
        ("EpollSelector.select", "/usr/lib/python3.11/selectors.py"),
        ("socket.accept", "/usr/lib/python3.11/socket.py"),
        ("BaseEventLoop._run_once", "/usr/lib/python3.11/asyncio/base_events.py"),
        ("run_until_complete", f"{SITE}/uvloop/__init__.py"),
        ("Worker.main_loop", f"{SITE}/ray/_private/worker.py"),
        ("Socket.recv", f"{SITE}/zmq/sugar/socket.py"),
        ("MessageQueue.acquire_read", f"{SITE}/vllm/distributed/device_communicators/shm_broadcast.py"),
        ("Scheduler.recv_requests", f"{SITE}/sglang/srt/managers/scheduler.py"),
    ],
)
def test_loops_that_wait_for_work(function: str, file: str) -> None:
    assert waits_for_work(function, file)


@pytest.mark.parametrize(
    ("function", "file"),
    [
        ("Queue.put", "/usr/lib/python3.11/queue.py"),
        ("Queue.join", "/usr/lib/python3.11/queue.py"),
        ("Queue.get", "/home/ada/queue.py"),
        ("Thread.join", "/usr/lib/python3.11/threading.py"),
        ("Worker.init", f"{SITE}/ray/_private/worker.py"),
    ],
)
def test_near_misses_among_loops_that_wait_for_work(function: str, file: str) -> None:
    assert not waits_for_work(function, file)
