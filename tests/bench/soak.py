"""`python -m tests.bench.soak --hours 500`: healthy simulated jobs under the real detector and judge, then hung ones.

Prints each false alarm and each hung job that was not found, and exits with their number, 100 at most.
"""

import argparse
import sys
import time
from itertools import count

from tests.build.jobs.soaked import draw_paused, hung, watch
from tests.build.simulation.scenario import draw

_LATER_SECONDS = 600.0


def soak(hours: float, *, first: int) -> int:
    """Let healthy jobs run for so many hours of their own time; return how many alarms were false."""
    soaked, asked, false, begun = 0.0, 0, 0, time.monotonic()
    for seed in count(first):
        if soaked >= hours:
            break
        job = draw_paused(seed)
        outcome = watch(job, until=job.seconds + 60.0)
        soaked += job.seconds / 3600
        asked += outcome.asked
        false += len(outcome.alarms)
        for at, alarm, _ in outcome.alarms:
            print(f"false alarm: seed {seed} ({job.watched.layout.name}) at {at:.0f} s: {alarm.incident.headline}")
    took = time.monotonic() - begun
    print(f"{soaked:.1f} hours of healthy jobs: looked {asked} times, {false} false alarms, {took:.0f} s")
    return false


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
    parser.add_argument("--first", type=int, default=0, help="The first seed.")
    chosen = parser.parse_args()
    wrong = soak(chosen.hours, first=chosen.first) + find(chosen.hung, first=chosen.first)
    sys.exit(min(wrong, 100))


if __name__ == "__main__":
    main()
