"""What NVIDIA's error numbers mean: whether the device, the program, or neither is at fault.

`xids.toml` has a row for each.
"""

from enum import StrEnum

from shared.packs import read_pack


class Blame(StrEnum):
    """Whose fault an Xid is, more often than not."""

    DEVICE = "device"
    LINK = "link"
    """The connection between GPUs."""
    PROGRAM = "program"
    NOBODY = "nobody"
    """A note, or the echo of something told before."""


XIDS: dict[int, tuple[Blame, str]] = {
    int(code): (Blame(row["blame"]), row["words"])
    for row in read_pack(__file__, "xids.toml")["xids"]
    for code in row["codes"].split()
}


def blame_of(code: int | None) -> Blame:
    """Whose fault an Xid is; of one that is not known nobody's."""
    return XIDS.get(code or 0, (Blame.NOBODY, ""))[0]


def xid_in_words(code: int | None) -> str:
    """The number and, where it is known, its meaning."""
    meaning = XIDS.get(code or 0, (Blame.NOBODY, ""))[1]
    return f"Xid {code} ({meaning})" if meaning else f"Xid {code}"
