"""Takes secrets out of text that users wrote: command lines, log lines, error messages.

Two kinds are known: a value that follows a telling name (`--api-key=…`, `password: …`), and tokens that
tell by their own shape. What is taken out is replaced by `***`, so that a reader sees that something was.
"""

import re

HIDDEN = "***"

_LONGEST = 20_000
"""Longer text is cut before it is searched, which bounds the time each pattern can take."""

_NAMED = re.compile(
    # train.py --wandb-api-key=0123abcd --lr 3e-4        DB_PASSWORD=hunter2        "token": "abc"
    r"(?i)((?:api[-_]?key|access[-_]?key(?:[-_]?id)?|secret(?:[-_]?(?:access[-_]?)?key)?|passw(?:or)?d|passphrase"
    r"|auth[-_]?token|access[-_]?token|hf[-_]?token|\btoken|private[-_]?key|credentials?)"
    r"[\"']?(?:\s{0,3}[=:]\s{0,3}|\s{1,3}))(?:\"[^\"]{1,400}\"|'[^']{1,400}'|[^\s\"',;&]{1,400})"
)
_ASSIGNED = re.compile(r"[=:]\s{0,3}\Z")

_SHAPES = tuple(
    re.compile(pattern)
    for pattern in (
        # Authorization: Bearer eyJhbGciOi…
        r"(?i)(?<=bearer )[\w.~+/=-]{8,2000}",
        # Authorization: Basic YWxpY2U6aHVudGVyMg==
        r"(?i)(?<=authorization: basic )[a-z0-9+/=]{4,2000}",
        # https://alice:hunter2@registry.example.com/v2        redis://:hunter2@cache.example.com
        r"(?<=://)[^\s/:@]{0,200}:[^\s/@]{1,200}(?=@)",
        # https://data.example.com/shard?X-Amz-Signature=0f3c…&sig=…: whoever has the URL has the file
        r"(?i)(?<=signature=)[\w%/+=-]{8,500}|(?<=[?&]sig=)[\w%/+=-]{8,500}",
        # hf_, ghp_, github_pat_, glpat-, sk-, xoxb-, nvapi-, npm_, pypi-, AIza: tokens of well-known services
        r"\b(?:hf_|gh[pousr]_|github_pat_|glpat-|sk-|xox[abprs]-|nvapi-|npm_|pypi-|AIza)[\w-]{12,255}",
        # AKIAEXAMPLEEXAMPLE12
        r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
        # eyJhbGciOi.eyJzdWIi.c2ln: a JSON web token
        r"\beyJ[\w-]{8,2000}\.[\w-]{8,4000}\.[\w-]{4,1000}",
    )
)


def redact(text: str) -> str:
    """Return `text` with secrets replaced by `***`; text longer than 20,000 characters is cut."""
    text = _NAMED.sub(_hide_value, text[:_LONGEST])
    for shape in _SHAPES:
        text = shape.sub(HIDDEN, text)
    return text


def _hide_value(match: re.Match[str]) -> str:
    """Hide what follows the name; after a mere space only for an option, so that prose stays readable."""
    head = match[1]
    if not _ASSIGNED.search(head) and not _is_option(match.string, match.start()):
        return match[0]
    return head + HIDDEN


def _is_option(text: str, start: int) -> bool:
    word_start = max(text.rfind(" ", 0, start), text.rfind("\n", 0, start)) + 1
    return text.startswith("--", word_start)
