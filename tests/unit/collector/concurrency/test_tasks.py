"""Tasks in the background end, whatever becomes of one cancellation."""

import asyncio

import pytest

from collector.concurrency import tasks as ending
from collector.concurrency.tasks import end, in_background


class Stubborn:
    """Work that lets some cancellations pass by, as `asyncio.wait_for` of Python 3.11 does."""

    def __init__(self, times: int) -> None:
        self._left = times
        self.goes_on = True

    async def work(self) -> None:
        """Go on until there was one cancellation more than pass by."""
        try:
            while True:
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    self._left -= 1
                    if self._left < 0:
                        raise
        finally:
            self.goes_on = False


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cancel again soon."""
    monkeypatch.setattr(ending, "_AGAIN_SECONDS", 0.05)


async def begun(*stubborn: Stubborn) -> list["asyncio.Task[None]"]:
    """Return their tasks, which have come as far as to wait."""
    tasks = [asyncio.create_task(each.work()) for each in stubborn]
    await asyncio.sleep(0)
    return tasks


async def test_tasks_are_cancelled_until_they_have_ended() -> None:
    """Those that end at once, and one that does not."""
    stubborn = [Stubborn(0), Stubborn(3)]
    async with asyncio.timeout(20):
        await end(*await begun(*stubborn))
    assert [each.goes_on for each in stubborn] == [False, False]


async def test_one_who_ends_others_and_is_cancelled_ends_them_first() -> None:
    """A run that is told to end for the second time would leave its sweep behind, which uses a store that is closed."""
    stubborn = Stubborn(1)
    ends = asyncio.create_task(end(*await begun(stubborn)))
    await asyncio.sleep(0)
    async with asyncio.timeout(20):
        await end(ends)
    assert not stubborn.goes_on
    assert ends.cancelled()


async def test_work_in_the_background_ends_with_what_it_serves_and_not_in_silence(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with in_background(asyncio.sleep(600), "waiting") as task:
        await asyncio.sleep(0)
        assert not task.done()
    assert task.cancelled() and caplog.text == ""

    async def fail() -> None:
        raise LookupError("made for this test")

    async with in_background(fail(), "failing"):
        await asyncio.sleep(0.01)
    assert "failing has ended" in caplog.text and "made for this test" in caplog.text
