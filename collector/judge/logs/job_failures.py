"""Failures that launchers, Slurm and the kernel report, and those of processes whose rank nothing tells.

1. What a process or a node does not survive speaks for itself: a signal, memory run out, a node that Slurm lost.
   Neither an abort counts, with which a watchdog ends a victim, nor a termination, with which a launcher ends the rest.
2. Whatever else fails is a fault only where others waited or lost it.
3. What stands behind a wait that lasted until its timeout is a consequence. The first failure that is left counts, a
   lost node before all.

The rank is named where torchelastic's table tells it for a signal. Otherwise the process or the node is told.
"""

from collections.abc import Iterator

from collector.align.logs.aftermath import Aftermath
from collector.align.logs.attributed_lines import Statements
from collector.align.marks.table import Witness
from collector.align.observations import Observations
from collector.judge.logs.own_failures import cause_of_failure, has_lost_peers, is_own_failure, remarks_on
from collector.judge.logs.vote import Opinion, line_of
from shared.answer.words import Cause, Kind
from shared.rank_sets import ranks_in_words
from shared.wire.log_events import EventKind, LogEvent

_Said = tuple[int | None, LogEvent]
_CONSEQUENCES = {"-6", "-15", "6", "15", "134", "143"}
"""SIGABRT and SIGTERM, as exit statuses of a process and of a shell."""
_TABLE_LINES = 5


def opinions_by_failures(statements: Statements, observations: Observations, aftermath: Aftermath) -> list[Opinion]:
    """Return the first failure of a process that no rank's own log tells; of a live job, processes are looked at."""
    if observations.roster.live:
        return []
    told = [said for said in statements.all() if not aftermath.holds(said[1])]  # 3
    ended = [said for said in told if _is_end(said[1])]
    lost = [said for said in ended if _is_lost_node(said[1])]
    failed = [said for said in told if said[0] is None and is_own_failure(said[1])] if is_missed(statements) else []
    first = next(iter(lost or ended or failed), None)
    return [] if first is None else [_opinion(*first, told, statements)]


def is_missed(statements: Statements) -> bool:
    """Did anybody wait in vain, or lose a connection?"""
    return (
        bool(statements.waited)
        or any(True for _ in statements.of_kind(EventKind.WATCHDOG_TIMEOUT))
        or has_lost_peers(statements)
    )


def _is_lost_node(event: LogEvent) -> bool:
    return event.kind is EventKind.SIGNAL and "host" in event.fields and "tasks" not in event.fields


def _is_end(event: LogEvent) -> bool:
    """1. Does it say that a process or a node has ended, of itself?"""
    fields = event.fields
    if event.kind is EventKind.OUT_OF_MEMORY:
        return "step" in fields or "pid" in fields
    if event.kind is not EventKind.SIGNAL:
        return False
    if "exit_code" in fields:
        return fields["exit_code"].startswith("-") and fields["exit_code"] not in _CONSEQUENCES
    if "signal" in fields:
        return "pid" in fields and fields["signal"] not in _CONSEQUENCES
    if "tasks" in fields:
        return not any(word in fields.get("what", "") for word in ("Aborted", "Terminated", "Cancelled"))
    return _is_lost_node(event) or "terminated" in fields or "Segmentation fault" in fields.get("what", "")


def _opinion(rank: int | None, event: LogEvent, told: list[_Said], statements: Statements) -> Opinion:
    named = tuple(sorted({int(event.fields["speaker"])} if "speaker" in event.fields else _in_table(event, told)))
    waited = tuple(sorted(statements.waited - set(named)))
    rest = f", and {ranks_in_words(waited)} waited in vain" if waited else ""
    same = [
        each for each in told if each[1].kind in (EventKind.OUT_OF_MEMORY, EventKind.DEVICE_ERROR) and each[0] is None
    ]
    causes = [cause_of_failure(each) for _, each in same if _is_vague(event)] or [cause_of_failure(event)]
    return Opinion(
        witness=Witness.ENDED,
        kind=Kind.RANK_UNREACHABLE if _is_lost_node(event) else Kind.RANK_EXITED,
        culprits=named,
        victims=waited,
        said=f"{_who(event, named)} {_what(event)}{rest}",
        evidence=tuple(
            line_of(each, who, named) for who, each in [(rank, event), *(s for s in same if s[1] is not event)][:4]
        ),
        cause=Cause.UNKNOWN if _is_lost_node(event) else causes[0],
        remarks=tuple(dict.fromkeys(remark for _, each in [(rank, event), *same] for remark in remarks_on(each))),
    )


def _is_vague(event: LogEvent) -> bool:
    """Does it only say that a process ended, which another line may explain?"""
    return event.kind is EventKind.SIGNAL


def _in_table(event: LogEvent, told: list[_Said]) -> Iterator[int]:
    """The rank that torchelastic's table tells beside an exit status."""
    for _, other in told:
        near = other.path == event.path and 0 <= event.number - other.number <= _TABLE_LINES
        if near and "failed_rank" in other.fields and event.kind is EventKind.SIGNAL:
            yield int(other.fields["failed_rank"])


def _who(event: LogEvent, named: tuple[int, ...]) -> str:
    fields = event.fields
    if named:
        return ranks_in_words(named)
    if _is_lost_node(event):
        return f"node {fields['host']}"
    if "tasks" in fields:
        several = "s" if not fields["tasks"].isdecimal() else ""
        return f"task{several} {fields['tasks'][:80]} on {fields.get('host', 'a node')}"
    pid = fields.get("pid") or fields.get("writer_pid")
    host = fields.get("writer_host")
    process = f"process {pid}" if pid else "a process whose rank the lines do not tell"
    return f"{process} on {host}" if host else process


def _what(event: LogEvent) -> str:
    fields = event.fields
    if _is_lost_node(event):
        return "failed, by Slurm's account"
    if event.kind is EventKind.OUT_OF_MEMORY:
        return f"of Slurm step {fields['step']} was OOM-killed" if "step" in fields else "ran out of memory"
    if "tasks" in fields:
        return f"ended: {fields.get('what', '')[:80]}"
    if "exit_code" in fields or "signal" in fields:
        return f"was killed by signal {fields.get('signal') or fields['exit_code'].lstrip('-')}"
    return f"failed: {(fields.get('what') or fields.get('message') or fields.get('type') or 'CUDA error')[:160]}"
