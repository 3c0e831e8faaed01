"""What being looked at costs a job that trains: its steps with looks and without, and what is left behind.

Spells with looks and spells without alternate, in an order that is drawn for each pair, so that whatever else happens
on the machine happens to both. The difference is taken pair by pair. UNHANG_BENCH_LOOKS says how many looks (1,000).
"""

import os
import random
import tempfile
import time
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

import httpx
import psutil
from prometheus_client.parser import text_string_to_metric_families

from tests.bench.jobs import a_job, an_agent

RANKS = 2
JOB = f"overhead-{os.getpid()}"
LOOKS = int(os.environ.get("UNHANG_BENCH_LOOKS", "1000"))
LOOKS_OF_A_SPELL = 10
SECONDS_BETWEEN = 0.5
"""From one look to the next: six times as often as a diagnosis looks."""

_DRAWS = 2000


class Steps(NamedTuple):
    """The steps of one rank: when each ended, and how long it took, in nanoseconds."""

    ended: list[int]
    took: list[int]

    def within(self, begun_ns: int, ended_ns: int) -> list[float]:
        """Return the milliseconds of those that ended in this time."""
        return [took / 1e6 for at, took in zip(*self, strict=True) if begun_ns <= at <= ended_ns]


class Spell(NamedTuple):
    """Some seconds in which the job was looked at, or was not."""

    looked: bool
    begun_ns: int
    ended_ns: int
    looks: tuple[tuple[int, int], ...]
    grown_bytes: int
    """Memory of the job, from the begin of the spell to its end: recorders fill up without any look too."""


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


def measure() -> dict[str, str]:
    """Run the benchmark and return its rows: what -> figure."""
    with (
        tempfile.TemporaryDirectory() as name,
        a_job("stepping.py", Path(name), name=JOB, ranks=RANKS),
        an_agent() as (url, agent),
        httpx.Client(base_url=url, timeout=30.0) as client,
    ):
        ranks = [psutil.Process(pid) for pid in _pids(client)]
        pairs = max(2, LOOKS // LOOKS_OF_A_SPELL)
        _pair(client, ranks)
        warm = pairs // 10
        spells = [spell for _ in range(warm) for spell in _pair(client, ranks)]
        before = Held.of([agent]), Held.of(ranks)
        spells += [spell for _ in range(pairs - warm) for spell in _pair(client, ranks)]
        time.sleep(3.0)
        after = Held.of([agent]), Held.of(ranks)
        steps = [_steps(Path(name) / str(rank)) for rank in range(RANKS)]
        return {
            **_step_rows(spells, steps),
            **_source_rows(client),
            **_left_rows("agent", before[0], after[0]),
            **_left_rows("job", before[1], after[1]),
            **_memory_row(spells),
        }


def _pids(client: httpx.Client) -> list[int]:
    ranks = client.get("/v1/ranks").json()["ranks"]
    pids = [rank["pid"] for rank in ranks if rank["job"] == JOB]
    assert len(pids) == RANKS, ranks
    return pids


def _pair(client: httpx.Client, ranks: Sequence[psutil.Process]) -> list[Spell]:
    order = random.sample((True, False), 2)
    return [_spell(client, ranks, looked) for looked in order]


def _spell(client: httpx.Client, ranks: Sequence[psutil.Process], looked: bool) -> Spell:
    looks = []
    held = Held.of(ranks).rss
    begun = time.monotonic_ns()
    for number in range(LOOKS_OF_A_SPELL):
        if looked:
            asked = time.monotonic_ns()
            answer = client.get("/v1/snapshot", params={"job": JOB})
            assert len(answer.json()["ranks"]) == RANKS, answer.text[:200]
            looks.append((asked, time.monotonic_ns()))
        due = begun + (number + 1) * SECONDS_BETWEEN * 1e9
        time.sleep(max(0.0, (due - time.monotonic_ns()) / 1e9))
    return Spell(looked, begun, time.monotonic_ns(), tuple(looks), Held.of(ranks).rss - held)


def _memory_row(spells: Sequence[Spell]) -> dict[str, str]:
    """Tell what the looks make the job's memory grow from what it grows by itself."""
    late = spells[len(spells) // 2 :]
    grown = {kind: [s.grown_bytes / 1024 for s in late if s.looked is kind] for kind in (True, False)}
    figure = ", ".join(f"{sum(each) / len(each):+.0f} KiB" for each in (grown[False], grown[True]))
    return {f"job, memory in the later half, per {LOOKS_OF_A_SPELL * SECONDS_BETWEEN:g} s: without looks, with": figure}


def _steps(path: Path) -> Steps:
    lines = (line.split() for line in path.read_text().splitlines())
    rows = [(int(line[0]), int(line[1])) for line in lines if len(line) == 2]
    return Steps([at for at, _ in rows], [took for _, took in rows])


def _step_rows(spells: Sequence[Spell], steps: Sequence[Steps]) -> dict[str, str]:
    """Compare: ranks wait for each other in every step, so one rank's steps stand for all."""
    first = steps[0]
    with_looks = [first.within(spell.begun_ns, spell.ended_ns) for spell in spells if spell.looked]
    without = [first.within(spell.begun_ns, spell.ended_ns) for spell in spells if not spell.looked]
    rows = {"looks at a job that trains": f"{sum(len(spell.looks) for spell in spells)}, {SECONDS_BETWEEN} s apart"}
    for what, share in (("median", 50), ("95th percentile", 95), ("99th percentile", 99)):
        looked, quiet = (_percentile(list(chain(*each)), share) for each in (with_looks, without))
        rows[f"step, {what}: without looks, with looks"] = f"{quiet:.2f} ms, {looked:.2f} ms"
    medians = [100 * (median(a) / median(b) - 1) for a, b in zip(with_looks, without, strict=True)]
    means = [100 * (sum(a) / len(a) / (sum(b) / len(b)) - 1) for a, b in zip(with_looks, without, strict=True)]
    rows["change of a spell's median step, pair by pair"] = _interval(medians)
    rows["change of a spell's mean step, pair by pair"] = _interval(means)
    during = [took for spell in spells for look in spell.looks for took in first.within(*look)]
    rows["step that ended during a look, median"] = f"{median(during):.2f} ms"
    return rows


def _interval(changes: Sequence[float]) -> str:
    """Return the mean change with its 95 % interval, drawn by bootstrap."""
    draws = random.Random(7)
    means = sorted(sum(draws.choices(changes, k=len(changes))) / len(changes) for _ in range(_DRAWS))
    low, high = means[int(0.025 * _DRAWS)], means[int(0.975 * _DRAWS)]
    return f"{sum(changes) / len(changes):+.2f} % (95 %: {low:+.2f} to {high:+.2f} %)"


def _percentile(values: Sequence[float], share: int) -> float:
    return quantiles(values, n=100)[share - 1]


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
    return {f"{whose}, more after nine tenths of the looks": f"{grown}, {memory}"}
