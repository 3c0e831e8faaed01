"""One sleeping job for all tests that look at one."""

from collections.abc import Iterator

import pytest

from tests.build.processes.commands import FIRST, SECOND, Job, sleeping_job


@pytest.fixture(scope="session")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    """Two processes that sleep as ranks of a job with a name that tries to steer a terminal."""
    log = tmp_path_factory.mktemp("job") / "rank.log"
    log.write_text("epoch 1\nepoch \x1b[2J2\nRuntimeError: CUDA error\n", encoding="utf-8")
    with sleeping_job("cli \x1b[31m;$(reboot)", (FIRST, SECOND), log=log) as running:
        yield running
