"""The audit log: what is written, and how little a stranger can make it write."""

import json
from pathlib import Path
from typing import Any

import pytest

from shared.server.audit import AuditLog, Refusal, Refused


class Clock:
    """Time that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def lines(path: Path) -> list[dict[str, Any]]:
    """Return what was written; each line is ASCII."""
    return [json.loads(line) for line in path.read_text("ascii").splitlines()]


def test_a_flood_of_refusals_is_a_few_lines(tmp_path: Path) -> None:
    """Ten a minute for one client, a hundred for all; the rest is one number."""
    clock = Clock()
    log = AuditLog(tmp_path / "audit", clock=clock)
    for _ in range(10_000):
        log.refused(Refusal("10.0.0.1", Refused.WRONG_TOKEN))
    assert len(lines(tmp_path / "audit")) == 10
    for number in range(10_000):
        log.refused(Refusal(f"10.1.{number // 250}.{number % 250}", Refused.NO_TOKEN))
    assert len(lines(tmp_path / "audit")) == 100
    clock.now += 61
    log.write("snapshot", client="10.0.0.2")
    *_, told, last = lines(tmp_path / "audit")
    assert (told["action"], told["reason"], told["more"]) == ("refused", "many", 20_000 - 100)
    assert last["action"] == "snapshot"


def test_what_was_counted_is_told_in_the_end(tmp_path: Path) -> None:
    """A service that ends within the minute loses nothing."""
    log = AuditLog(tmp_path / "audit")
    for _ in range(13):
        log.refused(Refusal("10.0.0.1", Refused.TOO_SLOW))
    log.close()
    log.close()
    assert [line.get("more") for line in lines(tmp_path / "audit")] == [None] * 10 + [3]


def test_a_line_is_one_line_whatever_a_stranger_sends(tmp_path: Path) -> None:
    """Neither line breaks nor escapes nor half characters get into it, nor more than a few hundred of them."""
    log = AuditLog(tmp_path / "audit")
    log.refused(Refusal("c", Refused.MALFORMED, "GET /\x1b[31m\n\udc80\u202e" + "x" * 100_000, "d" * 10_000))
    log.write("snapshot", client="c", jobs=["a\nb\udc80"])
    first, second = lines(tmp_path / "audit")
    assert len(first["what"]) == len(first["detail"]) == 300
    assert second["jobs"] == ["a\nb\udc80"]


def test_a_full_disk_lets_nobody_in_and_ends_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A refusal that cannot be written is told in the service's log; so are all where there is no file."""
    log = AuditLog(tmp_path / "audit")
    (tmp_path / "audit").unlink()
    tmp_path.joinpath("audit").mkdir()
    log.refused(Refusal("c", Refused.NO_TOKEN))
    assert "cannot be written" in caplog.text
    AuditLog(None).refused(Refusal("10.0.0.9", Refused.NO_TOKEN))
    assert '"client": "10.0.0.9"' in caplog.text
