"""The first thing that pydantic finds wrong, in the form in which all of ours say it."""

from typing import NamedTuple

from pydantic import ValidationError

_LONGEST = 200


class Mistake(NamedTuple):
    """Where something is not what it should be, and why. `given` is not for messages that must not quote it."""

    place: str
    why: str
    type: str
    given: object

    def __str__(self) -> str:
        return f"{self.place}: {self.why}"


def first_mistake(error: ValidationError) -> Mistake:
    """Return the first of what is wrong; `place` is made of names and numbers, with dots between them."""
    first = error.errors(include_url=False, include_context=False)[0]
    place = ".".join(map(str, first["loc"])) or "the whole"
    return Mistake(place[:_LONGEST], first["msg"][:_LONGEST], first["type"], first["input"])
