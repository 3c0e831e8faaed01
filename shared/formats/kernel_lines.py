"""What lines of the kernel log mean: `kernel_lines.toml` has one row per kind of line."""

import re

from shared.packs import line_rows
from shared.redaction.redact import redact
from shared.wire.kernel_events import KernelEvent, KernelEventKind

LONGEST_LINE = 1024
_LONGEST_TEXT = 300

KERNEL_MATCHERS = line_rows(__file__, "kernel_lines.toml", KernelEventKind)

_FRAME = re.compile(
    # __mlx5_ib_dereg_mr+0x379/0x5d0 [mlx5_ib]        ? lock_release+0xc6/0x280 is a guess of the kernel's: left out
    # [<ffffffff8168994f>] mutex_lock+0x1f/0x2f                                                 before Linux 4.11
    r"^\s{0,8}(?:\[<[0-9a-f]{1,16}>\] )?"
    r"(?P<frame>[\w.$]{1,128}\+0x[0-9a-f]{1,8}/0x[0-9a-f]{1,8}(?: \[\w{1,64}(?: [\w()]{1,16})?\])?)\s{0,4}$"
)


def read_kernel_line(line: str) -> KernelEvent | None:
    """Return the event of one kernel line, without its time; None if it is not relevant."""
    line = line[:LONGEST_LINE]
    for row in KERNEL_MATCHERS:
        if row.hint in line and (match := row.pattern.search(line)) is not None:
            fields = {name: value for name, value in match.groupdict().items() if value is not None}
            if "device" in fields:
                fields["device"] = fields["device"].lower()
            return KernelEvent.model_validate({"kind": row.kind, "text": redact(line)[:_LONGEST_TEXT], **fields})
    return None


def read_kernel_frame(line: str) -> str | None:
    """Return the kernel function that a line of a stack names, with its module; None for any other line."""
    match = _FRAME.match(line[:LONGEST_LINE])
    return None if match is None else match["frame"]
