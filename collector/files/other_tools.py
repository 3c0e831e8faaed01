"""Which other tool printed a text that people keep beside the files of a job: `other_tools.toml` has a row for each."""

import re

from shared.packs import read_pack

_LOOKED_AT = 8192
_TOOLS = tuple(
    (row["name"], re.compile(row["begins"], re.MULTILINE)) for row in read_pack(__file__, "other_tools.toml")["tools"]
)


def tool_of(data: bytes) -> str | None:
    """Return which tool printed a text; None where it is of none of these."""
    head = data[:_LOOKED_AT].decode("utf-8", "replace").replace("\r\n", "\n")
    return next((tool for tool, begins in _TOOLS if begins.search(head)), None)
