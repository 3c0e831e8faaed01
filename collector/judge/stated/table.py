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
from collector.judge.stated.sayings import LOGS, Saying, sayings
from shared.answer.statements import Stated, Statement
from shared.answer.words import Verdict
from shared.isolation import costs_itself
from shared.rank_sets import fold, ranks_in_words
from shared.units import seconds_in_words
from shared.wire.snapshot import NodeSnapshot

_MOST = 40
_LONGEST = 300
_JOINED_FIELDS = ("op", "group", "sequence")
_ORDER = tuple(Stated)
# the process that calls itself DP1 TP4        process 4711 of stacks.txt
_NUMBERED = re.compile(r"(?P<before>.*?)(?P<number>\d{1,7})(?P<after>\D*(?: of .*)?)")
_CHANGES = re.compile(r"0x[0-9a-f]+|\d+")
_MARKS = re.compile(
    r"\[(?:rank ?[:=]? ?)?N(?:,N)?\](?:<\w+>)?:?|\([\w.:]* ?pid=N[^)]*\)|(?:DP|TP|PP|EP)N", re.IGNORECASE
)
"""In a line without its numbers, who wrote it."""


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
    told = [_statement(row) for row in rows[:_MOST]]
    spoken = {rank for row in rows for rank in row.who if isinstance(rank, int)}
    silent = sorted(rank for rank in observations.roster.ranks if rank not in spoken)
    if told and silent:
        text = f"nothing is known of {ranks_in_words(silent)}"
        told.append(Statement(ranks=fold(silent), who=ranks_in_words(silent), state=Stated.SILENT, text=text))
    return tuple(told)


def _by_process(said: Iterable[Saying]) -> list[Saying]:
    """1."""
    found: dict[tuple[int | str, Stated], list[Saying]] = defaultdict(list)
    for each in said:
        known = found[each.who, each.state]
        same = next((at for at, other in enumerate(known) if _may_be_one(each, other)), None)
        if same is None:
            known.append(each)
        else:
            known[same] = _joined(known[same], each)
    return [each for group in found.values() for each in group]


def _may_be_one(one: Saying, other: Saying) -> bool:
    shared = 0
    for name in _JOINED_FIELDS:
        mine, theirs = getattr(one, name), getattr(other, name)
        if None not in (mine, theirs):
            if mine != theirs:
                return False
            shared += 1
    return shared > 0 or (bool(one.line) and _form(one) == _form(other))


def _joined(one: Saying, other: Saying) -> Saying:
    """All that either says; the longer wait, and the line that says it."""
    longer = (other.seconds or 0.0) > (one.seconds or 0.0)
    first, second = (other, one) if longer else (one, other)
    told = {name: getattr(first, name) for name in (*_JOINED_FIELDS, "seconds", "place", "line", "path")}
    missing = {name: getattr(second, name) for name, value in told.items() if value in (None, "")}
    sources = dict.fromkeys((*one.source.split(", "), *other.source.split(", ")))
    return replace(first, source=", ".join(sources), **missing)


def _form(said: Saying) -> str:
    return _MARKS.sub("", _CHANGES.sub("N", said.line))


def _together(said: Iterable[Saying]) -> list[_Row]:
    """2. The fullest first: what says less finds its home there."""
    rows: list[_Row] = []
    for each in sorted(said, key=lambda one: sum(getattr(one, name) is None for name in _JOINED_FIELDS)):
        homes = [row for row in rows if row.saying.state is each.state and _is_alike(row.saying, each)]
        if len(homes) != 1:
            rows.append(_Row(each, {each.who}, each.seconds))
            continue
        home = homes[0]
        told = [seconds for seconds in (home.shortest, each.seconds) if seconds is not None]
        home.saying, home.shortest = _joined(home.saying, each), min(told, default=None)
        home.who.add(each.who)
    return rows


def _is_alike(one: Saying, other: Saying) -> bool:
    if one.place != other.place and one.place and other.place:
        return False
    if {one.op, one.sequence, other.op, other.sequence} == {None}:
        return bool(one.line) == bool(other.line) and _form(one) == _form(other)
    return _may_be_one(one, other) and (one.op, one.sequence) != (None, None) != (other.op, other.sequence)


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
    said, long = row.saying, "" if row.shortest is None else f" {seconds_in_words(row.shortest)}"
    what = _operation(said)
    if said.state is Stated.ENDED and not said.line:
        return said.place
    if said.state is Stated.BEHIND:
        return f"{who} had not come, by the line: {said.line[:_LONGEST]}"
    if not what:
        line = f": {said.line[:_LONGEST]}" if said.line else f": {said.place}"
        return f"{who} waited{long}{line}" if said.state is Stated.WAITS and (long or said.line) else f"{who}{line}"
    at = f" ({said.place})" if said.place else ""
    if said.state is Stated.WAITS:
        return f"{who} waited{long} in {what}{at}"
    verb = "failed in" if said.state is Stated.FAILED else "ran" if LOGS in said.source else "stood in"
    return f"{who} {verb} {what}{at}" + (f": {said.line[:_LONGEST]}" if said.state is Stated.FAILED else "")


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
