"""Which acts are right, by what is truly wrong: rules that were written before any answer was seen.

1. Nodes are left out where a device or link of theirs may be at fault, and for nothing that programs do.
2. What the code does comes again: it is fixed. What holds a rank from outside is let go. What has ended by a signal is
   started again. A file system that does not answer may be got to answer, or kept out of the step that waits for it.
3. Where everybody came and nothing differs, the job is started again, or more is collected first.
4. Who works is waited for; of what is well nothing is done; what is open is looked at again.
"""

from collections.abc import Collection, Iterable
from enum import StrEnum

from shared.answer.diagnosis import Diagnosis
from shared.answer.words import HARDWARE_CAUSES, Act, Cause, Kind, Verdict

_FIX, _FREE, _RESTART, _COLLECT = Act.FIX_CODE, Act.FREE, Act.RESTART, Act.COLLECT
_OF_CODE = {Kind.COLLECTIVE_MISMATCH, Kind.ORDER_INVERSION, Kind.P2P_DEADLOCK, Kind.P2P_UNMATCHED}
_BY_CAUSE: dict[Cause, frozenset[Act]] = {
    **dict.fromkeys((Cause.USER_CODE, Cause.EXCEPTION, Cause.TEARDOWN, Cause.GIL, Cause.OOM), frozenset({_FIX})),
    **dict.fromkeys((Cause.DATALOADER, Cause.DEBUGGER), frozenset({_FIX, _FREE})),
    **dict.fromkeys((Cause.FILESYSTEM, Cause.CHECKPOINT, Cause.IMPORT), frozenset({_FREE, _FIX})),
    Cause.PIPE_BLOCKED: frozenset({_FREE, _FIX}),  # where a rank has both ends, nobody outside can let it go
    Cause.COMPILE: frozenset({_FREE, Act.WAIT}),
    Cause.SIGNAL: frozenset({_RESTART, _FREE}),
    Cause.CANCELLED: frozenset({Act.NOTHING}),
    Cause.GPU_FAULT: frozenset({Act.RESTART_WITHOUT_NODES, _COLLECT}),
    Cause.NETWORK: frozenset({Act.RESTART_WITHOUT_NODES, _RESTART, _COLLECT, _FIX}),
    **dict.fromkeys((Cause.DEVICE_SYNC, Cause.COMMUNICATION), frozenset({_RESTART, _COLLECT})),
    Cause.RENDEZVOUS: frozenset({_COLLECT, _FIX}),
}
_BY_KIND: dict[Kind, frozenset[Act]] = {
    **dict.fromkeys(_OF_CODE, frozenset({_FIX})),
    Kind.STUCK_TOGETHER: frozenset({_RESTART, _COLLECT}),
    Kind.RANK_STOPPED: frozenset({_FREE}),
    Kind.RANK_EXITED: frozenset({_RESTART, _COLLECT}),
    Kind.RANK_NOT_JOINED: frozenset({_FIX, _COLLECT}),
    **dict.fromkeys(
        (Kind.RANK_MISSING, Kind.RANK_UNREACHABLE, Kind.STARTUP_INCOMPLETE), frozenset({_COLLECT, _RESTART})
    ),
    Kind.STRAGGLER: frozenset({_FIX, _COLLECT}),
    Kind.HELD_UP: frozenset({Act.WAIT}),
}


class Mark(StrEnum):
    """What an act is worth."""

    RIGHT = "right"
    WRONG = "wrong"
    EXCLUDES = "excludes wrongly"
    OPEN = "open"
    """The verdict itself tells nothing, or something else than the truth; it is scored elsewhere."""


def right_acts(kinds: Iterable[str], causes: Iterable[str]) -> frozenset[Act]:
    """Return the acts that are right about what is truly so."""
    of_causes = [_BY_CAUSE[Cause(each)] for each in causes if each in _BY_CAUSE]
    of_kinds = [_BY_KIND[Kind(each)] for each in kinds]
    return frozenset().union(*(of_causes or of_kinds), *(of_kinds if Kind.HELD_UP in kinds else ()))


def mark_of(answer: Diagnosis, kinds: Collection[str], causes: Collection[str], nodes: Collection[str] = ()) -> Mark:
    """Hold the act of an answer against the truth; `nodes`: those that are at fault, where that is known."""
    action = answer.action
    assert action is not None, "no act"
    if action.do is Act.RESTART_WITHOUT_NODES:
        may = any(Cause(each) in HARDWARE_CAUSES for each in causes)
        if not may or not action.exclude or (nodes and not set(action.exclude) <= set(nodes)):
            return Mark.EXCLUDES
    if answer.verdict is Verdict.CANNOT_TELL:
        return Mark.OPEN if kinds else _marked(action.do in (_COLLECT, Act.WAIT))
    if answer.verdict is Verdict.NOT_HUNG:
        return _marked(action.do is Act.NOTHING)
    found = answer.findings[0]
    if (kinds and found.kind not in kinds) or (causes and found.cause not in causes):
        return Mark.OPEN
    causes = {*causes} & {found.cause} or causes
    return _marked(action.do in right_acts({found.kind}, causes or {found.cause}))


def _marked(is_right: bool) -> Mark:
    return Mark.RIGHT if is_right else Mark.WRONG
