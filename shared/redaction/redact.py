"""Takes secrets out of text that users wrote: command lines, log lines, error messages.

1. Keys in PEM: all lines between `-----BEGIN … PRIVATE KEY-----` and its end.
2. A value that follows a secret's name (`--api-key=…`, `password: …`): `secret_names.py`, `secret_values.py`.
3. Tokens, URLs and options that are recognised by their own shape: `secret_shapes.py`.

Each is replaced by `***`, so that a reader sees that something was there. Ordinary lines hold no hint of any of
these, and cost a search for the hints.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from shared.redaction.hint_index import HintIndex
from shared.redaction.secret_names import HINTS, secret_of
from shared.redaction.secret_shapes import SHAPES
from shared.redaction.secret_values import SecretSpan, is_secret, value_after

HIDDEN = "***"

_LONGEST = 20_000
"""Longer text is cut before it is searched, which bounds the time each pattern can take."""

_WORD = re.compile("|".join(HINTS), re.IGNORECASE | re.ASCII)
_NAME_REST = re.compile(r"[\w.\-]{0,64}", re.ASCII)
_NAME_CHARACTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"
_LONGEST_NAME = 64

_EVERYWHERE, _OF_OPTIONS = (
    HintIndex((row, shape.hints) for row, shape in enumerate(SHAPES) if shape.of_option == of_option)
    for of_option in (False, True)
)
_OPTION = re.compile(r"(?:^|[\t\"'`(,])-")

_LEAST_WIDTH = 40
"""What is cut at the width of a terminal or a field is no shorter."""
_REST = re.compile(r"\s{0,8}(?=\S{0,80}\d)[\w+/=.~-]{4,500}\s{0,2}", re.ASCII)
_LONGEST_OPEN = 80
_FIRST_WORD = re.compile(r"\s{0,20}[\"']?([^\s\"':=]{4,400})[\"']?[,;]?\s{0,4}(?:\\|$|\s-)")

_PEM_HINT = "PRIVATE KEY"
# -----BEGIN OPENSSH PRIVATE KEY-----        ---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----
_PEM_BEGIN = re.compile(r"-{4,5} ?BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}")
_PEM_END = re.compile(r"-{4,5} ?END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}")
# MIIEvQIBADANBgkqhkiG9w0BAQEFAASC…, behind whatever a logger puts before it
_PEM_BODY = re.compile(r"(?:^|.{0,200}\s)(?:[A-Za-z0-9+/]{16,80}={0,2}|[A-Za-z0-9+/]{1,15}={1,2})\s{0,4}")
_MOST_PEM_LINES = 400


def redact(text: str) -> str:
    """Return `text` with secrets replaced by `***`; text longer than 20,000 characters is cut."""
    text = text[:_LONGEST]
    if _PEM_HINT in text:
        text = _without_keys(text)
    lower = text.lower()
    if any(map(lower.__contains__, HINTS)):
        text = _without_values(text)
    rows = _EVERYWHERE.rows(text)
    if " -" in text or _OPTION.search(text) is not None:
        rows += _OF_OPTIONS.rows(text)
    for row in sorted(set(rows)):
        text = SHAPES[row].pattern.sub(_hide_group, text)
    return text


def redact_words(arguments: Sequence[str]) -> str:
    """Return a command line, its words known, on one line: a secret that holds blanks is hidden whole."""
    return redact(" ".join(_hidden_words(arguments)))


def redact_lines(lines: Sequence[str], *, most: int) -> Iterator[str]:
    """Redact the last lines of one file; of a key that goes over several lines, none is left.

    Give all lines that were read, not the last alone: a key may have begun before them.
    """
    first = max(0, len(lines) - most)
    inside = _lines_of_keys(lines) if any(_PEM_HINT in line for line in lines) else ()
    before = redact(lines[first - 1]) if first else ""
    for number in range(first, len(lines)):
        shown = (
            HIDDEN if number in inside else _redact_behind(lines[number], before, lines[number - 1] if number else "")
        )
        yield shown
        before = shown


def _redact_behind(line: str, shown_before: str, before: str) -> str:
    """Redact a line that may begin with the rest of a secret: behind a name without a value, or cut at a width."""
    shown = redact(line)
    if shown_before.endswith(HIDDEN) and len(before) >= _LEAST_WIDTH and _REST.fullmatch(line):
        return HIDDEN
    name = _open_name(before)
    word = None if name is None else _FIRST_WORD.match(shown)
    if name is None or word is None:
        return shown
    kind = secret_of(name)
    if kind is None or not is_secret(word[1], name.lstrip("-"), kind):
        return shown
    return shown[: word.start(1)] + HIDDEN + shown[word.end(1) :]


def _open_name(line: str) -> str | None:
    """Return the name at a line's end whose value can only stand in the next one: of an option, or before a sign."""
    words = line[-_LONGEST_OPEN:].rstrip(" \t\\").split()
    if words and words[-1] in (":", "="):
        words = [words[-2] + words[-1]] if len(words) > 1 else []
    if not words or not (words[-1].endswith((":", "=")) or words[-1].startswith("-")):
        return None
    return words[-1].strip("\"':=")


def _hidden_words(arguments: Sequence[str]) -> Iterator[str]:
    takes_secret = False
    for word in arguments:
        if takes_secret and not word.startswith("--"):
            takes_secret = False
            yield HIDDEN
            continue
        name, equals, value = word.partition("=")
        kind = secret_of(name) if len(name) <= _LONGEST_NAME and _NAME_REST.fullmatch(name) else None
        takes_secret = kind is not None and not equals and name.startswith("-")
        hidden = kind is not None and equals and is_secret(value, name.lstrip("-"), kind)
        yield f"{name}={HIDDEN}" if hidden else word


def _without_values(text: str) -> str:
    """2. Hide what follows secret names."""
    pieces: list[str] = []
    done = name_end = 0
    for word in _WORD.finditer(text):
        if word.start() < max(done, name_end):
            continue
        name = _name_around(text, word, max(done, name_end))
        name_end = name.end
        value = _secret_after(text, name)
        if value is not None:
            pieces += (text[done : value.start], HIDDEN)
            done = value.end
    return "".join((*pieces, text[done:])) if pieces else text


def _name_around(text: str, word: re.Match[str], least: int) -> SecretSpan:
    before = text[max(least, word.start() - _LONGEST_NAME) : word.start()]
    start = word.start() - (len(before) - len(before.rstrip(_NAME_CHARACTERS)))
    if text[start - 1 : start] == "%":  # %26token: an escape of a URL's, then the name
        start = min(start + 2, word.start())
    elif text[start - 1 : start] == "\\" and text[start] in "nrt":  # a line end as Python and JSON write it
        start += 1
    rest = _NAME_REST.match(text, word.end())
    return SecretSpan(start, word.end() if rest is None else rest.end())


def _secret_after(text: str, name: SecretSpan) -> SecretSpan | None:
    called = text[name.start : name.end]
    kind = secret_of(called)
    value = None if kind is None else value_after(text, name, kind)
    if kind is None or value is None or not is_secret(text[value.start : value.end], called.lstrip("-"), kind):
        return None
    inner = secret_of(text[value.start : value.end][:_LONGEST_NAME])
    if inner is not None and value_after(text, value, inner) is not None:  # bad credentials: token "x" expired
        return None
    return value


def _hide_group(match: re.Match[str]) -> str:
    """3. Hide what a shape says is secret, and that once: `***` is what came out before."""
    if match[1] == HIDDEN:
        return match[0]
    whole, at = match[0], match.start()
    return whole[: match.start(1) - at] + HIDDEN + whole[match.end(1) - at :]


def _without_keys(text: str) -> str:
    """1. In one text; a key that is not ended goes on to the text's end."""
    pieces: list[str] = []
    done = 0
    while (begin := _PEM_BEGIN.search(text, done)) is not None:
        end = _PEM_END.search(text, begin.end())
        pieces += (text[done : begin.end()], HIDDEN)
        done = len(text) if end is None else end.start()
    return "".join((*pieces, text[done:]))


def _lines_of_keys(lines: Sequence[str]) -> set[int]:
    """1. Over several lines, other lines of a log among them: the numbers of those that hold parts of keys."""
    found: set[int] = set()
    for number, line in enumerate(lines):
        if _PEM_BEGIN.search(line) and not _PEM_END.search(line):
            found.update(_bodies(lines, range(number + 1, min(len(lines), number + _MOST_PEM_LINES))))
        elif _PEM_END.search(line) and not _PEM_BEGIN.search(line):
            found.update(_bodies(lines, range(number - 1, max(-1, number - _MOST_PEM_LINES), -1)))
    return found


def _bodies(lines: Sequence[str], numbers: Iterable[int]) -> Iterator[int]:
    for number in numbers:
        line = lines[number]
        if _PEM_BEGIN.search(line) or _PEM_END.search(line):
            return
        if _PEM_BODY.fullmatch(line[:600]):
            yield number
