"""Who waits for whom in turn, over waits of every kind."""

from pydantic import Field

from shared.answer.contract import Contract


class ChainLink(Contract):
    """Who waits where waits lead beyond the groups of ranks or, as the last of a chain, who is waited for."""

    who: str = Field(description="`ranks 0-1`, `pid 38 (python)`, `rank 0 of job rollout (pid 13)`, or an address.")
    does: str = Field(description="In what it waits and for whom; the last: what it does, as far as that was seen.")
    job: str | None = Field(default=None, description="Its job, where that is another one.")
    closes: bool = Field(default=False, description="Does it wait for one that stands before it: a circle?")
