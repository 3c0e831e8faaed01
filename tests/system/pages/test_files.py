"""The page of one diagnosis as a file: opened from disk, it shows all, asks for nothing and runs nothing of a job's."""

import gzip
from pathlib import Path

import pytest

from collector.align.expected import Expected
from collector.files.diagnose_files import diagnose_directory
from collector.gather.judge_and_stamp import judge
from collector.judge.verdict import diagnose
from collector.keep.kept import Kept
from collector.show.html.page import render_report
from collector.show.html.report import report_of
from tests.build.jobs.dumps import CASES
from tests.build.jobs.four_ranks import TWO_NODES, looks_without
from tests.build.jobs.hostile import EVIL, hostile_job
from tests.build.jobs.large import large_job
from tests.build.jobs.simulated import LOADER, USER, Seen
from tests.build.jobs.verdicts import SIGNED, VERDICTS
from tests.system.pages.browser import Browser

pytestmark = [pytest.mark.slow, pytest.mark.needs("chromium", "chromedriver", "npm")]

_BUDGET = 150 * 1024


def written(kept: Kept, folder: Path) -> str:
    """Write the page of a diagnosis, and return its address."""
    file = folder / "page.html"
    file.write_text(render_report(report_of(kept)), encoding="utf-8")
    return file.as_uri()


def of_loader() -> Kept:
    """Rank 2 is in its DataLoader."""
    looks, expected = looks_without({2: Seen((USER, LOADER))}, hosts=TWO_NODES), Expected(job="sim")
    return Kept(
        diagnosis=diagnose(looks, expected).model_copy(update=SIGNED), expected=expected, snapshots=tuple(looks)
    )


@pytest.mark.parametrize("case", ["missing_rank2", "p2p_recv_cycle", "rank0_wrong_op", "all_joined_none_done"])
def test_recorded_cases_are_shown_whole(case: str, browser: Browser, tmp_path: Path) -> None:
    """The verdict, the grid, who waits, and the sequences; accessible, quiet, and with no request to anywhere."""
    made = diagnose_directory(CASES / case)
    address = written(Kept(diagnosis=made.diagnosis, expected=made.expected, snapshots=made.snapshots), tmp_path)
    browser.open(address)
    assert browser.text("h1").endswith(made.diagnosis.headline)
    assert [cell.text for cell in browser.all(".axis0 .grid g text, .card > .sheet .grid g text")] == list("0123")
    assert browser.one("table.lanes").is_displayed()
    assert browser.violations() == []
    assert set(browser.asked()) == {address}
    assert browser.complaints() == []


def test_every_kind_of_verdict_opens_without_a_complaint(browser: Browser, tmp_path: Path) -> None:
    """Also where the verdict is all that was kept, and there is nothing that it rests on."""
    for name, make in VERDICTS.items():
        browser.open(written(Kept(diagnosis=make(), expected=Expected(), snapshots=()), tmp_path))
        assert browser.one("h1").is_displayed(), name
        assert browser.complaints() == [], name


def test_who_where_why_and_what_now_need_no_scrolling(browser: Browser, tmp_path: Path) -> None:
    """An engineer comes from her pager to this page at 1280 x 800."""
    browser.open(written(of_loader(), tmp_path))
    answers = browser.all(".answer")
    assert [answer.text.splitlines()[0].lower() for answer in answers] == ["which rank", "where", "why", "what now"]
    assert all(answer.rect["y"] + answer.rect["height"] <= 800 for answer in answers)
    who, where, why, now = (answer.text for answer in answers)
    assert "rank 2" in who and "train_step" in where and "dataloader" in why
    assert "unhang stacks --rank 2" in now
    assert "rank 2" in browser.text(".branch.lit .branch.lit")


@pytest.mark.parametrize("width", [1366, 390])
def test_the_timeline_says_who_issued_what_when(width: int, browser: Browser, tmp_path: Path) -> None:
    """The culprit first, with where it is since its last operation; those who wait, in theirs until the last look."""
    browser.open(written(of_loader(), tmp_path))
    browser.resize(width, 844)
    try:
        first, *others = [lane.text for lane in browser.all(".lane:not(.ticks)")]
        assert first.startswith("rank 2") and "has issued nothing since" in first and "train_step" in first
        assert len(others) == 3 and all("in all_reduce" in lane for lane in others)
        gap, (bar, *_) = browser.one(".lane.guilty .gap"), browser.all(".lane:not(.guilty) .pending")
        assert abs(gap.rect["x"] + gap.rect["width"] - bar.rect["x"] - bar.rect["width"]) < 2
        assert all(lane.rect["x"] + lane.rect["width"] <= width for lane in browser.all(".lane"))
    finally:
        browser.resize()


def test_a_job_that_writes_markup_gets_it_shown_as_text(browser: Browser, tmp_path: Path) -> None:
    """Names, frames, log lines and all else; nothing of it becomes an element, a link or a script."""
    looks, expected = hostile_job()
    address = written(Kept(diagnosis=judge(looks, expected), expected=expected, snapshots=tuple(looks)), tmp_path)
    browser.open(address)
    assert browser.one(".tail pre").is_displayed()
    shown = browser.script("return document.body.textContent")
    for part in ("</script><img src=x onerror=1>", "[l](http://e.vil)", "<!channel>", "\\x1b[2J"):
        assert part in EVIL.encode("unicode_escape").decode() and part in shown, part
    assert browser.all("img, iframe, object, [onerror], [style], a[href^=http]") == []
    assert len(browser.all("script:not([type])")) == 1
    assert set(browser.asked()) == {address} and browser.complaints() == []
    assert browser.violations() == []


def test_eight_thousand_ranks_fit_on_a_screen_and_in_the_budget(browser: Browser, tmp_path: Path) -> None:
    """By host and by group, in a handful of elements, and the culprit is found by the keyboard."""
    address = written(large_job(8192, culprit=4711), tmp_path)
    assert len(gzip.compress((tmp_path / "page.html").read_bytes())) < _BUDGET
    browser.open(address)
    assert len(browser.all(".axis0 .grid *")) < 100
    assert browser.one(".axis0 .grid").rect["height"] < 800
    browser.script("document.querySelector('.axis0 .sheet').focus()")
    browser.press("ARROW_RIGHT")
    assert browser.text(".pointed").startswith("rank 4711 · node0588 · culprit")
    assert not browser.one(".axis1 .grid").is_displayed()
    browser.resize(390, 844)
    browser.open(address)
    sheet, ring = browser.one(".axis0 .sheet").rect, browser.one(".axis0 .ring").rect
    assert sheet["x"] < ring["x"] and ring["x"] + ring["width"] < sheet["x"] + sheet["width"] <= 390
    browser.resize()
    browser.choose("label[for=axis1]", ".axis1 .grid")
    assert browser.violations() == [] and browser.complaints() == []


def test_a_keyboard_is_enough(browser: Browser, tmp_path: Path) -> None:
    """Tab leads past the navigation, to each command and its button, and to the grid."""
    browser.open(written(of_loader(), tmp_path))
    browser.press("TAB")
    assert browser.focused("textContent") == "Skip to content"
    reached = {browser.focused("className") for _ in range(60) if browser.press("TAB")}
    assert {"copy", "sheet scroll"} <= reached
    browser.script("document.querySelector('button.copy').focus()")
    browser.press("ENTER")
    browser.wait("document.querySelector('button.copy').textContent != 'Copy'")
    browser.script("document.querySelector('.sheet').focus()")
    browser.press("ARROW_RIGHT")
    assert browser.text(".pointed").startswith("rank 2 · b · culprit")
    browser.press("ARROW_UP")
    assert browser.text(".pointed").startswith("rank 0 · a · victim")


@pytest.mark.parametrize("dark", [False, True])
def test_narrow_and_dark_screens_show_it_all(dark: bool, browser: Browser, tmp_path: Path) -> None:
    """Nothing sticks out sideways, and contrast is enough."""
    browser.open(written(of_loader(), tmp_path))
    browser.resize(360, 740, dark=dark)
    try:
        assert browser.script("return document.documentElement.scrollWidth") <= 360
        assert browser.violations() == []
    finally:
        browser.resize()


def test_it_can_be_read_without_scripts(browser: Browser, tmp_path: Path) -> None:
    """All is there; only what scripts do is not offered."""
    browser.run_scripts(run=False)
    try:
        browser.open(written(of_loader(), tmp_path))
        assert "rank 2" in browser.text("h1")
        assert not any(button.is_displayed() for button in browser.all("button.copy"))
        assert browser.one(".waits").is_displayed() and browser.one("table.lanes").is_displayed()
    finally:
        browser.run_scripts(run=True)
