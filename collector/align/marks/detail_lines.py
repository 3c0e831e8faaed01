"""Mismatch lines of TORCH_DISTRIBUTED_DEBUG=DETAIL: which operation each rank ran, by its own line.

Every rank compares itself with one counterpart, so that all accuse somebody: the line's own side is a statement, the
other side hearsay that counts only for a rank without a line of its own. A sequence number is compared between own
sides only, and where all ran the same: on the other side 0 means unset.
"""

from collector.align.groups.table import Call, GroupView, Lane, Witness
from collector.align.logs.attributed_lines import Statements
from collector.align.logs.group_members import Membership
from shared.isolation import costs_itself
from shared.wire.log_events import EventKind, LogEvent

_Facts = tuple[str, str, str, str]
"""Operation, shape, data types, sequence; "" where not told or not compared."""


@costs_itself(lambda statements, membership: [])
def tables_by_fingerprints(statements: Statements, membership: Membership) -> list[GroupView]:
    """Return the table of what each member ran, of ranks where their places in the group can be translated."""
    lines = [
        (rank, event) for rank, event in statements.of_kind(EventKind.COLLECTIVE_MISMATCH) if "rank" in event.fields
    ]
    speakers: dict[int, int] = {}
    own: dict[int, LogEvent] = {}
    for rank, event in lines:
        place = int(event.fields["rank"])
        if rank is not None and speakers.setdefault(place, rank) != rank:
            return []  # two groups speak, and nothing tells their lines apart
        own[place] = event
    seen = {int(e.fields["other_rank"]): _facts(e, "other_") for e in own.values() if "other_rank" in e.fields}
    told = seen | {place: _facts(event) for place, event in own.items()}
    if len({facts[:3] for facts in told.values()}) > 1:
        told = {place: (*facts[:3], "") for place, facts in told.items()}
    else:
        told = {place: told[place] for place in own}
    return [_table(told, own, membership.by_place(told, speakers))] if told else []


def _table(told: dict[int, _Facts], own: dict[int, LogEvent], ranks: dict[int, int] | None) -> GroupView:
    number = next((int(event.fields["sequence"]) for event in own.values() if "sequence" in event.fields), 0)
    return GroupView(
        witness=Witness.FINGERPRINTS,
        name="",
        lanes={
            (place if ranks is None else ranks[place]): Lane(
                None, calls={number: _call(told[place])}, line=own.get(place), heard=place in own
            )
            for place in sorted(told)
        },
        places=ranks is None,
    )


def _call(facts: _Facts) -> Call:
    op, shape, dtypes, _ = facts
    return Call(facts, _in_words(facts), op, f"[{shape}]", dtypes)


def _facts(event: LogEvent, side: str = "") -> _Facts:
    fields = event.fields
    op, shape, dtypes = (fields.get(side + name, "") for name in ("op", "shape", "dtypes"))
    return op, shape, dtypes, "" if side else fields.get("sequence", "")


def _in_words(facts: _Facts) -> str:
    op, shape, dtypes, sequence = facts
    number = f" #{sequence}" if sequence else ""
    return f"{op}{number} of [{shape}] {dtypes}".rstrip() if shape or dtypes else f"{op}{number}"
