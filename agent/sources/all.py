"""Every way to look at a rank. A new one is a new file and a line in `make_sources`."""

from pathlib import Path

from agent.deadline import ThreadPool
from agent.sources.awaited.awaited_source import AwaitedSource
from agent.sources.fds import FdsSource
from agent.sources.logs.logs_source import LogsSource
from agent.sources.process import ProcessSource
from agent.sources.recorder.memory.locator import RecorderLocator
from agent.sources.recorder.recorder_source import RecorderSource
from agent.sources.setup import SetupSource
from agent.sources.site_sources import WithSiteSources
from agent.sources.source import Metered, Source
from agent.sources.stacks import StacksSource
from agent.tools.memory_budget import Memory


def make_sources(
    py_spy: Path | None,
    pool: ThreadPool,
    memory: Memory,
    *,
    pystack: Path | None = None,
    locator: RecorderLocator | None = None,
) -> tuple[Source, ...]:
    """Return every source, in the order in which a snapshot names them."""
    sources: tuple[Source, ...] = (
        ProcessSource(pool),
        StacksSource(py_spy, pool, memory, fallback=pystack),
        AwaitedSource(),
        FdsSource(),
        WithSiteSources(LogsSource(), pool),
        RecorderSource(memory, locator=locator),
        SetupSource(),
    )
    return tuple(map(Metered, sources))
