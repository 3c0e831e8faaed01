"""What NVIDIA's error numbers mean: whether the device, the program, or neither is at fault.

Data, not code paths. From NVIDIA's "XID Errors" catalogue; numbers that are not here are told and decide nothing.
"""

from enum import StrEnum


class Blame(StrEnum):
    """Whose fault an Xid is, more often than not."""

    DEVICE = "device"
    LINK = "link"
    """The connection between GPUs."""
    PROGRAM = "program"
    NOBODY = "nobody"
    """A note, or the echo of something told before."""


XIDS: dict[int, tuple[Blame, str]] = {
    13: (Blame.PROGRAM, "graphics engine exception"),
    31: (Blame.PROGRAM, "memory page fault"),
    43: (Blame.PROGRAM, "the program's channel was stopped"),
    45: (Blame.NOBODY, "clean-up after an earlier error or a killed process"),
    48: (Blame.DEVICE, "uncorrectable memory error"),
    61: (Blame.DEVICE, "internal micro-controller breakpoint"),
    62: (Blame.DEVICE, "internal micro-controller halt"),
    63: (Blame.NOBODY, "a memory row was remapped"),
    64: (Blame.DEVICE, "a memory row could not be remapped"),
    69: (Blame.PROGRAM, "graphics engine class error"),
    74: (Blame.LINK, "NVLink error"),
    79: (Blame.DEVICE, "GPU has fallen off the bus"),
    92: (Blame.NOBODY, "high rate of corrected memory errors"),
    94: (Blame.DEVICE, "contained memory error"),
    95: (Blame.DEVICE, "uncontained memory error"),
    119: (Blame.DEVICE, "the GPU's system processor does not answer"),
    120: (Blame.DEVICE, "error of the GPU's system processor"),
    121: (Blame.LINK, "chip-to-chip link error"),
    140: (Blame.DEVICE, "unrecovered memory error"),
    143: (Blame.DEVICE, "the GPU could not be initialised"),
    **dict.fromkeys(range(144, 151), (Blame.LINK, "NVLink error")),
    154: (Blame.NOBODY, "recovery action changed"),
    158: (Blame.DEVICE, "GPU fatal timeout"),
}


def blame_of(code: int | None) -> Blame:
    """Whose fault an Xid is; of one that is not known nobody's."""
    return XIDS.get(code or 0, (Blame.NOBODY, ""))[0]


def xid_in_words(code: int | None) -> str:
    """The number and, where it is known, its meaning."""
    meaning = XIDS.get(code or 0, (Blame.NOBODY, ""))[1]
    return f"Xid {code} ({meaning})" if meaning else f"Xid {code}"
