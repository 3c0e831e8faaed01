"""Who a process is by the state of JAX in its memory, of each Python; real JAX and MPI are tests of frameworks."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from agent.deadline import Deadline
from agent.find.other_worlds import World, find_world
from agent.proc.memory.mappings import read_mappings
from agent.proc.memory.process_memory import open_memory
from agent.proc.procfs import ProcFs
from tests.build.processes.processes import running
from tests.build.processes.pythons import pythons

pytestmark = pytest.mark.ptrace

PROGRAM = """
import sys, time, types

class State:
    process_id = 0
    num_processes = 1
    coordinator_address = None

for number in range(1000):
    sys.modules[f"module.number{number:05d}"] = types.ModuleType("m")
jax = sys.modules["jax._src.distributed"] = types.ModuleType("jax._src.distributed")
jax.global_state = State()
for name, value in {told}.items():
    setattr(jax.global_state, name, value)
print("ready", flush=True)
time.sleep(600)
"""
MET = {"process_id": 3, "num_processes": 8, "coordinator_address": "10.0.0.1:9911"}


@contextmanager
def world_of(python: str, told: dict[str, object]) -> Iterator[World | None]:
    """What is found in the memory of a process that has told its state so much."""
    with running(command=[python, "-c", PROGRAM.replace("{told}", repr(told))], wait=False) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        with open_memory(ProcFs(), ProcFs().stat(process.pid), Deadline(30)) as memory:
            yield find_world(memory, read_mappings(ProcFs(), process.pid))


@pytest.mark.parametrize("python", pythons().values(), ids=pythons())
def test_who_has_met_others_is_a_rank(python: str) -> None:
    """By number, size and place."""
    with world_of(python, MET) as world:
        assert world == World(3, 8, "10.0.0.1:9911")


@pytest.mark.parametrize(
    "told",
    [{}, MET | {"process_id": 0, "num_processes": 1}, MET | {"process_id": 8}, MET | {"process_id": "3"}],
    ids=["not begun", "alone", "beyond the last", "no number"],
)
def test_who_is_alone_or_says_nonsense_is_none(told: dict[str, object]) -> None:
    """It has merely imported the library, or poses."""
    with world_of(pythons()["3.11"], told) as world:
        assert world is None
