"""Every wait has an end: a deadline that is passed down, and tasks that are abandoned when it is over.

Reading about a process that is blocked in the kernel can block the reader forever, and nothing can interrupt
that thread. So each task has its own daemon thread; one that is late is abandoned and counted, and with too
many abandoned no new ones are started.
"""

import re
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Generic, TypeVar

T = TypeVar("T")

MOST_ABANDONED = 96
MOST_OF_ONE = 32
"""For one user's processes: whoever blocks our threads loses our looks at their own, and others do not."""


class Deadline:
    """A moment by which an answer is due."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._at = time.monotonic() + seconds

    def left(self) -> float:
        """Return the seconds that are left, at least 0."""
        return max(0.0, self._at - time.monotonic())

    def sooner(self, seconds: float) -> "Deadline":
        """Return a deadline that many seconds earlier."""
        return Deadline(max(0.0, self.left() - seconds))

    def at_most(self, seconds: float) -> "Deadline":
        """Return this deadline, or one so many seconds from now if that is sooner."""
        return self if self.left() <= seconds else Deadline(seconds)


class Late(Exception):
    """The task was not done by the deadline; it goes on in the background."""


class Blocked(Late):
    """The same, and the kernel function in which its thread waits for a page of memory."""


# handle_userfault: userfaultfd(2); request_wait_answer: FUSE; folio_wait_bit_common: whatever the page lies in
_AWAITS_PAGE = re.compile(
    r"handle_userfault|request_wait_answer|fuse_\w+|folio_wait_\w+|wait_on_page_\w+|__lock_page\w*"
)


def awaits_page(thread: Path) -> str:
    """Return in which kernel function a thread of ours, by its folder in /proc, waits for a page; "" where in none."""
    with suppress(OSError):
        function = (thread / "wchan").read_text()
        return function if _AWAITS_PAGE.fullmatch(function) else ""
    return ""


class TooManyAbandoned(Exception):
    """So many earlier tasks never came back that no new one is begun."""


class NoThread(Exception):
    """The machine, or our control group, has no more threads: the task was not begun."""


class Turns:
    """So many at a time. Who is blocked for longer than its turn lasts keeps nobody else from one."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken: list[Deadline] = []
        self._changed = threading.Condition()

    @contextmanager
    def one(self, deadline: Deadline, seconds: float) -> Iterator[Deadline]:
        """Wait for a turn of so many seconds; give its end. Raises Late where there is none by the deadline."""
        with self._changed:
            while len(self._lasting()) >= self._most:
                if not deadline.left():
                    raise Late
                self._changed.wait(min(each.left() for each in (deadline, *self._taken)))
            turn = Deadline(min(seconds, deadline.left()))
            self._taken.append(turn)
        try:
            yield turn
        finally:
            with self._changed:
                self._taken = [each for each in self._taken if each is not turn]
                self._changed.notify()

    def _lasting(self) -> list[Deadline]:
        self._taken = [each for each in self._taken if each.left()]
        return self._taken


class _Task(threading.Thread, Generic[T]):
    """A piece of work that has begun and, once it has ended, what came of it."""

    def __init__(self, name: str, work: Callable[[], T], whose: Hashable) -> None:
        super().__init__(name=f"look-{name}", daemon=True)
        self._work = work
        self.whose = whose
        self.outcome: T | Exception = Late()
        self.start()

    def run(self) -> None:
        try:
            self.outcome = self._work()
        except Exception as error:  # noqa: BLE001 - handed to the waiting caller, which turns it into a Missing
            self.outcome = error


class ThreadPool:
    """Runs tasks side by side and knows which never came back."""

    def __init__(self) -> None:
        self._abandoned: dict[tuple[Hashable, str], _Task[Any]] = {}
        self._lock = threading.Lock()

    @property
    def abandoned(self) -> int:
        """How many late tasks are still at it."""
        with self._lock:
            self._abandoned = {key: thread for key, thread in self._abandoned.items() if thread.is_alive()}
            return len(self._abandoned)

    def run(
        self,
        tasks: Mapping[str, Callable[[], T]],
        deadline: Deadline,
        *,
        owner: Hashable = None,
        whose: Hashable = None,
    ) -> dict[str, T | Exception]:
        """Run every task in a thread of its own; one that fails or is late gives its exception or Late.

        One for which there is no thread gives NoThread. A task of the same name and owner as one that never came back
        is not begun: it is late already. `whose` processes it reads about, where that is one user's.
        """
        if self.abandoned >= MOST_ABANDONED or self._abandoned_of(whose) >= MOST_OF_ONE:
            return {name: TooManyAbandoned() for name in tasks}
        running: dict[str, _Task[T]] = {}
        outcomes: dict[str, T | Exception] = {name: Late() for name in tasks}
        for name, work in tasks.items():
            if self.is_stuck(owner, name):
                continue
            try:
                running[name] = _Task(name, work, whose)
            except RuntimeError as error:  # Thread.start: "can't start new thread"
                outcomes[name] = NoThread(str(error))
        for name, task in running.items():
            outcome = self._outcome(task, deadline, (owner, name))
            outcomes[name] = outcome
        return outcomes

    def wait_on(self, name: str, deadline: Deadline, *, owner: Hashable = None) -> Any:
        """Wait for a task that was late, as it goes on in the background. Returns what `run` does of it."""
        with self._lock:
            task = self._abandoned.get((owner, name))
        return Late() if task is None else self._outcome(task, deadline, (owner, name))

    def _abandoned_of(self, whose: Hashable) -> int:
        with self._lock:
            return 0 if whose is None else sum(task.whose == whose for task in self._abandoned.values())

    def is_stuck(self, owner: Hashable, name: str) -> bool:
        """Was this task late, and has not come back since?"""
        with self._lock:
            task = self._abandoned.get((owner, name))
        return task is not None and task.is_alive()

    def _outcome(self, task: _Task[T], deadline: Deadline, key: tuple[Hashable, str]) -> T | Exception:
        task.join(deadline.left())
        if task.is_alive():
            with self._lock:
                self._abandoned[key] = task
            function = awaits_page(Path(f"/proc/self/task/{task.native_id}"))
            return Blocked(function) if function else Late()
        return task.outcome
