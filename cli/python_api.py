"""What a Python program can ask: `unhang.read`, `look` and `diagnose`, with the values that the REST API has."""

import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from collector.align.expected import Expected
from collector.files.diagnose_files import expect
from collector.files.read_directory import read_recorded
from collector.gather.judge_and_stamp import judge
from shared.answer.diagnosis import Diagnosis
from shared.answer.files_read import FileRead
from shared.errors import UnhangError
from shared.wire.snapshot import NodeSnapshot

__all__ = ["Diagnosis", "Observed", "UnhangError", "diagnose", "look", "read"]

_COMMAND = (sys.executable, "-P", "-c", "import unhang; unhang.main()", "diagnose", "--json")
_JUDGED = (0, 10, 11, 12)


@dataclass(frozen=True)
class Observed:
    """What was seen of one job: what a diagnosis rests on."""

    snapshots: tuple[NodeSnapshot, ...]
    """Of each node, or each file, one for each time that it was looked at."""
    expected: Expected
    """Which job it is, what is known of its ranks and nodes beforehand, and what could not be read."""
    read: tuple[FileRead, ...] = ()
    """Of files: what each was recognised as."""

    @property
    def job(self) -> str | None:
        """The job's name; None where nothing names it."""
        return self.expected.job


def read(path: str | Path, *, job: str | None = None) -> Observed:
    """Read all below a directory, or an archive or bundle: dumps, stacks, logs, snapshots, RAS reports, mixed.

    `job` chooses one of several. Raises UnhangError where there is nothing, no such job, or several and none is named.
    """
    recorded = read_recorded(Path(path))
    return Observed(recorded.snapshots, expect(recorded, job), recorded.read)


def look(job: str | None = None, *, timeout_seconds: float | None = None) -> Observed:
    """Look at a job on this machine, as often and as long as `unhang diagnose` does: up to a minute and a half.

    A process of its own looks, so that it can be ended with all that it started. Raises UnhangError where there is no
    such job, or several and none is named.
    """
    with tempfile.TemporaryDirectory(prefix="unhang-") as folder:
        options = () if timeout_seconds is None else (f"--timeout={timeout_seconds}",)
        command = (*_COMMAND, *options, f"--save={folder}", *(() if job is None else ("--", job)))
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
        if done.returncode not in _JUDGED:
            said, _, advice = done.stderr.strip().partition("\n")
            raise UnhangError(said.removeprefix("unhang: "), advice=advice.strip())
        (bundle,) = Path(folder).iterdir()
        return read(bundle)


def diagnose(observed: Observed) -> Diagnosis:
    """Judge what was seen, as the command and the collector do; the same is seen, the same is said."""
    diagnosis = judge(observed.snapshots, observed.expected)
    return diagnosis.model_copy(update={"read": observed.read}) if observed.read else diagnosis
