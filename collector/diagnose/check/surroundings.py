"""Do names, ports, interfaces and devices lead where the job believes?"""

from collections.abc import Iterator
from functools import lru_cache

from collector.diagnose.check.facts import (
    JobFacts,
    RankFacts,
    Rule,
    in_sides,
    minority,
    shown,
    told,
    who_in_words,
)
from collector.diagnose.check.meeting import is_local
from shared.checks import Check, CheckId, Severity

_SOCKETS = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME")
_HOSTS_FILE = "/etc/hosts"


def master_is_local(facts: JobFacts) -> Iterator[Check]:
    """An address that means each machine itself, for ranks that are not on rank 0's machine."""
    if not facts.several_hosts or any(len(who) > 1 for who in facts.by_rank.values()):
        return
    lost = [e for e in facts.processes if e.host not in facts.master_hosts and _leads_home(e) and not e.has_met]
    if lost:
        address = lost[0].variable("MASTER_ADDR") or ""
        named = "" if is_local(address) else f", which {_HOSTS_FILE} there says is {_addresses(lost[0], address)}"
        yield told(
            CheckId.MASTER_IS_LOCAL,
            Severity.WRONG,
            lost,
            seen=f"{who_in_words(lost)} look for rank 0 at {shown(address)}{named}: their own machine",
            why="rank 0 is on another node, and nobody answers there",
            change="set MASTER_ADDR, or --rdzv-endpoint, to rank 0's host name or address as the other nodes reach it",
        )


def _leads_home(each: RankFacts) -> bool:
    address = each.variable("MASTER_ADDR")
    return is_local(address) or (address is not None and _all_local(each, address))


def _all_local(each: RankFacts, name: str) -> bool:
    addresses = each.setup.hosts.get(name, ()) if each.setup is not None else ()
    return bool(addresses) and all(is_local(address) for address in addresses)


def _addresses(each: RankFacts, name: str) -> str:
    return ", ".join(each.setup.hosts.get(name, ())) if each.setup is not None else ""


def host_name_is_local(facts: JobFacts) -> Iterator[Check]:
    """A node's own name that leads to loopback: Gloo tells the others that address."""
    if not facts.several_hosts:
        return
    told_home = [
        e for e in facts.processes if e.variable("GLOO_SOCKET_IFNAME") is None and _own_name_is_local(e, facts)
    ]
    if told_home:
        yield told(
            CheckId.HOST_NAME_IS_LOCAL,
            Severity.NOTE,
            told_home,
            seen=f"{_HOSTS_FILE} of {who_in_words(told_home)} gives the node's own name a loopback address",
            why="Gloo tells the other nodes the address of the host's name, and they then talk to themselves",
            change=f"set GLOO_SOCKET_IFNAME to the interface between the nodes, or mend that line of {_HOSTS_FILE}",
        )


def _own_name_is_local(each: RankFacts, facts: JobFacts) -> bool:
    master = each.variable("MASTER_ADDR")
    names = each.setup.hosts if each.setup is not None else {}
    own = [name for name in names if name != master or each.host in facts.master_hosts]
    return any(_all_local(each, name) and not is_local(name) for name in own)


def port_taken(facts: JobFacts) -> Iterator[Check]:
    """A stranger listens where rank 0 should."""
    if any(each.has_met for each in facts.processes):
        return
    for each in facts.by_rank.get(0, ()):
        listener = each.setup.listener if each.setup is not None else None
        if listener is None or listener.of_job or listener.pid is None:
            continue
        ours = {other.identity.pid for other in facts.by_host[each.host]}
        if listener.pid not in ours:
            yield told(
                CheckId.PORT_TAKEN,
                Severity.WRONG,
                [each],
                seen=f"pid {listener.pid} ({shown(listener.name)}), which is not of the job, listens on "
                f"{listener.address} of {each.host or 'its host'}; MASTER_PORT is {each.port}",
                why="rank 0 cannot open its store there, and the other ranks talk to a stranger",
                change="choose another MASTER_PORT, or end that process",
            )


def interface_missing(facts: JobFacts) -> Iterator[Check]:
    """An interface is asked for that the node has not; NCCL takes prefixes, Gloo whole names."""
    for name in _SOCKETS:
        lost = [each for who in facts.values(name).values() for each in who if _lacks_interface(each, name)]
        if not lost:
            continue
        there = ", ".join(lost[0].setup.interfaces[:12]) if lost[0].setup is not None else ""
        yield told(
            CheckId.INTERFACE_MISSING,
            Severity.WRONG,
            lost,
            seen=f"{name} is {shown(lost[0].variable(name) or '')} for {who_in_words(lost)}, where there are {there}",
            why="the library finds no interface to talk over, and fails or waits",
            change=f"set {name} to an interface that every node has, or leave it unset",
        )


def _lacks_interface(each: RankFacts, name: str) -> bool:
    wanted = each.variable(name)
    if wanted is None or each.setup is None or not each.setup.interfaces:
        return False
    if name.startswith("NCCL") and each.setup.nccl_loaded is not True:
        return False
    return not matches(wanted, each.setup.interfaces, whole=not name.startswith("NCCL"))


@lru_cache(maxsize=4096)
def matches(wanted: str, there: tuple[str, ...], *, whole: bool) -> bool:
    """Does any of `there` fit a list such as `eth,ib0`, `=mlx5_0:1` or `^docker0`? A list of exclusions always does."""
    if wanted.startswith("^") or not wanted.strip("= ,"):
        return True
    exact = whole or wanted.startswith("=")
    names = [part.strip().partition(":")[0] for part in wanted.removeprefix("=").split(",") if part.strip()]
    return any(there_is == name or (not exact and there_is.startswith(name)) for name in names for there_is in there)


def interfaces_differ(facts: JobFacts) -> Iterator[Check]:
    """Nodes that talk over interfaces of different names may be on different networks."""
    for name in _SOCKETS:
        if name.startswith("NCCL") and not facts.with_nccl:
            continue
        sides = facts.sides(name, unset=True)
        if sides and facts.several_hosts:
            partly = any(value == "" for value, _ in sides)
            yield told(
                CheckId.INTERFACES_DIFFER,
                Severity.RISKY if partly else Severity.NOTE,
                minority(sides),
                seen=in_sides(sides, of=name),
                why="interfaces of different names may be of different networks, between which nothing is routed",
                change=f"set one {name} for all nodes, or make sure that these interfaces are on one network",
            )


def hca_missing(facts: JobFacts) -> Iterator[Check]:
    """RDMA devices that some nodes have and others have not."""
    asking = [each for value, who in facts.values("NCCL_IB_HCA").items() if value for each in who]
    asked = [each for each in asking if each.setup is not None and each.setup.nccl_loaded]
    lost = [e for e in asked if e.setup is not None and not _has_hca(e, e.setup.hcas)]
    if lost and len(lost) < len(asked):
        yield told(
            CheckId.HCA_MISSING,
            Severity.RISKY,
            lost,
            seen=f"NCCL_IB_HCA is {shown(lost[0].variable('NCCL_IB_HCA') or '')}; {who_in_words(lost)} find no such "
            "device, other nodes do",
            why="these nodes fall back to TCP or fail, and the others wait for them",
            change="look at the node's RDMA devices (ibv_devices), or name devices that every node has",
        )


def _has_hca(each: RankFacts, there: tuple[str, ...]) -> bool:
    return matches(each.variable("NCCL_IB_HCA") or "", there, whole=False)


SURROUNDINGS: tuple[Rule, ...] = (
    master_is_local,
    host_name_is_local,
    port_taken,
    interface_missing,
    interfaces_differ,
    hca_missing,
)
