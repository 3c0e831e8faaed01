"""Which incidents a silence holds back; patterns are understood or refused, and matched in no time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.detect.silences import matches, parse_pattern, silenced_by
from shared.answer import incidents
from shared.answer.incidents import Silence, SilenceMatcher, SilenceStatus
from shared.errors import InvalidInput
from tests.build.jobs.incidents import draft

LABELS = {"job": "llama-7b.v2", "kind": "rank_not_joined", "host": "node07"}


@pytest.mark.parametrize(
    ("name", "value", "regex", "equal", "holds"),
    [
        ("job", "llama-7b.v2", False, True, True),
        ("job", "llama", False, True, False),
        ("job", "llama", False, False, True),
        ("job", "llama.*", True, True, True),
        ("job", "llama", True, True, False),  # the whole label
        ("job", "llama-7b\\.v2", True, True, True),
        ("job", "bert|llama.+", True, True, True),
        ("job", "bert|gpt.*", True, False, True),
        ("host", "node0.", True, True, True),
        ("host", "node.", True, True, False),
        ("team", "", False, True, True),  # a label that is not there is empty, as in Alertmanager
        ("team", ".+", True, True, False),
    ],
)
def test_matchers(name: str, value: str, regex: bool, equal: bool, holds: bool) -> None:
    matcher = SilenceMatcher(name=name, value=value, isRegex=regex, isEqual=equal)
    assert matches(matcher, LABELS) is holds


@pytest.mark.parametrize("pattern", ["a+", "(a|b)", "[ab]", "a{2}", "^a", "a$", "\\d", "a?", "*", "\\", ".*+"])
def test_what_is_not_understood_is_refused(pattern: str) -> None:
    """Rather than taken for something else."""
    with pytest.raises(InvalidInput, match="not understood"):
        parse_pattern(pattern)


def test_hostile_pattern_takes_no_time() -> None:
    """A backtracking engine would be at this for longer than the universe."""
    matcher = SilenceMatcher(name="job", value=".*a" * 340, isRegex=True)
    assert not matches(matcher, {"job": "a" * 300 + "b"})


@given(st.text(alphabet="ab.|", max_size=12), st.text(alphabet="ab", max_size=8))
def test_means_what_regular_expressions_mean(pattern: str, text: str) -> None:
    """Of the forms that are understood."""
    import re

    matcher = SilenceMatcher(name="job", value=pattern, isRegex=True)
    assert matches(matcher, {"job": text}) == (re.fullmatch(pattern, text) is not None)


def silence(state: str, *matchers: SilenceMatcher) -> Silence:
    return Silence(
        id=state,
        status=SilenceStatus.model_validate({"state": state}),
        matchers=matchers,
        startsAt="",
        endsAt="",
        updatedAt="",
        createdBy="ann",
        comment="maintenance",
    )


def test_only_active_silences_hold_and_all_their_matchers_must() -> None:
    here, elsewhere = (SilenceMatcher(name="host", value=host) for host in ("node07", "node08"))
    all_of = [silence("active", here), silence("expired", here), silence("pending", here)]
    assert silenced_by(all_of, LABELS) == ("active",)
    assert silenced_by([silence("active", here, elsewhere)], LABELS) == ()


def test_labels_that_silences_may_name_are_those_of_incidents() -> None:
    """A silence of any other is refused."""
    assert tuple(draft("demo").labels) == incidents.LABELS
