"""Views of kept diagnoses: made once, within a bound."""

import os
from collections.abc import Awaitable, Callable

from collector.show.routes.kept_views import KeptViews


def making(made: list[str], name: str, body: bytes) -> Callable[[], Awaitable[bytes]]:
    """Return what makes a view, and notes that it did."""

    async def make() -> bytes:
        made.append(name)
        return body

    return make


async def test_each_is_made_once() -> None:
    """Whoever asks again gets the same; another question has an answer of its own."""
    views, made = KeptViews(), list[str]()
    for name in ("logs", "stacks", "logs"):
        assert await views.get(("id", name), making(made, name, name.encode() * 9)) == name.encode() * 9
    assert made == ["logs", "stacks"]


async def test_they_are_bounded() -> None:
    """What was not asked for longest goes first, and what is too large alone is not kept."""
    views, made = KeptViews(most_bytes=2_500), list[str]()
    bodies = {name: os.urandom(1_000) for name in "abc"} | {"large": os.urandom(3_000)}
    for name in ("a", "b", "a", "c", "a", "b", "large", "large", "b"):
        assert await views.get(name, making(made, name, bodies[name])) == bodies[name]
    assert made == ["a", "b", "c", "b", "large", "large"]
