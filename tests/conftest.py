"""What all tests share: which may be skipped where, and that none is skipped in silence."""

import os
import signal
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

NO_SKIPS = "UNHANG_NO_SKIPS"
"""Set by CI, which has everything but a GPU: a skipped test fails there."""

# A machine that pauses breaks no property. CI tries the same examples each time, whoever works here tries others.
settings.register_profile(
    "unhang", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=NO_SKIPS in os.environ
)
settings.load_profile("unhang")

_YAMA = Path("/proc/sys/kernel/yama/ptrace_scope")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Coroutine tests run on asyncio, as the services do."""
    return "asyncio"


def pytest_configure() -> None:
    """Heed signals that whoever started us ignored (`nohup`, `&` in a script): programs under test inherit it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


class Sharing(LoadFileScheduling):
    """Workers take whole files, and one of them all tests of the agent, which look for ranks of the same names."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return "tests/agent" if file.startswith("tests/agent/") else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Sharing:
    """Share the tests so, whatever --dist says."""
    return Sharing(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Have workers begin with what takes longest."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: item.get_closest_marker("live") is None)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what this machine cannot run, with the reason."""
    if item.get_closest_marker("root") and os.geteuid() != 0:
        pytest.skip("needs root, to become other users")
    if item.get_closest_marker("ptrace") and not _may_trace():
        pytest.skip("needs the right to trace processes: root, or kernel.yama.ptrace_scope=0")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skip into a failure where everything is there that a test may need."""
    report = yield
    expected = item.get_closest_marker("gpu") is not None or hasattr(report, "wasxfail")
    if report.skipped and not expected and os.environ.get(NO_SKIPS):
        report.outcome = "failed"
        report.longrepr = f"skipped although {NO_SKIPS} is set: {report.longrepr}"
    return report


def _may_trace() -> bool:
    if os.geteuid() == 0 or not _YAMA.exists():
        return True
    return _YAMA.read_text(encoding="ascii").strip() == "0"
