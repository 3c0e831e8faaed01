"""Of a log that no row knows: the lines that an engineer would underline, and where it ends."""

import re
from typing import Any

import pytest

from shared.formats.logs import underlined as module
from shared.formats.logs.parse import find_events
from shared.formats.logs.underlined import MOST_FORMS, shown, troubles, worth_of
from shared.packs import read_tables
from shared.wire.log_events import VOICES, EventKind

WORDS = read_tables(module.__file__, "underlined.toml")["words"]
AT_A_LIMIT = (
    "slurmstepd: error: *** STEP 4242.0 ON gpu-7 CANCELLED AT 2026-11-21T09:10:11 DUE TO TIME LIMIT ***",
    "TERM_RUNLIMIT: job killed after reaching LSF run time limit.",
    "=>> PBS: job killed: walltime 3642 exceeded limit 3600",
)
CALM = [f"2026-11-21 09:10:{n % 60:02},123 - trainer - INFO - step {n} loss {1 / (n + 1):.3f}" for n in range(600)]


@pytest.mark.parametrize("row", WORDS, ids=lambda row: str(row["says"]))
def test_each_row_of_words_finds_its_lines_and_no_others(row: dict[str, Any]) -> None:
    assert [line for line in row["matches"] if not re.search("".join(row["pattern"]), line)] == []
    assert [line for line in row["never"] if re.search("".join(row["pattern"]), line)] == []


def _told(lines: list[str]) -> list[str]:
    found = find_events(lines, path="a.log", rank=None, voices=True)
    return [event.text for event in found if event.kind in VOICES - {EventKind.LAST_LINE}]


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (CALM, []),
        *(([*CALM, end], [end]) for end in AT_A_LIMIT),
        (["trainer INFO - done, 0 errors", "Namespace(timeout=600, wait=30, retry=3)", "loading /data/ERROR/a"], []),
        ([*CALM, "mesh: peer node7: no reply"], ["mesh: peer node7: no reply"]),
        # who it was stands below, and belongs to it
        (
            ["lost a daemon of ours:", "", "  ours   : on node b1", "  theirs : on node b4", "", "This is all."],
            ["lost a daemon of ours: / ours   : on node b1 / theirs : on node b4"],
        ),
        (["the engine died", "2026-11-21 step 3 failed"], ["the engine died", "2026-11-21 step 3 failed"]),
        # … and what has a time of its own does not
        (
            [f"2026-11-21T09:10:1{n},000Z {text}" for n, text in enumerate(["up", "- peer died", "- peer lost it"])],
            ["2026-11-21T09:10:11,000Z - peer died", "2026-11-21T09:10:12,000Z - peer lost it"],
        ),
        # once of each who says it
        (
            [f"(Shard pid={pid}) peer refused, try {n}" for pid in (41, 42) for n in (1, 2)],
            ["(Shard pid=41) peer refused, try 1", "(Shard pid=42) peer refused, try 1"],
        ),
        # a log ends where it hangs, and what is repeated tells less
        (
            [*(f"mount {name} failed" for name in "abcdefg"), *CALM, "rank 3 died", *CALM[:9], *["queue blocked"] * 40],
            ["mount a failed", "mount f failed", "mount g failed", "rank 3 died", "queue blocked"],
        ),
    ],
)  # fmt: skip
def test_a_few_lines_tell_most(lines: list[str], told: list[str]) -> None:
    assert _told(lines) == told
    assert len(told) <= MOST_FORMS


@pytest.mark.parametrize("off", WORDS, ids=lambda row: str(row["says"]))
def test_each_row_changes_what_a_line_is_worth(off: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    before = [worth_of(line) for line in off["matches"]]
    rest = tuple(each for each in module._WORDS if each[2] != off["says"])  # the loader's own table, one row short
    monkeypatch.setattr(module, "_WORDS", rest)
    assert all(was != is_now for was, is_now in zip(before, map(worth_of, off["matches"]), strict=True))


def test_who_only_waits_is_said_to_wait_and_no_more() -> None:
    found = find_events(["[a] waiting for the mesh", "[b] the mesh failed"], path="a.log", rank=None, voices=True)
    assert [(event.kind, event.number) for event in found] == [(EventKind.SAYS_WAIT, 0), (EventKind.SAYS_ERROR, 1)]
    assert troubles("waiting for the mesh, which has not come").keys() == {"waits", "amiss"}


def test_of_a_long_line_the_trouble_is_shown() -> None:
    line = f"{'loaded ' * 90}shard 3 died"
    assert shown(line).endswith("shard 3 died") and len(shown(line)) < 100
    assert shown("died") == "died"


def _stops(lines: list[str], rank: int | None = None) -> list[int]:
    found = find_events(lines, path="a.log", rank=rank, voices=True)
    return [event.number for event in found if event.kind is EventKind.LAST_LINE]


@pytest.mark.parametrize(
    ("lines", "rank", "stops"),
    [
        (["loading", "step 1", "", "=====  ---"], None, [1]),
        (["loading shard 3 failed", "next", "step 1"], None, [2]),  # what is told already is not its end
        (["INFO no route to it", "next", "step 1"], None, [0]),  # a trouble right above
        (["loading shard 3 failed", *["step"] * 10], None, [10]),  # … and one that is long over
        (["up", "rdzv_configs: {'timeout': 900}", "joining"], None, [2]),  # a setting is no trouble
        (["Running: 1 reqs", 'INFO: 10.1.2.3:591 - "GET /metrics HTTP/1.1" 200 OK'], None, [0]),
        (["step 1", "frame #1: c10d::recv()", "frame #2: main + 0x5f", "frame #3: start"], None, [1]),
        (["frame #1: check()", "frame #2: main", "frame #0: c10::Error::Error(std::string) + 0x96"], None, [0]),
        (["50%|Sending process 4041 the signal", "Sending process 40"], None, [0]),  # the excerpt cuts the last line
        (["[rank0]: a", "[rank1]: a", "[rank0]: b"], None, [1, 2]),
        (["[rank0]: a", "hello"], None, [0, 1]),
        (["[rank3]: a", "shard 3 is 90000 ms late: stuck"], 3, []),
        (["[rank0]: a", "[rank1]: shard 3 is 90000 ms late: stuck"], None, [0]),
        (["hello", "[rank1]: shard 3 is 90000 ms late: stuck"], None, []),  # who names no rank, beside what is told
        (["(Server pid=7) up", "step 1", "(Server pid=7) GET /health"], 3, [1]),  # another's line in a rank's file
    ],
)
def test_a_log_ends_where_it_hangs(lines: list[str], rank: int | None, stops: list[int]) -> None:
    assert _stops(lines, rank) == stops
