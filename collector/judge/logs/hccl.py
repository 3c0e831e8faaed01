"""Votes by HCCL, the library of Ascend devices: who waited for a peer's notification or connection until the timeout.

The line names the awaited rank, if at all, by its number in a communicator whose members it does not tell.
"""

from collector.align.logs.attributed_lines import Statements
from collector.judge.logs.vote import Opinion, Witness, line_of
from shared.answer.words import Kind
from shared.rank_sets import ranks_in_words
from shared.wire.log_events import EventKind

_NOBODY = 4294967295
"""What it prints for a rank that it does not know."""
_MOST_LINES = 4


def opinions_by_hccl(statements: Statements) -> list[Opinion]:
    """Return the wait, without culprits."""
    lines = [said for said in statements.of_kind(EventKind.WATCHDOG_TIMEOUT) if "hccl" in said[1].fields]
    if not lines:
        return []
    ranks = tuple(sorted({rank for rank, _ in lines if rank is not None}))
    awaited = sorted({int(event.fields["awaited"]) for _, event in lines if "awaited" in event.fields} - {_NOBODY})
    who = ranks_in_words(ranks) if ranks else "a rank that its line does not tell"
    whom = f"group rank {awaited[0]}" if len(awaited) == 1 else "another rank"
    return [
        Opinion(
            witness=Witness.COUNTERS,
            kind=Kind.RANK_NOT_JOINED,
            culprits=(),
            victims=ranks,
            said=f"{who} waited for {whom} over HCCL until the timeout",
            evidence=tuple(line_of(event, rank) for rank, event in lines[:_MOST_LINES]),
            remarks=("whoever was waited for may itself have waited for others: its own log tells",),
        )
    ]
