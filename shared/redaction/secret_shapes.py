"""Secrets recognised by their own shape, or by the program whose option they are: the rows of `secrets.toml`."""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from shared.packs import read_pack


@dataclass(frozen=True)
class Shape:
    """One row. Its pattern is made when a text first holds one of its hints."""

    hints: tuple[str, ...]
    text: str
    of_option: bool = False
    """Does it need an option with a dash at a word's beginning?"""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Of which group 1 is the secret."""
        return re.compile(self.text)


def _shape(row: dict[str, Any]) -> Shape:
    if "prefixes" in row:
        prefixes = tuple(row["prefixes"].split())
        any_of = "|".join(map(re.escape, prefixes))
        return Shape(prefixes, f"(?<![A-Za-z0-9])((?:{any_of}){row['rest']})")
    return Shape(tuple(row["hints"].split("|")), row["pattern"], row.get("of_option", False))


SHAPES = tuple(map(_shape, read_pack(__file__, "secrets.toml")["shapes"]))
