"""Lists in pages."""

from types import SimpleNamespace

import pytest

from collector.show.routes.common import cut_at


@pytest.mark.parametrize(("ids", "shown", "following"), [("", "", None), ("ab", "ab", None), ("abc", "ab", "b")])
def test_a_page_says_what_to_go_on_before_where_there_is_more(ids: str, shown: str, following: str | None) -> None:
    """Of two rows a page; one more was asked for."""
    rows, before = cut_at(tuple(SimpleNamespace(id=id) for id in ids), 2)
    assert ("".join(row.id for row in rows), before) == (shown, following)
