"""What a rank was seen to work with: the values."""

from dataclasses import dataclass

from shared.answer.words import WorkMeans

Ends = tuple[str, str]
"""Of one socket: its own address, and whom it is connected to."""


@dataclass(frozen=True)
class Work:
    """One thing that a rank was seen to do between two looks."""

    means: WorkMeans
    what: str
    """For people, after its subject: `uses 98% of a CPU at tokenize (train.py:36)`."""
    where: str
    """The frame, child, file or peer; empty where nothing tells."""
    seconds: float
    """Between the two looks that show it; 0 where one is enough."""
    amount: float
    """Per second: CPU seconds or bytes. Of a sleep the seconds that are left of it."""
