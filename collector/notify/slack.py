"""Slack, incoming webhooks: a header, the facts, and code blocks of what was asked for.

Text of jobs stands in code, where Slack formats nothing, with `&`, `<` and `>` escaped, so that it mentions no one and
links nowhere. Limits are those of Block Kit: 150 characters in a header, 3,000 in a section, 50 blocks.
"""

from collector.notify.notice import Notice, one_line
from collector.notify.outgoing import Outgoing, json_bytes
from collector.notify.receivers import SlackReceiver

MOST_HEADER = 150
MOST_SECTION = 3_000
MOST_BLOCKS = 50
MOST_TEXT = 4_000

_ESCAPED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "`": "\N{MODIFIER LETTER GRAVE ACCENT}"})
_AROUND_A_FACT = 40
"""Its name, and what stands around it."""
_FENCE = 8
_MOST_URL = 1_500


def compose_message(receiver: SlackReceiver, notice: Notice) -> Outgoing:
    """Return the request about one change."""
    message = {
        "text": escaped(notice.summary)[:MOST_TEXT],
        "blocks": _blocks(notice)[:MOST_BLOCKS],
        "unfurl_links": False,
        "unfurl_media": False,
    }
    headers = {"Content-Type": "application/json; charset=utf-8"}
    return Outgoing(receiver.destination(), json_bytes(message), headers, expected=b"ok")


def escaped(text: str) -> str:
    """Return foreign text as Slack shows it, and takes none of it for markup; backticks would end the code it is in."""
    return text.translate(_ESCAPED)


def _blocks(notice: Notice) -> list[dict[str, object]]:
    header = {"type": "plain_text", "text": one_line(notice.title, most=MOST_HEADER), "emoji": False}
    blocks: list[dict[str, object]] = [{"type": "header", "text": header}]
    if notice.headline:
        blocks.append(_section(_code(notice.headline)))
    if notice.action:
        blocks.append(_section(f"*What to do*\n{_code(notice.action)}"))
    blocks += [_fenced(stack) for stack in notice.stacks]
    if notice.lines:
        blocks.append(_fenced("\n".join(notice.lines)))
    links = (each for each in notice.all_links if len(each.url) < _MOST_URL)
    blocks += [_section(f"<{escaped(each.url)}|{each.title}>") for each in links]
    facts = {
        name: value for name, value in {**notice.names, **notice.facts, "incident": notice.incident}.items() if value
    }
    room = MOST_SECTION // len(facts) - _AROUND_A_FACT
    return [*blocks, _section("\n".join(f"{name}: {_code(value, room)}" for name, value in facts.items()))]


def _section(text: str) -> dict[str, object]:
    assert len(text) <= MOST_SECTION
    return {"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": True}}


def _code(text: str, most: int = 1_500) -> str:
    return f"`{_fitting(text, most)}`"


def _fenced(text: str) -> dict[str, object]:
    return _section(f"```\n{_fitting(text, MOST_SECTION - _FENCE)}\n```")


def _fitting(text: str, most: int) -> str:
    """Return the end of a text, escaped, so that it fits: the innermost frames come last."""
    found, size = [], 0
    for char in reversed(text):
        part = escaped(char)
        size += len(part)
        if size > most:
            break
        found.append(part)
    return "".join(reversed(found))
