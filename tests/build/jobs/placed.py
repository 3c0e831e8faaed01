"""Simulated looks with ranks on several nodes, and what those nodes tell beside them."""

from collections.abc import Iterable, Mapping, Sequence

from shared.rank_sets import unfold
from shared.wire.devices import Gpu, GpuProcess, Gpus, Port, Ports
from shared.wire.kernel_events import KernelEvent, KernelEventKind, KernelEvents
from shared.wire.snapshot import NodeSnapshot, RankSnapshot

NOW = 1000.0
"""Unix seconds within the job, whose ranks began at 1."""


def placed(looks: Iterable[NodeSnapshot], hosts: Mapping[str, str]) -> list[NodeSnapshot]:
    """Put ranks on nodes: host to folded ranks."""
    return [
        look.model_copy(
            update={"host": host, "ranks": tuple(_at(host, r) for r in look.ranks if r.identity.rank in here)}
        )
        for look in looks
        for host, here in ((host, set(unfold(ranks))) for host, ranks in hosts.items())
    ]


def _at(host: str, rank: RankSnapshot) -> RankSnapshot:
    identity = rank.identity.model_copy(update={"host": host, "local_rank": None, "local_world_size": None})
    return rank.model_copy(update={"identity": identity})


def telling(
    looks: Sequence[NodeSnapshot], host: str, *events: KernelEvent, gpus: Sequence[Gpu] = (), ports: Sequence[Port] = ()
) -> list[NodeSnapshot]:
    """Let a node's kernel, GPUs and ports tell something in every look."""
    update = {
        "kernel_events": KernelEvents(since=0.0, events=events),
        "gpus": Gpus(driver="1", gpus=tuple(gpus)),
        "ports": Ports(ports=tuple(ports)),
    }
    return [look.model_copy(update=update) if look.host == host else look for look in looks]


def event(kind: str, *, at: float = NOW, **more: object) -> KernelEvent:
    """One line of the kernel's."""
    told = {"kind": KernelEventKind(kind), "at": at, "last_at": at, "text": f"made-up line of {kind}", **more}
    return KernelEvent.model_validate(told)


def gpu(index: int, *pids: int, **more: object) -> Gpu:
    """A GPU and who computes on it."""
    known = {"uuid": f"GPU-{index}", "device": f"0000:{index:02x}:00.0"}
    return Gpu.model_validate({"index": index, **known, "processes": [GpuProcess(pid=pid) for pid in pids], **more})


def with_rank(looks: Sequence[NodeSnapshot], rank: int, **update: object) -> list[NodeSnapshot]:
    """Change what every look shows of one rank."""
    return [
        look.model_copy(
            update={
                "ranks": tuple(
                    each.model_copy(update=update) if each.identity.rank == rank else each for each in look.ranks
                )
            }
        )
        for look in looks
    ]
