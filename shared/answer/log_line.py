"""One line of a log, as answers show it."""

from pydantic import Field

from shared.answer.contract import Contract


class LogLine(Contract):
    """One of the last lines that a rank wrote."""

    rank: int | None = Field(description="None: the file belongs to no one rank.")
    host: str | None = None
    path: str
    text: str

    def __str__(self) -> str:
        rank = "-" if self.rank is None else self.rank
        return f"[{self.host or '-'}:{rank}] {self.text}"
