"""Does an alarm come before the watchdog ends a job, and what is said once it is over?

`python -m tests.lab --alarms N [SCENARIO ...]` makes N hangs, one after the other: each scenario beside an agent and a
collector with their defaults, then each beside `unhang watch`, and again from the first; with `--watch` beside that
alone. Operations time out after a minute. The alarm is right where it names whom the program's TRUTH names while every
rank still lives. Where there is a collector, three are asked afterwards, each for itself: the dumps that the watchdog
left, the ranks' logs, and the collector, which remembers the job.
"""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import httpx

from deploy.lab.environment import Environment
from shared.rank_sets import fold
from tests.bench.alarms import serving
from tests.lab.forks import Forks
from tests.lab.scenarios import Scenario
from tests.system.live.asking import NoAnswer, diagnose, unhang
from tests.system.live.jobs import Job, JobFailed
from tests.system.live.truths import Json, Truth, named

WATCHED = (
    "asleep_before_collective wrong_op wrong_size_smaller recv_ring pair_barrier_skipped batch_p2p_missing_partner "
    "crossed_groups stopped_rank split_group_skipped ddp_step_skipped rank_conditional_collective runs_ahead "
    "pipeline_stage_never_sends broadcast_receivers_only coalesced_gathers lazy_group_late fsdp_step_skipped "
    "tensor_parallel_branch batch_without_one_receive second_life"
).split()
"""Where no scenario is chosen."""
TIMEOUT_SECONDS = 60
_ENDS_SECONDS = 150.0
"""Until a watchdog has ended its ranks: it may wait for a dump, and on a busy machine everything waits."""
_LEAVES_SECONDS = 45.0
"""Between the first and the last."""
_COLUMNS = "{:32} {:10} {:>6} {:>6} {:20} {:16} {:8} {:10} {:10} {:10}"
HEADS = ("scenario", "asked", "alarm", "end", "kind", "culprit", "kept", "dumps", "logs", "remembered")


class Alarm(NamedTuple):
    """What was told, and how long after the job had reached its last place."""

    seconds: float
    incident: Json


Told = Callable[[], Json | None]
"""Returns the incident of the job, once there is one."""


def run(
    scenarios: Sequence[Scenario], environment: Environment, forks: Forks, hangs: int, *, watch: bool = False
) -> int:
    """Make so many hangs, print a row for each; return how many alarms were late, wrong or not kept."""
    missed = 0
    asks = (_watch,) if watch else (_collector, _watch)
    print(_COLUMNS.format(*HEADS), flush=True)
    for scenario, ask in islice(cycle((one, ask) for ask in asks for one in scenarios), hangs):
        with TemporaryDirectory() as folder:
            missed += not _row(scenario, environment, forks, Path(folder), ask)
    print(f"\n{hangs - missed} of {hangs} alarms were in time, right, and kept where something keeps them", flush=True)
    return missed


def _row(scenario: Scenario, environment: Environment, forks: Forks, folder: Path, ask: Any) -> bool:
    truth = scenario.truth
    more = {
        "UNHANG_TEST_TIMEOUT": str(TIMEOUT_SECONDS),
        "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC": "2000",  # it waits four times as long for dumps, by default a minute
        **dict.fromkeys(("TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "TORCH_FR_DUMP_TEMP_FILE"), f"{folder}/dumps/rank_"),
        **scenario.more,
    }
    (folder / "dumps").mkdir()
    try:
        with ask(folder) as asked, scenario.with_more(more).job(environment, folder, forks) as job:
            begun = time.monotonic()
            if os.environ.get("LAB_SHOWS"):
                print(f"    {begun:.1f} ready", flush=True)
            alarm = _first(lambda: asked.incident(job), job, begun)
            bundle = alarm is not None and asked.bundle(alarm.incident)
            kept_after = time.monotonic() - begun
            ended = _ended(job, begun) if asked.url else None
            kept = _judged(truth, "--from", str(bundle)) if bundle else "-"
            left = _what_is_left(folder, job, asked) if asked.url else [()] * 3
            after = [_judged(truth, *found) for found in left]
            if os.environ.get("LAB_KEEPS"):
                for what in ("logs", "dumps", "state") if asked.url else ():
                    kept_in = Path(os.environ["LAB_KEEPS"], f"{scenario.name}-{ask.__name__}", what)
                    shutil.copytree(folder / what, kept_in, dirs_exist_ok=True)
    except JobFailed as error:
        print(_COLUMNS.format(scenario.name, ask.__name__[1:], *"-" * 8), str(error)[-300:], flush=True)
        return False
    told = _told(alarm, truth)
    seconds = "none" if alarm is None else f"{kept_after:.0f}"
    end = "-" if ended is None else f"{ended:.0f}"
    print(_COLUMNS.format(scenario.name, ask.__name__[1:], seconds, end, *told, kept, *after), flush=True)
    return alarm is not None and kept_after < TIMEOUT_SECONDS and told[1].startswith("right") and kept in ("right", "-")


def _first(incident: Told, job: Job, begun: float) -> Alarm | None:
    """Wait for the alarm as long as all ranks live; None: one has ended before it."""
    while len(job.processes()) >= len(job.ranks):
        if (found := incident()) is not None:
            return Alarm(time.monotonic() - begun, found)
        if time.monotonic() > begun + _ENDS_SECONDS:
            return None
        time.sleep(0.2)
    return None


def _ended(job: Job, begun: float) -> float | None:
    """Wait until the watchdog has ended its ranks; return when the first ended, None: all live."""
    first = None
    while time.monotonic() < begun + _ENDS_SECONDS:
        left = len(job.processes())
        if first is None and left < len(job.ranks):
            first = time.monotonic() - begun
        if left == 0 or (first is not None and time.monotonic() - begun > first + _LEAVES_SECONDS):
            break
        time.sleep(0.2)
    return first


def _told(alarm: Alarm | None, truth: Truth) -> tuple[str, str]:
    if alarm is None:
        return "-", "-"
    culprits = {each["rank"] for each in alarm.incident["culprits"]}
    word = "right" if culprits == truth.culprits else "silent" if not culprits else "wrong"
    return alarm.incident["kind"], f"{word} [{fold(culprits)}]"


def _what_is_left(folder: Path, job: Job, asked: Any) -> Iterator[tuple[str, ...]]:
    """Yield what `unhang diagnose` is to be given, to look at each thing that is left."""
    logs = folder / "logs"
    logs.mkdir()
    for file in folder.glob("output-*"):
        (logs / f"rank_{file.name.rpartition('-')[2]}.log").write_bytes(file.read_bytes())
    yield ("--from", str(folder / "dumps")) if any((folder / "dumps").iterdir()) else ()
    yield "--from", str(logs)
    yield job.name, "--collector", asked.url


def _judged(truth: Truth, *arguments: str) -> str:
    """Ask, and say whether the same ranks are named."""
    if not arguments:
        return "-"
    try:
        answer = diagnose(*arguments, directory=Path.cwd(), patience=None).answer
    except NoAnswer:
        return "no answer"
    if os.environ.get("LAB_SHOWS"):
        evidence = [one["text"] for finding in answer["findings"] for one in finding["evidence"]]
        print(*arguments, answer["headline"], *evidence, sep="\n  ", flush=True)
    found = named(answer)
    return "right" if found == truth.culprits else "silent" if not found else f"[{fold(found)}]"


class _Watching:
    """`unhang watch`, which prints incidents and keeps nothing."""

    url = ""

    def __init__(self, printed: Path) -> None:
        self._printed = printed
        self._told = 0

    def incident(self, job: Job) -> Json | None:
        said = self._printed.with_name("said").read_text()
        if os.environ.get("LAB_SHOWS") and len(said) > self._told:
            print(f"    {time.monotonic():.1f} {said[self._told :].strip()}", flush=True)
            self._told = len(said)
        for line in self._printed.read_text().splitlines():
            event = json.loads(line)
            if event["kind"] == "opened" and event["incident"]["job"] == job.name:
                incident: Json = event["incident"]
                return incident
        return None

    def bundle(self, incident: Json) -> None:
        return None


class _Collected:
    """A collector, which keeps a bundle of each diagnosis that raised an alarm."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self._folder = folder

    def incident(self, job: Job) -> Json | None:
        found = httpx.get(f"{self.url}/v1/incidents", timeout=30.0).json()["incidents"]
        return next((each for each in found if each["job"] == job.name), None)

    def bundle(self, incident: Json) -> Path:
        """Fetch the bundle of the diagnosis that raised the alarm."""
        reply = httpx.get(f"{self.url}/v1/diagnoses/{incident['diagnoses'][-1]}/bundle", timeout=60.0)
        reply.raise_for_status()
        bundle = self._folder / "bundle.tar.gz"
        bundle.write_bytes(reply.content)
        return bundle


@contextmanager
def _watch(folder: Path) -> Iterator[_Watching]:
    printed = folder / "events"
    with printed.open("wb") as out, (folder / "said").open("wb") as said:
        process = subprocess.Popen(unhang("watch", "--json"), cwd=folder, stdout=out, stderr=said)
        try:
            yield _Watching(printed)
        finally:
            process.terminate()
            process.wait(timeout=60.0)


@contextmanager
def _collector(folder: Path) -> Iterator[_Collected]:
    with ExitStack() as stack:
        yield _Collected(stack.enter_context(serving(folder)), folder)
