"""Ranks that only make remote calls, in the memory of real processes that no variable names."""

import sys
from subprocess import Popen

import pytest

from agent.deadline import Deadline, ThreadPool
from agent.find.choose_ranks import Rank
from agent.look.node import Node
from agent.proc.procfs import ProcFs
from tests.build.processes.ports import free_port
from tests.build.processes.processes import HERE, running, until

pytestmark = [pytest.mark.live, pytest.mark.ptrace]

_CALLING = """
import os, sys, time
import torch.distributed as dist, torch.distributed.rpc as rpc
calls, groups = sys.argv[1:3]
for rank in range(3):
    if not os.fork():
        options = rpc.TensorPipeRpcBackendOptions(init_method=calls, _transports=["uv"], _channels=["basic"])
        if groups and rank < 2:
            dist.init_process_group("gloo", init_method=groups, rank=rank, world_size=2)
        rpc.init_rpc(f"worker{rank}", rank=rank, world_size=3, rpc_backend_options=options)
        if rank == 0:
            for other in (1, 2):
                rpc.rpc_sync(f"worker{other}", time.time)
            print("ready", flush=True)
        if sys.argv[3:] == ["fork"] and not os.fork():
            time.sleep(600)
        time.sleep(600)
time.sleep(600)
"""
"""Its transport is TCP: the one by shared memory is on a core for as long as it waits."""


def found_at(job: str) -> dict[int, Rank]:
    """Return the three ranks of a job, by rank, once they are found."""
    node = Node(ProcFs(), "here", ThreadPool())

    def find() -> dict[int, Rank]:
        ranks = [rank for rank in node.find(Deadline(30.0)).ranks if rank.identity.job == job]
        assert len({rank.identity.rank for rank in ranks}) == len(ranks)
        return {rank.identity.rank: rank for rank in ranks}

    return until(find, lambda found: len(found) == 3)


def assert_three(ranks: dict[int, Rank], launcher: Popen[str]) -> None:
    """They are of one job of three, and started by the launcher."""
    assert ranks.keys() == {0, 1, 2}
    assert {rank.identity.world_size for rank in ranks.values()} == {3}
    assert {rank.stat.parent_pid for rank in ranks.values()} == {launcher.pid}


def test_ranks_without_a_process_group_are_who_their_calls_say() -> None:
    """Also where each has forked a worker, which has its agent in memory and is no rank."""
    job = f"{HERE}:{free_port()}"
    with running(command=(sys.executable, "-c", _CALLING, f"tcp://{job}", "", "fork"), env={}) as launcher:
        ranks = found_at(job)
        assert_three(ranks, launcher)
        assert [len(rank.children) for rank in ranks.values()] == [1, 1, 1]


def test_ranks_of_which_some_have_a_smaller_group_are_one_job() -> None:
    """Trainers that average among themselves, and a parameter server: the calls join them all."""
    job, trainers = f"{HERE}:{free_port()}", f"tcp://{HERE}:{free_port()}"
    with running(command=(sys.executable, "-c", _CALLING, f"tcp://{job}", trainers), env={}) as launcher:
        assert_three(found_at(job), launcher)
