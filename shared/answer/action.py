"""What to do about a verdict: one act, why this one, and what it costs."""

from typing import Literal

from pydantic import Field

from shared.answer.contract import Contract
from shared.answer.words import Act


class Action(Contract):
    """One act. `text` says what to do as a sentence; the rest is what a program needs to do it."""

    do: Act
    text: str
    reason: str = Field(default="", description="Why this and not another one.")
    again: Literal["likely", "unlikely", "unknown"] = Field(
        default="unknown", description="Whether the fault would come again after a plain restart."
    )
    exclude: tuple[str, ...] = Field(default=(), description="Nodes to leave out, of `restart_without_nodes` alone.")
    places: tuple[str, ...] = Field(default=(), description="`FILE:LINE` to read or to change, the first one first.")
    command: str | None = Field(default=None, description="Does it, or shows more; can be pasted as it is.")
    host: str | None = Field(default=None, description="The node on which to run `command`, where it is for one.")
    until: str | None = Field(default=None, description="Of `wait`: ask again then, RFC 3339, UTC.")
    kept: str = Field(default="", description="What of the evidence is kept, whatever happens to the job.")
    lost: str = Field(default="", description="What a restart would lose, beside the steps since the last checkpoint.")
