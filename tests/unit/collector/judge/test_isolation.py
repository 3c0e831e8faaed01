"""Each part that is marked `costs_itself` fails in turn: the rest has its verdict, names nobody else, and tells of it.

The list is made from the code, so that a part that is added is tried like all others.
"""

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import FunctionType
from typing import Any

import pytest

import collector
from collector.align.expected import Expected
from collector.judge.verdict import diagnose
from collector.keep.kept import Kept
from collector.show.html.page import render_report
from collector.show.html.report import report_of
from collector.show.text.markdown import render_markdown
from collector.show.text.text import render_text
from shared import isolation
from shared.answer.diagnosis import Diagnosis
from shared.answer.words import Certainty, Verdict
from shared.missing import Reason
from tests.build.jobs.four_ranks import looks_without
from tests.build.jobs.simulated import USER, Seen
from tests.build.jobs.verdicts import VERDICTS
from tests.conftest import tell_failures

_CASES = tuple(name for name in VERDICTS if name not in ("thousand_ranks", "hostile"))
_SURE = (Certainty.SUSPECTED, Certainty.SUPPORTED, Certainty.PROVEN)


def parts() -> Iterator[tuple[str, Any]]:
    """Every function that is marked, by its place."""
    for module in pkgutil.walk_packages(collector.__path__, "collector."):
        if "migrations" not in module.name:
            for name, value in vars(importlib.import_module(module.name)).items():
                own = isinstance(value, FunctionType) and value.__module__ == module.name
                if own and "costs_itself" in vars(value):
                    yield f"{module.name.removeprefix('collector.')}.{name}", value


PARTS = dict(parts())


@cache
def callers() -> Mapping[str, list[str]]:
    """In which cases each part is called: in no others does its failing change anything."""
    callers: dict[str, list[str]] = {name: [] for name in PARTS}
    with pytest.MonkeyPatch.context() as patch:
        noted: set[str] = set()
        for name, part in PARTS.items():
            patch.setattr(part, "__wrapped__", _noting(noted, name, part.__wrapped__))
        for case in _CASES:
            noted.clear()
            VERDICTS[case].__wrapped__()  # type: ignore[attr-defined]
            for name in noted:
                callers[name].append(case)
    return callers


def _noting(noted: set[str], name: str, part: Callable[..., object]) -> Callable[..., object]:
    def called(*args: object, **named: object) -> object:
        noted.add(name)
        return part(*args, **named)

    return called


def break_it(part: Any, monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Let a part raise; returns a list that grows with each call of it."""
    calls: list[None] = []

    def broken(*_: object, **__: object) -> object:
        calls.append(None)
        raise KeyError(7)

    monkeypatch.setattr(part, "__wrapped__", broken)
    monkeypatch.setattr(isolation, "note", tell_failures)
    return calls


@pytest.mark.parametrize("name", sorted(PARTS))
def test_a_part_that_fails_costs_its_own_opinion(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    part, cases = PARTS[name], callers()[name]
    whole = {case: VERDICTS[case]() for case in cases}
    break_it(part, monkeypatch)
    for case in cases:
        answer = VERDICTS[case].__wrapped__()  # type: ignore[attr-defined]
        assert _told(answer) == {vars(part)["costs_itself"]}, case
        _is_no_bolder(answer, whole[case], case)
        assert answer.headline
        shown = render_text(answer, colour=False, width=100), render_markdown(answer)
        assert all(shown) and any("KeyError (7)" in text for text in shown)


def _told(answer: Diagnosis) -> set[str]:
    failed = [gap.missing for gap in answer.coverage.missing if gap.missing.reason is Reason.FAILED]
    assert all("KeyError (7)" in each.detail and "please report it" in each.detail for each in failed)
    return {each.source for each in failed}


def _is_no_bolder(answer: Diagnosis, whole: Diagnosis, case: str) -> None:
    """It accuses nobody who is not accused with all parts, nor is it surer, and it calls no other job hung."""
    assert answer.verdict in (whole.verdict, Verdict.CANNOT_TELL), case
    sure = _accused(whole)
    for rank, certainty in _accused(answer).items():
        assert rank in sure, case
        assert _SURE.index(certainty) <= _SURE.index(sure[rank]), case


def _accused(answer: Diagnosis) -> dict[int, Certainty]:
    accused: dict[int, Certainty] = {}
    for finding in answer.findings:
        for rank in finding.culprit_ranks:
            accused[rank] = max(finding.certainty, accused.get(rank, Certainty.SUSPECTED), key=_SURE.index)
    return accused


def test_outside_of_a_diagnosis_nothing_is_caught() -> None:
    """Nobody would tell of it."""

    @isolation.costs_itself(lambda: 0)
    def breaks() -> int:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        breaks()


@pytest.mark.parametrize("name", sorted(name for name in PARTS if name.startswith("show.html.")))
def test_a_part_of_the_page_that_fails(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page has its verdict, and says what it cannot show."""
    looks = tuple(looks_without({2: Seen((USER,))}))
    kept = Kept(diagnosis=diagnose(looks, Expected(job="sim")), expected=Expected(job="sim"), snapshots=looks)
    calls = break_it(PARTS[name], monkeypatch)
    page = render_report(report_of(kept))
    assert calls
    assert "KeyError (7)" in page
    assert "rank 2 has not joined" in page
