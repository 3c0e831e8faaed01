"""What hangs in the lab: programs of tests/programs on nccl, and how each is started."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from deploy.lab.environment import Environment
from tests.system.live.jobs import Job, Starter
from tests.system.live.truths import PROGRAMS, Mode

_RECORDED = {"TORCH_NCCL_TRACE_BUFFER_SIZE": "2000", "TORCH_FR_BUFFER_SIZE": "2000"}
_UNRECORDED = dict.fromkeys(_RECORDED, "0")


@dataclass(frozen=True)
class Scenario:
    """One program, and what is unusual about its run."""

    name: str
    program: str
    recorded: bool = True
    more: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    ranks: int = 4
    executed: bool = False
    """Each rank imports PyTorch itself."""

    @property
    def mode(self) -> Mode:
        """As which truth of the program the answer is measured."""
        return "memory" if self.recorded else "bare"

    def job(self, environment: Environment, folder: Path, starter: Starter | None) -> Job:
        """Prepare the job; `folder` must exist, and is its own. Without a starter its ranks are executed."""
        variables = {
            **environment.variables(folder),
            **(_RECORDED if self.recorded else _UNRECORDED),
            "UNHANG_TEST_BACKEND": "nccl",
            "PYTHONPATH": str(PROGRAMS),
            "LAB_SYNC": "spin" if (os.cpu_count() or 1) > self.ranks else "yield",
            **self.more,
        }
        return Job(
            self.program,
            directory=folder,
            ranks=self.ranks,
            launch="direct",
            environment=variables,
            recorded=self.recorded,
            python=str(environment.python),
            starter=starter,
        )


_OF_THE_ZOO = (
    "asleep_before_collective wrong_op wrong_size_smaller recv_ring rank_conditional_collective pair_barrier_skipped "
    "batch_p2p_missing_partner pipeline_stage_never_sends crossed_groups broadcast_receivers_only gather_two_roots "
    "async_work_handles two_halves collective_on_helper_thread file_lock stopped_rank"
).split()
_OF_NCCL = (
    "first_collective_late runs_ahead coalesced_calls batch_without_one_receive stream_waits_for_stream destroy_hangs "
    "split_group_skipped kernel_never_ends"
).split()
_WITHOUT_RECORD = "asleep_before_collective recv_ring wrong_op pair_barrier_skipped".split()

SCENARIOS: tuple[Scenario, ...] = (
    *(Scenario(program, program) for program in _OF_THE_ZOO),
    *(Scenario(f"{program}, no record", program, recorded=False) for program in _WITHOUT_RECORD),
    *(Scenario(program, f"nccl/{program}") for program in _OF_NCCL),
    *(Scenario(f"{program}, no record", f"nccl/{program}", recorded=False) for program in _OF_NCCL[:2]),
    Scenario("long_kernels", "nccl/long_kernels"),
    Scenario("long_kernels, no record", "nccl/long_kernels", recorded=False),
    Scenario("kernel_never_ends, timing", "nccl/kernel_never_ends", more={"TORCH_NCCL_ENABLE_TIMING": "1"}),
    Scenario("proxies spin", "asleep_before_collective", more={"LAB_PROXY": "1"}),
    Scenario("sleeping synchronisation", "asleep_before_collective", more={"LAB_SYNC": "sleep"}),
)
