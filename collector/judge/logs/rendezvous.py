"""Who did not come to the start, by lines of the store: counts of who came, and waits for what rank 0 must publish."""

from collector.align.logs.attributed_lines import Statements
from collector.align.logs.group_members import Membership
from collector.judge.logs.vote import Opinion, Witness, line_of
from shared.answer.words import Cause, Kind
from shared.ranks import ranks_in_words
from shared.wire.log_events import EventKind, LogEvent

_Said = tuple[int | None, LogEvent]


def opinions_by_rendezvous(heard: Statements, membership: Membership) -> list[Opinion]:
    """Return what store and rendezvous lines say."""
    lines = list(heard.of_kind(EventKind.RENDEZVOUS))
    found = (_unpublished(lines, heard, membership), _incomplete(lines))
    return [opinion for opinion in found if opinion is not None]


def _unpublished(lines: list[_Said], heard: Statements, membership: Membership) -> Opinion | None:
    """Ranks that wait for the unique id of a communicator wait for the one rank that makes it."""
    waits = [(rank, event) for rank, event in lines if "waiter" in event.fields and "peer" in event.fields]
    places = {int(event.fields["waiter"]): rank for rank, event in waits}
    told = (event.fields["peer"] for _, event in waits)
    peers = {int(peer) for peer in told if peer.isdecimal() and len(peer) < 8}
    if not waits or len(peers) != 1:
        return None
    speakers = {place: rank for place, rank in places.items() if rank is not None}
    named = membership.translate(peers, speakers) or ()
    victims = membership.translate(places, speakers) or tuple(sorted(speakers.values()))
    culprits = tuple(rank for rank in named if rank not in heard.waited and rank not in victims)
    who = ranks_in_words(culprits) if culprits else f"group rank {min(peers)}"
    return Opinion(
        witness=Witness.STORE,
        kind=Kind.RANK_NOT_JOINED,
        culprits=culprits,
        victims=victims,
        said=f"{who} never published the id of a communicator, for which {ranks_in_words(victims)} waited",
        ground=tuple(line_of(event, rank, culprits) for rank, event in waits[:4]),
        remarks=("the line looks like a network error, but also appears when the rank never arrived or has exited",),
    )


def _incomplete(lines: list[_Said]) -> Opinion | None:
    """A start that timed out with fewer, or with more, than were expected."""
    timed_out = [(rank, event) for rank, event in lines if "imed out" in event.text]
    counts = [(rank, event) for rank, event in timed_out if {"joined", "expected"} <= event.fields.keys()]
    if not counts:
        return None
    rank, event = counts[-1]
    joined, expected = int(event.fields["joined"]), int(event.fields["expected"])
    if joined == expected:
        return None
    too_many = ("more arrived than belong to it: a store left from an earlier start, or a job started twice",)
    return Opinion(
        witness=Witness.STORE,
        kind=Kind.STARTUP_INCOMPLETE,
        culprits=(),
        victims=tuple(sorted({who for who, _ in counts if who is not None})),
        said=f"the job did not start: {joined} of {expected} arrived at the rendezvous before it timed out",
        ground=(line_of(event, rank),),
        cause=Cause.RENDEZVOUS,
        remarks=too_many if joined > expected else ("these lines do not show which ranks did not arrive",),
    )
