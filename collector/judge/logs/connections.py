"""Connections that broke or were never made, with both ends of the link.

"Connection closed", IB status 12 and NCCL's remote error look the same for a dead peer and a bad link: nobody is blamed
for them here. Whose process is known to be gone is told by that.
Status 5 is what follows on a broken queue, and counts only where nothing else is told. Some statuses are of the
adapter that reports them, and of its own memory: there the link is not at fault.
What fails after a wait that lasted until its timeout is a consequence: whoever gives up takes its connections along.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from collector.align.logs.aftermath import Aftermath
from collector.align.logs.attributed_lines import Statements, hear
from collector.align.observations import Observations
from collector.align.roster import Roster
from collector.judge.logs.vote import (
    Opinion,
    Said,
    line_of,
    lines_of,
    opinion_by,
    told_by,
    voted,
    with_field,
    writers_of,
)
from shared.answer.diagnosis import Link, LinkEnd
from shared.isolation import costs_itself
from shared.packs import read_pack
from shared.wire.log_events import EventKind, LogEvent

MOST_LINKS = 16
FLUSHED = "5"

_ROWS = read_pack(__file__, "ib_statuses.toml")["statuses"]
_STATUSES: Mapping[str, str] = {row["code"]: row["means"] for row in _ROWS}
AT_HOME, AT_PEER = (frozenset(row["code"] for row in _ROWS if row["of"] == side) for side in ("home", "peer"))


@dataclass(frozen=True)
class _Broken:
    """One error: who reports it, and which host its peer is on."""

    rank: int | None
    host: str | None
    peer: str
    event: LogEvent


@costs_itself(lambda *_: [])
def opinions_by_transport(statements: Statements, observations: Observations, aftermath: Aftermath) -> list[Opinion]:
    """Return the links on which errors were logged, or the dead at their other end, or who left the others alone."""
    every = list(statements.of_kind(EventKind.TRANSPORT_ERROR))
    errors = [(rank, event) for rank, event in every if not aftermath.holds(event)]
    homes = _homes(observations.roster) if errors else {}
    broken = _broken(errors, observations.roster, homes)
    if not broken:
        return [*_of_fabric(errors, statements), *_of_timeouts(errors)]
    if _only_parted(broken, statements):
        return _of_fabric(errors, statements)
    left = _left(errors, statements)
    if left is not None:
        return [left]
    links = [each for each in broken if _status(each) not in AT_HOME]
    return [_of_links(links, statements)] if links else _of_adapters(broken)


def _left(errors: list[Said], statements: Statements) -> Opinion | None:
    """The one local rank that each of NCCL's service threads missed first, on the only node that speaks."""
    parted, lost = with_field(errors, "local_rank"), with_field(errors, "peer")
    first: dict[object, int] = {}
    for rank, event in parted:
        first.setdefault((rank, event.fields.get("writer_pid")), int(event.fields["local_rank"]))
    told = set(first.values())
    hosts = told_by(statements.all(), "writer_host")
    if len(told) != 1 or len(hosts) != 1 or not lost or told & {*statements.waited, *writers_of(lost)}:
        return None
    (rank,) = told
    shown = tuple(line_of(event, who, (rank,)) for who, event in [*parted[:2], *lost[:4]])
    return opinion_by("left", (rank,), sorted({*writers_of(lost), *statements.waited}), {}, evidence=shown)


def _of_fabric(errors: list[Said], statements: Statements) -> list[Opinion]:
    """Errors of the network's own libraries, which do not say who was at the other end."""
    told = with_field(errors, "transport")
    if not told:
        return []
    hosts = told_by(told, "writer_host")
    where = f" on {', '.join(hosts[:4])}" if hosts else ""
    told.sort(key=lambda line: line[1].fields.get("status") == FLUSHED)  # the cause before what it flushed
    meaning = _in_words([told[0][1].fields.get("status")])
    victims = {*writers_of(told), *statements.waited}
    return voted("fabric", told, victims=victims, where=where, meaning=meaning)


def _of_timeouts(errors: list[Said]) -> list[Opinion]:
    """Who waited over Gloo until its timeout, which does not say for whom."""
    told = with_field(errors, "timeout_ms")
    if not told:
        return []
    waited = int(told[0][1].fields["timeout_ms"]) / 1000
    return voted(
        "gloo", told, op=next((event.fields["op"] for _, event in told if "op" in event.fields), None), waited=waited
    )


def _only_parted(broken: list[_Broken], statements: Statements) -> bool:
    """Do connections just close, and nobody fails of it? So does every job that ends."""
    if not all("closed" in each.event.fields.get("type", "") for each in broken):
        return False
    fatal = (EventKind.EXCEPTION, EventKind.WATCHDOG_TIMEOUT, EventKind.DEVICE_ERROR)
    lost = any(
        event.fields.get("type") == "ncclRemoteError" for _, event in statements.of_kind(EventKind.TRANSPORT_ERROR)
    )
    return not lost and not any(True for _ in statements.of_kind(*fatal))


def _homes(roster: Roster) -> dict[str, str]:
    """Addresses and names -> hosts: from NCCL's interface lines, else a name is its own host."""
    told: dict[str, set[str]] = defaultdict(set)
    for rank, event in hear(roster, of=EventKind.INTERFACE).all():
        host = event.fields.get("writer_host") or (None if rank is None else roster.ranks[rank].host)
        if host and "address" in event.fields:
            told[event.fields["address"]].add(host)
    homes = {address: hosts.pop() for address, hosts in told.items() if len(hosts) == 1}
    return homes | {_short(view.host): view.host for view in roster.ranks.values() if view.host}


def _short(host: str) -> str:
    return host if host.replace(".", "").isdecimal() else host.partition(".")[0]


def _broken(errors: list[Said], roster: Roster, homes: dict[str, str]) -> list[_Broken]:
    found = []
    for rank, event in errors:
        peer = _address(event.fields.get("peer", ""))
        if peer:
            host = event.fields.get("writer_host") or (None if rank is None else roster.ranks[rank].host)
            found.append(_Broken(rank, host, homes.get(_short(peer), peer), event))
    first = [each for each in found if each.event.fields.get("status") != FLUSHED]
    return first or found


def _in_words(statuses: Iterable[str | None]) -> str:
    """Return what IB statuses mean, behind a colon; empty where none is known."""
    known = sorted({each for each in statuses if each is not None and each in _STATUSES}, key=int)
    return "".join(f"; status {each}: {_STATUSES[each]}" for each in known)


def _of_adapters(broken: list[_Broken]) -> list[Opinion]:
    """Errors of the reporting adapters' own memory: the link and the peer have no part in them."""
    return voted("adapters", [(each.rank, each.event) for each in broken], meaning=_in_words(map(_status, broken)))


def _status(each: _Broken) -> str | None:
    return each.event.fields.get("status")


def _address(peer: str) -> str:
    """`10.1.2.3<40123>`, `[10.1.2.3]:40123`, `node7.example<40123>` -> the part that names a machine."""
    return peer.partition("<")[0].partition("]")[0].strip("[] ")


def _failures_at(hosts: set[str], statements: Statements) -> list[LogEvent]:
    """What processes on the peers' hosts logged of failures of their own."""
    told = statements.of_kind(EventKind.DEVICE_ERROR, EventKind.OUT_OF_MEMORY)
    return [event for _, event in told if _short(event.fields.get("writer_host", "")) in hosts][:2]


def _of_links(broken: list[_Broken], statements: Statements) -> Opinion:
    links = {}
    for each in broken:
        interface = each.event.fields.get("interface")
        start, end = LinkEnd(rank=each.rank, host=each.host), LinkEnd(host=each.peer)
        links[each.rank, each.host, each.peer, interface] = Link(from_=start, to=end, interface=interface)
    peers = sorted({each.peer for each in broken})
    victims = tuple(sorted({each.rank for each in broken if each.rank is not None} | statements.waited))
    failures = _failures_at({_short(peer) for peer in peers}, statements)
    where = f"to {peers[0]}" if len(peers) == 1 else f"to {len(peers)} hosts ({', '.join(peers[:4])} …)"
    refused = {"refused": ""} if all(_status(each) in AT_PEER for each in broken) else {}
    return opinion_by(
        "links",
        (),
        victims,
        {"where": where, "meaning": _in_words(map(_status, broken)), **refused},
        *(f"a process at the other end logged: {event.text[:200]}" for event in failures),
        evidence=(*lines_of([(each.rank, each.event) for each in broken]), *(line_of(e, None) for e in failures)),
        links=tuple(links.values())[:MOST_LINKS],
    )
