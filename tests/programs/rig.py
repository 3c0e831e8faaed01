"""What the programs here share: their groups, the faulty rank, a plain training loop, and the word to the test.

A test reads from a pipe when the ranks are about to reach their last places; run by hand, nothing is said.
"""

import itertools
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.distributed.rpc as rpc

FAULTY_RANK = int(os.environ.get("FAULTY_RANK", "2"))
"""The rank that goes astray, in the programs where exactly one does, and any could."""

FAULTY_STEP = 3
"""The step at which it does so: the groups have then a history that agrees."""

LIFETIME_SECONDS = int(os.environ.get("UNHANG_TEST_LIFETIME", "900"))
"""A rank ends itself after this time, should the test that started it be gone."""

OPERATIONS_TIME_OUT = timedelta(seconds=int(os.environ.get("UNHANG_TEST_TIMEOUT", "1800")))
"""How long an operation may take; as long as by default, unless a test is about that."""

BACKEND = os.environ.get("UNHANG_TEST_BACKEND", "gloo")
"""`nccl` where the programs run on GPUs, or on stand-ins for them (tests/lab)."""

DEVICE = "cuda" if BACKEND == "nccl" else "cpu"

NEVER = 1e9
"""Seconds until what never happens."""

FLOATS_PER_MEBIBYTE = 1 << 18

_LAUNCHERS = (
    ("RANK", "WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
)


@dataclass(frozen=True)
class Place:
    """Where a rank stands: its number, the size of the world and its tensor pair."""

    rank: int
    world_size: int
    pair: dist.ProcessGroup

    @property
    def is_faulty(self) -> bool:
        """Is this the rank that goes astray?"""
        return self.rank == FAULTY_RANK


def start(*, eager: bool = False) -> Place:
    """Join the world and make the tensor pairs `tp0`, `tp1`, ... of neighbouring ranks.

    `eager`: its communicator is made at once, and those of its groups are split from it.
    """
    signal.alarm(LIFETIME_SECONDS)
    rank, world_size = launched_as()
    if BACKEND == "nccl":
        torch.cuda.set_device(rank)
        torch.set_default_device(f"cuda:{rank}")
    return _join(rank, world_size, torch.device("cuda", rank) if eager else None)


def live_once() -> Place:
    """Join, and train a little: the life before `restart`."""
    place = start()
    gradients = torch.ones(16)
    for _ in range(10):
        dist.all_reduce(gradients)
    end_step()
    return place


def restart() -> Place:
    """Abort all groups and make them again in the same store, as frameworks do that restart in process."""
    rank, world_size = launched_as()
    store = dist.PrefixStore("second life", dist.distributed_c10d._get_default_store())
    abort = getattr(dist.distributed_c10d, "_abort_process_group", dist.destroy_process_group)
    abort()
    return _join(rank, world_size, store=store)


def _join(rank: int, world_size: int, device: torch.device | None = None, store: dist.Store | None = None) -> Place:
    more = {name: value for name, value in (("device_id", device), ("store", store)) if value is not None}
    dist.init_process_group(BACKEND, rank=rank, world_size=world_size, timeout=OPERATIONS_TIME_OUT, **more)
    pairs = [new_group([first, first + 1], f"tp{first // 2}") for first in range(0, world_size - 1, 2)]
    return Place(rank, world_size, pairs[rank // 2])


def new_group(ranks: list[int], description: str) -> dist.ProcessGroup:
    """Make a group whose operations time out as the world's."""
    return dist.new_group(ranks, timeout=OPERATIONS_TIME_OUT, group_desc=description)


def launched_as() -> tuple[int, int]:
    """Read this process's rank and the world's size from the variables of whichever launcher started it."""
    rank, world_size = next(names for names in _LAUNCHERS if names[0] in os.environ)
    return int(os.environ[rank]), int(os.environ[world_size])


def join_and_wait() -> None:
    """Join a world that never fills: nobody comes back from here."""
    signal.alarm(LIFETIME_SECONDS)
    rank, world_size = launched_as()
    say_ready(f"rank {rank}")
    dist.init_process_group("gloo", rank=rank, world_size=world_size)


def call_the_faulty(call: Callable[[], object]) -> None:
    """Have another rank call the faulty one by a remote procedure call, and wait until everybody has ended."""
    signal.alarm(LIFETIME_SECONDS)
    rank, world_size = launched_as()
    options = rpc.TensorPipeRpcBackendOptions(rpc_timeout=LIFETIME_SECONDS)
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=world_size, rpc_backend_options=options)
    say_ready(f"rank {rank}")
    if rank == (FAULTY_RANK + 1) % world_size:
        rpc.rpc_sync(f"worker{FAULTY_RANK}", call)
    rpc.shutdown()


def captured(step: Callable[[], object]) -> torch.cuda.CUDAGraph:
    """Capture a step as a CUDA graph, after one to warm up, which makes its communicator."""
    step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph


def fetch_batch() -> None:
    """Stand for any user code that waits for something that does not come."""
    time.sleep(NEVER)


def end_step() -> None:
    """Wait until the device has done the step, as whoever prints a loss does; without one nothing is left to do."""
    if BACKEND == "nccl":
        torch.cuda.synchronize()


def steps(place: Place) -> Iterator[bool]:
    """Yield once a step: is it the faulty one? Of that the test is told as it begins."""
    for step in range(100):
        if step == FAULTY_STEP:
            say_ready(f"rank {place.rank}")
        yield step == FAULTY_STEP
        end_step()


def endless_steps(place: Place) -> Iterator[int]:
    """Yield the number of each step, without end; some steps later the test is told that all goes well."""
    for step in itertools.count(1):
        yield step
        end_step()
        if step == FAULTY_STEP:
            say_ready(f"rank {place.rank}")


def train(place: Place, go_astray: Callable[[], object], *, astray: bool | None = None) -> None:
    """Train; at the faulty step a rank goes astray between its pair's reduction and the world's.

    `astray`: is this such a rank? None for the faulty one.
    """
    activations, gradients = torch.ones(8, 4), torch.ones(16)
    for step in range(100):
        dist.all_reduce(activations, group=place.pair)
        if step == FAULTY_STEP:
            say_ready(f"rank {place.rank}")
            if place.is_faulty if astray is None else astray:
                go_astray()
        dist.all_reduce(gradients)
        end_step()


def train_world(place: Place, at_fault: Callable[[], object]) -> None:
    """Train without tensor pairs; at the faulty step every rank does something else first."""
    gradients = torch.ones(16)
    for step in range(100):
        dist.all_reduce(gradients)
        if step == FAULTY_STEP:
            say_ready(f"rank {place.rank}")
            at_fault()
        end_step()


def train_large(place: Place, *, mebibytes: int, faulty_mebibytes: int) -> None:
    """Train with gradients so large that Gloo cuts them into segments of a MiB; the faulty rank's differ once."""
    activations, gradients = torch.ones(8, 4), torch.ones(mebibytes * FLOATS_PER_MEBIBYTE)
    for at_fault in steps(place):
        dist.all_reduce(activations, group=place.pair)
        if at_fault and place.is_faulty:
            gradients = torch.ones(faulty_mebibytes * FLOATS_PER_MEBIBYTE)
        dist.all_reduce(gradients)


def train_short_epoch(place: Place, model: torch.nn.Module) -> None:
    """Train for one epoch of few batches, the last one bad on the faulty rank, which skips it; then meet."""
    for at_last in (False, False, False, True):
        if at_last:
            say_ready(f"rank {place.rank}")
            if place.is_faulty:
                continue
        model(torch.ones(4, 16)).sum().backward()
    meet_at_end()


def meet_at_end() -> None:
    """Wait until all ranks have done their epoch."""
    dist.barrier()


def meet_in_store(place: Place, what: str) -> None:
    """Wait in the store for all ranks to say `what`, as torch's own rendezvous helpers do."""
    store = dist.distributed_c10d._get_default_store()
    store.set(f"{what}/{place.rank}", "1")
    store.wait([f"{what}/{rank}" for rank in range(place.world_size)], timedelta(hours=1))


def say_ready(who: str) -> None:
    """Tell the test, by one line on the pipe `UNHANG_TEST_READY`, that `who` is about to reach its last place."""
    path = os.environ.get("UNHANG_TEST_READY")
    if path is None:
        return
    pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    try:
        os.write(pipe, f"{who} {os.getpid()}\n".encode())
    finally:
        os.close(pipe)
