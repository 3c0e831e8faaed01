"""Next steps that single lines or counts call for, whatever the verdict: each only where its evidence stands there."""

import re
from collections.abc import Iterator

from collector.align.observations import Observations
from collector.judge.fault import Fault
from shared.answer.diagnosis import NextStep
from shared.answer.words import Kind
from shared.shell_commands import copyable
from shared.wire.log_events import EventKind

# RuntimeError: CUDA error: an illegal memory access was encountered        HIP error: unspecified launch failure
_LATE_ERROR = re.compile(r"(CUDA|HIP) error: (?!out of memory|invalid device ordinal|no CUDA-capable)", re.IGNORECASE)
_FIRST_OPERATIONS = 2
"""Operations after which a path between devices has worked."""


def advice_of_lines(observations: Observations) -> Iterator[NextStep]:
    """Yield what lines of the logs call for, each once."""
    told = list(observations.statements.of_kind(EventKind.DEVICE_ERROR, EventKind.EXCEPTION, EventKind.RENDEZVOUS))
    late = next((match for _, event in told if (match := _LATE_ERROR.search(event.text)) is not None), None)
    if late is not None:
        variable = "CUDA_LAUNCH_BLOCKING=1" if late[1].upper() == "CUDA" else "HIP_LAUNCH_BLOCKING=1"
        yield NextStep(
            text=f"start the job again with {variable}: device errors are reported late, and the line named is not "
            "the one that failed"
        )
    taken = next((event.fields for _, event in told if event.fields.get("taken")), None)
    if taken is not None:
        port = f"port {taken['port']}" if taken.get("port") else "the port"
        yield NextStep(
            text=f"{port} is taken: end what listens there (`ss -ltnp`), or set another MASTER_PORT or rendezvous "
            "endpoint"
        )


def advice_of_fault(fault: Fault, observations: Observations) -> Iterator[NextStep]:
    """Yield what fits a fault: nodes on which nothing diverges can be tested without the job.

    GPUs of one node that never got a first collective done may not reach each other.
    """
    if fault.kind is not Kind.STUCK_TOGETHER or fault.lock is not None:
        return
    yield from _preflight(fault, observations)
    if fault.sequence is None or fault.sequence > _FIRST_OPERATIONS:
        return
    hosts = {observations.roster.ranks[rank].host for rank in fault.victims}
    of_nccl = fault.edges and all(edge.signature.backend == "nccl" for edge in fault.edges)
    if of_nccl and len(hosts) == 1 and len(fault.victims) > 1:
        yield NextStep(
            text="try NCCL_P2P_DISABLE=1: where that helps, the GPUs cannot reach each other's memory; switch off ACS "
            "on the PCIe bridges, and the IOMMU or set it to pass through (`iommu=pt`)"
        )


def _preflight(fault: Fault, observations: Observations) -> Iterator[NextStep]:
    ranks = (observations.roster.ranks[rank] for rank in {*fault.culprits, *fault.victims})
    hosts = sorted({rank.host for rank in ranks if rank.host is not None})
    if len(hosts) > 1:
        command = copyable("unhang", "preflight", "--ssh", "--hosts", ",".join(hosts))
        yield NextStep(text="once the job has ended, test its nodes and the links between them", command=command)
    elif hosts:
        text = f"once the job has ended, test {hosts[0]} alone, on that node"
        yield NextStep(text=text, command="unhang preflight")
