"""Files of stacks, and logs that hold some: whose they are is decided when all files are read."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from collector.files.rank_of_file import rank_of_stacks
from shared.formats.grouped_stacks import is_grouped, parse_grouped_stacks
from shared.formats.pyspy_processes import ranks_by_title
from shared.formats.stack_dumps import parse_pyspy_json
from shared.formats.stack_parts import may_hold_stacks, parts_of
from shared.wire.stacks import Stacks

_GROUPED = "stacks by ranks"


class Owned(NamedTuple):
    """Stacks, the name of their file, and the rank that they are of, where that is known."""

    name: str
    stacks: Stacks
    rank: int | None


class StackFiles:
    """Collects stacks while files are read."""

    def __init__(self) -> None:
        self._found: list[tuple[str, Stacks]] = []
        self._told: list[Owned] = []
        """Of ranks that the text itself names."""
        self._worded: list[Owned] = []
        """Of ranks that stand above processes of py-spy."""
        self._titled: dict[tuple[str, int], int] = {}
        """By file and pid, ranks by the titles of processes."""

    def add_json(self, name: str, data: bytes) -> None:
        """Read what py-spy prints as JSON. Raises UnreadableDump."""
        stacks = parse_pyspy_json(data, native=False, paused=True)
        native = any(frame.native for frame in stacks.frames)
        self._found.append((name, stacks.model_copy(update={"native": native})))

    def cut_out(self, name: str, data: bytes) -> tuple[bytes, tuple[str, ...]]:
        """Take the stacks that a text holds; return the rest, and what printed them. Raises UnreadableDump."""
        text = data.decode("utf-8", "replace")
        if is_grouped(text):
            for group in parse_grouped_stacks(text):
                self._told += [Owned(name, group.stacks, rank) for rank in group.ranks or (None,)]
            return b"", (_GROUPED,)
        if not may_hold_stacks(data):
            return data, ()
        parts, beside = parts_of(text)
        for part in parts:
            if part.rank is None or part.sure:  # each in a name of its own, which tells the rank
                at = name if part.rank is None else f"{name}!rank_{part.rank}"
                self._found.append((at, part.stacks))
            else:
                self._worded.append(Owned(f"{name}!rank_{part.rank}", part.stacks, part.rank))
        self._titled.update({(name, pid): rank for pid, rank in ranks_by_title(text).items()})
        rest = "\n".join(beside).encode() if parts else data
        return rest if rest.strip() else b"", tuple(dict.fromkeys(part.tool.value for part in parts))

    def owned(self, by_pid: Mapping[int, int]) -> Iterator[Owned]:
        """Yield all stacks; `by_pid`: the processes that snapshots know."""
        yield from self._told
        often = Counter(each.rank for each in self._worded)  # of several nodes, local ranks may be meant
        for each in self._worded:
            yield each if often[each.rank] == 1 else each._replace(rank=by_pid.get(each.stacks.pid or 0))
        of_files = Counter(name for name, _ in self._found)
        titled = self._titled if len(set(self._titled.values())) == len(self._titled) else {}  # else of several servers
        for name, stacks in self._found:
            alone = of_files[name] == 1  # the number of a file with several processes is the rank of none of them
            rank = rank_of_stacks(name, stacks, by_pid) if alone else by_pid.get(stacks.pid or 0)
            yield Owned(name, stacks, titled.get((name, stacks.pid or 0), rank))
