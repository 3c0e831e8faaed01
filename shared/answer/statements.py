"""One form for whatever anybody said of a job, or shows: who was in what state, in what, and for how long."""

from enum import StrEnum

from pydantic import Field

from shared.answer.contract import EvidenceOfRanks


class Stated(StrEnum):
    """What a statement says of whom it names."""

    WAITS = "waits"
    AT = "at"
    """Neither waiting for others nor known to have failed: where it stands, or what it ran."""
    BEHIND = "behind"
    FAILED = "failed"
    ENDED = "ended"
    SILENT = "silent"
    """Nobody says anything of it."""


class Statement(EvidenceOfRanks):
    """Somebody was in some state. It accuses nobody; fields are null or empty where nothing tells them."""

    who: str = Field(description="The ranks, or what processes of unknown rank call themselves.")
    state: Stated
    op: str | None = None
    group: str | None = Field(default=None, description="The group's name, as its lines have it.")
    sequence: int | None = None
    seconds: float | None = Field(default=None, description="How long.")
    source: str = Field(default="", description="What says so: `log`, `stacks`, `flight records`.")
    path: str = Field(default="", description="The file of the first line that says so.")
    line: str = Field(default="", description="That line, secrets redacted.")
