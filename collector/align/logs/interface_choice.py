"""Which network each node took, compared: the odd one out is a hint to look at, never a conviction."""

import re
from collections import defaultdict
from collections.abc import Iterator

from collector.align.logs.attributed_lines import hear
from collector.align.roster import Roster
from collector.align.thresholds import LEAST_NODES
from shared.answer.diagnosis import Conflict
from shared.wire.log_events import EventKind, LogEvent

_MOST_HOSTS = 4
# [0]eth0:10.1.2.3<0> [1]eth1:10.9.2.3<0>        [0]mlx5_0:1/RoCE [1]mlx5_1:1/IB [RO]
_DEVICE = re.compile(r"\[\d{1,3}\](?P<name>[\w.-]{1,40}):(?:\d{1,3}/(?P<link>\w{1,10}))?")


def odd_interfaces(roster: Roster) -> tuple[Conflict, ...]:
    """Return what a node could not open and others took, and what few chose otherwise than most of three or more."""
    if _is_one_choice(roster):
        return ()
    return (*_unopened(roster), *_odd_choices(roster))


def _unopened(roster: Roster) -> list[Conflict]:
    refused: dict[str, set[str]] = defaultdict(set)
    taken: dict[str, set[str]] = defaultdict(set)
    for host, event in _by_hosts(roster):
        if "unopened" in event.fields:
            refused[event.fields["unopened"]].add(host)
        for device in _DEVICE.finditer(event.fields.get("devices", "")):
            taken[device["name"]].add(host)
    return [
        Conflict(
            sources=("logs", "logs"), text=f"NCCL could not open {name} on {_listed(hosts)}; {_listed(others)} took it"
        )
        for name, hosts in sorted(refused.items())
        if (others := taken[name] - hosts)
    ]


def _listed(hosts: set[str]) -> str:
    more = f" and {len(hosts) - _MOST_HOSTS} more" if len(hosts) > _MOST_HOSTS else ""
    return ", ".join(sorted(hosts)[:_MOST_HOSTS]) + more


def _by_hosts(roster: Roster) -> Iterator[tuple[str, LogEvent]]:
    for rank, event in hear(roster, of=EventKind.INTERFACE).all():
        host = event.fields.get("writer_host") or (None if rank is None else roster.ranks[rank].host)
        if host:
            yield host, event


def _odd_choices(roster: Roster) -> tuple[Conflict, ...]:
    by_transport: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for host, event in _by_hosts(roster):
        transport, devices, interface = _told(event)
        if "unopened" not in event.fields:
            by_transport[transport][host].add(_choice(devices, interface))
    found = (_odd(transport, nodes) for transport, nodes in sorted(by_transport.items()))
    return tuple(conflict for conflict in found if conflict is not None)


def _is_one_choice(roster: Roster) -> bool:
    """Do all lines of a transport, whether they count or not, tell of one choice, as in nearly every job?"""
    said = (*(view.logged for view in roster.ranks.values()), roster.unowned)
    told = {_told(event) for events in said for event in events if event.kind is EventKind.INTERFACE}
    choices = {(transport, _choice(devices, interface)) for transport, devices, interface in told}
    return len(choices) == len({transport for transport, _ in choices})


def _told(event: LogEvent) -> tuple[str, str, str]:
    """The transport of a line, the devices and the interface, as it has them."""
    fields = event.fields
    return fields.get("transport", ""), fields.get("devices", ""), fields.get("interface", "")


def _choice(devices: str, interface: str) -> str:
    names = [found["name"] + (f"/{found['link']}" if found["link"] else "") for found in _DEVICE.finditer(devices)]
    return " ".join(names) or interface


def _odd(transport: str, nodes: dict[str, set[str]]) -> Conflict | None:
    sides: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for host, choices in sorted(nodes.items()):
        sides[tuple(sorted(choices))].append(host)
    ordered = sorted(sides.items(), key=lambda side: (-len(side[1]), side[1]))
    if len(ordered) < 2 or len(nodes) < LEAST_NODES or 2 * len(ordered[0][1]) <= len(nodes):
        return None
    told = "; ".join(f"{', '.join(hosts[:4])}: {' or '.join(choice)[:200]}" for choice, hosts in ordered[1:5])
    usual, many = ordered[0]
    text = f"NCCL took {' or '.join(usual)[:200]} for {transport} on {len(many)} nodes, and something else on {told}"
    return Conflict(sources=("logs", "logs"), text=text)
