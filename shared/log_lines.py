"""stub"""

from collections.abc import Iterable
from shared.log_events import LogEvent


def clean_line(line: str) -> str:
    return line


def rank_of_line(line: str) -> int | None:
    return None


def find_events(lines: Iterable[str], *, path: str, rank: int | None) -> tuple[LogEvent, ...]:
    return ()
