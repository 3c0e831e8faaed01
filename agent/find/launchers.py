"""What launchers write into the environment of the ranks they start, and what they look like: rows of launchers.toml.

Kept of a process are the variables that are named there alone: an allow-list, and those that rules of the site check.
"""

import re
from functools import cache
from typing import NamedTuple

from shared.errors import quoted
from shared.packs import read_pack
from shared.rules.site_rules import checked_variables
from shared.wire.job_names import OF_SLURM
from shared.wire.snapshot import Identity

Environment = dict[str, str]

_NUMBER = re.compile(r"\d{1,7}", re.ASCII)

_NO_REAL_STEP = 4_294_967_280
"""Slurm gives the batch script, the extern step and interactive steps numbers from here on (slurm/slurm.h)."""


class Launcher(NamedTuple):
    """The variables of one launcher."""

    name: str
    rank: str
    marks: str = ""
    local_rank: str = ""
    world_size: str = ""
    local_world_size: str = ""
    group_rank: str = ""
    steps: str = ""

    def applies(self, environment: Environment) -> bool:
        """Are all its marks there, and is it no step of Slurm's that has no tasks?"""
        step = environment.get("SLURM_STEP_ID", environment.get("SLURM_STEPID", ""))
        is_task = not self.steps or (step.isdecimal() and int(step) < _NO_REAL_STEP)
        return self.is_marked(environment) and is_task

    def is_marked(self, environment: Environment) -> bool:
        """Are all its marks there?"""
        return all(mark in environment for mark in self.marks.split())


_PACK = read_pack(__file__, "launchers.toml")


def _names(table: str, key: str) -> frozenset[str]:
    return frozenset(name for row in _PACK[table] for name in row[key].split())


LAUNCHERS = tuple(Launcher(**row) for row in _PACK["launcher"])
REPORTED = _names("reported", "names")
"""Variables that are reported of a rank, beside those that rules of the site check."""

NAMES = (
    _names("variables", "names")
    | REPORTED
    | {n for row in LAUNCHERS for n in (*row[1:2], *row.marks.split(), *row[3:7]) if n}
)
"""The only variables that are ever kept of an inspected process."""

_PROGRAMS, _MODULES = (_names("commands", kind) for kind in ("programs", "modules"))


@cache
def reported() -> frozenset[str]:
    """Return the names that are reported here."""
    return REPORTED | checked_variables()


_SHOWN_ARGUMENTS = 6
_LONGEST_JOB_NAME = 200


def identify(environment: Environment) -> Identity | None:
    """Return which rank an environment belongs to; None when it belongs to no rank."""
    for launcher in LAUNCHERS:
        rank = number(environment, launcher.rank)
        if rank is not None and launcher.applies(environment):
            return _identity(environment, launcher, rank)
    return None


def mistaken(environment: Environment) -> str | None:
    """Return which variable would make a rank, or say how many there are, and is no such number; None: none.

    `RANK=0x3` makes no rank, and `WORLD_SIZE=1000000000` is not counted up to: whoever looks for that rank is told why.
    """
    for launcher in LAUNCHERS:
        if launcher.rank in environment and launcher.is_marked(environment):
            names = [name for name in (launcher.rank, launcher.world_size) if environment.get(name)]
            wrong = [name for name in names if number(environment, name) is None]
            told = ", ".join(f"{name}={quoted(environment[name])}" for name in wrong)
            return f"job {quoted(job_name(environment))}, {told}" if wrong else None
    return None


def _identity(environment: Environment, launcher: Launcher, rank: int) -> Identity:
    local_rank = number(environment, launcher.local_rank)
    return Identity(
        job=job_name(environment),
        rank=rank,
        local_rank=local_rank,
        group_rank=number(environment, launcher.group_rank),
        world_size=number(environment, launcher.world_size),
        local_world_size=number(environment, launcher.local_world_size),
        attempt=number(environment, "TORCHELASTIC_RESTART_COUNT") or 0,
        launcher=launcher.name,
        gpu=gpu_of(environment, local_rank),
    )


def job_name(environment: Environment) -> str:
    """Return the name of the job: the same on all its nodes, different from its neighbours' where possible."""
    name = "".join(character for character in _raw_job_name(environment) if character.isprintable())
    return name[:_LONGEST_JOB_NAME] or "unnamed"


def is_address(environment: Environment) -> bool:
    """Is the name of the job, for want of a better one, the place where its ranks meet?"""
    return _given_name(environment) is None and bool(environment.get("MASTER_ADDR"))


def _given_name(environment: Environment) -> str | None:
    slurm = environment.get("SLURM_JOB_ID")
    if slurm:
        return f"{OF_SLURM}{slurm}"
    run_id = environment.get("TORCHELASTIC_RUN_ID", "none")
    return run_id if run_id not in ("none", "") else None


def _raw_job_name(environment: Environment) -> str:
    given = _given_name(environment)
    if given is not None:
        return given
    if environment.get("MASTER_ADDR"):
        return f"{environment['MASTER_ADDR']}:{environment.get('MASTER_PORT', '29500')}"
    for name in ("PBS_JOBID", "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID"):
        if environment.get(name):
            return f"mpi-{environment[name]}"
    return "unnamed"


def is_launcher(arguments: list[str]) -> bool:
    """Does this command line start a launcher (torchrun, srun, mpirun, ours) rather than a rank?"""
    words = arguments[:_SHOWN_ARGUMENTS]
    for position, word in enumerate(words):
        if position < 3 and word.rpartition("/")[2] in _PROGRAMS:
            return True
        if word == "-m" and position + 1 < len(words):
            return words[position + 1] in _MODULES
        if word == "-c":
            return False
    return False


def number(environment: Environment, name: str) -> int | None:
    """Return the value of a variable that counts something; None where it is not set, or is no such number."""
    text = environment.get(name, "")
    return int(text) if _NUMBER.fullmatch(text) else None


def gpu_of(environment: Environment, local_rank: int | None) -> str | None:
    """Return the device that a rank with this place on its node takes, as far as variables tell."""
    visible = environment.get("CUDA_VISIBLE_DEVICES", environment.get("HIP_VISIBLE_DEVICES", ""))
    devices = [device.strip() for device in visible.split(",") if device.strip()]
    if len(devices) == 1:
        return devices[0]
    return devices[local_rank] if local_rank is not None and local_rank < len(devices) else None
