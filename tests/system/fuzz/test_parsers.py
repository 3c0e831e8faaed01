"""Every parser against damaged input: it answers or refuses, in time, and what it answers can travel and be shown.

UNHANG_FUZZ_EXAMPLES=20000 searches longer, with other inputs each time. What was found lies in corpus/TARGET/ and is
tried again by every run: put the bytes of a new find there, under a name that says what was wrong.
"""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.system.fuzz.damage import damaged_bytes, damaged_values
from tests.system.fuzz.targets import TARGETS, Target
from tests.system.fuzz.verdicts import hold

EXAMPLES = os.environ.get("UNHANG_FUZZ_EXAMPLES", "")
_CORPUS = Path(__file__).with_name("corpus")

SEARCH = settings(
    max_examples=int(EXAMPLES or 40),
    derandomize=not EXAMPLES,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def inputs(target: Target) -> st.SearchStrategy[bytes]:
    """Damaged bytes, and where it reads structures, structures with damaged parts."""
    raw = damaged_bytes(target.seeds)
    return raw if not target.values else st.one_of(raw, damaged_values(target.values).map(target.writer))


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_damaged_input_is_read_or_refused(target: Target) -> None:
    @SEARCH
    @given(inputs(target))
    def search(data: bytes) -> None:
        hold(target.parse, data)

    search()


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_good_input_is_read(target: Target) -> None:
    """Else the search would only look at what is refused at once."""
    for seed in target.seeds:
        assert hold(target.parse, seed) is not None


@pytest.mark.parametrize("path", sorted(_CORPUS.glob("*/*")), ids=lambda path: f"{path.parent.name}-{path.name}")
def test_what_was_found_once_is_not_found_again(path: Path) -> None:
    (target,) = (target for target in TARGETS if target.name == path.parent.name)
    hold(target.parse, path.read_bytes())
