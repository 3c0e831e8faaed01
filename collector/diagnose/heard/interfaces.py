"""Which network each node took, compared: the odd one out is a hint to look at, never a conviction."""

import re
from collections import defaultdict

from collector.diagnose.heard.statements import Statements
from collector.diagnose.scene import Scene
from shared.diagnosis import Conflict
from shared.log_events import EventKind

_FEWEST_NODES = 3
# [0]eth0:10.1.2.3<0> [1]eth1:10.9.2.3<0>        [0]mlx5_0:1/RoCE [1]mlx5_1:1/IB [RO]
_DEVICE = re.compile(r"\[\d{1,3}\](?P<name>[\w.-]{1,40}):(?:\d{1,3}/(?P<link>\w{1,10}))?")


def odd_interfaces(heard: Statements, scene: Scene) -> tuple[Conflict, ...]:
    """Return what one node, or a few, chose otherwise than a clear majority of three nodes or more."""
    by_transport: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for rank, event in heard.of_kind(EventKind.INTERFACE):
        host = event.fields.get("writer_host") or (None if rank is None else scene.roster.ranks[rank].host)
        if host:
            by_transport[event.fields.get("transport", "")][host].add(_choice(event.fields))
    found = (_odd(transport, nodes) for transport, nodes in sorted(by_transport.items()))
    return tuple(conflict for conflict in found if conflict is not None)


def _choice(fields: dict[str, str]) -> str:
    devices = _DEVICE.finditer(fields.get("devices", ""))
    names = [device["name"] + (f"/{device['link']}" if device["link"] else "") for device in devices]
    return " ".join(names) or fields.get("interface", "")


def _odd(transport: str, nodes: dict[str, set[str]]) -> Conflict | None:
    sides: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for host, choices in sorted(nodes.items()):
        sides[tuple(sorted(choices))].append(host)
    ordered = sorted(sides.items(), key=lambda side: (-len(side[1]), side[1]))
    if len(ordered) < 2 or len(nodes) < _FEWEST_NODES or 2 * len(ordered[0][1]) <= len(nodes):
        return None
    told = "; ".join(f"{', '.join(hosts[:4])}: {' or '.join(choice)[:200]}" for choice, hosts in ordered[1:5])
    usual, many = ordered[0]
    text = f"NCCL took {' or '.join(usual)[:200]} for {transport} on {len(many)} nodes, and something else on {told}"
    return Conflict(sources=("logs", "logs"), text=text)
