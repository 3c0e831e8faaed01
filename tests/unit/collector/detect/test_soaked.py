"""The real detector and the real judge on simulated jobs: healthy ones raise no alarm, and each fault raises one.

A few of each, the same each time; `tests/bench/soak.py` lets them run for hundreds of hours.
"""

import pytest

from tests.build.jobs.soaked import draw_paused, hung, killed, watch
from tests.build.simulation.faults import FAULTS
from tests.build.simulation.scenario import draw

_LATER_SECONDS = 600.0
"""What looks like a phase of a healthy job is held back for minutes."""


@pytest.mark.parametrize("seed", [63, 124, 126, 473, 560, 637, 53_889, 57_612])
def test_healthy_job_that_pauses_for_minutes_raises_no_alarm(seed: int) -> None:
    """Checkpoints, evaluations, compilations, storage, nodes that pause, a first use: each raised one."""
    job = draw_paused(seed)
    outcome = watch(job, until=job.seconds + 60.0)
    assert outcome.asked and not outcome.alarms, [alarm.incident.headline for _, alarm, _ in outcome.alarms]


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_job_that_hangs_raises_one(fault: str) -> None:
    """Once, and it accuses nobody who is innocent."""
    scenario = draw(7, faults=[fault])
    job = hung(scenario)
    outcome = watch(job, until=job.seconds + _LATER_SECONDS)
    assert len(outcome.alarms) == 1, str(scenario)
    named = {culprit.rank for culprit in outcome.alarms[0][1].incident.culprits}
    assert named <= scenario.injected.culprits | scenario.truth.allowed, str(scenario)


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_job_that_is_killed_says_what_its_ranks_did_last(seed: int) -> None:
    """At any moment of a healthy job's life: in one incident, that accuses nobody."""
    job = killed(seed)
    ((_, alarm, diagnosis),) = watch(job, until=job.seconds + 60.0).alarms
    assert alarm.incident.job_ended and not alarm.incident.culprits
    assert (
        "were killed by signal 9 (SIGKILL); which of them ended first is not known; when last seen, rank"
        in diagnosis.headline
    )
