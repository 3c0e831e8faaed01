"""What the nodes say of themselves, side by side: who lacks what the others have, and what `unhang check` finds."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from cli.preflight.node_facts import NOT_FOR_JOBS, NodeReport, RdmaPort
from collector.align.expected import Expected
from collector.align.thresholds import is_majority
from collector.checks.all import check_job
from shared.answer.checks import Check, CheckId
from shared.missing import Missing, Reason
from shared.plural import counted
from shared.wire.devices import Gpu, Gpus
from shared.wire.setup import Setup
from shared.wire.snapshot import Identity, NodeSnapshot, RankSnapshot

CLOCK_SECONDS = 5.0
"""Clocks that differ by more make logs of several nodes useless, and tokens that expire."""

_Value = TypeVar("_Value", int, str)

_NOT_OF_NODES = frozenset({CheckId.RECORDER_OFF, CheckId.NCCL_SILENT, CheckId.ONE_PROCESS_OF_MANY, CheckId.GPUS_IDLE})
"""What a job decides, not a node."""


def lacking(facts: Mapping[int, NodeReport]) -> Iterator[tuple[int, str]]:
    """Yield a node and a sentence for what it lacks and most nodes have, and for what its GPUs report."""
    gpus = {node: each.setup.gpus or 0 for node, each in facts.items()}
    usual = _most(gpus.values())
    ports = [port for each in facts.values() for port in each.rdma if _is_active(port.state)]
    active = Counter(_name(port) for port in ports)
    rates = {name: _most(port.rate for port in ports if _name(port) == name) for name in active}
    whole = _nvlinks_are_whole(facts.values())
    for node, each in sorted(facts.items()):
        if usual is not None and gpus[node] < usual:
            yield node, f"PyTorch sees {gpus[node]} GPUs there, and {usual} on most nodes"
        yield from ((node, what) for what in _interfaces(each, facts))
        for port in each.rdma:
            name = _name(port)
            if not _is_active(port.state) and active[name] * 2 > len(facts):
                yield node, f"RDMA port {name} is {port.state or 'unknown'}, and ACTIVE on most nodes"
            elif _is_active(port.state) and _is_slower(port.rate, rates[name]):
                yield node, f"RDMA port {name} runs at {port.rate}, and at {rates[name]} on most nodes"
        if isinstance(each.gpus, Gpus):
            for gpu in each.gpus.gpus:
                for fault in _faults(gpu, nvlinks_are_whole=whole):
                    yield node, f"GPU {gpu.index} {fault}"


def _interfaces(own: NodeReport, facts: Mapping[int, NodeReport]) -> Iterator[str]:
    """Yield what is wrong with interfaces that work on most nodes: no link, or a slower one."""
    for nic in own.nics:
        others = [other for each in facts.values() for other in each.nics if other.name == nic.name]
        working = [other for other in others if other.up and other.address]
        if nic.name.startswith(NOT_FOR_JOBS) or not is_majority(len(working), len(facts)):
            continue
        if nic.link:
            yield f"interface {nic.name} ({nic.address or 'without an address'}) {nic.link}, and works on most nodes"
        elif not nic.address:
            yield f"interface {nic.name} has no address, and one on most nodes"
        elif nic.speed and nic.speed < (usual := _most(other.speed for other in working) or 0):
            yield f"interface {nic.name} runs at {nic.speed} Mb/s, and at {usual} Mb/s on most nodes"


def _name(port: RdmaPort) -> str:
    return f"{port.device}/{port.port}"


def _is_slower(rate: str, usual: str | None) -> bool:
    # 200 Gb/sec (4X HDR)
    try:
        return usual is not None and float(rate.split()[0]) < float(usual.split()[0])
    except (ValueError, IndexError):
        return False


def _nvlinks_are_whole(facts: Iterable[NodeReport]) -> bool:
    """Have most GPUs no NVLink that is down? Some machines leave links unused on all of them."""
    gpus = [gpu for each in facts if isinstance(each.gpus, Gpus) for gpu in each.gpus.gpus]
    told = [gpu.nvlinks_down for gpu in gpus if gpu.nvlinks_down is not None]
    return is_majority(told.count(0), len(told))


def _most(values: Iterable[_Value]) -> _Value | None:
    counts = Counter(values)
    value, count = counts.most_common(1)[0]
    return value if count * 2 > sum(counts.values()) else None


def _is_active(state: str) -> bool:
    return state.upper() == "ACTIVE"


def _faults(gpu: Gpu, *, nvlinks_are_whole: bool) -> Iterator[str]:
    if gpu.fault:
        yield f"cannot be used: {gpu.fault}"
    if gpu.rows_failed:
        yield "has a row of memory that could not be remapped"
    if gpu.ecc_uncorrected:
        yield f"has {gpu.ecc_uncorrected} uncorrectable memory errors"
    if gpu.nvlinks_down and nvlinks_are_whole:
        yield f"has {counted(gpu.nvlinks_down, 'NVLink')} down, and most GPUs have none"


def same_addresses(addresses: Mapping[int, Mapping[str, str]]) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """Yield interface, address and nodes where several have one address, and most have one of their own."""
    found: dict[str, dict[str, list[int]]] = {}
    for node, each in sorted(addresses.items()):
        for name, address in each.items():
            found.setdefault(name, {}).setdefault(address, []).append(node)
    for name, nodes in found.items():
        alone = sum(1 for each in nodes.values() if len(each) == 1)
        for address, sharing in nodes.items():
            if len(sharing) > 1 and is_majority(alone, sum(map(len, nodes.values()))):
                yield name, address, tuple(sharing)


def busy_gpus(facts: Mapping[int, NodeReport]) -> Iterator[tuple[int, str]]:
    """Yield a node and a sentence for each GPU that another process uses."""
    for node, each in sorted(facts.items()):
        for gpu in each.gpus.gpus if isinstance(each.gpus, Gpus) else ():
            if gpu.processes:
                yield node, f"GPU {gpu.index} is used by process {gpu.processes[0].pid}"


def checks_of(facts: Mapping[int, NodeReport]) -> tuple[Check, ...]:
    """Return what `unhang check` finds in the settings of these nodes, each taken for a rank of one job."""
    absent = Missing(source="preflight", reason=Reason.NOT_ENABLED, detail="there is no rank yet")
    looks = [_look(node, each, max(facts) + 1, absent) for node, each in facts.items()]
    found = check_job(looks, Expected(job="preflight"))
    return tuple(check for check in found if check.id not in _NOT_OF_NODES)


def _look(node: int, facts: NodeReport, nodes: int, absent: Missing) -> NodeSnapshot:
    rank = RankSnapshot(
        identity=Identity(job="preflight", rank=node, local_rank=0, world_size=nodes, host=facts.host),
        process=absent,
        stacks=absent,
        fds=absent,
        logs=absent,
        recorder=absent,
        setup=_setup(facts),
    )
    return NodeSnapshot(host=facts.host, taken_at_ns=facts.time_ns, ranks=(rank,))


def _setup(facts: NodeReport) -> Setup:
    """Without the ranks that a launcher gave to this process: they are not those of the job to come."""
    of_launcher = ("RANK", "LOCAL_RANK", "GROUP_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "TORCHELASTIC", "SLURM_")
    variables = {name: value for name, value in facts.setup.variables.items() if not name.startswith(of_launcher)}
    return facts.setup.model_copy(update={"variables": variables})


def clocks_apart(ahead: Mapping[int, tuple[float, float]]) -> Iterator[tuple[int, float]]:
    """Yield the nodes whose clock differs from the median by more than seconds, and by how much at least."""
    ordered = sorted((least + most) / 2 for least, most in ahead.values())
    middle = ordered[len(ordered) // 2] if ordered else 0.0
    for node, (least, most) in sorted(ahead.items()):
        seconds = max(0.0, least - middle) or min(0.0, most - middle)
        if abs(seconds) > CLOCK_SECONDS:
            yield node, seconds
