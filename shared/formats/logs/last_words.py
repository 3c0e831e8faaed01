"""Where a log ends: the line at which somebody stopped, or a trouble right above it. A log ends where it hangs."""

import re
from collections.abc import Sequence

from shared.formats.logs.underlined import troubles, worth_of

# INFO: 10.1.2.3:59146 - "GET /metrics HTTP/1.1" 200 OK
_ASKED = re.compile(r'"(?:GET|HEAD) /\S{0,200} HTTP/[\d.]{1,3}" 2\d\d\b')
# frame #7: c10d::PrefixStore::get(std::string const&) + 0x30 (0x7f97f10fed50 in …)      the innermost comes first
#   File "/job/engine.py", line 1456 in save                     faulthandler's, too; a traceback has a comma
_INNERMOST_FIRST = re.compile(r"\bframe #\d{1,4}: |File \"[^\"]{1,400}\", line \d{1,7} in ")
_OF_TRACEBACK = re.compile(r"\s{0,40}File \"[^\"]{1,400}\", line \d{1,7}, in ")
# frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x96 (…)        where the exception itself is made
_RAISED = "c10::Error::Error("
_NEAR = 10
_TELLS = 10
"""Characters: fewer are in other lines by chance."""


def last_word(lines: Sequence[str], numbers: Sequence[int]) -> tuple[int, ...]:
    """Return the numbers of the lines at which somebody stopped, of those that he wrote.

    Of a stack it is the innermost call. Where the end of the excerpt cuts it, that is told by an earlier line that says
    the same and more.
    """
    numbers = [number for number in numbers if _RAISED not in lines[number][:500]] or numbers
    framed = {number for number in numbers if _INNERMOST_FIRST.search(lines[number][:500])}
    own = [n for n in numbers if not (n in framed and n - 1 in framed) and not _ASKED.search(lines[n][:500])] or numbers
    near = own[-_NEAR:]
    stop = next(
        (
            number
            for number in reversed(near)
            if worth_of(lines[number]) > 0 and troubles(lines[number]).keys() - {"error"}
        ),
        own[-1],
    )
    said = lines[stop]
    whole = (number for number in reversed(near) if len(lines[number]) > len(said) >= _TELLS and said in lines[number])
    stop = next(whole, stop)
    quoted = stop + 1 < len(lines) and _OF_TRACEBACK.match(lines[stop]) and lines[stop + 1][:2].isspace()
    return (stop, stop + 1) if quoted and not _OF_TRACEBACK.match(lines[stop + 1]) else (stop,)
