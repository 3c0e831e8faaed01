"""Each row of the tables matches the real frames it was written for, and not its near misses."""

import pytest

from collector.diagnose.frame_rows import frame_pattern
from collector.diagnose.kernel_rows import kernel_pattern
from collector.diagnose.patterns import Doing
from shared.diagnosis import Cause

SITE = "/env/lib/python3.11/site-packages"


@pytest.mark.parametrize(
    ("function", "file", "doing", "cause"),
    [
        ("all_reduce", f"{SITE}/torch/distributed/distributed_c10d.py", Doing.COLLECTIVE, Cause.COMMUNICATION),
        ("_all_gather_base", f"{SITE}/torch/distributed/distributed_c10d.py", Doing.COLLECTIVE, Cause.COMMUNICATION),
        ("all_gather_object", f"{SITE}/torch/distributed/distributed_c10d.py", Doing.COLLECTIVE, Cause.COMMUNICATION),
        (
            "broadcast_object_list",
            f"{SITE}/torch/distributed/distributed_c10d.py",
            Doing.COLLECTIVE,
            Cause.COMMUNICATION,
        ),
        ("monitored_barrier", f"{SITE}/torch/distributed/distributed_c10d.py", Doing.COLLECTIVE, Cause.COMMUNICATION),
        ("recv", f"{SITE}/torch/distributed/distributed_c10d.py", Doing.P2P, Cause.COMMUNICATION),
        ("batch_isend_irecv", f"{SITE}/torch/distributed/distributed_c10d.py", Doing.P2P, Cause.COMMUNICATION),
        ("new_group", f"{SITE}/torch/distributed/distributed_c10d.py", Doing.STORE, Cause.RENDEZVOUS),
        ("init_process_group", f"{SITE}/torch/distributed/distributed_c10d.py", Doing.STORE, Cause.RENDEZVOUS),
        ("_create_c10d_store", f"{SITE}/torch/distributed/rendezvous.py", Doing.STORE, Cause.RENDEZVOUS),
        ("_engine_run_backward", f"{SITE}/torch/autograd/graph.py", Doing.WORK, Cause.COMMUNICATION),
        ("synchronize", f"{SITE}/torch/cuda/__init__.py", Doing.DEVICE, Cause.DEVICE_SYNC),
        (
            "_MultiProcessingDataLoaderIter._try_get_data",
            f"{SITE}/torch/utils/data/dataloader.py",
            Doing.OUTSIDE,
            Cause.DATALOADER,
        ),
        ("_worker_loop", f"{SITE}/torch/utils/data/_utils/worker.py", Doing.OUTSIDE, Cause.DATALOADER),
        ("Pdb.interaction", "/usr/lib/python3.11/pdb.py", Doing.OUTSIDE, Cause.DEBUGGER),
        ("save", f"{SITE}/torch/serialization.py", Doing.OUTSIDE, Cause.CHECKPOINT),
        ("save_checkpoint", "/home/ada/train.py", Doing.OUTSIDE, Cause.CHECKPOINT),
        ("load_ckpt", "/home/ada/train.py", Doing.OUTSIDE, Cause.CHECKPOINT),
        ("FileBaton.wait", f"{SITE}/torch/utils/file_baton.py", Doing.OUTSIDE, Cause.COMPILE),
        ("UnixFileLock._acquire", f"{SITE}/filelock/_unix.py", Doing.OUTSIDE, Cause.FILESYSTEM),
        ("SocketIO.readinto", "/usr/lib/python3.11/socket.py", Doing.OUTSIDE, Cause.NETWORK),
        ("_shutdown", "/usr/lib/python3.11/threading.py", Doing.OUTSIDE, Cause.TEARDOWN),
        ("_find_and_load", "<frozen importlib._bootstrap>", Doing.OUTSIDE, Cause.IMPORT),
        ("Popen.wait", "/usr/lib/python3.11/subprocess.py", Doing.OUTSIDE, Cause.USER_CODE),
    ],
)
def test_python_frames(function: str, file: str, doing: Doing, cause: Cause) -> None:
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
