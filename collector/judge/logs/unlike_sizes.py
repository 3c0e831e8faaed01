"""Votes by lines that compare ranks and name no culprit: DDP's of the models they have built, NCCL's of what a peer
expects, Horovod's of what each has submitted.

1. DDP gathers every rank's number of parameters. A zero was never gathered: that first collective has failed, and
   whoever stands first in the list is named for it. Two numbers show models that differ, and not which one is wrong.
2. NCCL compares what it sends with what its peer expects. The line names two ends, neither of which is the wrong one.
3. NCCL has seen calls that do not match, or guesses so while it waits for a peer. It names the rank that it stood at.
4. Horovod lists who has not submitted what others have. Where no operation lacks all of these, each waits for another;
   where half have come, the others may be the ones that are right.
5. torchfrtrace compares the records of all ranks with those of one.
"""

from collector.align.logs.attributed_lines import Statements
from collector.align.marks.reports import numbers_in
from collector.align.marks.table import Witness
from collector.judge.logs.vote import Opinion, Said, lines_of, with_field
from shared.answer.words import Cause, Kind
from shared.plural import ranks_with
from shared.rank_sets import ranks_in_words
from shared.wire.log_events import EventKind

_NEWEST_LINES = 4
_RECORDED = {"SIZE_OR_SYNTAX_MISMATCH": "size", "COLLECTIVE_DTYPE_MISMATCH": "data type"}


_OF_MODELS = frozenset({"built_by", "params", "unlike"})


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
    return Opinion(
        witness=Witness.FINGERPRINTS,
        kind=Kind.COLLECTIVE_MISMATCH if differ else Kind.STUCK_TOGETHER,
        victims=tuple(sorted(statements.waited)),
        said=said,
        evidence=lines_of(differ or lines),
        cause=Cause.USER_CODE if differ else Cause.UNKNOWN,
        remarks=(remark,),
    )


def _of_sizes(lines: list[Said]) -> Opinion:
    """2."""
    fields = lines[0][1].fields
    here, peer = fields.get("writer_host", "the writer of the line"), fields.get("peer", "its peer")
    other = peer.partition("<")[0]
    sizes = f"{fields.get('local_bytes', '?')} against {fields['remote_bytes']} bytes"
    said = f"two ranks disagree on the size of an operation: {sizes}, between {here} and {other}"
    return _by_nccl(said, lines, "NCCL before 2.7.8 said so of sends and receives without cause")


def _of_calls(lines: list[Said]) -> Opinion:
    """3."""
    seen = [said for said in lines if "guessed" not in said[1].fields]
    near = ranks_in_words(sorted({int(event.fields["near"]) for _, event in seen or lines}))
    said = f"NCCL {'has seen' if seen else 'guesses at'} calls that do not match, at or around {near}"
    remark = "NCCL's numbers are those of its communicator; ranks beside them may be the ones that differ"
    return _by_nccl(said, seen or lines, remark, vague=not seen)


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
    return [
        Opinion(
            witness=Witness.COUNTERS,
            kind=Kind.COLLECTIVE_MISMATCH if apart else Kind.RANK_NOT_JOINED,
            culprits=(),
            victims=ranks,
            said=f"{said}, according to Horovod's stall check",
            evidence=lines_of((apart or half)[-_NEWEST_LINES:]),
            cause=Cause.USER_CODE if apart else None,
            remarks=("the list shows what each lacks, and not which of them is right",),
        )
    ]


def _of_records(lines: list[Said]) -> list[Opinion]:
    """5."""
    if not lines:
        return []
    fields = lines[0][1].fields
    what = _RECORDED.get(fields.get("error", ""), "type")
    return [
        Opinion(
            witness=Witness.FINGERPRINTS,
            kind=Kind.COLLECTIVE_MISMATCH,
            culprits=(),
            victims=(),
            said=f"the ranks' operations differ in {what}, according to torchfrtrace: that of rank {fields['differs']} "
            "is not that of the rank it is compared with",
            evidence=lines_of(lines),
            cause=Cause.USER_CODE,
            remarks=("torchfrtrace compares all with one rank, which may be the odd one itself: the dumps tell which",),
        )
    ]


def _by_nccl(said: str, lines: list[Said], remark: str, *, vague: bool = False) -> Opinion:
    return Opinion(
        witness=Witness.CALLS,
        kind=Kind.COLLECTIVE_MISMATCH,
        said=said,
        evidence=lines_of(lines),
        cause=Cause.USER_CODE,
        remarks=(remark,),
        vague=vague,
    )
