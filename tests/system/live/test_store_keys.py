"""Ranks that wait for a key in the store: it is said which, that nobody has set it, and what was set before."""

from pathlib import Path
from typing import Any

import pytest

from tests.system.live.asking import diagnosed
from tests.system.live.jobs import Job
from tests.system.live.test_verdicts import assert_right
from tests.system.live.truths import Truth

pytestmark = [pytest.mark.live, pytest.mark.ptrace]

UNSET = "(nobody has set it)"

CASES = {
    "store_key_never_set": {"2": ("recipe/2",)},
    "round_never_announced": {"2": ("round/3",)},
    "keys_crossed": {"1": ("word/of/2",), "2": ("word/of/1",)},
    "nobody_sets_key": {"0-3": ("permission",)},
}
"""Who waits for which keys, by program."""


@pytest.mark.parametrize("program", CASES)
def test_the_key_is_named(program: str, container: int, tmp_path: Path) -> None:
    """In the headline, in the evidence, with what its store tells of it, and in what is to be done next."""
    with Job(program, directory=tmp_path, recorded=True, forked=True, beside=container) as job:
        reply = diagnosed(job, patience=None)
    assert_right(Truth.of(program, "memory"), reply)
    (finding,) = reply.answer["findings"]
    told = [each for each in finding["evidence"] if each["kind"] == "awaited"]
    assert {each["ranks"]: tuple(each["keys"]) for each in told} == CASES[program]
    first = told[0]["keys"][0]
    assert all(f"'{first}'" in text for text in (reply.answer["headline"], _advice(finding)))
    assert UNSET in reply.answer["headline"]
    assert "the store has no key" in told[0]["text"]
    assert ("set before: 'round/0', 'round/1', 'round/2'" in told[0]["text"]) is (program == "round_never_announced")


def _advice(finding: dict[str, Any]) -> str:
    return " ".join(step["text"] for step in finding["next_steps"])
