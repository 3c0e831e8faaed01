"""Which rank a process is: by its process group where it has one, else by its environment.

1. A process group is the truth about rank and size, as is the world of JAX or MPI. Where the environment says the
   same, its words are used for the rest: what the launcher calls the job, which attempt it is, the place on the node.
2. Where it says something else, or nothing, it is of no use: a shell hands RANK=0 down to a script that spawns eight
   ranks. Such a job is named after the place where its ranks met.
3. A group that is not the world proves nothing against a launcher: torchft joins jobs by a group that each of them
   leaves and makes anew whenever another one comes or goes. One that is awaited, of more ranks than the environment
   knows, does: that tells of the node that spawned them.
"""

from agent.find.launchers import Environment, gpu_of, identify, is_address, job_name, number
from agent.find.other_worlds import World
from agent.find.torch_stores import TorchGroup
from shared.wire.snapshot import Identity

_READ_BY_TORCH = ("torchrun", "env")
"""Whose variables are meant for the program itself: those of Slurm and of MPI are there whatever it spawns."""


def identity_of(environment: Environment, group: TorchGroup | World | None) -> Identity | None:
    """Return who a process is; None where it is no rank."""
    told = identify(environment)
    if group is None:
        return told
    if group.is_awaited and told is not None and (told.world_size or group.size) < group.size:
        told = None
    if told is not None and told.rank == group.rank and told.world_size in (None, group.size):
        return told.model_copy(update={"world_size": group.size, "job": _name(environment, group)})
    if told is not None and told.launcher in _READ_BY_TORCH and told.world_size is not None and not group.is_first:  # 3
        return told
    local_rank = number(environment, "LOCAL_RANK")
    return Identity(
        job=group.store or job_name(environment),
        rank=group.rank,
        world_size=group.size,
        local_rank=local_rank,
        gpu=gpu_of(environment, local_rank),
    )


def _name(environment: Environment, group: TorchGroup | World) -> str:
    """Return what the launcher calls the job; where it has no name for it, the place where its ranks really met."""
    met = group.store if isinstance(group, TorchGroup) and is_address(environment) else None
    return job_name(environment) if met is None else met
