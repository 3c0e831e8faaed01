"""Looks at simulated jobs with RAS asked in each, and the verdict on them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from collector.align.expected import Expected
from shared.answer.diagnosis import Diagnosis
from shared.formats.ras.parse import parse_ras
from shared.wire.ras import RasLook, RasNetwork
from shared.wire.snapshot import NodeSnapshot
from tests.build.jobs.judged import judged
from tests.build.jobs.simulated import USER, Job, Seen, Stay, live_looks
from tests.system.ras.reports import Comm, Member, json_report, text_report

WAITING = Seen()
OUTSIDE = Seen(frames=(USER,))
ADDRESS = "10.3.0.14"


def member(rank: int, **more: object) -> Member:
    return replace(Member(rank, pid=1000 + rank), **more)  # type: ignore[arg-type]


def members(counts: Mapping[int, int], *, op: str = "AllReduce", first: int = 0) -> Comm:
    """A communicator of the simulated job's ranks, whose pids are 1000 and up."""
    return Comm(
        tuple(Member(own, pid=1000 + rank, counts={op: count}) for own, (rank, count) in enumerate(counts.items())),
        hash=0xABC0 + first,
    )


def report(*comms: Comm, text: bool = False) -> RasNetwork:
    return parse_ras(text_report(comms) if text else json_report(comms))


def looks_with_ras(
    seen: Mapping[int, Seen],
    first: RasNetwork,
    second: RasNetwork | None = None,
    *,
    world_size: int | None = None,
    addresses: tuple[str, ...] = (ADDRESS,),
) -> list[NodeSnapshot]:
    """Two looks 3 s apart at a job that has stood still for a minute, RAS asked in each; None: only in the first."""
    taken = live_looks(Job({r: [Stay()] for r in seen}), seen, recorder=False, world_size=world_size)
    told = [first, second]
    return [
        snapshot.model_copy(
            update={
                "ranks": tuple(rank.model_copy(update={"idle_for_seconds": 90.0}) for rank in snapshot.ranks),
                "ras": RasLook(addresses=addresses)
                if network is None
                else RasLook(
                    addresses=addresses,
                    networks=(network.model_copy(update={"asked_at_ns": snapshot.taken_at_ns}),),
                ),
            }
        )
        for snapshot, network in zip(taken, told, strict=True)
    ]


def judge(snapshots: Sequence[NodeSnapshot], **expected: object) -> Diagnosis:
    """The verdict, which no order of the snapshots changes."""
    return judged(snapshots, Expected(**expected))  # type: ignore[arg-type]


def seen_by(size: int, **others: Seen) -> dict[int, Seen]:
    """All wait in an all_reduce but `r3=...`."""
    return {rank: others.get(f"r{rank}", WAITING) for rank in range(size)}
