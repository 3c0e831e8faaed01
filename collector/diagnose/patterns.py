"""Step 8's tables: what a frame, a system call or a kernel function says about where a process is.

Data, not code paths: adding knowledge is adding a row. Above each row, or group of rows, stands a real frame that
it must match, as py-spy prints it. Rows are tried from the innermost frame outwards; at one frame the first row wins.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from shared.diagnosis import Cause


class Doing(StrEnum):
    """What a thread is doing, as far as the hang is concerned."""

    COLLECTIVE = "collective"
    P2P = "p2p"
    STORE = "store"
    """Waiting for a rendezvous, a store key or a new group: for other ranks, outside any recorded sequence."""
    WORK = "work"
    """Waiting for communication of a kind that the frame does not tell (a work handle, a backward pass)."""
    DEVICE = "device"
    OUTSIDE = "outside"
    """In none of these: not waiting for another rank."""
    UNKNOWN = "unknown"


WAITS_FOR_RANKS = frozenset({Doing.COLLECTIVE, Doing.P2P, Doing.STORE, Doing.WORK})


@dataclass(frozen=True)
class FramePattern:
    """A frame whose function and file match says what the thread is doing and why."""

    doing: Doing
    cause: Cause
    label: str
    function: re.Pattern[str]
    file: re.Pattern[str]


def _row(doing: Doing, cause: Cause, label: str, function: str, file: str = "") -> FramePattern:
    return FramePattern(doing, cause, label, re.compile(function), re.compile(file))


CHILD_PROCESS = "waiting for a child process"

_C10D = r"torch/distributed/distributed_c10d\.py$"

FRAMES: tuple[FramePattern, ...] = (
    # all_reduce (torch/distributed/distributed_c10d.py:3252)
    # barrier (torch/distributed/distributed_c10d.py:5356)
    _row(
        Doing.COLLECTIVE,
        Cause.COMMUNICATION,
        "in a collective",
        r"^_?(all_reduce|all_gather|gather|scatter|broadcast|reduce|reduce_scatter|all_to_all|barrier)"
        r"(_into_tensor|_tensor|_base|_single|_object|_object_list|_coalesced)*$",
        _C10D,
    ),
    # monitored_barrier (torch/distributed/distributed_c10d.py:5421)
    _row(Doing.COLLECTIVE, Cause.COMMUNICATION, "in a collective", r"^monitored_barrier$", _C10D),
    # recv (torch/distributed/distributed_c10d.py:2799)
    _row(
        Doing.P2P,
        Cause.COMMUNICATION,
        "in a point-to-point operation",
        r"^(send|recv|isend|irecv|send_object_list|recv_object_list|batch_isend_irecv)$",
        _C10D,
    ),
    # _store_based_barrier (torch/distributed/distributed_c10d.py:966)
    # new_group (torch/distributed/distributed_c10d.py:5610)
    # init_process_group (torch/distributed/distributed_c10d.py:1854)
    _row(
        Doing.STORE,
        Cause.RENDEZVOUS,
        "in rendezvous",
        r"^(_store_based_barrier|new_group|_new_group_with_tag|new_subgroups|split_group|init_process_group"
        r"|_new_process_group_helper|destroy_process_group)$",
        _C10D,
    ),
    # _create_c10d_store (torch/distributed/rendezvous.py:207)
    _row(Doing.STORE, Cause.RENDEZVOUS, "in rendezvous", r".", r"torch/distributed/rendezvous\.py$"),
    # wait_tensor (torch/distributed/_functional_collectives.py:129)
    _row(
        Doing.WORK, Cause.COMMUNICATION, "waiting for a collective", r".", r"torch/distributed/_functional_collectives"
    ),
    # finalize_backward (torch/nn/parallel/distributed.py:1605)
    # _engine_run_backward (torch/autograd/graph.py:869)
    _row(Doing.WORK, Cause.COMMUNICATION, "in backward", r"^_engine_run_backward$", r"torch/autograd/graph\.py$"),
    # synchronize (torch/cuda/__init__.py:1040)
    # synchronize (torch/cuda/streams.py:226)
    _row(
        Doing.DEVICE, Cause.DEVICE_SYNC, "waiting for the device", r"^(synchronize|wait_stream|query)$", r"torch/cuda/"
    ),
    # _try_get_data (torch/utils/data/dataloader.py:1310)
    # _next_data (torch/utils/data/dataloader.py:1498)
    _row(
        Doing.OUTSIDE,
        Cause.DATALOADER,
        "waiting for its DataLoader",
        r"^(_try_get_data|_get_data|_next_data|__next__|__iter__|_shutdown_workers|_reset)$",
        r"torch/utils/data/dataloader\.py$",
    ),
    # _worker_loop (torch/utils/data/_utils/worker.py:349); fetch (torch/utils/data/_utils/fetch.py:52)
    _row(
        Doing.OUTSIDE,
        Cause.DATALOADER,
        "in a DataLoader worker",
        r"^(_worker_loop|fetch)$",
        r"torch/utils/data/_utils/",
    ),
    # interaction (pdb.py:357); readline (bdb.py:…); do_wait
    _row(
        Doing.OUTSIDE,
        Cause.DEBUGGER,
        "in a debugger",
        r".",
        r"(^|/)(pdb|bdb|cmd|code|ipdb/.*|IPython/.*|debugpy/.*)\.py$",
    ),
    # save (torch/serialization.py:944); _save (torch/serialization.py:1200)
    _row(Doing.OUTSIDE, Cause.CHECKPOINT, "saving or loading a checkpoint", r".", r"torch/serialization\.py$"),
    # save (torch/distributed/checkpoint/state_dict_saver.py:170)
    _row(Doing.OUTSIDE, Cause.CHECKPOINT, "saving or loading a checkpoint", r".", r"torch/distributed/checkpoint/"),
    # serialize_file (safetensors/torch.py:286)
    _row(Doing.OUTSIDE, Cause.CHECKPOINT, "saving or loading a checkpoint", r".", r"/safetensors/"),
    # _compile_fx_inner (torch/_inductor/compile_fx.py:650); convert_frame (torch/_dynamo/convert_frame.py:1100)
    _row(Doing.OUTSIDE, Cause.COMPILE, "compiling", r".", r"torch/(_inductor|_dynamo|_functorch)/|/triton/"),
    # load (torch/utils/cpp_extension.py:1514); wait (torch/utils/file_baton.py:63)
    _row(Doing.OUTSIDE, Cause.COMPILE, "compiling", r".", r"torch/utils/(cpp_extension|file_baton)\.py$"),
    # acquire (filelock/_api.py:332)
    _row(Doing.OUTSIDE, Cause.FILESYSTEM, "waiting for a file lock", r".", r"/(filelock|fasteners|portalocker)/"),
    # getaddrinfo (socket.py:962); connect (http/client.py:…); readinto (socket.py:706)
    _row(
        Doing.OUTSIDE,
        Cause.NETWORK,
        "waiting for the network outside the job",
        r".",
        r"(^|/)(socket|ssl|http/client|urllib/request)\.py$|/(urllib3|requests|httpx|httpcore|aiohttp|botocore|grpc)/",
    ),
    # _exitfunc (multiprocessing/util.py:…); _shutdown (threading.py:1590)
    _row(
        Doing.OUTSIDE, Cause.TEARDOWN, "shutting down", r"^(_shutdown|_exit_function|_run_finalizers|_run_exitfuncs)$"
    ),
    # _find_and_load (<frozen importlib._bootstrap>:1176)
    _row(Doing.OUTSIDE, Cause.IMPORT, "importing", r".", r"<frozen importlib"),
    # _communicate (subprocess.py:2115); wait (subprocess.py:1264)
    _row(Doing.OUTSIDE, Cause.USER_CODE, CHILD_PROCESS, r".", r"(^|/)subprocess\.py$"),
    # save_checkpoint (train.py:88): the user's own function says what it is for. Not `checkpoint`
    # (torch/utils/checkpoint.py:496), which recomputes activations.
    _row(
        Doing.OUTSIDE,
        Cause.CHECKPOINT,
        "saving or loading a checkpoint",
        r"(?i)(save|write|load|restore|export|commit).*(check_?point|ckpt)|(check_?point|ckpt).*(save|write|load|restore)",
    ),
)

NATIVE_FRAMES: tuple[FramePattern, ...] = (
    # c10d::TCPStore::wait (libtorch_cpu.so); c10d::PrefixStore::get (libtorch_cpu.so)
    _row(Doing.STORE, Cause.RENDEZVOUS, "waiting for a store key", r"^c10d::(\w*Store|detail::TCPClient)::"),
    # gloo::transport::tcp::UnboundBuffer::waitRecv (libtorch_cpu.so); c10d::ProcessGroupGloo::RecvWork::wait
    _row(Doing.P2P, Cause.COMMUNICATION, "in a point-to-point operation", r"c10d::ProcessGroup\w+::(Recv|Send)Work"),
    # c10d::Reducer::finalize_backward (libtorch_cpu.so)
    _row(Doing.WORK, Cause.COMMUNICATION, "in a gradient reduction", r"^c10d::(Reducer|Logger)::"),
    # c10d::Work::wait (libtorch_cpu.so); c10d::ProcessGroupNCCL::WorkNCCL::synchronizeInternal
    _row(Doing.WORK, Cause.COMMUNICATION, "waiting for a collective", r"^(c10d::(Work|ProcessGroup\w*)::|gloo::)"),
    # ncclGroupEndInternal (libnccl.so.2); ncclLocalOpAppend (libnccl.so.2)
    _row(Doing.WORK, Cause.COMMUNICATION, "inside the communication library", r"^p?(nccl|rccl)[A-Z]"),
    # cudaStreamSynchronize (libcudart.so.12); cuStreamSynchronize (libcuda.so.1)
    _row(Doing.DEVICE, Cause.DEVICE_SYNC, "waiting for the device", r"^(cu|cuda|hip)(\w*Synchronize|\w*Memcpy\w*)"),
    # _wrap_dlopen … take_gil (libpython3.11.so.1.0)
    _row(Doing.OUTSIDE, Cause.GIL, "waiting for the GIL", r"^take_gil$"),
)

MAY_PASS = frozenset({Cause.NETWORK, Cause.CHECKPOINT, Cause.COMPILE, Cause.IMPORT, Cause.FILESYSTEM})
"""Causes that a healthy job has, too, for a minute: only the kernel can say that it will not end by itself."""

WAITS_FOR_WORK = re.compile(
    r"(^|/)(queue|selectors|socketserver|code|cmd)\.py$|multiprocessing/(queues|connection)\.py$|(^|/)asyncio/"
)
"""Files of innermost frames of a loop that waits for work: an idle server looks like this, for days."""

WAITS_FOR_THREAD = re.compile(r"(^|/)(threading|queue|concurrent/futures/(_base|thread)|asyncio/\w+|selectors)\.py$")
"""Files of innermost frames that tell that the main thread waits for another thread of its own process."""


@dataclass(frozen=True)
class KernelPattern:
    """A system call on a certain kind of descriptor, or a wait channel, says what holds the process."""

    cause: Cause
    label: str
    syscall: re.Pattern[str]
    target: re.Pattern[str]
    wchan: re.Pattern[str]
    may_pass: bool
    """May it end by itself after a while, as a slow disk does?"""


def _kernel(
    cause: Cause, label: str, *, syscall: str = "", target: str = "", wchan: str = "", may_pass: bool = False
) -> KernelPattern:
    return KernelPattern(cause, label, re.compile(syscall), re.compile(target), re.compile(wchan), may_pass)


KERNEL: tuple[KernelPattern, ...] = (
    # syscall read, fd 9 -> pipe:[81234], wchan anon_pipe_read (pipe_read before Linux 6.14)
    _kernel(Cause.PIPE_BLOCKED, "reading an empty pipe", wchan=r"pipe_read$"),
    # syscall write, fd 1 -> pipe:[81234], wchan anon_pipe_write (pipe_write before Linux 6.14)
    _kernel(Cause.PIPE_BLOCKED, "writing to a full pipe", wchan=r"pipe_write$"),
    # syscall openat, wchan wait_for_partner: a FIFO that nobody has open at the other end
    _kernel(Cause.PIPE_BLOCKED, "opening a FIFO that nobody has open at the other end", wchan=r"^wait_for_partner$"),
    # syscall flock, wchan locks_lock_inode_wait; fcntl F_SETLKW, wchan fcntl_setlk
    _kernel(Cause.FILESYSTEM, "waiting for a file lock", wchan=r"^(locks_lock_inode_wait|fcntl_setlk|posix_lock)"),
    _kernel(Cause.FILESYSTEM, "waiting for a file lock", syscall=r"^flock$"),
    # wchan rpc_wait_bit_killable, nfs_wait_bit_killable; fuse: request_wait_answer
    _kernel(
        Cause.FILESYSTEM,
        "waiting for a remote file system",
        wchan=r"^(rpc_|nfs\d?_|request_wait_answer|fuse_|cl_)",
        may_pass=True,
    ),
    # syscall clone3, wchan kernel_clone (_do_fork before Linux 5.10): vfork's parent sleeps until the child executes
    _kernel(
        Cause.USER_CODE,
        "waiting for a child process to execute its program",
        wchan=r"^(kernel_clone|_do_fork|wait_for_vfork_done)$",
    ),
    # syscall read, fd 0 -> /dev/pts/3, wchan wait_woken (n_tty_read): somebody is expected to type
    _kernel(
        Cause.DEBUGGER, "waiting for input from a terminal", syscall=r"^read$", target=r"^/dev/(pts/\d+|tty\w*|console)"
    ),
    # syscall read, fd 37 -> /mnt/data/shard-3.tar
    _kernel(
        Cause.FILESYSTEM,
        "in file input or output",
        syscall=r"^(p?(read|write)(v|64)?v?2?|fsync|fdatasync)$",
        target=r"^/(?!dev/)",
        may_pass=True,
    ),
)


def kernel_pattern(syscall: str, target: str, wchan: str) -> KernelPattern | None:
    """Return the first kernel row that matches all three facts; empty parts of a row match anything."""
    for row in KERNEL:
        if row.syscall.search(syscall) and row.target.search(target) and row.wchan.search(wchan):
            return row
    return None


def frame_pattern(function: str, file: str, *, native: bool) -> FramePattern | None:
    """Return the first row that matches the frame, or None. Python names are matched without their class."""
    name = function if native else function.rpartition(".")[2]
    for row in NATIVE_FRAMES if native else FRAMES:
        if row.function.search(name) and row.file.search(file):
            return row
    return None
