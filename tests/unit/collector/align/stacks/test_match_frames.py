"""Each row of the tables matches the real frames it was written for, and not its near misses."""

import pytest

from collector.align.stacks.tables.frames_native import waits_for_work
from collector.align.stacks.tables.kernel_waits import kernel_pattern
from collector.align.stacks.tables.match_frames import frame_pattern
from collector.align.stacks.tables.row_types import Doing
from shared.answer.words import Cause

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
        (
            "_CPUSHMDistributed.all_reduce",
            f"{SITE}/vllm/distributed/device_communicators/cpu_communicator.py",
            Doing.COLLECTIVE,
            Cause.COMMUNICATION,
        ),
        ("recv_object", f"{SITE}/sglang/srt/distributed/parallel_state.py", Doing.P2P, Cause.COMMUNICATION),
        ("recv", f"{SITE}/torch/distributed/distributed_c10d.py", Doing.P2P, Cause.COMMUNICATION),
        ("batch_isend_irecv", f"{SITE}/torch/distributed/distributed_c10d.py", Doing.P2P, Cause.COMMUNICATION),
        ("new_group", f"{SITE}/torch/distributed/distributed_c10d.py", Doing.STORE, Cause.RENDEZVOUS),
        ("init_process_group", f"{SITE}/torch/distributed/distributed_c10d.py", Doing.STORE, Cause.RENDEZVOUS),
        ("wait_all", f"{SITE}/torch/futures/__init__.py", Doing.WORK, Cause.COMMUNICATION),
        ("Manager.wait_quorum", f"{SITE}/torchft/manager.py", Doing.STORE, Cause.RENDEZVOUS),
        ("Manager.should_commit", f"{SITE}/torchft/manager.py", Doing.STORE, Cause.RENDEZVOUS),
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
        (
            "_AsyncCheckpointProcess._wait_for_response",
            f"{SITE}/torch/distributed/checkpoint/_async_process_executor.py",
            Doing.OUTSIDE,
            Cause.CHECKPOINT,
        ),
        ("save_checkpoint", "/home/ada/train.py", Doing.OUTSIDE, Cause.CHECKPOINT),
        ("load_ckpt", "/home/ada/train.py", Doing.OUTSIDE, Cause.CHECKPOINT),
        ("FileBaton.wait", f"{SITE}/torch/utils/file_baton.py", Doing.OUTSIDE, Cause.COMPILE),
        ("UnixFileLock._acquire", f"{SITE}/filelock/_unix.py", Doing.OUTSIDE, Cause.FILESYSTEM),
        ("SocketIO.readinto", "/usr/lib/python3.11/socket.py", Doing.OUTSIDE, Cause.NETWORK),
        ("_shutdown", "/usr/lib/python3.11/threading.py", Doing.OUTSIDE, Cause.TEARDOWN),
        ("_find_and_load", "<frozen importlib._bootstrap>", Doing.OUTSIDE, Cause.IMPORT),
        ("Popen.wait", "/usr/lib/python3.11/subprocess.py", Doing.OUTSIDE, Cause.USER_CODE),
        ("barrier", f"{SITE}/torch/distributed/elastic/utils/store.py", Doing.STORE, Cause.RENDEZVOUS),
        ("_wait_all_workers", f"{SITE}/torch/distributed/rpc/api.py", Doing.WORK, Cause.COMMUNICATION),
        ("synchronize", f"{SITE}/horovod/torch/mpi_ops.py", Doing.WORK, Cause.COMMUNICATION),
        (
            "FSDPParamGroup.wait_for_unshard",
            f"{SITE}/torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py",
            Doing.WORK,
            Cause.COMMUNICATION,
        ),
        ("_wait_batch_p2p", f"{SITE}/torch/distributed/pipelining/schedules.py", Doing.WORK, Cause.COMMUNICATION),
        (
            "_communicate",
            "/workspace/megatron/core/pipeline_parallel/p2p_communication.py",
            Doing.WORK,
            Cause.COMMUNICATION,
        ),
        (
            "AllGatherHandle.wait",
            f"{SITE}/deepspeed/runtime/zero/partition_parameters.py",
            Doing.WORK,
            Cause.COMMUNICATION,
        ),
        ("Event.wait", f"{SITE}/torch/cuda/streams.py", Doing.DEVICE, Cause.DEVICE_SYNC),
        ("mark_step", f"{SITE}/torch_xla/core/xla_model.py", Doing.DEVICE, Cause.DEVICE_SYNC),
        ("JITFunction.run", f"{SITE}/triton/runtime/jit.py", Doing.DEVICE, Cause.DEVICE_SYNC),
        ("fetch", f"{SITE}/torch/utils/data/_utils/fetch.py", Doing.OUTSIDE, Cause.DATALOADER),
        ("__next__", f"{SITE}/nvidia/dali/plugin/base_iterator.py", Doing.OUTSIDE, Cause.DATALOADER),
        ("iterator", f"{SITE}/webdataset/pipeline.py", Doing.OUTSIDE, Cause.DATALOADER),
        ("Dataset.map", f"{SITE}/datasets/arrow_dataset.py", Doing.OUTSIDE, Cause.DATALOADER),
        ("save", f"{SITE}/torch/distributed/checkpoint/state_dict_saver.py", Doing.OUTSIDE, Cause.CHECKPOINT),
        ("serialize_file", f"{SITE}/safetensors/torch.py", Doing.OUTSIDE, Cause.CHECKPOINT),
        (
            "TorchCheckpointEngine.save",
            f"{SITE}/deepspeed/runtime/checkpoint_engine/torch_checkpoint_engine.py",
            Doing.OUTSIDE,
            Cause.CHECKPOINT,
        ),
        ("save", f"{SITE}/megatron/core/dist_checkpointing/serialization.py", Doing.OUTSIDE, Cause.CHECKPOINT),
        ("save_checkpoint", f"{SITE}/lightning/fabric/plugins/io/torch_io.py", Doing.OUTSIDE, Cause.CHECKPOINT),
        ("FileLock.acquire", f"{SITE}/torch/utils/_filelock.py", Doing.OUTSIDE, Cause.FILESYSTEM),
        ("copyfileobj", "/usr/lib/python3.11/shutil.py", Doing.OUTSIDE, Cause.FILESYSTEM),
        ("_compile", f"{SITE}/torch/_dynamo/convert_frame.py", Doing.OUTSIDE, Cause.COMPILE),
        ("_compile_fx_inner", f"{SITE}/torch/_inductor/compile_fx.py", Doing.OUTSIDE, Cause.COMPILE),
        ("PyCodeCache.load", f"{SITE}/torch/_inductor/codecache.py", Doing.OUTSIDE, Cause.COMPILE),
        ("generate", f"{SITE}/torch/_inductor/codegen/wrapper.py", Doing.OUTSIDE, Cause.COMPILE),
        ("compile", f"{SITE}/triton/compiler/compiler.py", Doing.OUTSIDE, Cause.COMPILE),
        ("make_cubin", f"{SITE}/triton/backends/nvidia/compiler.py", Doing.OUTSIDE, Cause.COMPILE),
        ("OpBuilder.jit_load", f"{SITE}/deepspeed/ops/op_builder/builder.py", Doing.OUTSIDE, Cause.COMPILE),
        ("getaddrinfo", "/usr/lib/python3.11/socket.py", Doing.OUTSIDE, Cause.NETWORK),
        ("sleep", f"{SITE}/tenacity/nap.py", Doing.OUTSIDE, Cause.NETWORK),
        ("Retry.sleep", f"{SITE}/urllib3/util/retry.py", Doing.OUTSIDE, Cause.NETWORK),
        ("HTTPAdapter.send", f"{SITE}/requests/adapters.py", Doing.OUTSIDE, Cause.NETWORK),
        ("handle_request", f"{SITE}/httpcore/_sync/http11.py", Doing.OUTSIDE, Cause.NETWORK),
        ("sync", f"{SITE}/fsspec/asyn.py", Doing.OUTSIDE, Cause.NETWORK),
        ("_call_s3", f"{SITE}/s3fs/core.py", Doing.OUTSIDE, Cause.NETWORK),
        ("HfApi.upload_folder", f"{SITE}/huggingface_hub/hf_api.py", Doing.OUTSIDE, Cause.NETWORK),
        ("MailboxHandle.wait_or", f"{SITE}/wandb/sdk/mailbox/mailbox_handle.py", Doing.OUTSIDE, Cause.NETWORK),
        ("do_wait_suspend", f"{SITE}/debugpy/_vendored/pydevd/pydevd.py", Doing.OUTSIDE, Cause.DEBUGGER),
        ("InteractiveShell.mainloop", f"{SITE}/IPython/terminal/interactiveshell.py", Doing.OUTSIDE, Cause.DEBUGGER),
        ("Cmd.cmdloop", "/usr/lib/python3.11/cmd.py", Doing.OUTSIDE, Cause.DEBUGGER),
        ("unix_getpass", "/usr/lib/python3.11/getpass.py", Doing.OUTSIDE, Cause.USER_CODE),
        ("_exit_function", "/usr/lib/python3.11/multiprocessing/util.py", Doing.OUTSIDE, Cause.TEARDOWN),
        ("ApplyResult.get", "/usr/lib/python3.11/multiprocessing/pool.py", Doing.OUTSIDE, Cause.USER_CODE),
        ("Popen.poll", "/usr/lib/python3.11/multiprocessing/popen_fork.py", Doing.OUTSIDE, Cause.USER_CODE),
        ("Handler.acquire", "/usr/lib/python3.11/logging/__init__.py", Doing.OUTSIDE, Cause.USER_CODE),
        ("StreamHandler.flush", "/usr/lib/python3.11/logging/__init__.py", Doing.OUTSIDE, Cause.USER_CODE),
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
