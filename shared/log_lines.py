"""Finds in log lines what tells about a hang: timeouts, mismatches, lost connections, exceptions.

Logs are dirty: colours, several processes in one line, launchers' prefixes, lines repeated or cut. A line is
first cleaned and, where lines of several ranks were glued together, cut apart at the ranks' marks. Which
rank wrote a line is told by its `[rankN]:` mark (PyTorch 2.2 on), else by whoever knows whose file it is.
"""

import re
from collections.abc import Iterable, Iterator

from shared.log_events import EventKind, LogEvent
from shared.log_matchers import (
    FINGERPRINT,
    FINGERPRINT_HINT,
    FINGERPRINT_PARTS,
    GROUP,
    GROUP_HINT,
    MATCHERS,
    Matcher,
    canonical_op,
)
from shared.redaction import redact

MOST_EVENTS = 1000
LONGEST_LINE = 4000
_LONGEST_TEXT = 500
_LONGEST_TRACEBACK = 400
_MOST_WRAPPED = 3
_TRACEBACK = "Traceback (most recent call last):"

_ESCAPES = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")
# … [repeated 15x across cluster]
_REPEATED = re.compile(r"\s?\[repeated \d{1,9}x across cluster\]")
# 12%|##  | 3/25 [00:09<01:08][rank0]:[E1121 09:10:11.123456789 ProcessGroupNCCL.cpp:655] …      [rank3]: ValueError: …
_RANK = re.compile(r"\[rank(\d{1,7})\]:")
_CUT = re.compile(r"(?=\[rank\d{1,7}\]:)")
# RuntimeError: no such shard        torch.distributed.DistBackendError: NCCL error in: …        KeyboardInterrupt
_EXCEPTION = re.compile(r"(?P<type>[A-Za-z_][\w.]{0,200})(?:: (?P<message>.*))?")


def clean_line(line: str) -> str:
    """Return a line without colours, control characters and Ray's notes, cut to 4000 characters."""
    return _REPEATED.sub("", _ESCAPES.sub("", line[: 2 * LONGEST_LINE]))[:LONGEST_LINE].rstrip()


def rank_of_line(line: str) -> int | None:
    """Return the global rank that a line says it is from; None where it does not say."""
    match = _RANK.search(line)
    return None if match is None else int(match[1])


def find_events(lines: Iterable[str], *, path: str, rank: int | None) -> tuple[LogEvent, ...]:
    """Return the last 1000 events of some lines, oldest first.

    `rank` is whose file it is, None where several ranks write into it; a line's own mark goes before it.
    """
    pieces = [piece for line in lines for piece in _pieces(clean_line(line))]
    text = "\n".join(pieces)
    matchers = tuple(matcher for matcher in MATCHERS if matcher.hint in text)
    found = [*_matched(pieces, matchers), *_mismatches(pieces if FINGERPRINT_HINT in text else ())]
    found += _exceptions(pieces) if _TRACEBACK in text else ()
    found.sort(key=lambda event: event[0])
    return tuple(_event(*event[1:], path=path, rank=rank) for event in found[-MOST_EVENTS:])


_Found = tuple[int, EventKind, str, dict[str, str]]


def _pieces(line: str) -> list[str]:
    return [piece for piece in _CUT.split(line) if piece] if "[rank" in line else [line]


def _event(kind: EventKind, line: str, fields: dict[str, str], *, path: str, rank: int | None) -> LogEvent:
    own = rank_of_line(line)
    short = {name: redact(value)[:300] for name, value in fields.items()}
    return LogEvent(
        kind=kind, rank=rank if own is None else own, text=redact(line)[:_LONGEST_TEXT], fields=short, path=path
    )


def _matched(lines: list[str], matchers: tuple[Matcher, ...]) -> Iterator[_Found]:
    for number, line in enumerate(lines) if matchers else ():
        for kind, hint, pattern in matchers:
            match = _search(pattern, lines, number) if hint in line else None
            if match is not None:
                yield number, kind, line, _fields(match) | _group(line)


def _group(line: str) -> dict[str, str]:
    match = GROUP.search(line) if GROUP_HINT in line else None
    return {} if match is None else {name: value for name, value in match.groupdict().items() if value}


def _search(pattern: re.Pattern[str], lines: list[str], number: int) -> re.Match[str] | None:
    """Search a line, and where that is in vain the line with those that it may have been wrapped into."""
    return pattern.search(lines[number]) or pattern.search("\n".join(lines[number : number + _MOST_WRAPPED]))


def _fields(match: re.Match[str]) -> dict[str, str]:
    fields = {name: value for name, value in match.groupdict().items() if value is not None}
    if "op" in fields:
        fields["op"] = canonical_op(fields["op"])
    return fields


def _mismatches(lines: Iterable[str]) -> Iterator[_Found]:
    """Find what TORCH_DISTRIBUTED_DEBUG=DETAIL prints: this rank's operation, and that of one it disagrees with."""
    for number, line in enumerate(lines):
        sides = FINGERPRINT.findall(line) if FINGERPRINT_HINT in line else []
        if not sides:
            continue
        fields: dict[str, str] = {}
        for prefix, (rank, body) in zip(("", "other_"), sides[:2], strict=False):
            fields[f"{prefix}rank"] = rank
            for name, pattern in FINGERPRINT_PARTS.items():
                match = pattern.search(body)
                if match is not None:
                    fields[prefix + name] = canonical_op(match[1]) if name == "op" else match[1]
        yield number, EventKind.COLLECTIVE_MISMATCH, line, fields


def _exceptions(lines: list[str]) -> Iterator[_Found]:
    """Find each traceback's last line. Ranks that mark their lines may have theirs interleaved."""
    begun: dict[int | None, int] = {}
    for number, line in enumerate(lines):
        rank = rank_of_line(line)
        body = line if rank is None else _after_mark(line)
        if body.endswith(_TRACEBACK):
            begun[rank] = number
        elif rank in begun and not body.startswith((" ", "\t")) and body:
            match = _EXCEPTION.fullmatch(body)
            if match is not None and number - begun[rank] <= _LONGEST_TRACEBACK:
                yield number, EventKind.EXCEPTION, line, _fields(match)
            del begun[rank]


def _after_mark(line: str) -> str:
    body = line[line.index("]:") + 2 :]
    return body[1:] if body.startswith(" ") else body
