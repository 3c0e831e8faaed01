"""What looks cost a training job: its steps with looks and without, and what is left behind.

Two parts. With a spare processor: the ranks have one processor, and all that looks do has the other, so that only
what a look does to a rank itself shows. Without: the ranks keep both processors busy, and looks take what they need
from them. Periods with and without looks alternate, in random order within each pair, so that whatever else happens on
the machine affects both. UNHANG_BENCH_LOOKS sets the number of looks of the first part (1,000); the second has a fifth.
"""

import os
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import httpx
import psutil
from prometheus_client.parser import text_string_to_metric_families

from tests.bench.jobs import a_job, an_agent
from tests.bench.steps import Spell, compare, pairs_of, read_steps

RANKS = 2
LOOKS = int(os.environ.get("UNHANG_BENCH_LOOKS", "1000"))
LOOKS_OF_A_SPELL = 10


class Part(NamedTuple):
    """One way to share the machine between the job and who looks at it."""

    name: str
    looks: int
    seconds_between: float
    """From the begin of one look to that of the next, or for as long as one takes: a diagnosis has three seconds."""
    spares_processor: bool

    @property
    def job(self) -> str:
        """The name of the job."""
        return f"overhead-{os.getpid()}-{self.spares_processor:d}"


PARTS = (
    Part("spare processor", LOOKS, 0.2, True),
    Part("no spare processor", LOOKS // 5, 0.3, False),
)


class Held(NamedTuple):
    """What processes hold: descriptors, threads, child processes, and bytes of memory."""

    fds: int
    threads: int
    children: int
    rss: int

    @classmethod
    def of(cls, processes: Sequence[psutil.Process]) -> "Held":
        """Count."""
        return cls(
            sum(process.num_fds() for process in processes),
            sum(process.num_threads() for process in processes),
            sum(len(process.children(recursive=True)) for process in processes),
            sum(process.memory_info().rss for process in processes),
        )

    @classmethod
    def for_good(cls, processes: Sequence[psutil.Process]) -> "Held":
        """Count what is held at every one of several moments: an agent opens files whenever it takes its beat."""
        moments = []
        for _ in range(20):
            time.sleep(0.15)
            moments.append(cls.of(processes))
        return cls(*map(min, zip(*moments, strict=True)))


def measure() -> dict[str, str]:
    """Run the benchmark and return its rows: what -> figure."""
    return {f"{part.name}: {what}": figure for part in PARTS for what, figure in _measure(part).items()}


def _measure(part: Part) -> dict[str, str]:
    with (
        tempfile.TemporaryDirectory() as name,
        _shared_out(part) as variables,
        a_job("stepping.py", Path(name), name=part.job, ranks=RANKS, variables=variables),
        an_agent() as (url, agent),
        httpx.Client(base_url=url, timeout=30.0) as client,
    ):
        ranks = [psutil.Process(pid) for pid in _pids(client, part)]
        pairs = max(10, part.looks // LOOKS_OF_A_SPELL)
        _pair(client, ranks, part)
        warm = pairs // 10
        spells = [spell for _ in range(warm) for spell in _pair(client, ranks, part)]
        before = Held.for_good([agent]), Held.for_good(ranks)
        spells += [spell for _ in range(pairs - warm) for spell in _pair(client, ranks, part)]
        after = Held.for_good([agent]), Held.for_good(ranks)
        steps = read_steps(Path(name) / "0")  # ranks wait for each other in every step: one rank's stand for all
        return {
            **_look_rows(spells, part),
            **compare(pairs_of(spells, steps)),
            **_source_rows(client),
            **_left_rows("agent", before[0], after[0]),
            **_left_rows("job", before[1], after[1]),
            **_memory_row(spells),
        }


@contextmanager
def _shared_out(part: Part) -> Iterator[dict[str, str]]:
    """Keep ourselves and all that we start off one processor, where one is spared; gives what sends the ranks there."""
    if not part.spares_processor:
        yield {}
        return
    all_of_them = os.sched_getaffinity(0)
    job, *rest = sorted(all_of_them)
    os.sched_setaffinity(0, rest)
    try:
        yield {"STEPPING_PROCESSOR": str(job)}
    finally:
        os.sched_setaffinity(0, all_of_them)


def _pids(client: httpx.Client, part: Part) -> list[int]:
    ranks = client.get("/v1/ranks").json()["ranks"]
    pids = [rank["pid"] for rank in ranks if rank["job"] == part.job]
    assert len(pids) == RANKS, ranks
    return pids


def _pair(client: httpx.Client, ranks: Sequence[psutil.Process], part: Part) -> list[Spell]:
    order = random.sample((True, False), 2)
    return [_spell(client, ranks, part, looked) for looked in order]


def _spell(client: httpx.Client, ranks: Sequence[psutil.Process], part: Part, looked: bool) -> Spell:
    looks = []
    held = Held.of(ranks).rss
    begun = time.monotonic_ns()
    for number in range(LOOKS_OF_A_SPELL):
        if looked:
            asked = time.monotonic_ns()
            answer = client.get("/v1/snapshot", params={"job": part.job})
            looks.append((asked, time.monotonic_ns()))
            seen = answer.json()["ranks"]
            assert len(seen) == RANKS and not any(map(_left_out, seen)), list(map(_left_out, seen))
        due = begun + (number + 1) * part.seconds_between * 1e9
        time.sleep(max(0.0, (due - time.monotonic_ns()) / 1e9))
    return Spell(looked, begun, time.monotonic_ns(), tuple(looks), Held.of(ranks).rss - held)


def _left_out(rank: dict[str, Any]) -> list[object]:
    """Return what is missing of all that looks come for: one that leaves something out is cheap."""
    return [rank[source] for source in ("process", "stacks", "fds", "recorder", "setup") if "reason" in rank[source]]


def _look_rows(spells: Sequence[Spell], part: Part) -> dict[str, str]:
    took = [(ended - begun) / 1e6 for spell in spells for begun, ended in spell.looks]
    return {
        "looks at a job that trains": f"{len(took)}, {part.seconds_between} s apart",
        "one look at both ranks: median, longest": f"{median(took):.0f} ms, {max(took):.0f} ms",
    }


def _memory_row(spells: Sequence[Spell]) -> dict[str, str]:
    """Separate the growth of the job's memory that looks cause from its own."""
    late = spells[len(spells) // 2 :]
    grown = {kind: [s.grown_bytes / 1024 for s in late if s.looked is kind] for kind in (True, False)}
    figure = ", ".join(f"{sum(each):+.0f} KiB" for each in (grown[False], grown[True]))
    return {"job, memory growth in the second half: in periods without looks, with looks": figure}


def _source_rows(client: httpx.Client) -> dict[str, str]:
    """Return the mean time of each source for one rank, as the agent itself counts it."""
    totals: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(client.get("/metrics").text):
        for sample in family.samples:
            if sample.name.startswith("unhang_agent_source_seconds_") and "source" in sample.labels:
                totals.setdefault(sample.labels["source"], {})[sample.name.rpartition("_")[2]] = sample.value
    return {
        f"time of `{source}` for one rank, mean": f"{1000 * each['sum'] / each['count']:.1f} ms"
        for source, each in sorted(totals.items())
        if each.get("count")
    }


def _left_rows(whose: str, before: Held, after: Held) -> dict[str, str]:
    """Say what has grown from the first tenth of the looks to the end."""
    grown = ", ".join(f"{getattr(after, name) - getattr(before, name):+d} {name}" for name in Held._fields[:3])
    memory = f"{(after.rss - before.rss) / 1024:+.0f} KiB of {after.rss / 2**20:.0f} MiB"
    return {f"{whose}, growth over the last nine tenths of the looks": f"{grown}, {memory}"}
