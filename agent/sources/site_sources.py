"""Sources of a site: what its packages know of a rank, as lines beside those of the rank's own logs.

A function of the entry point group `unhang.sources` is called with the rank's `Identity` and returns lines of text.
They are shown with the logs, without secrets, and rules of the site say what they mean (docs/plugins.md).
"""

import time
from collections.abc import Iterator
from functools import partial
from itertools import islice

from agent.deadline import Deadline, ThreadPool
from agent.errors import missing_for
from agent.find.choose_ranks import Rank
from agent.sources.look_context import LookContext
from agent.sources.source import Answer, LookDepth, Source
from shared.errors import UnhangError
from shared.formats.logs.parse import clean_line, find_events
from shared.plugins import SOURCES, Plugin, plugins
from shared.redaction.redact import redact, redact_lines
from shared.wire.log_events import LogEvent, LogFile, Logs
from shared.wire.snapshot import Identity

_MOST_LINES = 200
_LONGEST_LINE = 2000
_SPARE_SECONDS = 0.2


class WithSiteSources:
    """The source `logs`, and what a site's own sources say."""

    def __init__(self, logs: Source, pool: ThreadPool) -> None:
        self._logs = logs
        self._pool = pool
        self.name = logs.name

    def look(self, rank: Rank, context: LookContext, question: LookDepth, deadline: Deadline) -> Answer:
        """Look as the source of logs does; what that cannot read, others may still know."""
        found: object = Logs()
        trouble: UnhangError | None = None
        try:
            found = self._logs.look(rank, context, question, deadline)["logs"]
        except UnhangError as error:
            trouble = error
        said = () if question.brief else tuple(self._ask(rank, deadline))
        if trouble is not None and not said:
            raise trouble
        assert isinstance(found, Logs)
        files, events = tuple(each for each, _ in said), tuple(event for _, each in said for event in each)
        return {"logs": found.model_copy(update={"files": found.files + files, "events": found.events + events})}

    def _ask(self, rank: Rank, deadline: Deadline) -> Iterator[tuple[LogFile, tuple[LogEvent, ...]]]:
        """Ask each of them in a thread of its own: one that fails or is late says so in its lines."""
        usable = plugins(SOURCES).usable
        asked = {name: partial(_lines, each, rank.identity) for name, each in usable.items()}
        outcomes = self._pool.run(asked, deadline.sooner(_SPARE_SECONDS), owner=("plugins", rank.key))
        for name, outcome in outcomes.items():
            path = f"{SOURCES}: {name}"
            if isinstance(outcome, Exception):
                trouble = f"failed: {missing_for(name, outcome).detail or type(outcome).__name__}"
                yield LogFile(path=path, lines=(redact(trouble)[:_LONGEST_LINE],)), ()
            elif outcome:
                lines = tuple(redact_lines(outcome, most=_MOST_LINES))
                events = find_events(outcome, path=path, rank=rank.identity.rank, written_at=time.time())
                yield LogFile(path=path, size_bytes=sum(map(len, outcome)), lines=lines), tuple(events)


def _lines(plugin: Plugin, identity: Identity) -> list[str]:
    """Return what it says. Raises whatever it raises."""
    said = plugin.call(identity)
    if isinstance(said, str | bytes):
        raise TypeError("it returned text, not lines")
    return [clean_line(str(line))[:_LONGEST_LINE] for line in islice(said, _MOST_LINES)]
