"""Several files pasted into one, each below or behind its name: by `tail`, `grep` or in Markdown."""

import re
from collections import defaultdict
from collections.abc import Iterator

_MOST_FILES = 10_000
_NAME = r"[^\s:`*<>|\"']{1,400}"
_ENDING = r"(?:log|txt|out|err|stderr|stdout|json|stacks?|trace|dump)"
# ==> logs/rank_3.log <==                                                     tail, head
_TAIL = re.compile(rf"^==> (?P<name>{_NAME}) <==\r?\n", re.MULTILINE)
# logs/rank_3.log:ValueError: no shard        logs/rank_3.log:12:ValueError: no shard        grep -r, grep -rn
_GREP = re.compile(rf"(?P<name>{_NAME}\.{_ENDING})[:-](?:\d{{1,9}}[:-])?(?P<line>.*)")
# ### logs/rank_3.log        **rank_3.log**:        `rank_3.log`:        rank_3.log:                and a block of code
_HEADING = re.compile(rf"(?:#{{1,6}} +|[*`]{{1,3}})?(?P<name>{_NAME}\.{_ENDING})[*`]{{0,3}}:?[*`]{{0,3}} *")
_FENCE = re.compile(r"(?P<fence>`{3,8})\w{0,20} *")
_HEAD = 65_536
"""Characters, by whose lines grep is known."""
_NEARLY_ALL = 0.9


def pasted_files(text: str) -> dict[str, str]:
    """Return the files that a text consists of, by name; none where it is one file.

    What stands above or between them is kept under the name "".
    """
    for read in (_of_tail, _of_blocks, _of_grep):
        found: dict[str, list[str]] = defaultdict(list)
        for name, part in read(text):
            found[name if name in found or len(found) < _MOST_FILES else ""].append(part)
        if any(found):
            files = {name: "".join(parts) for name, parts in found.items()}
            return {name: file for name, file in files.items() if file.strip()}
    return {}


def _of_tail(text: str) -> Iterator[tuple[str, str]]:
    name, begin = "", 0
    for head in _TAIL.finditer(text):
        yield name, text[begin : head.start()]
        name, begin = head["name"], head.end()
    if name:
        yield name, text[begin:]


def _of_blocks(text: str) -> Iterator[tuple[str, str]]:
    name = fence = ""
    for line in text.splitlines() if "```" in text else ():
        if fence:
            closes = line.rstrip() == fence
            fence = "" if closes else fence
            yield name, "" if closes else line + "\n"
            name = "" if closes else name
        elif (opens := _FENCE.fullmatch(line)) is not None:
            fence = opens["fence"]
        else:
            heading = _HEADING.fullmatch(line)
            name = heading["name"] if heading is not None else name if not line.strip() else ""
            yield "", "" if heading is not None else line + "\n"


def _of_grep(text: str) -> Iterator[tuple[str, str]]:
    spoken = [line for line in text[:_HEAD].splitlines() if line.strip()]
    if sum(_GREP.match(line) is not None for line in spoken) < max(2, _NEARLY_ALL * len(spoken)):
        return
    for line in text.splitlines():
        match = _GREP.match(line)
        yield ("", line + "\n") if match is None else (match["name"], match["line"] + "\n")
