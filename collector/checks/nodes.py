"""Do names, ports, interfaces and devices lead where the job believes?"""

from collections.abc import Iterator
from functools import lru_cache

from collector.checks.facts import (
    JobFacts,
    RankFacts,
    Rule,
    in_sides,
    members,
    minority,
    shown,
    who_in_words,
    who_with,
)
from collector.checks.rendezvous import is_local
from collector.checks.sayings import said
from shared.answer.checks import Check, Severity
from shared.wire.setup import Setup

_SOCKETS = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME")
_HOSTS_FILE = "/etc/hosts"


def master_is_local(facts: JobFacts) -> Iterator[Check]:
    """An address that means each machine itself, for ranks that are not on rank 0's machine."""
    if not facts.several_hosts or facts.has_duplicates:
        return
    lost = [e for e in facts.those(_leads_home) if e.host not in facts.master_hosts and not e.has_met]
    if lost:
        address = lost[0].variable("MASTER_ADDR") or ""
        named = "" if is_local(address) else f", which {_HOSTS_FILE} there says is {_addresses(lost[0], address)}"
        yield said(
            "master_is_local",
            lost,
            seen=f"{who_with(lost, 'look')} for rank 0 at {shown(address)}{named}: their own machine",
        )


def _leads_home(setup: Setup) -> bool:
    address = setup.variables.get("MASTER_ADDR")
    return is_local(address) or (address is not None and _all_local(setup, address))


def _all_local(setup: Setup, name: str) -> bool:
    addresses = setup.hosts.get(name, ())
    return bool(addresses) and all(is_local(address) for address in addresses)


def _addresses(each: RankFacts, name: str) -> str:
    return ", ".join(each.setup.hosts.get(name, ())) if each.setup is not None else ""


def host_name_is_local(facts: JobFacts) -> Iterator[Check]:
    """A node's own name that leads to loopback: Gloo gives the others that address."""
    if not facts.several_hosts:
        return
    told_home = [each for each in facts.those(_may_be_told_home) if _own_name_is_local(each, facts)]
    if told_home:
        yield said(
            "host_name_is_local",
            told_home,
            seen=f"{_HOSTS_FILE} of {who_in_words(told_home)} gives the node's own name a loopback address",
        )


def _may_be_told_home(setup: Setup) -> bool:
    return "GLOO_SOCKET_IFNAME" not in setup.variables and bool(_names_at_home(setup))


def _names_at_home(setup: Setup) -> list[str]:
    """Return the names of hosts that lead to loopback, and do not say so themselves."""
    return [name for name in setup.hosts if _all_local(setup, name) and not is_local(name)]


def _own_name_is_local(each: RankFacts, facts: JobFacts) -> bool:
    names = [] if each.setup is None else _names_at_home(each.setup)
    return any(name != each.variable("MASTER_ADDR") or each.host in facts.master_hosts for name in names)


def port_taken(facts: JobFacts) -> Iterator[Check]:
    """A stranger listens where rank 0 should."""
    for each in facts.by_rank.get(0, ()):
        listener = each.setup.listener if each.setup is not None else None
        if listener is None or listener.of_job or listener.pid is None:
            continue
        ours = {other.identity.pid for other in facts.by_host[each.host]}
        if listener.pid not in ours and not any(other.has_met for other in facts.processes):
            yield said(
                "port_taken",
                [each],
                seen=f"pid {listener.pid} ({shown(listener.name)}), which is not part of the job, listens on "
                f"{listener.address} of {each.host or 'its host'}; MASTER_PORT is {each.port}",
            )


def interface_missing(facts: JobFacts) -> Iterator[Check]:
    """An interface is asked for that the node has not; NCCL takes prefixes, Gloo whole names."""
    for name in _SOCKETS:
        asking = (alike for same in facts.values(name).values() for alike in same)
        lost = members(alike for alike in asking if _lacks_interface(alike.setup, name))
        if not lost:
            continue
        there = ", ".join(lost[0].setup.interfaces[:12]) if lost[0].setup is not None else ""
        yield said(
            "interface_missing",
            lost,
            name=name,
            seen=f"{name} is {shown(lost[0].variable(name) or '')} for {who_in_words(lost)}, where there are {there}",
        )


def _lacks_interface(setup: Setup, name: str) -> bool:
    of_nccl = name.startswith("NCCL")
    if not setup.interfaces or (of_nccl and setup.nccl_loaded is not True):
        return False
    return not matches(setup.variables[name], setup.interfaces, whole=not of_nccl)


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
            yield said(
                "interfaces_differ",
                minority(sides),
                severity=Severity.RISKY if partly else Severity.NOTE,
                name=name,
                seen=in_sides(sides, of=name),
            )


def hca_missing(facts: JobFacts) -> Iterator[Check]:
    """RDMA devices that some nodes have and others have not."""
    asking = (alike for value, same in facts.values("NCCL_IB_HCA").items() if value for alike in same)
    asked = [alike for alike in asking if alike.setup.nccl_loaded]
    named = [(alike, alike.setup.variables["NCCL_IB_HCA"]) for alike in asked]
    lacking = [alike for alike, hcas in named if not matches(hcas, alike.setup.hcas, whole=False)]
    lost = members(lacking)
    if 0 < len(lacking) < len(asked):
        yield said(
            "hca_missing",
            lost,
            seen=f"NCCL_IB_HCA is {shown(lost[0].variable('NCCL_IB_HCA') or '')}; {who_with(lost, 'find')} no such "
            "device, other nodes do",
        )


SURROUNDINGS: tuple[Rule, ...] = (
    master_is_local,
    host_name_is_local,
    port_taken,
    interface_missing,
    interfaces_differ,
    hca_missing,
)
