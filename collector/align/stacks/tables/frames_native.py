"""Step 8's table of native frames, and of the places where a loop waits for work or for a thread of its own."""

import re

from collector.align.stacks.tables.row_types import Doing, FramePattern, WaitsOn, frame_row, package, stdlib
from shared.answer.words import Cause

IN_DATABASE = "in SQLite"

NATIVE_FRAMES: tuple[FramePattern, ...] = (
    # c10d::TCPStore::wait (libtorch_cpu.so); c10d::PrefixStore::get (libtorch_cpu.so)
    frame_row(Doing.STORE, Cause.RENDEZVOUS, "waiting for a store key", r"^c10d::(\w*Store|detail::TCPClient)::"),
    # c10d::ProcessGroupGloo::RecvWork::wait (libtorch_cpu.so)
    frame_row(
        Doing.P2P, Cause.COMMUNICATION, "in a point-to-point operation", r"c10d::ProcessGroup\w+::(Recv|Send)Work"
    ),
    # c10d::Reducer::finalize_backward (libtorch_cpu.so)
    frame_row(Doing.WORK, Cause.COMMUNICATION, "in a gradient reduction", r"^c10d::(Reducer|Logger)::"),
    # c10d::Work::wait (libtorch_cpu.so); c10d::ProcessGroupNCCL::WorkNCCL::synchronizeInternal
    frame_row(Doing.WORK, Cause.COMMUNICATION, "waiting for a collective", r"^(c10d::(Work|ProcessGroup\w*)::|gloo::)"),
    # torch::jit::PythonFutureWrapper::wait (libtorch_python.so): fut.wait() of rpc_async leaves no frame of Python's
    # torch::distributed::rpc::PyRRef::toHere (libtorch_python.so)
    # torch::distributed::autograd::DistEngine::execute (libtorch_cpu.so)
    frame_row(
        Doing.WORK,
        Cause.COMMUNICATION,
        "waiting for a remote procedure call",
        r"^(torch::jit::PythonFutureWrapper::(wait|value)|torch::distributed::(rpc|autograd)::)",
        waits_on=WaitsOn.UNRECORDED,
    ),
    # ncclGroupEndInternal (libnccl.so.2); ncclLocalOpAppend (libnccl.so.2)
    frame_row(Doing.WORK, Cause.COMMUNICATION, "inside the communication library", r"^p?(nccl|rccl)[A-Z]"),
    # MPI_Allreduce (libmpi.so.40); PMPI_Barrier (libmpi.so.12); ompi_request_default_wait (libmpi.so.40)
    frame_row(Doing.WORK, Cause.COMMUNICATION, "inside MPI", r"^(P?MPI_[A-Z]|ompi_|MPIR_|MPIDI?_)"),
    # cudaStreamSynchronize (libcudart.so.12); cuStreamSynchronize (libcuda.so.1); hipDeviceSynchronize (libamdhip64.so)
    frame_row(
        Doing.DEVICE,
        Cause.DEVICE_SYNC,
        "waiting for the device",
        r"^(cu|cuda|hip)(\w*Synchronize|\w*Memcpy\w*|Launch\w+|Free\w*|StreamWaitEvent|EventQuery)",
    ),
    # take_gil (python3.11): waits until another thread lets go of the interpreter
    frame_row(Doing.OUTSIDE, Cause.GIL, "waiting for the GIL", r"^take_gil$"),
    # gc_collect_main (python3.11); _PyGC_Collect (python3.13)
    frame_row(Doing.OUTSIDE, Cause.USER_CODE, "collecting garbage", r"^(gc_collect_\w+|_?PyGC_\w*[Cc]ollect\w*)$"),
    # acquire_timed (python3.11), which PyThread_acquire_lock_timed is called from
    frame_row(
        Doing.OUTSIDE,
        Cause.USER_CODE,
        "waiting for a lock",
        r"^(acquire_timed|lock_PyThread_acquire_lock|rlock_acquire)$",
        waits_on=WaitsOn.LOCK,
    ),
    # sqlite3InvokeBusyHandler (libsqlite3.so.0.8.6); unixSleep, whose name is stripped (libsqlite3.so.0.8.6)
    # sqlite3_step (_sqlite3.cpython-312-x86_64-linux-gnu.so)
    frame_row(
        Doing.OUTSIDE,
        Cause.FILESYSTEM,
        IN_DATABASE,
        r".",
        r"(^|/)(lib|_|pysqlite3/_)?sqlite3[^/]*\.so[^/]*$",
        waits_on=WaitsOn.DATABASE,
    ),
    # sqlite3BtreeBeginTrans (python3.12): where it is a part of the interpreter
    frame_row(
        Doing.OUTSIDE, Cause.FILESYSTEM, IN_DATABASE, r"^sqlite3([A-Z]|_step|_exec|_sleep)", waits_on=WaitsOn.DATABASE
    ),
    # dlopen (libc.so.6); _dl_open (ld-linux-x86-64.so.2)
    frame_row(Doing.OUTSIDE, Cause.IMPORT, "loading a shared library", r"^(dlopen|_?_?dl_open\w*)"),
    # getaddrinfo (libc.so.6); __res_context_send (libc.so.6)
    frame_row(Doing.OUTSIDE, Cause.NETWORK, "looking up a host's name", r"^(getaddrinfo|gethostby\w+|__res_\w+)"),
)

_WORK_SOURCES: tuple[tuple[re.Pattern[str], re.Pattern[str]], ...] = tuple(
    (re.compile(function), re.compile(file))
    for function, file in (
        # get (queue.py:171); get (multiprocessing/queues.py:103); recv (multiprocessing/connection.py:250)
        (r"^(get|recv|recv_bytes|_recv|_recv_bytes|poll|_poll|wait|accept)$", stdlib("queue", r"multiprocessing/\w+")),
        # main (multiprocessing/resource_tracker.py:227): beside every process that has spawned others
        (r"^main$", stdlib(r"multiprocessing/(resource_tracker|semaphore_tracker|forkserver)")),
        # select (selectors.py:468); serve_forever (socketserver.py:232); accept (socket.py:293)
        (r"^(select|poll|serve_forever|accept)$", stdlib("selectors", "socketserver", "socket")),
        # _run_once (asyncio/base_events.py:1884); run_until_complete (uvloop/__init__.py:80)
        (r".", rf"{stdlib('asyncio/.*')}|{package('uvloop', 'uvicorn', 'tornado')}"),
        # recv (zmq/sugar/socket.py:990); main_loop (ray/_private/worker.py:940)
        # read_response (redis/connection.py:520)
        (
            r"^(recv\w*|poll|main_loop|read_response|consume|start_consuming|wait_for_termination|blpop|brpop)$",
            package("zmq", "ray", "redis", "kafka", "confluent_kafka", "pika", "grpc", "nats", "celery", "kombu"),
        ),
        # acquire_read (vllm/distributed/device_communicators/shm_broadcast.py:490)
        # recv_requests (sglang/srt/managers/scheduler.py:990); _worker (torch/_inductor/compile_worker/subproc_pool.py)
        (
            r"^(acquire_read|dequeue|recv_requests|run_busy_loop|worker_busy_loop|event_loop_\w+)$",
            package("vllm", "sglang", "tensorrt_llm", "lmdeploy"),
        ),
    )
)
"""Frames of loops that wait for work: an idle server looks like this, for days."""

WAITS_FOR_THREAD = re.compile(
    stdlib("threading", "queue", "concurrent/futures/(_base|thread)", r"asyncio/\w+", "selectors")
)
"""Files of innermost frames that tell that the main thread waits for another thread of its own process."""


def waits_for_work(function: str, file: str) -> bool:
    """Is the frame one in which a loop waits for work that may never come?"""
    name = function.rpartition(".")[2]
    return any(row_function.search(name) and row_file.search(file) for row_function, row_file in _WORK_SOURCES)
