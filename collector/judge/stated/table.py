"""The table of statements: what is known where the verdict names nobody. It accuses nobody, and is never untrue.

1. What one process says in several lines, or by several sources, of what can be one wait is one statement: a field that
   is missing agrees with whatever does not contradict it.
2. Processes that say the same are told together; who lacks a field goes with the only ones that it can belong to.
3. Of ranks that are known to be there, and of which nothing is said, that is said.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from collector.align.observations import Observations
from collector.judge.report.headline import Interpretation
from collector.judge.report.sentences import say
from collector.judge.stated.sayings import LOG_ENDS, LOGS, Key, Saying, sayings
from shared.answer.statements import Stated, Statement
from shared.answer.words import Verdict
from shared.isolation import costs_itself
from shared.rank_sets import fold, ranks_in_words
from shared.units import seconds_in_words
from shared.wire.snapshot import NodeSnapshot

_MOST = 100
"""Of different statements, of a process and of all: more are not read."""
_LONGEST = 500
_ORDER = tuple(Stated)
# the process that calls itself DP1 TP4        process 4711 of stacks.txt
_NUMBERED = re.compile(r"(?P<before>.*?)(?P<number>0|[1-9]\d{0,6})(?P<after>\D*(?: of .*)?)")


@dataclass
class _Row:
    """What several processes say alike."""

    saying: Saying
    who: set[int | str]
    shortest: float | None


@costs_itself(lambda *_: (), part="what is stated")
def stated(
    observations: Observations, snapshots: Sequence[NodeSnapshot], reading: Interpretation
) -> tuple[Statement, ...]:
    """Return the statements, waits first; none where a finding says more: it names somebody, or rests on records."""
    named = any(finding.culprits for finding in reading.findings)
    of_lines = bool(reading.findings) and not (named or observations.roster.live or observations.traces)
    if reading.verdict is not Verdict.CANNOT_TELL and not of_lines:
        return ()
    joined = _by_process(sayings(observations, snapshots))
    rows = _together(joined)
    rows.sort(key=lambda row: (_ORDER.index(row.saying.state), _first(row.who), -(row.saying.seconds or 0.0)))
    told = [_statement(row) for row in rows]
    spoken = {rank for row in rows for rank in row.who if isinstance(rank, int)}
    silent = sorted(rank for rank in observations.roster.ranks if rank not in spoken)
    if told and silent:
        nameless = any(isinstance(who, str) for row in rows for who in row.who)
        text = f"{'no line names' if nameless else 'nothing is known of'} {ranks_in_words(silent)}"
        text += ": any of them may be among those above" * nameless
        told.append(Statement(ranks=fold(silent), who=ranks_in_words(silent), state=Stated.SILENT, text=text))
    return tuple(told)


def _by_process(said: Iterable[Saying]) -> list[Saying]:
    """1."""
    found: dict[tuple[int | str, Stated], dict[Key, Saying]] = defaultdict(dict)
    for each in said:
        own = found[each.who, each.state]
        same = each.key if each.key in own else next((key for key in own if _may_be_one(each, own[key])), None)
        joined = each if same is None else _joined(own.pop(same), each)
        if len(own) < _MOST:
            own[joined.key] = joined
    return [each for own in found.values() for each in own.values()]


def _may_be_one(one: Saying, other: Saying) -> bool:
    both = [
        (mine, theirs)
        for mine, theirs in zip(one.operation, other.operation, strict=True)
        if None not in (mine, theirs)
    ]
    return all(mine == theirs for mine, theirs in both) and (bool(both) or (bool(one.form) and one.form == other.form))


def _joined(one: Saying, other: Saying) -> Saying:
    """All that either says; the longer wait, and the line that says it."""
    first, second = (other, one) if (other.seconds or 0.0) > (one.seconds or 0.0) else (one, other)
    names = ("op", "group", "sequence", "seconds", "place", "line", "path")
    missing = {name: getattr(second, name) for name in names if getattr(first, name) in (None, "")}
    sources = dict.fromkeys((*one.source.split(", "), *other.source.split(", ")))
    return replace(first, source=", ".join(sources), **missing)


def _together(said: Iterable[Saying]) -> list[_Row]:
    """2. The fullest first: what says less finds its home there."""
    rows: list[_Row] = []
    known: dict[Key, _Row] = {}
    for each in sorted(said, key=lambda one: one.operation.count(None)):
        if each.key not in known:
            homes = [row for row in rows if row.saying.state is each.state and _is_alike(row.saying, each)]
            if len(homes) != 1 and len(rows) == _MOST:
                continue
            known[each.key] = homes[0] if len(homes) == 1 else _Row(each, set(), each.seconds)
            rows += [] if len(homes) == 1 else [known[each.key]]
        row = known[each.key]
        told = [seconds for seconds in (row.shortest, each.seconds) if seconds is not None]
        row.saying, row.shortest = _joined(row.saying, each), min(told, default=None)
        row.who.add(each.who)
    return rows


def _is_alike(one: Saying, other: Saying) -> bool:
    if one.place != other.place and one.place and other.place:
        return False
    return one.form == other.form and (bool(one.form) or _may_be_one(one, other))


def _first(who: Iterable[int | str]) -> tuple[bool, int, str]:
    return min((not isinstance(one, int), one if isinstance(one, int) else 0, str(one)) for one in who)


def _statement(row: _Row) -> Statement:
    said = row.saying
    ranks = sorted(one for one in row.who if isinstance(one, int))
    who = _who(row.who)
    return Statement(
        ranks=fold(ranks),
        who=who,
        state=said.state,
        op=said.op,
        group=said.group,
        sequence=said.sequence,
        seconds=row.shortest,
        source=said.source,
        path=said.path,
        line=said.line[:_LONGEST],
        text=_in_words(who, row),
    )


def _in_words(who: str, row: _Row) -> str:
    said, line = row.saying, row.saying.line[:_LONGEST]
    long = "" if row.shortest is None else f" {seconds_in_words(row.shortest)}"
    words = {"who": who, "state": said.state.value, "what": _operation(said), "place": said.place, "line": line}
    words |= {"long": long, "seen": line or said.place, "at": f" ({said.place})" if said.place else ""}
    known = {"operation": words["what"], "unlined": not line, "spoken": long or line, "of_logs": LOGS in said.source}
    known |= {"last": said.source == LOG_ENDS}
    return say("statement", words | {name: "" for name, value in known.items() if value})


def _operation(said: Saying) -> str:
    if said.op is None and said.sequence is None:
        return ""
    number = "" if said.sequence is None else f" #{said.sequence}"
    group = "" if said.group is None else f" of group {said.group}"
    return f"{said.op or 'an operation'}{number}{group}"


def _who(names: Iterable[int | str]) -> str:
    """Name them: ranks folded, and what others call themselves, `TP0-7`."""
    names = list(names)
    ranks = [one for one in names if isinstance(one, int)]
    runs: dict[tuple[str, str], list[int]] = defaultdict(list)
    told = [ranks_in_words(ranks)] if ranks else []
    for name in sorted(one for one in names if isinstance(one, str)):
        match = _NUMBERED.fullmatch(name)
        if match is None:
            told.append(name)
        else:
            runs[match["before"], match["after"]].append(int(match["number"]))
    for (before, after), numbers in runs.items():
        many = before.replace("the process that calls itself", "the processes that call themselves")
        told.append(f"{many if len(numbers) > 1 else before}{fold(numbers)}{after}")
    return ", ".join(told)
