"""Slack: a header, the facts, and code blocks of what was asked for.

An incoming webhook takes each change as a message of its own. An app's `chat.postMessage` answers with the message's
time (`ts`), by which what follows goes into its thread; what ends an incident is shown in the channel as well.

Text of jobs stands in code, where Slack formats nothing, with `&`, `<` and `>` escaped, so that it mentions no one and
links nowhere. Limits are those of Block Kit: 150 characters in a header, 3,000 in a section, 50 blocks.
"""

import json
import re
from collections.abc import Mapping

from collector.notify.notice import Notice, one_line
from collector.notify.outgoing import NotDelivered, Outgoing, json_bytes
from collector.notify.receivers import SlackReceiver

MOST_HEADER = 150
MOST_SECTION = 3_000
MOST_BLOCKS = 50
MOST_TEXT = 4_000

# invalid_payload, no_service, channel_not_found
WORD = re.compile(rb"[a-z_]{1,60}")

_ESCAPED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "`": "\N{MODIFIER LETTER GRAVE ACCENT}"})
_AROUND_A_FACT = 40
"""Its name, and what stands around it."""
_FENCE = 8
_MOST_URL = 1_500


def compose_message(receiver: SlackReceiver, notice: Notice, thread: str | None = None) -> Outgoing:
    """Return the request about one change; `thread` is the `ts` of the message that it belongs to."""
    message = {
        "text": escaped(notice.summary)[:MOST_TEXT],
        "blocks": _reply(notice) if thread else _blocks(notice)[:MOST_BLOCKS],
        "unfurl_links": False,
        "unfurl_media": False,
    }
    headers = {"Content-Type": "application/json; charset=utf-8"}
    token = receiver.token()
    if token is None:
        return Outgoing(receiver.destination(), json_bytes(message), headers, read_answer=read_answer_of_webhook)
    message["channel"] = receiver.channel
    if thread:
        message |= {"thread_ts": thread, "reply_broadcast": notice.ends_at is not None}
    headers["Authorization"] = f"Bearer {token}"
    return Outgoing(receiver.destination(), json_bytes(message), headers, (token,), read_answer=read_answer_of_api)


def read_answer_of_webhook(body: bytes) -> str:
    """Return nothing: it does not name messages. Raises NotDelivered."""
    if body.strip() != b"ok":
        raise NotDelivered("the answer is not `ok`: is it a server of that kind?")
    return ""


def read_answer_of_api(body: bytes) -> str:
    """Return the message's `ts`. Raises NotDelivered: a refusal has the status 200 as well, and says why in `error`."""
    try:
        given = json.loads(body)
        if given["ok"] is True:
            return str(given["ts"])
        why = str(given["error"])
    except (ValueError, RecursionError, TypeError, KeyError) as error:
        raise NotDelivered("the answer is not one of Slack's: is it a server of that kind?") from error
    raise NotDelivered(f"Slack refuses it: {why if WORD.fullmatch(why.encode()) else 'for no reason that it names'}")


def escaped(text: str) -> str:
    """Return foreign text as Slack shows it, and takes none of it for markup; backticks would end the code it is in."""
    return text.translate(_ESCAPED)


def _reply(notice: Notice) -> list[dict[str, object]]:
    """What is new, and by whom: the thread begins with all else."""
    said = {name: notice.names[name] for name in ("by", "note") if name in notice.names}
    return [_header(notice), *([_facts(said)] if said else [])]


def _blocks(notice: Notice) -> list[dict[str, object]]:
    blocks = [_header(notice)]
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
    return [*blocks, _facts(facts)]


def _header(notice: Notice) -> dict[str, object]:
    text = {"type": "plain_text", "text": one_line(notice.title, most=MOST_HEADER), "emoji": False}
    return {"type": "header", "text": text}


def _facts(facts: Mapping[str, str]) -> dict[str, object]:
    room = MOST_SECTION // len(facts) - _AROUND_A_FACT
    return _section("\n".join(f"{name}: {_code(value, room)}" for name, value in facts.items()))


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
