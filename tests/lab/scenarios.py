"""What hangs in the lab: programs of tests/programs on nccl, and how each is started."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from deploy.lab.environment import Environment
from tests.build.processes.ports import free_port
from tests.lab.forks import Forks
from tests.system.live.jobs import Job
from tests.system.live.truths import PROGRAMS, Truth, all_programs, read_truth

_RECORDED = {"TORCH_NCCL_TRACE_BUFFER_SIZE": "2000", "TORCH_FR_BUFFER_SIZE": "2000"}
_DOES_NOT_BLOCK = MappingProxyType({"TORCH_NCCL_USE_COMM_NONBLOCKING": "1"})
_UNRECORDED = dict.fromkeys(_RECORDED, "0")


_CORE = frozenset(
    """
    asleep_before_collective; wrong_op; wrong_size_smaller; recv_ring; batch_p2p_missing_partner; crossed_groups;
    stopped_rank; asleep_before_collective, no record; recv_ring, no record; first_collective_late; runs_ahead;
    coalesced_calls; batch_without_one_receive; destroy_hangs; split_group_skipped; collective_never_ends; queue_full;
    kernel_never_ends, timing; lazy_group_late, not blocking; second_life; launch_blocks; ddp_step_skipped;
    fsdp_step_skipped; tensor_parallel_branch; pipeline_stage_never_sends
    """.replace("\n    ", " ")
    .strip()
    .split("; ")
)
"""What runs where nothing is chosen: five minutes at a load of ten."""


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
    gpus: tuple[str, ...] | None = None
    """What NVIDIA's library says besides what the devices do (nvml.c); None: there is no driver."""
    kernel: tuple[str, ...] = ()
    """What the kernel logs of devices."""
    expects: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """What of the program's truth is otherwise."""

    @property
    def truth(self) -> Truth:
        """What is true of it."""
        return replace(Truth.of(self.program, "memory" if self.recorded else "bare"), **self.expects)

    def is_chosen(self, parts: Sequence[str]) -> bool:
        """Is it run where these parts of names, or `=NAME`, are asked for?"""
        return any(part == f"={self.name}" or part in self.name for part in parts) if parts else self.name in _CORE

    def with_more(self, more: Mapping[str, str]) -> "Scenario":
        """Return it with further variables."""
        return replace(self, more={**self.more, **more})

    def job(self, environment: Environment, folder: Path, forks: Forks) -> Job:
        """Prepare the job; `folder` must exist, and is its own."""
        stated = read_truth(self.program)
        variables = {
            **environment.variables(folder),
            **(_RECORDED if self.recorded else _UNRECORDED),
            "UNHANG_TEST_BACKEND": "nccl",
            "PYTHONPATH": str(PROGRAMS),
            "NCCL_RAS_ADDR": f"localhost:{free_port()}",
            "LAB_SYNC": "spin" if (os.cpu_count() or 1) > self.ranks else "yield",
            **self.more,
        }
        return Job(
            self.program,
            directory=folder,
            ranks=self.ranks,
            launch=stated.get("launch", "direct"),
            environment=variables,
            recorded=self.recorded,
            python=str(environment.python),
            starter=None if self.executed else partial(forks.start, imports=stated.get("imports", ())),
        )


_OF_THE_ZOO = (
    "asleep_before_collective wrong_op wrong_size_smaller recv_ring rank_conditional_collective pair_barrier_skipped "
    "batch_p2p_missing_partner pipeline_stage_never_sends crossed_groups broadcast_receivers_only gather_two_roots "
    "async_work_handles two_halves collective_on_helper_thread file_lock stopped_rank"
).split()
_OF_NCCL = (
    "first_collective_late runs_ahead coalesced_calls batch_without_one_receive stream_waits_for_stream destroy_hangs "
    "split_group_skipped kernel_never_ends kernels_never_end collective_never_ends queue_full runs_ahead_asleep "
    "lazy_group_late eager_start_late new_group_split_late launch_blocks second_life second_life_late "
    "abort_never_returns coalesced_gathers watchdog_stuck graph_asleep graph_of_another_size "
    "shrink_late"
).split()
_OF_FRAMEWORKS = (
    "ddp_step_skipped ddp_unused_parameters fsdp_step_skipped hsdp_step_skipped nccl/tensor_parallel_branch "
    "nccl/stage_asleep nccl/fsdp_loader_starves"
).split()
_OF_NCCL_WITHOUT_RECORD = (
    "first_collective_late runs_ahead runs_ahead_asleep queue_full lazy_group_late eager_start_late launch_blocks "
    "second_life destroy_hangs stream_waits_for_stream graph_asleep"
).split()
_NONBLOCKING = "asleep_before_collective nccl/first_collective_late nccl/lazy_group_late nccl/eager_start_late".split()
_WITHOUT_RECORD = "asleep_before_collective recv_ring wrong_op pair_barrier_skipped".split()

_NOT_ON_NCCL = frozenset(
    "accelerate_main_process_only starting_up rpc_call_at_work rpc_call_never_returns second_node_never_came "
    "world_size_never_reached all_to_all_wrong_sizes subgroup_on_one_rank build_lock_left_behind stale_compile_lock "
    "monitored_barrier new_group_skipped groups_on_threads hook_on_autograd_thread".split()
)
"""They start or hang on Gloo alone (NCCL makes a group without meeting), are about backward passes of CPUs or threads
without a device, or about what comes before any backend. Since 2.14 PyTorch locks a build's file, and the file alone
holds up no rank."""
_REST = [name for name in all_programs() if name not in {*_OF_THE_ZOO, *_OF_FRAMEWORKS, *_NOT_ON_NCCL}]

_STALLS = "nccl/collective_never_ends"
_CAUSE_OF_GPU = MappingProxyType({"causes": ("gpu_fault",)})
# Lines as drivers print them; the lab's GPU 1 is at bus 11.
_XID_79 = "NVRM: Xid (PCI:0000:11:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
_XID_94 = "NVRM: Xid (PCI:0000:11:00): 94, pid=7194, name=python, Ch 0000000a, Contained: SM (0x1). RST: No, D-RST: No"
_XID_31 = (
    "NVRM: Xid (PCI:0000:11:00): 31, pid=7194, name=python, Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS "
    "GPCCLIENT_T1_0 faulted @ 0x7f41_4c000000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ"
)
_XID_63 = (
    "NVRM: Xid (PCI:0000:10:00): 63, pid='<unknown>', name=<unknown>, Row Remapper: New row (0x0) marked for remapping"
)

SCENARIOS: tuple[Scenario, ...] = (
    *(Scenario(program, program, executed=program == _OF_THE_ZOO[0]) for program in _OF_THE_ZOO),
    *(Scenario(f"{program}, no record", program, recorded=False) for program in _WITHOUT_RECORD),
    *(Scenario(program, f"nccl/{program}") for program in _OF_NCCL),
    *(Scenario(f"{program}, no record", f"nccl/{program}", recorded=False) for program in _OF_NCCL_WITHOUT_RECORD),
    *(Scenario(f"{Path(program).name}, not blocking", program, more=_DOES_NOT_BLOCK) for program in _NONBLOCKING),
    *(Scenario(Path(program).name, program) for program in _OF_FRAMEWORKS),
    *(Scenario(f"{Path(program).name}, no record", program, recorded=False) for program in _OF_FRAMEWORKS[-1:]),
    Scenario("long_kernels", "nccl/long_kernels"),
    Scenario("long_kernels, no record", "nccl/long_kernels", recorded=False),
    Scenario("loss read on one rank", "nccl/long_kernels", more={"LAB_LOSS": "1", "LAB_STEP_MS": "400"}),
    Scenario("graphs_replayed", "nccl/long_kernels", more={"LAB_GRAPH": "1"}),
    Scenario("graphs_replayed, short steps", "nccl/long_kernels", more={"LAB_GRAPH": "1", "LAB_STEP_MS": "200"}),
    Scenario("graphs_replayed, GPUs", "nccl/long_kernels", more={"LAB_GRAPH": "1"}, gpus=()),
    Scenario("graph_of_another_size, GPUs", "nccl/graph_of_another_size", gpus=()),
    Scenario("kernel_never_ends, timing", "nccl/kernel_never_ends", more={"TORCH_NCCL_ENABLE_TIMING": "1"}),
    Scenario("kernels_never_end, timing", "nccl/kernels_never_end", more={"TORCH_NCCL_ENABLE_TIMING": "1"}),
    Scenario("proxies spin", "asleep_before_collective", more={"LAB_PROXY": "1"}),
    Scenario("desync report", "asleep_before_collective", more={"TORCH_NCCL_DESYNC_DEBUG": "1"}),
    Scenario("heartbeat monitor", "nccl/watchdog_stuck", more={"TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC": "45"}),
    Scenario("wrong_op, RAS alone", "wrong_op", recorded=False, more={"TORCH_NCCL_ENABLE_MONITORING": "0"}),
    Scenario("idle and spinning GPUs", "asleep_before_collective", gpus=()),
    Scenario("kernel_never_ends, GPUs", "nccl/kernel_never_ends", gpus=(), expects=_CAUSE_OF_GPU),
    Scenario("Xid 79 on GPU 1", _STALLS, gpus=("1 lost 15",), kernel=(_XID_79,), expects=_CAUSE_OF_GPU),
    Scenario("Xid 94 on GPU 1", _STALLS, gpus=("1 ecc 1",), kernel=(_XID_94,), expects=_CAUSE_OF_GPU),
    Scenario("Xid 31 on GPU 1", _STALLS, gpus=(), kernel=(_XID_31,)),
    Scenario("rows of another GPU", "asleep_before_collective", gpus=("0 pending 1",), kernel=(_XID_63,)),
    Scenario("GPU lost under a launch", "nccl/launch_blocks", gpus=("2 lost 15",), expects=_CAUSE_OF_GPU),
    *(Scenario(program, program) for program in _REST),
    Scenario("sleeping synchronisation", "asleep_before_collective", more={"LAB_SYNC": "sleep"}),
)
