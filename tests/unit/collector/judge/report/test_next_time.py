"""What is advised for the next time is of use to the job that hangs now."""

import pytest

from shared.wire.setup import Setup, Versions
from tests.build.jobs.judged import judged
from tests.build.jobs.placed import with_rank
from tests.build.jobs.simulated import LOADER, USER, Job, Seen, Stay, live_looks

WITH_TORCH = Setup(versions=Versions(torch="2.13.0", python="3.11"), nccl_loaded=False)
OTHER_BUILD = Setup(versions=Versions(python="3.11"), nccl_loaded=False)
WITHOUT = Setup(versions=Versions(python="3.11"))
UNREAD = Setup()


def advised(setup: Setup, launcher: str | None = "torchrun") -> list[str]:
    """The advice for a job without a flight record, of which nothing else is known."""
    looks = live_looks(Job({0: [Stay()], 1: [Stay()]}), {0: Seen((USER,)), 1: Seen((USER, LOADER))}, recorder=False)
    for number in (0, 1):
        identity = looks[0].ranks[number].identity.model_copy(update={"launcher": launcher})
        looks = with_rank(looks, number, setup=setup, identity=identity)
    return [step.text for step in judged(looks).next_steps if "`unhang run --`" in step.text]


@pytest.mark.parametrize("launcher", ["openmpi", "slurm", "env", None])
def test_job_without_pytorch_is_not_to_be_started_under_the_probe(launcher: str | None) -> None:
    """JAX, or mpi4py alone: no flight record can be had of them."""
    assert advised(WITHOUT, launcher) == []


@pytest.mark.parametrize("setup", [WITH_TORCH, OTHER_BUILD, UNREAD])
def test_job_that_has_pytorch_or_may_have_it_is(setup: Setup) -> None:
    """Whatever starts it."""
    assert all(advised(setup, launcher) for launcher in ("openmpi", "slurm", None))


def test_job_that_has_not_come_to_import_pytorch_is() -> None:
    """Its launcher is PyTorch's."""
    assert advised(WITHOUT)
