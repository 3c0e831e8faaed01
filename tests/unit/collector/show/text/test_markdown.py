"""Hostile text in Markdown: it stays text."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.show.text.markdown import escaped, fenced_text, render_markdown
from shared.answer.diagnosis import Diagnosis
from shared.answer.words import Verdict
from tests.build.jobs.hostile import EVIL
from tests.build.jobs.verdicts import VERDICTS


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("all_reduce of rank_2", "all_reduce of rank_2"),
        ("_it_ __main__", r"\_it\_ \_\_main\_\_"),
        ("`x` *b* [l](u) a|b ~s~", r"\`x\` \*b\* \[l\](u) a\|b \~s\~"),
        ("<b> & </b>", "&lt;b&gt; &amp; &lt;/b&gt;"),
        ("@team a@b", "＠team a＠b"),
        ("http://x www.x.y", "http&#58;//x www&#46;x.y"),
        ("a\n# b", "a\\\\n# b"),
    ],
)
def test_escapes(text: str, shown: str) -> None:
    """Markup, HTML, mentions and links do nothing; names with underscores read as they are."""
    assert escaped(text) == shown


@given(st.text())
def test_prose_holds_no_html_and_one_line(text: str) -> None:
    """Whatever comes, there is no tag and no second line."""
    shown = escaped(text)
    assert not re.search(r"[<>\n\x1b]|@\w|\w://", shown)


@given(st.lists(st.text(alphabet="`a <!@\\n", max_size=30)))
def test_fence_cannot_be_closed(lines: list[str]) -> None:
    """There are three backticks at the beginning and at the end, nowhere else, and nobody is called."""
    block = fenced_text(line.replace("\n", "") for line in lines)
    assert block.startswith("```text\n")
    assert block.endswith("\n```")
    assert "```" not in block[3:-3]
    assert "<!" not in block


@pytest.mark.parametrize("name", VERDICTS)
def test_fences_come_in_pairs(name: str) -> None:
    """Every fence that is opened is closed, and outside of them there is no HTML."""
    outside, inside = [], False
    for line in render_markdown(VERDICTS[name]()).splitlines():
        if line.strip().startswith("```"):
            inside = not inside
        elif not inside:
            outside.append(line)
    assert not inside
    assert not re.search(r"<[a-z/!]", "\n".join(outside))


def test_hostile_headline() -> None:
    """A verdict without anything else but a hostile headline and job."""
    text = render_markdown(Diagnosis(verdict=Verdict.HUNG, headline=EVIL, job=EVIL))
    assert "<img" not in text
    assert "\x1b" not in text
