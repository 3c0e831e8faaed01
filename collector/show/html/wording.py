"""Kinds, causes and evidence in plain words, said beside the words of the contract."""

from shared.answer.words import Cause, Kind
from shared.packs import read_tables

_ROWS: dict[str, dict[str, str]] = read_tables(__file__, "wording.toml")

KINDS = {kind: _ROWS["kinds"][kind] for kind in Kind}
CAUSES = {cause: _ROWS["causes"][cause] for cause in Cause}
PROVES = _ROWS["proves"]

DIED = "a rank ended by a signal or with an error, and the job with it"
"""What is wrong in a job that died, in which nobody waits."""
