"""What all tests share: which may be skipped where, and that none is skipped in silence."""

import gc
import os
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

from agent.proc.procfs import is_initial_namespace
from deploy.lab.environment import environment
from shared import isolation
from tests.needed import skip_without

NO_SKIPS = "UNHANG_NO_SKIPS"
"""Set by CI, which has everything but a GPU, the lab and perhaps a machine of its own: a skipped test fails there."""

# A machine that pauses breaks no property. CI tries the same examples each time, whoever works here tries others.
settings.register_profile(
    "unhang", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=NO_SKIPS in os.environ
)
settings.load_profile("unhang")

TOGETHER = ("tests/system/e2e", "tests/system/packaging", "tests/system/pages")
"""What one worker takes as a whole: a cluster, a wheel or a browser for all its tests."""

_BY_TURNS = len(TOGETHER) + 1
"""Where in their order workers come to what is left: what waits and what computes."""

ONE_BY_ONE = (
    *(f"tests/system/live/test_{name}.py::" for name in ("incidents", "locks", "survey", "verdicts", "watch")),
    "tests/system/preflight/test_live.py::",
    "tests/system/attacks/test_memory.py::",
)
"""What workers take test by test: each takes long, and shares no ranks with others."""

_SEARCH_AFTER = (30_000, 20, 100)
"""Objects after which a worker looks for garbage, instead of 700, and how often among older ones."""

_ADMINISTRATORS = ("/usr/sbin", "/usr/local/sbin", "/sbin")

_PLACES = ("/var/tmp", "/dev/shm")
"""For what tests write, some of which they run, where TMPDIR lets nothing be run."""

_REPOSITORY = Path(__file__).resolve().parents[1]
_YAMA = Path("/proc/sys/kernel/yama/ptrace_scope")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Coroutine tests run on asyncio, as the services do."""
    return "asyncio"


tell_failures = isolation.note


def raised(error: Exception, part: str) -> None:
    """What users are told of, tests are failed by, but for those that are about the telling."""
    raise error


def pytest_configure() -> None:
    """Have programs under test inherit what they would on anybody's machine; parts that fail fail their test."""
    isolation.note = raised
    # Signals that whoever started us ignored (`nohup`, `&` in a script) are heeded.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    # Debian keeps some of the programs that tests call where only root looks.
    os.environ["PATH"] = os.pathsep.join((os.environ.get("PATH", os.defpath), *_ADMINISTRATORS))
    tempfile.tempdir = os.environ["TMPDIR"] = next(filter(_runs_programs, (tempfile.gettempdir(), *_PLACES)))
    # Hundreds of processes of ours start: without compiled files each would take a second longer.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Have no program found while tests are listed, and keep what is made then out of all garbage collections.

    Each would go through what is imported again. The little garbage among it stays with it: to search for that takes a
    third of a second of each worker. Later ones are made rarely, or they would be a tenth of what a worker does.
    """
    gc.disable()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PATH", os.devnull)
            return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(*_SEARCH_AFTER)
        gc.enable()


class Sharing(LoadFileScheduling):
    """Workers take whole files, but some tests one by one, and what shares more than a file's fixtures together."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(ONE_BY_ONE):
            return nodeid
        whole = (folder for folder in TOGETHER if nodeid.startswith(f"{folder}/"))
        return next(whole, super()._split_scope(nodeid))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Sharing:
    """Share the tests so, whatever --dist says."""
    return Sharing(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Have workers begin with what takes longest and cannot be divided. Then what waits and what computes by turns."""
    if not hasattr(config, "workerinput"):
        return
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    turns = [_turn(item, item.path in slow) for item in items]
    all_of, before = Counter(turns), Counter[int]()
    places = {}
    for item, turn in zip(items, turns, strict=True):
        places[item.nodeid] = (min(turn, _BY_TURNS), before[turn] / all_of[turn])
        before[turn] += 1
    items.sort(key=lambda item: places[item.nodeid])


def _turn(item: pytest.Item, in_slow_file: bool) -> int:
    """Folders; files with slow tests; what goes one by one, and other files with real jobs; all the rest."""
    if in_slow_file and not item.nodeid.startswith((*TOGETHER, *ONE_BY_ONE)):
        return len(TOGETHER)
    turns = (turn for turn, folder in enumerate(TOGETHER) if item.nodeid.startswith(f"{folder}/"))
    waits = item.nodeid.startswith(ONE_BY_ONE) or item.get_closest_marker("live") is not None
    return next(turns, _BY_TURNS if waits else _BY_TURNS + 1)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what this machine cannot run, with the reason."""
    if item.get_closest_marker("root") and os.geteuid() != 0:
        pytest.skip("needs root, to become other users")
    if item.get_closest_marker("ptrace") and not _may_trace():
        pytest.skip("needs the right to trace processes: root, or kernel.yama.ptrace_scope=0")
    if item.get_closest_marker("node") and not is_initial_namespace("pid"):
        pytest.skip("needs to see all processes of the machine: in a container it does not")
    if item.get_closest_marker("lab") and not environment().is_there:
        pytest.skip("needs the lab: `make lab` fetches it")
    for needs in item.iter_markers("needs"):
        skip_without(*needs.args)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skip into a failure where everything is there that a test may need."""
    report = yield
    elsewhere = any(item.get_closest_marker(name) is not None for name in ("gpu", "lab", "node"))
    expected = elsewhere or hasattr(report, "wasxfail")
    if report.skipped and not expected and os.environ.get(NO_SKIPS):
        report.outcome = "failed"
        report.longrepr = f"skipped although {NO_SKIPS} is set: {report.longrepr}"
    return report


def _runs_programs(place: str) -> bool:
    return not os.statvfs(place).f_flag & os.ST_NOEXEC


def _may_trace() -> bool:
    if os.geteuid() == 0 or not _YAMA.exists():
        return True
    return _YAMA.read_text(encoding="ascii").strip() == "0"
