"""HTML put together from parts: what is not HTML already is escaped, so text of any origin is shown and never runs."""

import re
from collections.abc import Iterable
from html import escape

# Act on `verdict`. **For bots.**
_MARKED = re.compile(r"`([^`\n]+)`|\*\*([^*\n]+)\*\*")


class Html(str):
    """HTML. All other strings are text."""

    __slots__ = ()


def element(name: str, *children: str, **attributes: str) -> Html:
    """Return one element. An attribute that is a word of Python's is written with an underscore, `class_`."""
    written = "".join(f' {key.rstrip("_")}="{escape(value)}"' for key, value in attributes.items())
    return Html(f"<{name}{written}>{joined(children)}</{name}>")


def joined(parts: Iterable[str], separator: str = "") -> Html:
    """Return HTML and text one after the other."""
    return Html(_html(separator).join(map(_html, parts)))


def prose(text: str) -> Html:
    """Return paragraphs, parted by empty lines in `text`, with `code` and **weight** marked as in Markdown."""
    return joined(element("p", marked(part)) for part in re.split(r"\n\s*\n", text.strip()) if part)


def marked(text: str) -> Html:
    """Return one paragraph's worth of what `prose` takes."""
    parts: list[str] = []
    end = 0
    for match in _MARKED.finditer(text):
        parts += [text[end : match.start()], element("code", match[1]) if match[1] else element("strong", match[2])]
        end = match.end()
    return joined([*parts, text[end:]])


def _html(part: str) -> str:
    return part if isinstance(part, Html) else escape(part)
