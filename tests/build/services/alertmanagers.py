"""Alertmanager itself, on loopback, which tells a server of ours what it would tell people."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.build.processes.ports import free_port
from tests.build.processes.waiting import until_it_answers
from tests.needed import skip_without

PROGRAM = "prometheus-alertmanager"

_CONFIGURATION = """
route: {{receiver: hook, group_by: ['...'], group_wait: 0s, group_interval: 1s, repeat_interval: 24h}}
receivers: [{{name: hook, webhook_configs: [{{url: '{hook}', send_resolved: true}}]}}]
"""


class Alertmanager:
    """Where it listens, and what it knows."""

    def __init__(self, url: str) -> None:
        self.url = url

    def alerts(self) -> list[dict[str, Any]]:
        """Return the alerts that are firing."""
        answer = httpx.get(f"{self.url}/api/v2/alerts", verify=False, trust_env=False)
        found: list[dict[str, Any]] = answer.raise_for_status().json()
        return found


@contextmanager
def running_alertmanager(folder: Path, hook: str) -> Iterator[Alertmanager]:
    """Run one that posts to `hook` what it would tell people. Skips where it is not installed."""
    skip_without(PROGRAM)
    configuration = folder / "alertmanager.yml"
    configuration.write_text(_CONFIGURATION.format(hook=hook))
    listen = f"127.0.0.1:{free_port()}"
    command = [
        PROGRAM,
        f"--config.file={configuration}",
        f"--storage.path={folder / 'alertmanager'}",
        f"--web.listen-address={listen}",
        "--cluster.listen-address=",
    ]
    with (folder / "alertmanager.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        until_it_answers(f"http://{listen}/-/ready")
        yield Alertmanager(f"http://{listen}")
    finally:
        process.kill()
        process.wait()
