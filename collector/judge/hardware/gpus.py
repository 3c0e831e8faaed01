"""What the GPUs tell of a job: where its ranks compute, which of them share a device, and one that is slowed down."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from collector.align.node_facts import NodeFacts, pids_of
from collector.align.observations import Observations
from collector.align.roster import RankView
from shared.answer.diagnosis import Conflict, Finding, GpuEvidence
from shared.answer.words import Cause
from shared.isolation import costs_itself
from shared.rank_sets import fold, ranks_in_words
from shared.wire.devices import Gpu

Instance = tuple[int, str]
"""A GPU's index and the part of it, empty for the whole."""


def device_of(view: RankView, observations: Observations) -> str | None:
    """Return the device that a rank computes on, as the driver tells it; else as its environment does.

    Several are parted by commas. What a child of the rank holds counts only where the rank itself holds none.
    """
    identity, instances = view.identity, _instances(observations.facts_of(view.rank))
    own = frozenset() if identity is None or identity.pid is None else frozenset({identity.pid})
    devices = sorted(_held(instances, own) or _held(instances, pids_of(view)))
    if devices:
        return ",".join(f"{index} (MIG {part})" if part else str(index) for index, part in devices)
    return None if identity is None else identity.gpu


@costs_itself(lambda observations: ())
def device_conflicts(observations: Observations) -> tuple[Conflict, ...]:
    """Tell of ranks that compute on one device alone, all of them: as a rule nobody made use of LOCAL_RANK.

    A rank that has also touched another's device, as a careless `torch.load` does, shares nothing that it works on.
    """
    here = observations.roster.by_host
    return tuple(conflict for facts in observations.nodes.values() for conflict in _of_node(facts, here[facts.host]))


def _of_node(facts: NodeFacts, views: Iterable[RankView]) -> Iterable[Conflict]:
    if all(len(gpu.processes) < 2 for gpu in facts.gpus):
        return  # as on most nodes: a device that ranks share has a process of each
    instances = _instances(facts)
    sharing: dict[Instance, list[int]] = defaultdict(list)
    for view in (view for view in views if not view.gone):
        mine = _held(instances, pids_of(view))
        if len(mine) == 1:
            sharing[mine.pop()].append(view.rank)
    idle = [gpu.index for gpu in facts.gpus if not gpu.processes]
    for (index, part), ranks in sorted(sharing.items()):
        if len(ranks) > 1:
            device = f"GPU {index}" + (f" (MIG {part})" if part else "")
            others = f" while GPU {fold(idle)} of it has no process" if idle else ""
            text = (
                f"{ranks_in_words(ranks)} compute on one device, {device} of {facts.host},{others or ' all of them'}: "
                "is LOCAL_RANK used to choose the device (torch.cuda.set_device)?"
            )
            yield Conflict(sources=("gpu", "process"), text=text)


def _instances(facts: NodeFacts) -> dict[int, set[Instance]]:
    """What each process computes on, by pid."""
    held: dict[int, set[Instance]] = defaultdict(set)
    for gpu in facts.gpus:
        for process in gpu.processes:
            held[process.pid].add((gpu.index, process.instance or ""))
    return held


def _held(instances: Mapping[int, set[Instance]], pids: frozenset[int]) -> set[Instance]:
    return {instance for pid in pids for instance in instances.get(pid, ())}


@costs_itself(lambda finding, observations: finding)
def with_slow_gpus(finding: Finding, observations: Observations) -> Finding:
    """Say of a rank that keeps others waiting that its GPU is held down, where no other rank's is."""
    found = {culprit.rank: _slowed(culprit.rank, observations) for culprit in finding.culprits}
    slow = [(rank, gpu) for rank, gpus in found.items() for gpu in gpus]
    others = (view.rank for view in observations.roster.present() if view.rank not in found)
    if not slow or all(_slowed(rank, observations) for rank in others):
        return finding
    hosts = {rank: observations.roster.ranks[rank].host for rank, _ in slow}
    told = tuple(_evidence(rank, gpu, hosts[rank]) for rank, gpu in slow)
    cause = Cause.GPU_FAULT if finding.cause in (Cause.UNKNOWN, Cause.DEVICE_SYNC) else finding.cause
    return finding.model_copy(update={"cause": cause, "evidence": (*finding.evidence, *told)})


def _slowed(rank: int, observations: Observations) -> tuple[Gpu, ...]:
    return tuple(gpu for gpu in observations.gpus_of(rank) if gpu.slowed_by)


def _evidence(rank: int, gpu: Gpu, host: str | None) -> GpuEvidence:
    clock = f": {gpu.sm_clock_mhz} of {gpu.sm_clock_max_mhz} MHz" if gpu.sm_clock_mhz is not None else ""
    text = f"the clocks of GPU {gpu.index}, on which rank {rank} computes, are throttled by {', '.join(gpu.slowed_by)}"
    return GpuEvidence(ranks=str(rank), text=f"{text}{clock}", host=host, index=gpu.index, device=gpu.device)
