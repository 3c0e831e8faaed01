"""The events of one kernel log: repeated lines are counted, and a hung task keeps its stack."""

import re

from shared.formats.kernel_lines import read_kernel_frame, read_kernel_line
from shared.wire.kernel_events import KernelEvent, KernelEventKind

_MOST_EVENTS = 128
_MOST_FRAMES = 12
_MOST_LINES_OF_A_STACK = 64
_WITH_STACK = (KernelEventKind.HUNG_TASK, KernelEventKind.LOCKUP)
# oom-kill:constraint=CONSTRAINT_MEMCG,…,oom_memcg=/job,task_memcg=/job/step_0,task=python,pid=4242,uid=1000
_VICTIM = re.compile(
    r"^oom-kill:constraint=.{1,400},task_memcg=(?P<cgroup>/.{0,300}),task=.{1,15},pid=(?P<pid>\d{1,10}),"
)
"""Comes before the line of who was killed, which does not tell the cgroup."""


class KernelRecord:
    """The telling lines of one kernel log, at most 128 kinds of them: the latest."""

    def __init__(self) -> None:
        self._events: dict[tuple[object, ...], KernelEvent] = {}
        self._stack_of: tuple[object, ...] | None = None
        self._lines_of_stack = 0
        self._victim: re.Match[str] | None = None

    @property
    def events(self) -> tuple[KernelEvent, ...]:
        """The events, by first appearance."""
        return tuple(sorted(self._events.values(), key=lambda event: event.at or 0.0))

    def take(self, event: KernelEvent, at: float | None) -> None:
        """Take in what `read_kernel_line` made of a line. `at`: Unix seconds, None if unknown."""
        if self._victim is not None and f" process {self._victim['pid']} (" in event.text:
            event = event.model_copy(update={"cgroup": self._victim["cgroup"]})
        key = (event.kind, event.code, event.pid, event.host_pid, event.device, event.interface, _shape(event))
        known = self._events.get(key)
        if known is not None:
            event = _again(known, at)
        else:
            event = event.model_copy(update={"at": at, "last_at": at})
            if len(self._events) >= _MOST_EVENTS:
                del self._events[min(self._events, key=lambda old: self._events[old].last_at or 0.0)]
        self._events[key] = event
        has_stack = event.kind in _WITH_STACK and not event.stack
        self._stack_of, self._lines_of_stack = (key if has_stack else None), 0

    def take_other(self, text: str) -> None:
        """Take in a line that is no event by itself: below a hung task's line are the functions of its stack."""
        self._victim = _VICTIM.match(text) or self._victim
        if self._stack_of is None:
            return
        self._lines_of_stack += 1
        event, frame = self._events.get(self._stack_of), read_kernel_frame(text)
        if event is None or "</TASK>" in text or self._lines_of_stack > _MOST_LINES_OF_A_STACK:
            self._stack_of = None
        elif frame is not None and len(event.stack) < _MOST_FRAMES:
            self._events[self._stack_of] = event.model_copy(update={"stack": (*event.stack, frame)})

    def take_line(self, text: str, at: float | None) -> None:
        """Take in any line, without its stamp."""
        event = read_kernel_line(text)
        if event is None:
            self.take_other(text)
        else:
            self.take(event, at)


def _shape(event: KernelEvent) -> str:
    """What stays the same when a line is printed again."""
    return re.sub(r"\d+", "0", event.text)[:80]


def _again(known: KernelEvent, at: float | None) -> KernelEvent:
    """Count one more; of several files the later ones may come first."""
    first = [each for each in (known.at, at) if each is not None]
    last = [each for each in (known.last_at, at) if each is not None]
    times = {"at": min(first, default=None), "last_at": max(last, default=None)}
    return known.model_copy(update={**times, "count": known.count + 1})
