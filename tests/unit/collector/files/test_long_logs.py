"""Whole logs are read, however long: what tells is found wherever it stands, and what was read is said."""

import gzip
import io
import random
from functools import cache
from pathlib import Path

import pytest

from collector.files.diagnose_files import diagnose_directory
from collector.files.long_logs import _TAIL_BYTES, shorten
from collector.files.tree.bounded_file import ReadDeadline
from collector.files.tree.walk import Bounds
from shared.answer.words import Verdict
from shared.formats.logs.nccl_calls import MOST_CALL_LINES
from shared.formats.logs.parse import HINTS, find_events
from tests.build.jobs.logged import call, caught, status

PLAIN = "2026-11-21 09:10:11,{:03} INFO [rank{}] step {} loss {:.4f}\n"


@cache
def steps(count: int, *, seed: int = 1) -> str:
    chance = random.Random(seed)
    return "".join(PLAIN.format(at % 1000, at % 8, at, chance.random()) for at in range(count))


def shortened(text: str, most_bytes: int = 1 << 40) -> tuple[str, int, bool]:
    found = shorten(io.BytesIO(text.encode()), ReadDeadline(60), most_bytes=most_bytes)
    return found.data.decode(), found.lines, found.cut


def test_every_fixed_string_is_found() -> None:
    """Each alone, among lines that tell nothing, far from the end; in colours, too."""
    middle = "".join(f"{steps(30, seed=at)}at {at}: <{hint}>\n" for at, hint in enumerate(HINTS))
    middle += "\x1b[31mTraceback (most\x1b[0m recent call last):\n"
    text, lines, cut = shortened(steps(20_000) + middle + steps(2 * _TAIL_BYTES // 50))
    assert not cut
    assert lines == 20_000 + 31 * len(HINTS) + 1 + 2 * _TAIL_BYTES // 50
    assert [hint for at, hint in enumerate(HINTS) if f"at {at}: <{hint}>" not in text] == []
    assert "Traceback (most recent call last):" in text
    assert len(text) < 2 * _TAIL_BYTES


def test_events_are_those_of_the_whole() -> None:
    told = [caught(0, 12), status(0, 12, 12), "[rank3]: Traceback (most recent call last):"]
    told += [f'[rank3]:   File "/srv/train.py", line {at}, in step' for at in range(40)] + [
        "[rank3]: OSError: no shard"
    ]
    whole = steps(50_000) + "\n".join(told) + "\n" + steps(2 * _TAIL_BYTES // 50)
    text, _, _ = shortened(whole)
    texts = [
        [(event.kind, event.text, event.fields) for event in find_events(each.split("\n"), path="x", rank=None)]
        for each in (whole, text)
    ]
    assert texts[0] == texts[1]
    assert len(texts[0]) == 3


def test_lines_around_what_tells_and_the_last_calls_are_kept_in_their_order() -> None:
    """With Windows' line ends and a bar's own; of calls one more than are read, so that some are known to lack."""
    calls = [f"{call(4000, at)} end {at}\r\n" for at in range(2 * MOST_CALL_LINES)]
    around = "".join(f"before {at}\r\n" for at in range(9)) + f"{caught(0, 12)}\r\n"
    around += f"after 0\r\n{calls[MOST_CALL_LINES]}" + "".join(f"after {at}\r" for at in range(1, 20)) + "\n"
    whole = steps(20_000) + "".join(calls[:MOST_CALL_LINES]) + around + "".join(calls[MOST_CALL_LINES + 1 :])
    text, _, cut = shortened(whole + steps(2 * _TAIL_BYTES // 50))
    assert not cut
    lines = [line for line in text.split("\n")[:-1] if " INFO [rank" not in line]
    kept = [f"before {at}" for at in (6, 7, 8)] + [caught(0, 12)] + [f"after {at}" for at in range(12)]
    assert [line for line in lines if "opCount" not in line] == kept
    assert [line.rpartition(" ")[2] for line in lines if "opCount" in line] == [
        str(at) for at in range(MOST_CALL_LINES - 1, 2 * MOST_CALL_LINES)
    ]
    order = [True] + 5 * [False] + [True] + 11 * [False] + (MOST_CALL_LINES - 1) * [True]
    assert ["opCount" in line for line in lines] == order


def test_lines_of_many_pieces_stand_in_their_order() -> None:
    """Each block is three quarters of a piece: its lines stand late in one and early in another."""
    whole = "".join(f"{call(4000, at)}\n{caught(0, at)}\n{steps(13_000)}" for at in range(6))
    text, _, _ = shortened(whole + steps(2 * _TAIL_BYTES // 50))
    kept = [line for line in text.split("\n")[:-1] if " INFO [rank" not in line]
    assert ["opCount" in line for line in kept] == [True, False] * 6


@pytest.mark.parametrize("packed", [False, True])
def test_the_verdict_on_a_long_log(packed: bool, tmp_path: Path) -> None:
    waits = "".join(f"{line}\n" for rank in (0, 1, 2) for line in (caught(rank, 12), status(rank, 12, 12)))
    text = "[rank3]: Traceback (most recent call last):\n[rank3]: OSError: no shard\n" + waits
    text += steps(2 * _TAIL_BYTES // 50)
    (tmp_path / "job").mkdir()
    if packed:
        (tmp_path / "job" / "train.log.gz").write_bytes(gzip.compress(text.encode(), 1))
    else:
        (tmp_path / "job" / "train.log").write_text(text)
    answer = diagnose_directory(tmp_path / "job", bounds=Bounds(whole_log_bytes=100_000)).diagnosis
    assert answer.verdict is Verdict.HUNG
    assert answer.findings[0].culprit_ranks == (3,)
    (read,) = answer.read
    assert (read.lines, read.size_bytes, read.cut) == (text.count("\n"), len(text), False)


def test_what_was_not_read_is_said(tmp_path: Path) -> None:
    """Too much that may tell, or more bytes than are read of all files together."""
    text, _, cut = shortened(steps(1000) + f"{caught(0, 12)}\n" * 150_000 + steps(2 * _TAIL_BYTES // 50))
    assert cut
    assert len(text) < 40_000_000
    (tmp_path / "train.log").write_text(steps(10_000))
    (read,) = diagnose_directory(tmp_path, bounds=Bounds(most_bytes_in_all=10_000)).diagnosis.read
    assert read.cut
    assert read.size_bytes == (tmp_path / "train.log").stat().st_size


def test_a_line_without_end_costs_no_memory() -> None:
    text, lines, _ = shortened("progress " * 5_000_000 + f"\n{caught(0, 12)}\n")
    assert lines == 2
    assert len(text) < 5_000_000
    assert "Watchdog caught" in text
