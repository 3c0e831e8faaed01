"""Why a node or a link fails on an interface, by what its connections came to: one cause, with what shows it."""

from collections.abc import Sequence
from typing import NamedTuple

from cli.preflight.reach import LARGE_BYTES, Reached

LEAST_TRIP_SECONDS = 0.03
"""The kernel answers in a hundredth of that within a building, and no queue is in the shortest time."""

_TIMES_USUAL_TRIP = 20.0
LEAST_LOSS = 0.004
"""Share of packets sent again: on a network that works it is hundredths of that."""

_LEAST_RESENT = 4
"""One burst that a switch had no room for is no fault."""

_TIMES_USUAL = 5.0
_MOST_OF = 0.7
_FEW_ARRIVE = 4
"""Where no full packet passes, only the first small ones are confirmed; where many are lost, some of ten are."""

_MOST_EVIDENCE = 6


class Flow(NamedTuple):
    """What one node sent to another."""

    path: str
    one: str
    other: str
    address: str
    ports: int
    """So many were tried."""
    reached: Reached
    usual_loss: float
    usual_trip: float
    is_to_it: bool
    """It went to the node that is asked about."""
    mtu: int | None

    @property
    def line(self) -> str:
        """In words, with addresses and ports."""
        where = f"{self.path}, {self.one} to {self.other} ({self.address})"
        reached, said = self.reached, list[str]()
        for why in sorted(set(reached.failed.values())):
            ports = sorted(port for port, each in reached.failed.items() if each == why)
            said.append(f"port {', '.join(map(str, ports[:8]))}: {why}")
        if reached.large:
            small = f"; in packets of {reached.largest} bytes it does" if reached.largest else ""
            said.append(f"{reached.large}{small}")
        if reached.resent:
            said.append(f"{reached.resent} of {reached.sent} packets sent again")
        if reached.seconds:
            said.append(f"{LARGE_BYTES / reached.seconds / 1e6:.1f} MB/s")
        return f"{where}: {'; '.join(said) or 'passed'}"


class NetworkCause(NamedTuple):
    """What a finding says."""

    text: str
    """After the name of a node."""
    detail: str
    hint: str
    evidence: tuple[str, ...]
    is_silence: bool = False
    """Nothing came through at all."""


def is_lossy(reached: Reached, usual: float) -> bool:
    """Are many more packets lost than in good flows?"""
    share = reached.resent / reached.sent if reached.sent else 0.0
    return reached.resent >= _LEAST_RESENT and share > max(LEAST_LOSS, _TIMES_USUAL * usual)


def is_late(reached: Reached, usual: float) -> bool:
    """Does an answer take much longer than in good flows?"""
    return reached.trip_seconds > max(LEAST_TRIP_SECONDS, _TIMES_USUAL_TRIP * usual)


def cause_of(flows: Sequence[Flow]) -> NetworkCause:
    """Return the cause, the most telling first.

    1. Much arrives in small packets, and not in full ones: large packets are lost on the way.
    2. Packets are lost: connections, too, may fail by that.
    3. Some ports answer, others do not: a firewall.
    4. Little arrives and much does not, of whatever size.
    5. Answers take long.
    6. Nothing answers.
    """
    failing = [flow for flow in flows if flow.reached.failed or flow.reached.large or _lossy(flow) or _late(flow)]
    evidence = tuple(flow.line for flow in failing[:_MOST_EVIDENCE])
    large = [flow for flow in failing if flow.reached.large]
    sized = [flow for flow in large if flow.reached.largest and flow.reached.arrived <= _FEW_ARRIVE]
    if len(sized) > _MOST_OF * len(large):
        fits = max(flow.reached.largest for flow in sized)
        mtu = f"; its MTU is {sized[0].mtu}" if sized[0].mtu else ""
        detail = f"full packets{_ways(sized)} are lost, packets of {fits} bytes arrive{mtu}"
        return NetworkCause("exchanges nothing large", detail, _HINT_LARGE, evidence)
    lossy = [flow for flow in failing if _lossy(flow)]
    if lossy:
        sent, resent = (sum(getattr(flow.reached, each) for flow in lossy) for each in ("sent", "resent"))
        others = f"{100 * max(flow.usual_loss for flow in lossy):.2g} %"
        detail = f"{100 * resent / sent:.2g} % of the packets{_ways(lossy)} are lost, {others} in good pairs"
        return NetworkCause("loses packets", detail, _HINT_LOSS, evidence)
    some = [flow for flow in failing if flow.reached.failed and _some_ports(flow)]
    if some:
        closed = max(len(flow.reached.failed) for flow in some)
        detail = f"{closed} of {max(flow.ports for flow in some)} ports{_ways(some)} did not answer"
        return NetworkCause("answers on some ports only", detail, _HINT_PORTS, evidence)
    if any(flow.reached.large for flow in failing):
        detail = f"{LARGE_BYTES} bytes{_ways(failing)} do not arrive in time"
        return NetworkCause("exchanges nothing large", detail, _HINT_MUCH, evidence)
    late = [flow for flow in failing if _late(flow)]
    if late:
        trip = 1e3 * max(flow.reached.trip_seconds for flow in late)
        usual = 1e3 * max(flow.usual_trip for flow in late)
        detail = f"an answer takes {trip:.0f} ms, {usual:.2g} ms in good pairs"
        return NetworkCause("is slow", detail, _HINT_MUCH, evidence)
    to_it, from_it = any(flow.is_to_it for flow in failing), any(not flow.is_to_it for flow in failing)
    ways = "neither reaches others nor is reached" if to_it and from_it else (
        "cannot be reached" if to_it else "does not reach others"
    )  # fmt: skip
    return NetworkCause(ways, "", _HINT_NODE, evidence, is_silence=True)


def _lossy(flow: Flow) -> bool:
    return is_lossy(flow.reached, flow.usual_loss)


def _late(flow: Flow) -> bool:
    return is_late(flow.reached, flow.usual_trip)


def _some_ports(flow: Flow) -> bool:
    return bool(flow.reached.sent) or len(set(flow.reached.failed.values())) > 1


def _ways(flows: Sequence[Flow]) -> str:
    """Say in which direction, where it is one."""
    to_it = {flow.is_to_it for flow in flows}
    return {frozenset({True}): " to it", frozenset({False}): " from it"}.get(frozenset(to_it), "")


_HINT_NODE = "check its cable, switch port, address and firewall"
_HINT_LARGE = (
    "the MTU on the way is smaller than the interface says: compare that of its interface, of its switch port and of "
    "the others, and let ICMP pass"
)
_HINT_LOSS = (
    "count errors and drops of its network device and switch port (ethtool -S); reseat or change its cable or module"
)
_HINT_PORTS = "open the ports that jobs use in its firewall: all above 1024, or what ip_local_port_range says"
_HINT_MUCH = "check errors and rate of its network device and switch port (ethtool, ethtool -S), and what limits them"
