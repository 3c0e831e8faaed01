"""Votes by lines that name no culprit: what ranks are compared by, and waits that tell no global rank.

1. DDP gathers every rank's number of parameters. A zero was never gathered: that first collective has failed, and
   whoever stands first in the list is named for it. Two numbers show models that differ, and not which one is wrong.
2. NCCL compares what it sends with what its peer expects. The line names two ends, neither of which is the wrong one.
3. NCCL has seen calls that do not match, or guesses so while it waits for a peer. It names the rank that it stood at.
4. Horovod lists who has not submitted what others have. Where no operation lacks all of these, each waits for another;
   where half have come, the others may be the ones that are right.
5. torchfrtrace compares the records of all ranks with those of one.
6. HCCL, the library of Ascend devices, tells the awaited rank, if at all, by its number in a communicator whose members
   it does not tell. XLA, of JAX, tells how many threads of one process should have met, and of newer versions how many
   came. DeepEP tells which of its kernels gave up.
"""

from dataclasses import replace

from collector.align.logs.attributed_lines import Statements
from collector.align.marks.reports import numbers_in
from collector.align.marks.table import Witness
from collector.judge.logs.vote import Opinion, Said, unnamed, with_field, writers_in_words
from shared.answer.words import Cause, Kind
from shared.isolation import costs_itself
from shared.plural import ranks_with
from shared.rank_sets import ranks_in_words
from shared.wire.log_events import EventKind, LogEvent

_NEWEST_LINES = 4
_RECORDED = {"SIZE_OR_SYNTAX_MISMATCH": "size", "COLLECTIVE_DTYPE_MISMATCH": "data type"}
_NOBODY = 4294967295
"""What HCCL prints for a rank that it does not know."""
_OWN_LOG = {
    "hccl": "whoever was waited for may itself have waited for others: its own log tells",
    "deepep": "the line is of who waited, on its GPU: who did not send may have failed, or be cut off from the network",
    "xla_seconds": "the stacks of the process's threads tell which one did not come, and where it is",
}
"""By the field that a library's lines have, where to look."""
_OF_MODELS = frozenset({"built_by", "params", "unlike"})


@costs_itself(lambda *_: [])
def opinions_by_sizes(statements: Statements) -> list[Opinion]:
    """Return what lines about sizes show; they never name anybody."""
    lines = list(statements.of_kind(EventKind.COLLECTIVE_MISMATCH))
    models, sent, near = (with_field(lines, name) for name in ("unlike_params", "remote_bytes", "near"))
    models = [said for said in models if said[1].fields.keys() >= _OF_MODELS]
    return [
        *([_of_models(models, statements)] if models else []),
        *([_of_sizes(sent)] if sent else []),
        *([_of_calls(near)] if near else []),
        *_of_stalls(statements),
        *_of_records(with_field(lines, "differs")),
    ]


def _of_models(lines: list[Said], statements: Statements) -> Opinion:
    """1."""
    differ = [said for said in lines if "0" not in (said[1].fields["params"], said[1].fields["unlike_params"])]
    event = (differ or lines)[0][1]
    fields = event.fields
    by, other = fields["built_by"], fields["unlike"]
    if differ:
        said = (
            f"the models differ: rank {by} has built one of {fields['params']} parameters, rank {other} one of "
            f"{fields['unlike_params']}"
        )
        remark = "that rank is the first with another number, and need not be the one that is wrong"
    else:
        said = f"the first collective of DDP failed: rank {by} has gathered nothing from the others"
        remark = (
            f"rank {other} is named as the first in the list: a number of zero was never gathered, by whosever fault"
        )
    kind, cause = (Kind.COLLECTIVE_MISMATCH, Cause.USER_CODE) if differ else (Kind.STUCK_TOGETHER, Cause.UNKNOWN)
    return unnamed(Witness.FINGERPRINTS, kind, differ or lines, said, remark, victims=statements.waited, cause=cause)


def _of_sizes(lines: list[Said]) -> Opinion:
    """2."""
    fields = lines[0][1].fields
    here, peer = fields.get("writer_host", "the writer of the line"), fields.get("peer", "its peer")
    other = peer.partition("<")[0]
    sizes = f"{fields.get('local_bytes', '?')} against {fields['remote_bytes']} bytes"
    said = f"two ranks disagree on the size of an operation: {sizes}, between {here} and {other}"
    return _mismatch(Witness.CALLS, lines, said, "NCCL before 2.7.8 said so of sends and receives without cause")


def _of_calls(lines: list[Said]) -> Opinion:
    """3."""
    seen = [said for said in lines if "guessed" not in said[1].fields]
    near = ranks_in_words(sorted({int(event.fields["near"]) for _, event in seen or lines}))
    said = f"NCCL {'has seen' if seen else 'guesses at'} calls that do not match, at or around {near}"
    remark = "NCCL's numbers are those of its communicator; ranks beside them may be the ones that differ"
    return replace(_mismatch(Witness.CALLS, seen or lines, said, remark), vague=not seen)


def _of_stalls(statements: Statements) -> list[Opinion]:
    """4."""
    told = list(statements.of_kind(EventKind.WATCHDOG_TIMEOUT))
    apart, late = with_field(told, "apart"), with_field(told, "never_joined")
    half = [said for said in with_field(told, "ready") if said not in late]
    if not apart and (not half or late):
        return []
    ranks = numbers_in((apart or half)[-1][1].fields["apart" if apart else "ready"])
    said = f"{ranks_with(ranks, 'waits', 'wait')} in operations that others have not submitted"
    if apart:
        said = f"{ranks_with(ranks, 'waits', 'wait')} for each other, in different operations"
    said += ", according to Horovod's stall check"
    kind, cause = (Kind.COLLECTIVE_MISMATCH, Cause.USER_CODE) if apart else (Kind.RANK_NOT_JOINED, None)
    remark, newest = "the list shows what each lacks, and not which of them is right", (apart or half)[-_NEWEST_LINES:]
    return [unnamed(Witness.COUNTERS, kind, newest, said, remark, victims=ranks, cause=cause)]


def _of_records(lines: list[Said]) -> list[Opinion]:
    """5."""
    if not lines:
        return []
    fields = lines[0][1].fields
    what = _RECORDED.get(fields.get("error", ""), "type")
    said = (
        f"the ranks' operations differ in {what}, according to torchfrtrace: that of rank {fields['differs']} is not "
        "that of the rank it is compared with"
    )
    remark = "torchfrtrace compares all with one rank, which may be the odd one itself: the dumps tell which"
    return [_mismatch(Witness.FINGERPRINTS, lines, said, remark)]


def _mismatch(witness: Witness, lines: list[Said], said: str, remark: str) -> Opinion:
    return unnamed(witness, Kind.COLLECTIVE_MISMATCH, lines, said, remark, victims=(), cause=Cause.USER_CODE)


@costs_itself(lambda *_: [])
def opinions_by_libraries(statements: Statements) -> list[Opinion]:
    """6. Return the waits until a timeout, without culprits."""
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
