"""What others put before the lines that a program printed: runtimes, collectors of logs, terminals, people who quote.

A text has such a head before nearly all of its lines, or before none; there may be several, one before the other. What
indents all lines is one.
"""

import re
from collections.abc import Sequence
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
    """A line in its parts."""

    head: str
    origin: str
    """By the head, the node on which the line was printed, or `pod/NAME`; "" where it does not say."""
    line: str


def headed(lines: Sequence[str]) -> list[Headed]:
    """Return each line in its parts, with an empty head where the text has none."""
    found = [Headed("", "", line) for line in lines]
    for _ in range(_MOST):
        form = _form_of([each.line for each in found])
        if form is None:
            break
        found = [_cut(each, form) for each in found]
    indent = min((len(each.line) - len(each.line.lstrip(" ")) for each in found if each.line.strip()), default=0)
    return [each._replace(head=each.head + each.line[:indent], line=each.line[indent:]) for each in found]


def without_heads(lines: Sequence[str]) -> list[str]:
    """Return what a text's lines are without their heads, and without the fence of a block of code around them."""
    found = [each.line for each in headed(lines)]
    spoken = [at for at, line in enumerate(found) if line.strip()]
    fenced = len(spoken) > 2 and all(found[at].startswith("```") for at in (spoken[0], spoken[-1]))
    return [each.line for each in headed(found[spoken[0] + 1 : spoken[-1]])] if fenced else found


def _form_of(lines: Sequence[str]) -> re.Pattern[str] | None:
    spoken = [line for line in lines if line.strip()][:_TRIED]
    if len(spoken) < _LEAST:
        return None
    return next((form for form in _FORMS if sum(map(bool, map(form.match, spoken))) >= _NEARLY_ALL * len(spoken)), None)


def _cut(each: Headed, form: re.Pattern[str]) -> Headed:
    match = form.match(each.line)
    if match is None:
        return each
    named = match.groupdict()
    origin = f"pod/{named['pod']}" if named.get("pod") else named.get("host") or each.origin
    return Headed(each.head + match[0], origin, each.line[match.end() :])
