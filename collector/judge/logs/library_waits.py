"""Votes by libraries that tell a wait and no global rank: who waited until the timeout, and for how many.

HCCL, the library of Ascend devices: the awaited rank, if at all, by its number in a communicator whose members it does
not tell. XLA, of JAX: how many threads of one process should have met, and of newer versions how many came.
"""

from collector.align.logs.attributed_lines import Statements
from collector.align.marks.table import Witness
from collector.judge.logs.vote import Opinion, line_of
from shared.answer.words import Kind
from shared.rank_sets import ranks_in_words
from shared.wire.log_events import EventKind, LogEvent

_NOBODY = 4294967295
"""What HCCL prints for a rank that it does not know."""
_MOST_LINES = 4
_OWN_LOG = {
    "hccl": "whoever was waited for may itself have waited for others: its own log tells",
    "xla_seconds": "the stacks of the process's threads tell which one did not come, and where it is",
}
"""By the field that a library's lines have, where to look."""


def opinions_by_libraries(statements: Statements) -> list[Opinion]:
    """Return the waits, without culprits."""
    told = list(statements.of_kind(EventKind.WATCHDOG_TIMEOUT))
    found = []
    for name, remark in _OWN_LOG.items():
        lines = [(rank, event) for rank, event in told if name in event.fields]
        if not lines:
            continue
        ranks = tuple(sorted({rank for rank, _ in lines if rank is not None}))
        who = ranks_in_words(ranks) if ranks else "a rank that its line does not tell"
        found.append(
            Opinion(
                witness=Witness.COUNTERS,
                kind=Kind.RANK_NOT_JOINED,
                culprits=(),
                victims=ranks,
                said=f"{who} waited for {_whom([event for _, event in lines])}",
                evidence=tuple(line_of(event, rank) for rank, event in lines[:_MOST_LINES]),
                remarks=(remark,),
            )
        )
    return found


def _whom(events: list[LogEvent]) -> str:
    fields = events[0].fields
    if "xla_seconds" in fields:
        count = "others of its threads" if "threads" not in fields else f"{fields['threads']} threads"
        came = f", of which {fields['came']} came" if "came" in fields else ""
        return f"{count} to meet in XLA{came}, until it gave up after {fields['xla_seconds']} s"
    awaited = sorted({int(event.fields["awaited"]) for event in events if "awaited" in event.fields} - {_NOBODY})
    return (f"group rank {awaited[0]}" if len(awaited) == 1 else "another rank") + " over HCCL until the timeout"
