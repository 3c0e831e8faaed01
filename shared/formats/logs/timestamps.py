"""When a log line was written: the stamps of glog, Python's logging, NCCL and Slurm, which name no time zone."""

import re
from datetime import datetime, timedelta

_LOOKED_AT = 300
"""A timestamp is near the line's beginning, or right after a rank's mark."""

# [E1121 09:10:11.123456789 ProcessGroupNCCL.cpp:655]     [W606 09:09:08.1 …]: the month has no leading zero in PyTorch
# E1121 09:10:11.123000 4242 torch/distributed/elastic/multiprocessing/api.py:988]
_GLOG = re.compile(
    r"(?:\[|^)[IWEF](?P<month>\d{1,2})(?P<day>\d{2}) (?P<time>\d{2}:\d{2}:\d{2})(?:\.(?P<part>\d{1,9}))?"
)
# [2026-11-21 09:10:11] node1:12:13 [1] …      2026-11-21 09:10:11,123 INFO …      [2026-11-21T09:10:11.650] error: …
_ISO = re.compile(
    r"(?P<year>20\d{2})-(?P<month>\d{2})-(?P<day>\d{2})[ T](?P<time>\d{2}:\d{2}:\d{2})(?:[.,](?P<part>\d{1,9}))?"
)


def stamp_of(line: str) -> str:
    """Return a line's own time as `[YYYY-]MM-DD HH:MM:SS[.ffffff]`; "" where it has none."""
    mark = line.find("[rank")
    head = line[max(0, mark) : max(0, mark) + _LOOKED_AT]
    match = _GLOG.search(head.partition("]:")[2] if mark >= 0 else head) or _ISO.search(head)
    if match is None:
        return ""
    year = f"{match['year']}-" if "year" in match.re.groupindex else ""
    part = "" if match["part"] is None else f".{match['part'][:6]}"
    return f"{year}{int(match['month']):02}-{match['day']} {match['time']}{part}"


def moment_of(stamp: str, *, written_at: float) -> float | None:
    """Return a stamp as Unix seconds in this machine's zone; None where it is no time.

    `written_at` is when its file was last written to, in Unix seconds: a stamp without a year is no later than that.
    """
    newest = datetime.fromtimestamp(written_at)
    dated = stamp if stamp[2:3] != "-" else f"{newest.year:04}-{stamp}"
    try:
        moment = datetime.fromisoformat(dated)
        if dated is not stamp and moment > newest + timedelta(days=1):
            moment = moment.replace(year=newest.year - 1)
        return moment.timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def seconds_between(earlier: str, later: str) -> float | None:
    """Return how much later one stamp is than another of the same writers; the year is left out of account."""
    times = (_in_one_year(earlier), _in_one_year(later))
    return None if times[0] is None or times[1] is None else (times[1] - times[0]).total_seconds()


def _in_one_year(stamp: str) -> datetime | None:
    try:
        return datetime.fromisoformat("2000-" + (stamp if stamp[2:3] == "-" else stamp[5:])).replace(tzinfo=None)
    except ValueError:
        return None
