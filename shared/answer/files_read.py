"""What was read of files: part of the answer about them, and so API like its other words."""

from pydantic import Field

from shared.value import Value


class FileRead(Value):
    """What was read of one file, and what of it told anything."""

    path: str
    kind: str = Field(description="What it was taken for: `log`, `flight record`, `kernel log` …")
    lines: int | None = Field(default=None, description="Lines read; None where it is not of lines.")
    size_bytes: int | None = Field(default=None, description="Bytes of the file, decompressed.")
    cut: bool = Field(
        default=False, description="Was it too long, so that a part of it that may matter was not looked at?"
    )
    recognised: int | None = Field(default=None, description="How many of them are of a kind that tells something.")
    telling: tuple[str, ...] = Field(default=(), description="The last of these lines, secrets redacted.")
    note: str = Field(default="", description="Why they do not suffice by themselves; empty where nothing is to say.")
