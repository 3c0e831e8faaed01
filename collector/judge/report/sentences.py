"""Sentences by the rows of `sentences.toml`."""

from collections.abc import Mapping

from shared.packs import fitting, read_pack
from shared.plural import in_sentence

ROWS = read_pack(__file__, "sentences.toml")


def say(table: str, words: Mapping[str, object]) -> str:
    """Return what the first row of a table says that fits the words."""
    return in_sentence(fitting(ROWS[table], words)["said"], words)
