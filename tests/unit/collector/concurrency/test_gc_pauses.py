"""Garbage is hardly looked for while a diagnosis is made, and gone soon after."""

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from collector.concurrency import gc_pauses as garbage
from collector.concurrency.gc_pauses import Garbage
from tests.build.processes.waiting import until


class _Ring:
    """Refers to itself: only a search finds that nobody else does."""

    def __init__(self) -> None:
        self.self = self


def _litter() -> "weakref.ref[_Ring]":
    return weakref.ref(_Ring())


@pytest.fixture(autouse=True)
def _as_it_serves(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = gc.get_threshold()
    monkeypatch.setattr(garbage, "_TIDY_AFTER_SECONDS", 0.05)
    garbage.set_up()
    yield
    gc.set_threshold(*before)


async def test_it_lies_about_only_while_diagnoses_are_made() -> None:
    kept = Garbage()
    with kept.left_lying():
        with kept.left_lying():
            litter = _litter()
            assert gc.get_threshold()[0] > garbage.YOUNG
        await asyncio.sleep(0.1)
        assert litter() is not None
    assert litter() is not None, "the answer does not wait for it"
    await until(lambda: litter() is None)
    assert gc.get_threshold()[0] == garbage.YOUNG


async def test_diagnoses_one_after_the_other_do_not_pile_it_up() -> None:
    kept = Garbage()
    with kept.left_lying():
        litter = _litter()
    with kept.left_lying():
        assert litter() is None


async def test_what_is_old_is_searched_when_nobody_waits_for_it() -> None:
    kept = Garbage()
    with kept.left_lying():
        old = _Ring()
        litter = weakref.ref(old)
        gc.collect()
        del old
    with kept.left_lying():
        assert litter() is not None
    await until(lambda: litter() is None)


async def test_other_thresholds_are_left_alone() -> None:
    gc.set_threshold(700, 10, 10)
    with Garbage().left_lying():
        assert gc.get_threshold() == (700, 10, 10)
