"""Every reader of marks, and every rule in one, is needed: without it, the case it is named after is told otherwise.

What has no case here has no place among the readers.
"""

import importlib
import pkgutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from collector.align import marks
from shared.answer.diagnosis import Diagnosis
from shared.answer.words import Kind
from tests.build.jobs.logged import call, caught, fingerprint, init, judged_logs, signal, status

Lines = Mapping[int, Sequence[str]]

UNREACHED = "RuntimeError: [Rank 0]: Rank {} failed to pass monitoredBarrier in 30000 ms"


def one_that_is_behind() -> Lines:
    return {rank: [caught(rank, 12), status(rank, 12, 13)] for rank in (0, 1, 3)} | {2: [signal(2, 0, 11)]}


def one_that_called_something_else() -> Lines:
    """The line that names the operation does not say of which group it is."""
    lines = {rank: [caught(rank, 12), status(rank, 12, 13)] for rank in (0, 1, 3)}
    return lines | {2: [caught(2, 12, "BROADCAST"), status(2, 12, 12)]}


def after_another_attempt() -> Lines:
    """Rank 3 did not come in the morning, into the same files; now it is rank 2."""
    early = {rank: [caught(rank, 500), status(rank, 500, 900)] for rank in (0, 1, 2)} | {3: [signal(3, 0, 499)]}
    late = one_that_is_behind()
    return {rank: [*(line.replace(" 09:", " 06:") for line in early[rank]), *late[rank]] for rank in range(4)}


def some_without_a_tag() -> Lines:
    """Two do not say of which group their operation is, and one of the same does."""
    return {rank: [caught(rank, 12, group_rank=rank % 2)] for rank in (0, 2)} | {
        1: [caught(1, 12, group_rank=0), status(1, 12, 13, "9(tp)", 3, 0)]
    }


def one_of_the_default_group_without_a_tag() -> Lines:
    """No two groups come to #412 at once."""
    return {0: [caught(0, 412, sizes=(7, 7))], 1: [caught(1, 412), status(1, 412, 412)]}


def one_that_told_another_shape() -> Lines:
    shapes = {0: ("20", 1, "21"), 1: ("21", 0, "20"), 2: ("21", 0, "20")}
    return {rank: [fingerprint(rank, *told)] for rank, told in shapes.items()}


def one_that_called_another_size() -> Lines:
    return {
        rank: [init(4000 + rank, rank), call(4000 + rank, 0), call(4000 + rank, 1, count=64 + rank // 3)]
        for rank in range(4)
    }


def one_that_called_another_size_in_a_log_without_its_head() -> Lines:
    """What NCCL said when it made the communicator is not there."""
    return {rank: [call(rank, 2), call(rank, 3, count=64 + rank // 3)] for rank in range(4)}


def a_desync_report() -> Lines:
    return {
        0: [
            "  - To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:",
            "    - [0, 2, 3] joined but didn't finish collective #7 (count from 1)",
            "    - [1] finished collective #6, but didn't join collective #7 (count from 1)",
        ]
    }


def a_barrier_that_one_did_not_reach() -> Lines:
    return {0: [UNREACHED.format(2)]}


def a_barrier_that_names_the_first_alone() -> Lines:
    """Rank 0 gives up at the first that has not come: ranks 2 and 3 may not have, either."""
    return {0: [UNREACHED.format(1)]}


@dataclass(frozen=True)
class Needed:
    """A reader, or a rule of one, what it says where it says nothing, and lines that nothing else reads so."""

    rule: str
    silent: Callable[..., Any]
    lines: Callable[[], Lines]
    found: tuple[Kind, tuple[int, ...], str]
    """Kind, culprits, victims."""


def nothing(*_: object) -> tuple[()]:
    return ()


def none(*_: object) -> None:
    return None


NEEDED = {
    "one that is behind": Needed(
        "watchdog_lines.tables_by_watchdogs", nothing, one_that_is_behind, (Kind.RANK_NOT_JOINED, (2,), "0-1,3")
    ),
    "one that is behind, by the numbers of the default group": Needed(
        "watchdog_lines.tables_by_watchdogs", nothing, one_that_is_behind, (Kind.RANK_NOT_JOINED, (2,), "0-1,3")
    ),
    "a line of an operation that the next one names the group of": Needed(
        "watchdog_lines._key_by_neighbour",
        none,
        one_that_called_something_else,
        (Kind.COLLECTIVE_MISMATCH, (2,), "0-1,3"),
    ),
    "an earlier attempt in the same files": Needed(
        "watchdog_lines._is_earlier", none, after_another_attempt, (Kind.RANK_NOT_JOINED, (2,), "0-1,3")
    ),
    "lines without a group": Needed(
        "watchdog_lines._put_with_the_told", none, some_without_a_tag, (Kind.STUCK_TOGETHER, (), "0-2")
    ),
    "lines of the default group without a tag": Needed(
        "watchdog_lines._move_default",
        none,
        one_of_the_default_group_without_a_tag,
        (Kind.COLLECTIVE_MISMATCH, (), "0-1"),
    ),
    "one that told another shape": Needed(
        "detail_lines.tables_by_fingerprints",
        nothing,
        one_that_told_another_shape,
        (Kind.COLLECTIVE_MISMATCH, (0,), "1-2"),
    ),
    "one that called another size": Needed(
        "call_lines.tables_by_calls",
        nothing,
        one_that_called_another_size,
        (Kind.COLLECTIVE_MISMATCH, (3,), "0-2"),
    ),
    "calls of a log without its head": Needed(
        "call_lines._nameless",
        nothing,
        one_that_called_another_size_in_a_log_without_its_head,
        (Kind.COLLECTIVE_MISMATCH, (3,), "0-2"),
    ),
    "a desync report": Needed("reports._desync", nothing, a_desync_report, (Kind.RANK_NOT_JOINED, (1,), "0,2-3")),
    "a barrier that one did not reach": Needed(
        "reports._barriers", nothing, a_barrier_that_one_did_not_reach, (Kind.RANK_NOT_JOINED, (2,), "0")
    ),
    "a barrier that names the first alone": Needed(
        "reports._unheard", lambda *_: 0, a_barrier_that_names_the_first_alone, (Kind.RANK_NOT_JOINED, (), "0")
    ),
}

NOT_READ_FROM_LINES = {"agent_marks"}
"""Counters that agents report: they accuse nobody, and say where a look is not needed."""


def told(diagnosis: Diagnosis) -> list[tuple[Kind, tuple[int, ...], str]]:
    return [(finding.kind, finding.culprit_ranks, finding.victims) for finding in diagnosis.findings]


def switched_off(needed: Needed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the rule away wherever it is called."""
    module, name = needed.rule.split(".")
    rule = getattr(importlib.import_module(f"{marks.__name__}.{module}"), name)
    for imported in [one for at, one in sys.modules.items() if at.startswith("collector.")]:
        if getattr(imported, name, None) is rule:
            monkeypatch.setattr(imported, name, needed.silent)


@pytest.mark.parametrize("name", NEEDED)
def test_without_its_rule_the_case_is_told_otherwise(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    needed = NEEDED[name]
    assert told(judged_logs(needed.lines(), world_size=4)) == [needed.found]
    switched_off(needed, monkeypatch)
    assert told(judged_logs(needed.lines(), world_size=4)) != [needed.found]


def test_every_reader_has_a_case_that_needs_it() -> None:
    files = {module.name for module in pkgutil.iter_modules(marks.__path__)}
    assert files - NOT_READ_FROM_LINES == {needed.rule.partition(".")[0] for needed in NEEDED.values()}
