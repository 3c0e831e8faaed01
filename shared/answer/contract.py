"""What all parts of an answer have in common."""

from pydantic import ConfigDict, Field

from shared.rank_sets import FoldedRanks
from shared.value import Value


class Contract(Value):
    """Base of the answer's parts: frozen, every field always present."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)


class EvidenceOfRanks(Contract):
    """Base of all evidence."""

    ranks: FoldedRanks = Field(description="The ranks that it is about.")
    text: str = Field(description="One sentence for a person.")
