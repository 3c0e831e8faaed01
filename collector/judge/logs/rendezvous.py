"""Who did not come to the start, by lines of the store: counts of who came, and waits for what rank 0 must publish."""

from collections.abc import Iterator
from dataclasses import replace

from collector.align.logs.attributed_lines import Statements
from collector.align.logs.group_members import Membership
from collector.align.thresholds import KEEP_ALIVE_ATTEMPTS
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
from shared.isolation import costs_itself
from shared.rank_sets import MOST_RANKS, ranks_in_words
from shared.wire.log_events import EventKind


@costs_itself(lambda *_: [])
def opinions_by_rendezvous(statements: Statements, membership: Membership) -> list[Opinion]:
    """Return what store and rendezvous lines say."""
    lines = list(statements.of_kind(EventKind.RENDEZVOUS))
    peers = with_field(lines, "peer")
    unconnected = [said for said in peers if "client socket" in said[1].text or _ABSENT & said[1].fields.keys()]
    named = [_unpublished(lines, statements, membership), _incomplete(lines, unconnected)]
    return (
        [opinion for opinion in named if opinion is not None]
        or [*_unconnected(unconnected), *_never_started([*lines, *_refused(statements)])]
        or [*_key_awaited(lines), *_unmet(lines)]
    )


def _unpublished(lines: list[Said], statements: Statements, membership: Membership) -> Opinion | None:
    """Ranks that wait for the unique id of a communicator wait for the one rank that makes it.

    Of two ranks that send to each other it is the lower one. Those may wait in a circle, and no line tells.
    """
    waits = with_field(with_field(lines, "waiter"), "peer")
    places = {int(event.fields["waiter"]): rank for rank, event in waits}
    told = (event.fields.get("pair", event.fields["peer"]) for _, event in waits)
    peers = {int(peer) for peer in told if peer.isdecimal() and len(peer) < 8}
    if not waits or len(peers) != 1:
        return None
    speakers = {place: rank for place, rank in places.items() if rank is not None}
    named = membership.translate(peers, speakers) or ()
    victims = membership.translate(places, speakers) or tuple(sorted(speakers.values()))
    culprits = tuple(rank for rank in named if rank not in statements.waited and rank not in victims)
    who = ranks_in_words(culprits) if culprits else f"group rank {min(peers)}"
    return opinion_by("unpublished", culprits, victims, {"who": who}, evidence=lines_of(waits, culprits))


def _incomplete(lines: list[Said], unconnected: list[Said]) -> Opinion | None:
    """A start that timed out with fewer, or with more, than were expected.

    Where all who came are those who say so, the others are the ones who did not come. Nor has it timed out yet where
    one of them says again that it waits, and nobody has come since.
    """
    told = [(rank, event) for rank, event in lines if {"joined", "expected"} <= event.fields.keys()]
    counts = [(rank, event) for rank, event in told if "imed out" in event.text]
    over = bool(counts)
    counts = counts or _still_waiting(told)
    if not counts:
        return None
    rank, event = counts[-1]
    joined, expected = int(event.fields["joined"]), int(event.fields["expected"])
    if joined == expected:
        return None
    came = {int(event.fields["waiter"]) for _, event in counts if "waiter" in event.fields}
    known = 0 < len(came) == joined < expected <= MOST_RANKS and max(came) < expected
    missing = tuple(sorted(set(range(expected)) - came)) if known else ()
    words = {
        "joined": joined,
        "expected": expected,
        "when": "before it timed out" if over else "so far",
        "unconnected": "".join(f"; {_unconnected_in_words(unconnected)}" for _ in unconnected[:1]),
    }
    words |= {"too_many": ""} if joined > expected else {}
    victims = sorted({*writers_of(counts), *(came if known else ())} - {*missing})
    shown = (line_of(event, rank, missing), *(line_of(e, r) for r, e in unconnected[:2]))
    return opinion_by("incomplete", missing, victims, words, evidence=shown)


def _still_waiting(told: list[Said]) -> list[Said]:
    """The last lines of a barrier at which somebody waits for the same count as before; empty where nobody does."""
    if not told:
        return []
    last = told[-1][1].fields
    alike = ("key", "joined", "expected")
    if int(last["joined"]) > int(last["expected"]):
        return told[-1:]
    same = [said for said in told if [said[1].fields.get(x) for x in alike] == [last.get(x) for x in alike]]
    waiters = [event.fields.get("waiter") for _, event in same]
    return same if None not in waiters and len(set(waiters)) < len(waiters) else []


def _key_awaited(lines: list[Said]) -> list[Opinion]:
    """Who waited for a key that nobody has written: the line does not say who should have."""
    told = [said for said in with_field(lines, "waited_ms") if "wait timeout" in said[1].text]
    return voted("key", told, waited=int(told[0][1].fields["waited_ms"]) / 1000 if told else 0)


def _unmet(lines: list[Said]) -> list[Opinion]:
    """torchelastic's agents that did not meet, or that cannot reach any more where they met."""
    told = with_field(lines, "unmet")
    agents = [event.fields["agent"] for _, event in told if "agent" in event.fields]
    lasting = sorted({agent for agent in agents if agents.count(agent) >= KEEP_ALIVE_ATTEMPTS})
    met = [(rank, event) for rank, event in told if "agent" not in event.fields and "quorum" not in event.fields]
    short = [(rank, event) for rank, event in told if "quorum" in event.fields]
    met = met or (short if len(short) >= KEEP_ALIVE_ATTEMPTS else [])
    if met:
        last = met[-1][1].fields
        known = {name: last[name] for name in ("unmet", "quorum") if name in last}
        return voted("unmet", met, victims=(), came=last.get("replicas", "few"), **known)
    return voted("lost", told, victims=(), agents=", ".join(lasting[:4])) if lasting else []


def _unconnected(unconnected: list[Said]) -> list[Opinion]:
    """Ranks that could not reach the store, or a launcher a node, where no line names who did."""
    if not unconnected:
        return []
    tried = all("caller" in event.fields for _, event in unconnected)  # launchers try again, and may have got there
    found = voted("unconnected", unconnected, unconnected=_unconnected_in_words(unconnected))
    return [replace(opinion, vague=tried) for opinion in found]


def _unconnected_in_words(unconnected: list[Said]) -> str:
    ranks = writers_of(unconnected)
    peers = sorted({event.fields["peer"].replace(", ", ":") for _, event in unconnected})
    who = ranks_in_words(ranks) if ranks else ", ".join(told_by(unconnected, "caller")[:4]) or "a rank"
    return f"{who} could not connect to {', '.join(peers[:4])}"


def _refused(statements: Statements) -> Iterator[Said]:
    """NCCL keeps what processes of a node share in /dev/shm, and little else: that is what has no space left."""
    full = statements.of_kind(EventKind.EXCEPTION)
    return ((rank, event) for rank, event in full if "NCCL WARN" in event.text and _SPACE in event.text)


def _never_started(lines: list[Said]) -> list[Opinion]:
    """A port that somebody else holds, or what a library needs on the node and does not get."""
    told = [said for said in lines if said[1].kind is EventKind.EXCEPTION or _REFUSALS & said[1].fields.keys()]
    if not told:
        return []
    fields, ranks, hosts = told[0][1].fields, writers_of(told), told_by(told, "writer_host")
    who = ranks_in_words(ranks) if ranks else "a process"
    where = f" on {', '.join(hosts[:4])}" if hosts else ""
    lacking = fields.get("unstarted", fields.get("type", ""))
    return voted("unstarted", told, victims=(), unstarted=lacking, ran=f"{who} ran{where}")


_ABSENT = frozenset({"unresolved", "caller"})
_REFUSALS = frozenset({"taken", "unstarted"})
_SPACE = "No space left on device"
