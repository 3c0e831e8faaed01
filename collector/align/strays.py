"""What files show of processes and machines that nothing ties to a rank: pasted stacks, a kernel log by itself."""

from collections.abc import Sequence
from dataclasses import dataclass

from collector.align.roster import Roster
from collector.align.stacks.activity import Activity, activity_of_thread, other_activities
from collector.align.stacks.tables.row_types import Doing, Told
from collector.align.wait_states import MAY_WAIT, shown_state
from shared.wire.kernel_events import KernelEvent, KernelEvents
from shared.wire.snapshot import NodeSnapshot
from shared.wire.stacks import Stacks

_SAYS_NOTHING = (Told.IN_LIBRARY, Told.NOT_SEEN)


@dataclass(frozen=True)
class StrayProcess:
    """A process whose rank nothing tells, and what its main thread does, or a thread that waits for others."""

    file: str
    pid: int | None
    activity: Activity

    @property
    def name(self) -> str:
        """What to call it: by its pid, as far as it is known, and by the file that shows it."""
        return f"a process of {self.file}" if self.pid is None else f"process {self.pid} of {self.file}"


@dataclass(frozen=True)
class Strays:
    """All of them, in an order that does not depend on that of the files."""

    processes: tuple[StrayProcess, ...] = ()
    kernel: tuple[tuple[str | None, KernelEvent], ...] = ()
    """Lines of kernel logs of machines on which no rank is known, with the machine's name where a line tells it."""


NO_STRAYS = Strays()


def _telling(stacks: Stacks) -> Activity:
    """What its main thread does; else, where that tells of no wait, what another one waits in for other ranks.

    Where only other threads were kept, and none waits so, it is the first.
    """
    main = activity_of_thread(stacks, stacks.main)
    if (main.doing is Doing.OUTSIDE and main.told not in _SAYS_NOTHING) or shown_state(main) in MAY_WAIT:
        return main
    others = list(other_activities(stacks))
    first = main if stacks.main is not None or not others else others[0]
    return next((seen for seen in others if shown_state(seen) in MAY_WAIT), first)


def find_strays(snapshots: Sequence[NodeSnapshot], roster: Roster) -> Strays:
    """Return what bare files show beside the ranks; nothing of a live job, whose processes are looked at."""
    if roster.live:
        return NO_STRAYS
    processes = tuple(
        StrayProcess(stray.file, stray.stacks.pid, _telling(stray.stacks))
        for snapshot in snapshots
        for stray in snapshot.strays
        if stray.stacks.threads
    )
    kernel = tuple(
        (snapshot.host, event)
        for snapshot in snapshots
        if isinstance(snapshot.kernel_events, KernelEvents) and not roster.by_host.get(snapshot.host or "")
        for event in snapshot.kernel_events.events
    )
    return Strays(
        tuple(sorted(processes, key=lambda each: (each.file, each.pid or 0))),
        tuple(sorted(kernel, key=lambda line: (line[0] or "", line[1].at or 0.0, line[1].text))),
    )
