"""Votes by libraries that tell a wait and no global rank: who waited until the timeout, and for how many.

HCCL, the library of Ascend devices: the awaited rank, if at all, by its number in a communicator whose members it does
not tell. XLA, of JAX: how many threads of one process should have met, and of newer versions how many came. DeepEP:
which of its kernels gave up.
"""

from collector.align.logs.attributed_lines import Statements
from collector.align.marks.table import Witness
from collector.judge.logs.vote import Opinion, Said, unnamed, with_field, writers_in_words
from shared.answer.words import Kind
from shared.wire.log_events import EventKind, LogEvent

_NOBODY = 4294967295
"""What HCCL prints for a rank that it does not know."""
_OWN_LOG = {
    "hccl": "whoever was waited for may itself have waited for others: its own log tells",
    "deepep": "the line is of who waited, on its GPU: who did not send may have failed, or be cut off from the network",
    "xla_seconds": "the stacks of the process's threads tell which one did not come, and where it is",
}
"""By the field that a library's lines have, where to look."""


def opinions_by_libraries(statements: Statements) -> list[Opinion]:
    """Return the waits, without culprits."""
    told = list(statements.of_kind(EventKind.WATCHDOG_TIMEOUT))
    return [
        unnamed(Witness.COUNTERS, Kind.RANK_NOT_JOINED, lines, _said(lines), remark)
        for name, remark in _OWN_LOG.items()
        if (lines := with_field(told, name))
    ]


def _said(lines: list[Said]) -> str:
    return f"{writers_in_words(lines)} waited for {_whom([event for _, event in lines])}"


def _whom(events: list[LogEvent]) -> str:
    fields = events[0].fields
    if "xla_seconds" in fields:
        count = "others of its threads" if "threads" not in fields else f"{fields['threads']} threads"
        came = f", of which {fields['came']} came" if "came" in fields else ""
        return f"{count} to meet in XLA{came}, until it gave up after {fields['xla_seconds']} s"
    if "deepep" in fields:
        return "others in DeepEP until the timeout"
    awaited = sorted({int(event.fields["awaited"]) for event in events if "awaited" in event.fields} - {_NOBODY})
    return (f"group rank {awaited[0]}" if len(awaited) == 1 else "another rank") + " over HCCL until the timeout"
