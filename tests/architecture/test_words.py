"""The words of what users read: no turn of phrase that a native engineer would not write (CONTRIBUTING.md, Words)."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("agent", "cli", "collector", "shared")
PAGES = ("README.md", "docs/*.md", "docs/makers/*.md", "deploy/*/README.md")

BANNED = re.compile(
    r"\b(?:anew|for ever|for want of|tells? of|heard|(?:is|are|be) told|held up by|whose words|by the stacks"
    r"|convicted|parted by|one a line|called wrongly|nobody looked|to be looked at|own code|is no setting"
    r"|no name server|bears? a name)\b"
)
"""Phrases, and for each there is a plain one: again, forever, OOM-killed, reports, log line, reported, stuck in …"""

BANNED_ON_PAGES = re.compile(rf"{BANNED.pattern}|\b(?:[Ww]hoever|[Ss]omebody|[Aa]nybody|[Nn]obody|told|tells)\b")
"""On pages also: a user, a client, no rank, reported, shows …"""


def said_to_users(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each string literal that is not a docstring, parts of f-strings joined."""
    not_said: set[int] = set()
    for node in ast.walk(ast.parse(source)):  # whoever holds a node comes before it
        if isinstance(node, ast.Expr):
            not_said.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            not_said.update(map(id, node.values))
            texts = (part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
            yield node.lineno, "".join(map(str, texts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in not_said:
            yield node.lineno, node.value


@pytest.mark.parametrize("room", ROOMS)
def test_sentences_of_the_code_keep_to_plain_words(room: str) -> None:
    """Reports, errors, help, descriptions of fields and settings: whatever is a string and no docstring."""
    found = [
        f"{file.relative_to(ROOT)}:{line}: {phrase[0]}: {text[:90]}"
        for file in sorted((ROOT / room).rglob("*.py"))
        for line, text in said_to_users(file.read_text())
        if (phrase := BANNED.search(text))
    ]
    assert found == []


def test_pages_keep_to_plain_words() -> None:
    """README, docs and the pages on deployment."""
    pages = [page for pattern in PAGES for page in sorted(ROOT.glob(pattern))]
    assert len(pages) > 10
    found = [
        f"{page.relative_to(ROOT)}:{number}: {phrase[0]}"
        for page in pages
        for number, text in enumerate(page.read_text().splitlines(), start=1)
        if (phrase := BANNED_ON_PAGES.search(text))
    ]
    assert found == []


def test_strings_are_found_and_docstrings_are_not() -> None:
    """The search itself: a sentence, both parts of an f-string, no docstring."""
    source = 'def f(x):\n    """Waits for ever."""\n    g(f"{x} waits " f"for ever", "anew")\n'
    assert [phrase[0] for _, text in said_to_users(source) if (phrase := BANNED.search(text))] == ["for ever", "anew"]
