"""Connections that broke or were never made: which link, and whether a peer's end of it was alive.

"Connection closed", IB status 12 and NCCL's remote error look the same for a dead peer and a bad link. First see
whether the peer's process lives: one that is known to be gone is the root, otherwise both ends of the link are told.
Status 5 is what follows on a broken queue, and counts only where nothing else is told of the pair.
"""

from collections import defaultdict
from dataclasses import dataclass

from collector.align.logs.attributed_lines import Statements, hear
from collector.align.observations import Observations
from collector.align.roster import Presence, Roster
from collector.judge.fault import kind_of
from collector.judge.logs.vote import Opinion, Witness, line_of
from shared.answer.diagnosis import Link, LinkEnd, LogEvidence
from shared.answer.words import Cause, Kind
from shared.ranks import ranks_in_words
from shared.wire.log_events import EventKind, LogEvent

MOST_LINKS = 16
_FLUSHED = "5"


@dataclass(frozen=True)
class _Broken:
    """One error: who reports it, and which host its peer is on."""

    rank: int | None
    host: str | None
    peer: str
    event: LogEvent


def opinions_by_transport(heard: Statements, scene: Observations) -> list[Opinion]:
    """Return the links on which errors were logged, or the dead at their other end."""
    errors = list(heard.of_kind(EventKind.TRANSPORT_ERROR))
    homes = _homes(scene.roster) if errors else {}
    broken = _broken(errors, scene, homes)
    if not broken or _only_parted(broken, heard):
        return []
    dead = _dead(broken, scene, homes)
    return [_of_the_dead(dead, broken, scene) if dead else _of_links(broken, heard, scene)]


def _only_parted(broken: list[_Broken], heard: Statements) -> bool:
    """Do connections just close, and nobody fails of it? So does every job that ends."""
    if not all("closed" in each.event.fields.get("type", "") for each in broken):
        return False
    fatal = (EventKind.EXCEPTION, EventKind.WATCHDOG_TIMEOUT, EventKind.DEVICE_ERROR)
    lost = any(event.fields.get("type") == "ncclRemoteError" for _, event in heard.of_kind(EventKind.TRANSPORT_ERROR))
    return not lost and not any(True for _ in heard.of_kind(*fatal))


def _homes(roster: Roster) -> dict[str, str]:
    """Addresses and names -> hosts: from NCCL's interface lines, else a name is its own host."""
    told: dict[str, set[str]] = defaultdict(set)
    for rank, event in hear(roster, of_interfaces=True).all():
        host = event.fields.get("writer_host") or (None if rank is None else roster.ranks[rank].host)
        if host and "address" in event.fields:
            told[event.fields["address"]].add(host)
    homes = {address: hosts.pop() for address, hosts in told.items() if len(hosts) == 1}
    return homes | {_short(view.host): view.host for view in roster.ranks.values() if view.host}


def _short(host: str) -> str:
    return host if host.replace(".", "").isdecimal() else host.partition(".")[0]


def _broken(errors: list[tuple[int | None, LogEvent]], scene: Observations, homes: dict[str, str]) -> list[_Broken]:
    found = []
    for rank, event in errors:
        peer = _address(event.fields.get("peer", ""))
        if peer:
            host = event.fields.get("writer_host") or (None if rank is None else scene.roster.ranks[rank].host)
            found.append(_Broken(rank, host, homes.get(_short(peer), peer), event))
    first = [each for each in found if each.event.fields.get("status") != _FLUSHED]
    return first or found


def _address(peer: str) -> str:
    """`10.1.2.3<40123>`, `[10.1.2.3]:40123`, `node7.example<40123>` -> the part that names a machine."""
    return peer.partition("<")[0].partition("]")[0].strip("[] ")


def _dead(broken: list[_Broken], scene: Observations, homes: dict[str, str]) -> tuple[int, ...]:
    """Ranks on the peers' hosts whose processes are known to be gone; no sighting of a file's rank is no death."""
    peers = {_short(each.peer) for each in broken}
    gone = (Presence.EXITED, Presence.UNREACHABLE) if scene.roster.live else (Presence.EXITED,)
    views = scene.roster.ranks.values()
    return tuple(v.rank for v in views if v.presence in gone and v.host and _short(v.host) in peers)


def _of_the_dead(dead: tuple[int, ...], broken: list[_Broken], scene: Observations) -> Opinion:
    kinds = {kind_of(rank, scene) for rank in dead}
    victims = tuple(sorted({each.rank for each in broken if each.rank is not None} - set(dead)))
    return Opinion(
        witness=Witness.TRANSPORT,
        kind=kinds.pop() if len(kinds) == 1 else Kind.RANK_EXITED,
        culprits=dead,
        victims=victims,
        said=f"{ranks_in_words(dead)} ended, and {ranks_in_words(victims)} lost the connection",
        ground=_lines(broken),
    )


def _failures_at(hosts: set[str], heard: Statements) -> list[LogEvent]:
    """What processes on the peers' hosts logged of failures of their own."""
    told = heard.of_kind(EventKind.DEVICE_ERROR, EventKind.OUT_OF_MEMORY)
    return [event for _, event in told if _short(event.fields.get("writer_host", "")) in hosts][:2]


def _lines(broken: list[_Broken]) -> tuple[LogEvidence, ...]:
    return tuple(line_of(each.event, each.rank) for each in broken[:4])


def _of_links(broken: list[_Broken], heard: Statements, scene: Observations) -> Opinion:
    links = {}
    for each in broken:
        interface = each.event.fields.get("interface")
        links[each.rank, each.host, each.peer, interface] = Link.model_validate(
            {
                "from": LinkEnd(rank=each.rank, host=each.host),
                "to": LinkEnd(host=each.peer),
                "interface": interface,
            }
        )
    peers = sorted({each.peer for each in broken})
    victims = tuple(sorted({each.rank for each in broken if each.rank is not None} | heard.waited))
    alive = (
        "no process at the other end is known to have exited"
        if scene.roster.live
        else "it is unknown whether the peer's process was alive"
    )
    failures = _failures_at({_short(peer) for peer in peers}, heard)
    where = f"to {peers[0]}" if len(peers) == 1 else f"to {len(peers)} hosts ({', '.join(peers[:4])} …)"
    return Opinion(
        witness=Witness.TRANSPORT,
        kind=Kind.STUCK_TOGETHER,
        culprits=(),
        victims=victims,
        said=f"connections {where} failed; the error does not show which end failed",
        ground=(*_lines(broken), *(line_of(event, None) for event in failures)),
        cause=Cause.NETWORK,
        remarks=(
            f"such an error does not distinguish a dead peer from a bad link; {alive}",
            *(f"a process at the other end logged: {event.text[:200]}" for event in failures),
        ),
        links=tuple(links.values())[:MOST_LINKS],
    )
