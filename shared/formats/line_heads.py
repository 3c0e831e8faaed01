"""What others put before the lines that a program printed: runtimes, collectors of logs, terminals, people who quote.

A text has such a head before nearly all of its lines, or before none; there may be several, one before the other. What
indents all lines is one.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple

_CLOCK = r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
_ISO = rf"\d{{4}}-\d\d-\d\d[T ]{_CLOCK}(?:Z|[+-]\d\d:?\d\d)?"
_DAY = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [ \d]\d"
_UNIT = r"(?P<host>[A-Za-z][\w.-]{0,252}) [\w./@-]{1,100}\[\d{1,10}\]:(?: |$)"
_FORMS = tuple(
    re.compile(form)
    for form in (
        # 2026-11-23T00:00:02.123456789Z        kubectl logs --timestamps, docker logs -t, GitHub's runners
        # 2026-11-23 00:00:02:                  [2026-11-23 00:00:02] 	               scripts that read a pipe
        # 2026-11-23T00:00:02+0000 gpu17 python3[4242]:                                journalctl -o short-iso
        rf"(?:{_ISO}|\[{_ISO}\])(?: {_UNIT}|:? |:?\t|:?$)",
        # Nov 23 00:00:02 gpu17 torchrun[4242]:                                        syslog, journalctl
        # Nov 23 00:00:02                                                              ts
        rf"{_DAY} {_CLOCK}(?: {_UNIT}| |$)",
        # [pod/train-0/pytorch]                                                        kubectl logs --prefix
        r"\[pod/(?P<pod>[\w.-]{1,253})/[\w.-]{1,63}\](?: |$)",
        # server-1  |                                                                  docker compose logs
        r"[a-z0-9][\w.-]{0,100}-\d{1,4} {1,40}\|(?: |$)",
        #   | 2026-11-23T00:00:02.123Z |                                               CloudWatch, copied from its page
        r"\s{0,8}\| \d{4}-\d\d-\d\dT[\d:.]{8,18}Z \|(?: |$)",
        # train-worker-0 pytorch                                                       stern
        r"(?=\S{0,250}-\S{0,250}\d)(?P<pod>[a-z0-9][a-z0-9.-]{2,252}) [a-z0-9][a-z0-9-]{0,62}(?: |$)",
        # > quoted        4711<tab>nl, cat -n
        r"> ?",
        r" {0,8}\d{1,9}(?:\t|$)",
    )
)
_MOST = 4
"""Heads before one another."""
_TRIED = 200
_LEAST = 2
_NEARLY_ALL = 0.9


class Headed(NamedTuple):
    """A line, and what stands before it."""

    label: str
    """By what it is known: the node on which it was printed, `pod/NAME`, or what a launcher calls it; "" for none."""
    head: str
    line: str


class Heads:
    """What stands before the lines of one text, by those that it begins with."""

    def __init__(self, lines: Iterable[str]) -> None:
        some = list(islice(filter(str.strip, lines), _TRIED))
        self._forms: list[re.Pattern[str]] = []
        while len(self._forms) < _MOST and (form := _form_of(some)) is not None:
            self._forms.append(form)
            some = [rest for line in some if (rest := _behind(form, line)).strip()]
        self._indent = min((len(line) - len(line.lstrip(" ")) for line in some), default=0)

    def cut(self, line: str) -> Headed:
        """Return a line in its parts."""
        label, rest = "", line
        for form in self._forms:
            match = form.match(rest)
            if match is not None:
                named = match.groupdict()
                label = f"pod/{named['pod']}" if named.get("pod") else named.get("host") or label
                rest = rest[match.end() :]
        if self._indent:
            rest = rest.removeprefix(" " * self._indent)
        return Headed(label, line[: len(line) - len(rest)], rest)


def headed(lines: Sequence[str]) -> list[Headed]:
    """Return each line in its parts, with an empty head where the text has none."""
    return list(map(Heads(lines).cut, lines))


def without_heads(lines: Sequence[str]) -> list[str]:
    """Return what a text's lines are without their heads, and without the fence of a block of code around them."""
    found = [each.line for each in headed(lines)]
    spoken = [at for at, line in enumerate(found) if line.strip()]
    fenced = len(spoken) > 2 and all(found[at].startswith("```") for at in (spoken[0], spoken[-1]))
    return [each.line for each in headed(found[spoken[0] + 1 : spoken[-1]])] if fenced else found


def _behind(form: re.Pattern[str], line: str) -> str:
    match = form.match(line)
    return line if match is None else line[match.end() :]


def _form_of(lines: Sequence[str]) -> re.Pattern[str] | None:
    if len(lines) < _LEAST:
        return None
    return next((form for form in _FORMS if sum(map(bool, map(form.match, lines))) >= _NEARLY_ALL * len(lines)), None)
