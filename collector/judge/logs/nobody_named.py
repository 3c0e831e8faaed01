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

from collections.abc import Sequence

from collector.align.logs.attributed_lines import Statements
from collector.align.marks.reports import numbers_in
from collector.judge.logs.vote import Opinion, Said, voted, with_field
from shared.isolation import costs_itself
from shared.plural import ranks_with
from shared.rank_sets import ranks_in_words
from shared.wire.log_events import EventKind

_NEWEST_LINES = 4
_RECORDED = {"SIZE_OR_SYNTAX_MISMATCH": "size", "COLLECTIVE_DTYPE_MISMATCH": "data type"}
_NOBODY = 4294967295
"""What HCCL prints for a rank that it does not know."""
_OF_MODELS = frozenset({"built_by", "params", "unlike"})


@costs_itself(lambda *_: [])
def opinions_by_sizes(statements: Statements) -> list[Opinion]:
    """Return what lines about sizes show; they never name anybody."""
    lines = list(statements.of_kind(EventKind.COLLECTIVE_MISMATCH))
    models, sent, near, records = (
        with_field(lines, name) for name in ("unlike_params", "remote_bytes", "near", "differs")
    )
    models = [said for said in models if said[1].fields.keys() >= _OF_MODELS]
    differ = [said for said in models if "0" not in (said[1].fields["params"], said[1].fields["unlike_params"])]
    return [
        *voted("models_differ" if differ else "models", differ or models, victims=statements.waited),  # 1
        *_of_sizes(sent),
        *_of_calls(near),
        *_of_stalls(statements),
        *(_of_records(records) if records else ()),
    ]


def _of_sizes(lines: Sequence[Said]) -> list[Opinion]:
    """2."""
    fields = lines[0][1].fields if lines else {}
    here, peer = fields.get("writer_host", "the writer of the line"), fields.get("peer", "its peer")
    other = peer.partition("<")[0]
    return voted("sizes", lines, victims=(), sent=fields.get("local_bytes", "?"), here=here, other=other)


def _of_calls(lines: Sequence[Said]) -> list[Opinion]:
    """3."""
    told = [said for said in lines if "guessed" not in said[1].fields] or lines
    around = ranks_in_words(sorted({int(event.fields["near"]) for _, event in told})) if told else ""
    return voted("calls", told, victims=(), around=around)


def _of_stalls(statements: Statements) -> list[Opinion]:
    """4."""
    told = list(statements.of_kind(EventKind.WATCHDOG_TIMEOUT))
    apart, late = with_field(told, "apart"), with_field(told, "never_joined")
    half = [said for said in with_field(told, "ready") if said not in late]
    if not apart and (not half or late):
        return []
    table, lines = ("apart", apart) if apart else ("ready", half)
    ranks = numbers_in(lines[-1][1].fields[table])
    return voted(table, lines[-_NEWEST_LINES:], victims=ranks, waits=ranks_with(ranks, "waits", "wait"))


def _of_records(lines: Sequence[Said]) -> list[Opinion]:
    """5."""
    what = _RECORDED.get(lines[0][1].fields.get("error", ""), "type")
    return voted("records", lines, victims=(), what=what)


@costs_itself(lambda *_: [])
def opinions_by_libraries(statements: Statements) -> list[Opinion]:
    """6. Return the waits until a timeout, without culprits."""
    told = list(statements.of_kind(EventKind.WATCHDOG_TIMEOUT))
    found = (with_field(told, name) for name in ("hccl", "deepep", "xla_seconds"))
    return [opinion for lines in found for opinion in voted("libraries", lines, awaited_ranks=_awaited(lines))]


def _awaited(lines: Sequence[Said]) -> str:
    awaited = {int(event.fields["awaited"]) for _, event in lines if "awaited" in event.fields} - {_NOBODY}
    return f"group rank {awaited.pop()}" if len(awaited) == 1 else "another rank"
