"""Which call of the user's led where a stack is now: not the helper at its end, but the line of the training loop.

No frame says of itself that it is the loop. Ranks of one program share the functions down to it, and part there: one
calls a collective, another something else.
"""

from collections.abc import Iterable, Sequence
from itertools import islice, takewhile

from collector.align.stacks.user_frames import is_user_frame
from shared.wire.stacks import Frame

_MOST_COMPARED = 64
"""Different stacks of other ranks: of thousands of ranks nearly all stand in a few places."""


def parting_call(frames: Sequence[Frame], others: Iterable[Sequence[Frame]]) -> Frame | None:
    """Return the user's call at which a stack, outermost frame first, parts from those of the others.

    It is the innermost function that it shares with one of them; where a library drives the loop, the first of the
    user's below that. None where no other rank runs the same program.
    """
    different = islice(dict.fromkeys(tuple(each) for each in others if each), _MOST_COMPARED)
    shared = max((_shared(frames, other) for other in different), default=0)
    if shared == 0:
        return None
    loop = frames[shared - 1]
    if is_user_frame(loop):
        return loop
    below = (frame for frame in frames[shared:] if is_user_frame(frame))
    above = (frame for frame in reversed(frames[:shared]) if is_user_frame(frame))
    return next(below, None) or next(above, None)


def _shared(frames: Sequence[Frame], other: Sequence[Frame]) -> int:
    """Count the outermost functions that both are in, at whichever line."""
    pairs = zip(frames, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: _code(pair[0]) == _code(pair[1]), pairs))


def _code(frame: Frame) -> tuple[str, str]:
    return frame.function, frame.file
