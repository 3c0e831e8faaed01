"""All stuck together: what their devices do meanwhile, and the one node or port that is unlike the others.

It names no culprit: what is odd is said to be suspected, and where the symptom is common nothing is odd.

1. What the devices do tells three things apart: they spin in a kernel that waits for others; they were never given the
   operation; data still moves, so that all may only be slow.
2. A GPU that has nothing to do, or still computes, while those of all others spin: what they wait for is there.
3. A port that is down, or whose own error counters grow, on one node alone. Errors of the transport do not show which
   end of the path failed; they are told with it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from collector.align.node_facts import NodeFacts
from collector.align.observations import Observations
from collector.align.roster import Roster
from collector.align.thresholds import (
    COMPUTING_POWER_SHARE,
    IDLE_GPU_PERCENT,
    LEAST_NODES,
    LEAST_PORT_ERRORS,
    LIKE_OTHERS_SHARE,
    MOVING_BYTES_PER_SECOND,
    SPINNING_POWER_SHARE,
    USED_GPU_PERCENT,
)
from collector.judge.fault import Fault
from collector.judge.report.sentences import say
from collector.judge.report.summaries import summary_of
from shared.answer.diagnosis import Evidence, GpuEvidence, Link, LinkEnd, PortEvidence
from shared.answer.words import Cause
from shared.rank_sets import fold, ranks_in_words
from shared.wire.devices import Gpu, Port

_MOST_PORTS = 8
_OF_THE_PATH = frozenset(
    {
        "local_ack_timeout_err",
        "packet_seq_err",
        "out_of_sequence",
        "rnr_nak_retry_err",
        "req_cqe_error",
        "port_xmit_discards",
    }
)
"""Counters of the transport, which either end of a path can make grow. All others are of the port's own link."""
_SUSPECTED = "what is unlike the others on one node is where to look first: it is suspected, and proves nothing"


@dataclass(frozen=True)
class _Odd:
    """What is unlike the others, on one node."""

    host: str
    text: str
    cause: Cause
    evidence: tuple[Evidence, ...]
    links: tuple[Link, ...] = ()


def with_odd_parts(fault: Fault, observations: Observations) -> Fault:
    """Say what the devices of those who are stuck do, and which of them is unlike the others."""
    hosts = observations.roster.by_known_host(fault.victims)
    gpus = {rank: found for rank in fault.victims if (found := observations.gpus_of(rank))}
    facts = {host: observations.nodes[host] for host in hosts if host in observations.nodes}
    doing = _doing(fault, gpus, facts)  # 1
    changed = replace(fault, remarks=(*fault.remarks, doing)) if doing else fault
    odd = _odd_gpu(gpus, fault, observations.roster) or _odd_port(facts, hosts)  # 2, 3
    return changed if odd is None else _with_odd(changed, odd, observations)


def _with_odd(fault: Fault, odd: _Odd, observations: Observations) -> Fault:
    cause = odd.cause if fault.cause in (None, Cause.UNKNOWN) else fault.cause
    return replace(
        fault,
        cause=cause,
        said=f"{fault.said or summary_of(fault, cause, observations)}; suspected: {odd.text}",
        evidence=(*fault.evidence, *odd.evidence),
        links=(*fault.links, *odd.links),
        remarks=(*fault.remarks, _SUSPECTED),
    )


# Step 1.


def _doing(fault: Fault, gpus: Mapping[int, Sequence[Gpu]], facts: Mapping[str, NodeFacts]) -> str:
    moving = [f"{port.name} of {host}" for host, node in facts.items() for port in node.ports if _moves(port)]
    linked = sorted(rank for rank, mine in gpus.items() if any(gpu.nvlink_moves for gpu in mine))
    where = [*moving[:_MOST_PORTS], *([f"the NVLinks of {ranks_in_words(linked)}"] if linked else [])]
    does = "moves" if where else ""
    if not does and gpus and len(gpus) >= len(fault.victims):
        does = "spin" if all(map(spin, gpus.values())) else "idle" if all(map(_is_idle, gpus.values())) else ""
    return say("devices", {"does": does, "where": ", ".join(where), "ranks": tuple(gpus)})


def _moves(port: Port) -> bool:
    """Does an adapter of the job's kind of network carry data? An Ethernet interface carries anybody's."""
    most = max(port.sent_per_second or 0.0, port.received_per_second or 0.0)
    return port.kind != "ethernet" and most >= MOVING_BYTES_PER_SECOND


def spin(gpus: Iterable[Gpu]) -> bool:
    """Does one of them run a kernel that computes nothing?"""
    return any(gpu.spins or _draws(gpu, 0.0, SPINNING_POWER_SHARE) for gpu in gpus)


def _draws(gpu: Gpu, least: float, most: float) -> bool:
    """Is it fully used, at such a share of the power that it may draw, where its usual power is not known?"""
    watts, limit, used = gpu.power_watts, gpu.power_limit_watts, gpu.utilization_percent
    if gpu.spins is not None or gpu.nvlink_moves or watts is None or limit is None:
        return False
    return (used or 0) >= USED_GPU_PERCENT and least * limit <= watts < most * limit


def _is_idle(gpus: Iterable[Gpu]) -> bool:
    return all(gpu.utilization_percent is not None and gpu.utilization_percent <= IDLE_GPU_PERCENT for gpu in gpus)


def _computes(gpus: Iterable[Gpu]) -> bool:
    known = (gpu.spins is False and (gpu.utilization_percent or 0) >= USED_GPU_PERCENT for gpu in gpus)
    return any(known) or any(_draws(gpu, COMPUTING_POWER_SHARE, float("inf")) for gpu in gpus)


# Step 2.


def _odd_gpu(gpus: Mapping[int, Sequence[Gpu]], fault: Fault, roster: Roster) -> _Odd | None:
    spinning = [rank for rank, mine in gpus.items() if spin(mine)]
    others = [rank for rank in fault.victims if rank not in spinning]
    if len(others) != 1 or len(spinning) < LEAST_NODES or others[0] not in gpus:
        return None
    rank = others[0]
    host = roster.ranks[rank].host
    if host is None or not (_is_idle(gpus[rank]) or _computes(gpus[rank])):
        return None
    what = "has nothing to do" if _is_idle(gpus[rank]) else "still computes"
    gpu = gpus[rank][0]
    text = f"GPU {gpu.index} of {host}, on which rank {rank} runs, {what} while those of all others spin"
    shown = GpuEvidence(ranks=str(rank), text=text, host=host, index=gpu.index, device=gpu.device)
    return _Odd(host, text, Cause.UNKNOWN, (shown,))


# Step 3.


def _odd_port(facts: Mapping[str, NodeFacts], hosts: Mapping[str, Sequence[int]]) -> _Odd | None:
    known = {host: node.ports for host, node in facts.items() if node.ports}
    for find in (_down, _failing):
        found = {host: ports for host in known if (ports := find(host, known))}
        if len(found) == 1 and len(known) > 1:
            host, ports = found.popitem()
            return _of_ports(host, ports, hosts[host])
    return None


_Ports = Mapping[str, tuple[Port, ...]]


def _down(host: str, known: _Ports) -> list[Port]:
    """Ports that went down while their agent watched; or that are up on all other nodes, of which there are some."""
    return [
        port
        for port in known[host]
        if port.up is False and (port.went_down or _others(port, host, known, lambda other: other.up is True))
    ]


def _failing(host: str, known: _Ports) -> list[Port]:
    """Ports whose own error counters grow, while those of the same port on all other nodes do not."""
    return [
        port
        for port in known[host]
        if (own := _own_errors(port)) >= LEAST_PORT_ERRORS
        and _others(port, host, known, lambda other: _own_errors(other) <= LIKE_OTHERS_SHARE * own)
    ]


def _own_errors(port: Port) -> int:
    return sum(count for name, count in port.errors.items() if name not in _OF_THE_PATH)


def _others(port: Port, host: str, known: _Ports, holds: Callable[[Port], bool]) -> bool:
    """Does something hold for the port of this name on all other nodes, enough of which have one?"""
    same = [each for other, ports in known.items() if other != host for each in ports if each.name == port.name]
    return len(same) >= LEAST_NODES - 1 and all(map(holds, same))


def _of_ports(host: str, ports: Sequence[Port], ranks: Sequence[int]) -> _Odd:
    texts = [_in_words(port) for port in ports[:_MOST_PORTS]]
    evidence = tuple(
        PortEvidence(ranks=fold(ranks), text=f"{host}: {text}", host=host, port=port.name)
        for port, text in zip(ports, texts, strict=False)
    )
    start = LinkEnd(rank=min(ranks), host=host)
    links = tuple(Link(from_=start, to=LinkEnd(), interface=port.name) for port in ports[:_MOST_PORTS])
    return _Odd(host, f"{'; '.join(texts)} on {host} alone", Cause.NETWORK, evidence, links)


def _in_words(port: Port) -> str:
    if port.up is False:
        return f"port {port.name} is down" + (f" ({port.state})" if port.state else "")
    grown = sorted(port.errors.items(), key=lambda each: (each[0] in _OF_THE_PATH, -each[1], each[0]))[:3]
    return f"errors of port {port.name} grow (" + ", ".join(f"{name} by {count}" for name, count in grown) + ")"
