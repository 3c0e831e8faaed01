"""Kinds, causes and evidence in plain words, said beside the words of the contract."""

import tomllib
from importlib.resources import files

from shared.answer.words import Cause, Kind

_ROWS: dict[str, dict[str, str]] = tomllib.loads(files(__package__).joinpath("wording.toml").read_text("utf-8"))

KINDS = {kind: _ROWS["kinds"][kind] for kind in Kind}
CAUSES = {cause: _ROWS["causes"][cause] for cause in Cause}
PROVES = _ROWS["proves"]

DIED = "a rank ended by a signal or with an error, and the job with it"
"""What is wrong in a job that died, in which nobody waits."""
