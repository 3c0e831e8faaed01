"""Texts that are none: half a character can be neither sent nor shown."""

import json
from typing import Any

import pytest

from shared.json_bounds import has_halves, load_json
from shared.missing import Missing, Reason
from shared.value import as_json, whole_texts
from shared.wire.snapshot import NodeSnapshot
from tests.build.agents.fake_agents import make_rank

HALF, WHOLE = "a\ud800b", "a?b"


def test_a_value_with_half_a_character_anywhere_is_sent() -> None:
    """All else of it stays as it is; what needs no change is not touched."""
    rank = make_rank(0, host=HALF)
    missing = Missing(source="x", reason=Reason.UNREADABLE, detail=f"{HALF} \U0001f600")
    snapshot = NodeSnapshot(host=HALF, taken_at_ns=7, ranks=(rank,), missing=(missing,))
    read = NodeSnapshot.model_validate_json(as_json(snapshot))
    assert (read.host, read.ranks[0].identity.host) == (WHOLE, WHOLE)
    assert read.missing[0].detail == f"{WHOLE} \U0001f600"
    assert read.ranks[0].model_copy(update={"identity": rank.identity}) == rank
    whole = NodeSnapshot(host="here", taken_at_ns=7, ranks=(rank,))
    assert as_json(whole_texts(whole)) == as_json(whole_texts(whole_texts(whole)))


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (b'{"a\\ud800b": ["\\uDFFF", 1.5, null]}', {WHOLE: ["?", 1.5, None]}),
        (b'"a\xed\xa0\x80b"', WHOLE),
        (json.dumps(HALF, ensure_ascii=False).encode("utf-16", "surrogatepass"), WHOLE),
    ],
)
def test_json_with_half_characters(written: bytes, read: Any) -> None:
    """As an escape, in UTF-8 and in UTF-16."""
    assert load_json(written, most_bytes=10**6) == read
    assert has_halves(written)


@pytest.mark.parametrize(
    "text",
    [b'"\\ud83d\\ude00"', b'"\\\\ud800"', '"\ud55c\uae00 \U0001f600"'.encode(), b"[1, 2]", b"{", b"[" * 99_999, b""],
)
def test_json_without(text: bytes) -> None:
    """A pair is one character, and a backslash may be written itself; what is no JSON is refused elsewhere."""
    assert not has_halves(text)
    if text[-1:] in (b'"', b"]"):
        assert load_json(text, most_bytes=10**6) == json.loads(text)
