"""Step E of the verdict, where every rank runs and none waits: do they work, or ask in a circle for what never comes?

`while not work.is_completed()` burns a CPU, or wakes from short sleeps, as work does. No counter tells them apart. What
can be told is that every rank has been in the same few lines of its function at every look, with nothing of its own
children, threads, files or connections moving, for longer than the job usually pauses.
"""

from collections import defaultdict
from collections.abc import Mapping
from itertools import islice, pairwise

from collector.align.observations import Observations
from collector.align.roster import RankView
from collector.align.stacks.activity import place
from collector.align.stacks.tables.row_types import Doing
from collector.align.stacks.user_frames import is_user_frame
from shared.answer.words import WorkMeans
from shared.plural import ranks_with
from shared.units import seconds_in_words
from shared.wire.stacks import Frame, Stacks

_LOOP_LINES = 3
"""Lines by which two looks at one short loop differ."""
_MOST_PLACES = 4
_OWN = frozenset({WorkMeans.CPU, WorkMeans.SLEEP})


def all_in_loops(observations: Observations) -> str | None:
    """Say where each rank of a job goes round and round, for people; None: not all do, or not for long enough."""
    present = observations.roster.present()
    stall = observations.motion.stalled_seconds
    if len(present) < 2 or (stall is not None and stall < observations.motion.needed(busy=False)):
        return None
    at: dict[tuple[str, str], dict[int, Frame]] = defaultdict(dict)
    for view in present:
        seen = observations.activities.get(view.rank)
        if seen is None or seen.doing is not Doing.OUTSIDE or seen.waits_on or seen.user is None:
            return None
        if not _stays(view) or _moves_more(view.rank, observations):
            return None
        at[seen.user.file, seen.user.function][view.rank] = seen.user
    since = "" if stall is None else f", and nothing has been issued for {seconds_in_words(stall)}"
    stand = ", ".join(map(_stand, islice(at.values(), _MOST_PLACES)))
    return f"{stand} in every look{since}: they compute there, or poll for what does not come"


def _stand(at: Mapping[int, Frame]) -> str:
    return f"{ranks_with(at, 'was', 'were')} at {place(min(at.values(), key=lambda frame: frame.line or 0))}"


def _stays(view: RankView) -> bool:
    """Was it in the same lines of user code in all of its looks, of which there are two at least?"""
    both = ((look.stacks, view.thread_in(look.stacks)) for look in view.looks if isinstance(look.stacks, Stacks))
    seen = [_down_to_user(stacks.stack(thread)) for stacks, thread in both if thread is not None and not stacks.native]
    return len(seen) > 1 and all(_near(a, b) for a, b in pairwise(seen))


def _down_to_user(stack: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """Without what the innermost frame of the user's has called, which a poll calls, too."""
    last = next((index for index in reversed(range(len(stack))) if is_user_frame(stack[index])), -1)
    return stack[: last + 1]


def _near(a: tuple[Frame, ...], b: tuple[Frame, ...]) -> bool:
    if not a or not b or a[:-1] != b[:-1] or (a[-1].file, a[-1].function) != (b[-1].file, b[-1].function):
        return False
    return abs((a[-1].line or 0) - (b[-1].line or 0)) <= _LOOP_LINES


def _moves_more(rank: int, observations: Observations) -> bool:
    """Does anything of it move that no poll moves?"""
    works = observations.works(rank)
    return rank in observations.motion.carrying or any(work.means not in _OWN for work in works)
