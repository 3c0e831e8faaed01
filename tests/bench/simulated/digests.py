"""What an agent of the simulated job tells unasked, as `agent/look/digests.py` makes it of marks."""

from functools import cache

from shared.wire.registration import JobDigest, NodeDigest
from shared.wire.trace import State
from tests.bench.simulated.job import NAME, PER_NODE, SimulatedJob
from tests.bench.simulated.records import trace_of
from tests.bench.simulated.servers import Task


def digest_of(task: Task, number: int, now_ns: int) -> NodeDigest:
    """Return the digest of one node of a job: where each rank issued last, and for how long it has stood."""
    job = SimulatedJob(task.nodes, task.moving)
    ranks = tuple(range(number * PER_NODE, (number + 1) * PER_NODE))
    newest = [_newest(job, rank) for rank in ranks]
    groups = tuple(dict.fromkeys(name for name, _, _ in newest))
    still = 0.4 if task.moving else round((now_ns - task.stopped_ns) / 1e9, 1)
    told = JobDigest(
        job=NAME,
        world_size=job.world,
        timeout_seconds=600.0,
        ranks=ranks,
        still=(still,) * PER_NODE,
        idle=(still,) * PER_NODE,
        pending=tuple(pending for _, _, pending in newest),
        group=tuple(groups.index(name) for name, _, _ in newest),
        sequence=tuple(sequence for _, sequence, _ in newest),
        groups=groups,
    )
    return NodeDigest(jobs=(told,))


@cache
def _newest(job: SimulatedJob, rank: int) -> tuple[str, int, bool]:
    """Where a rank has issued last: the group, the number there, and whether that is pending."""
    trace = trace_of(job, rank, stopped_ns=0, look=0)
    collectives = [at for at in range(len(trace)) if not trace.is_p2p[at]]
    record = trace.record(max(collectives, key=lambda at: trace.created_ns[at]))
    return record.group.name, record.collective_seq, record.state is not State.COMPLETED
