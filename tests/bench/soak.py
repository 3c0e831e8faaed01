"""`python -m tests.bench.soak --hours 500`: healthy simulated jobs under the real detector and judge, then hung and
killed ones. Every fourth job is restarted, and what was learnt of it is kept.

Prints each false alarm and each hung job that was not found, and exits with their number, 100 at most.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from itertools import count

from collector.detect.detector import Detector
from tests.build.jobs.soaked import Outcome, Soaked, draw_paused, hung, killed, watch
from tests.build.simulation.scenario import draw

_LATER_SECONDS = 600.0
_RESTARTED = 4


def soak(hours: float, *, first: int) -> int:
    """Let healthy jobs run for so many hours of their own time; return how many alarms were false."""
    soaked, asked, false, begun = 0.0, 0, 0, time.monotonic()
    for seed in count(first):
        if soaked >= hours:
            break
        for job, outcome in _attempts(seed):
            soaked += job.seconds / 3600
            asked += outcome.asked
            false += len(outcome.alarms)
            for at, alarm, _ in outcome.alarms:
                print(f"false alarm: seed {seed} ({job.watched.layout.name}) at {at:.0f} s: {alarm.incident.headline}")
    took = time.monotonic() - begun
    print(f"{soaked:.1f} hours of healthy jobs: looked {asked} times, {false} false alarms, {took:.0f} s")
    return false


def _attempts(seed: int) -> Iterator[tuple[Soaked, Outcome]]:
    """A job, and what comes of it; and so for a restart of it, under the same detector."""
    detector, begin = Detector(), 0.0
    for attempt in range(2 if seed % _RESTARTED == 0 else 1):
        job = draw_paused(seed, attempt=attempt)
        yield job, watch(job, until=job.seconds + 60.0, detector=detector, begin=begin)
        begin += job.seconds + 60.0


def find_killed(jobs: int, *, first: int) -> int:
    """Return how many of so many killed jobs are no incident, or one that does not say what each rank did last."""
    missed = 0
    for seed in range(first, first + jobs):
        job = killed(seed)
        alarms = watch(job, until=job.seconds + 60.0).alarms
        if len(alarms) != 1 or "when last seen" not in alarms[0][1].incident.headline or alarms[0][1].incident.culprits:
            missed += 1
            told = [alarm.incident.headline for _, alarm, _ in alarms]
            print(f"killed and not told once: seed {seed} at {job.seconds:.0f} s: {told}")
    print(f"{jobs} killed jobs: {missed} not told")
    return missed


def find(jobs: int, *, first: int) -> int:
    """Return how many of so many hung jobs were not found."""
    missed, delays = 0, []
    for seed in range(first, first + jobs):
        scenario = draw(seed)
        job = hung(scenario)
        outcome = watch(job, until=job.seconds + _LATER_SECONDS)
        if outcome.alarms:
            delays.append(outcome.alarms[0][0] - job.seconds)
        else:
            missed += 1
            print(f"not found: {scenario}")
    delays.sort()
    if delays:
        middle, late = delays[len(delays) // 2], delays[int(0.95 * (len(delays) - 1))]
        print(f"{jobs} hung jobs: {missed} not found; alarm after {middle:.0f} s (p50), {late:.0f} s (p95)")
    return missed


def main() -> None:
    """Soak, and find."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, default=500.0)
    parser.add_argument("--hung", type=int, default=200)
    parser.add_argument("--killed", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="The first seed.")
    chosen = parser.parse_args()
    wrong = soak(chosen.hours, first=chosen.first) + find(chosen.hung, first=chosen.first)
    wrong += find_killed(chosen.killed, first=chosen.first)
    sys.exit(min(wrong, 100))


if __name__ == "__main__":
    main()
