"""What the tools take."""

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from shared.answer.incidents import IncidentState
from shared.answer.words import Cause, Kind
from shared.value import Value

MOST_WAIT_SECONDS = 300.0

Job = Annotated[str, Field(min_length=1, description="The job's name, as list_jobs gives it.")]
Cursor = Annotated[
    str | None, Field(max_length=8_000, description="The `next` of the page before, with the same other arguments.")
]
Earlier = Annotated[
    str | None,
    Field(
        max_length=64,
        description="Id of a diagnosis of the job: what was seen then, page by page. null: look now.",
    ),
]


class Arguments(Value):
    """What one tool takes; nothing else."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class JobsWanted(Arguments):
    """All jobs."""

    cursor: Cursor = None


class DiagnosisWanted(Arguments):
    """A new diagnosis."""

    job: Job
    wait_seconds: float = Field(
        default=50.0,
        ge=0.0,
        le=MOST_WAIT_SECONDS,
        description="How long to wait for the verdict. It is made in any case: get_diagnosis has it later.",
    )


class HistoryWanted(Arguments):
    """Kept diagnoses."""

    job: str | None = Field(default=None, description="Only of this job.")
    node: str | None = Field(
        default=None, description="Only those in which a finding names a culprit or a link on this host."
    )
    cursor: Cursor = None


class IncidentsListed(Arguments):
    """Incidents of some kind."""

    job: str | None = Field(default=None, description="Only of this job.")
    node: str | None = Field(default=None, description="Only those with a culprit on this host.")
    state: IncidentState | None = Field(default=None, description="Only those in this state; null: in any.")
    kind: Kind | None = Field(default=None, description="Only of this kind.")
    cause: Cause | None = Field(default=None, description="Only with this cause.")
    cursor: Cursor = None


class IncidentWanted(Arguments):
    """One incident."""

    id: str = Field(min_length=1, max_length=64, description="As list_incidents or list_jobs gives it.")
    cursor: Cursor = None


class NodeWanted(Arguments):
    """What was found on one node."""

    node: str = Field(min_length=1, max_length=253, description="The host's name, as diagnoses give it.")
    cursor: Cursor = None


class Part(StrEnum):
    """The lists of a diagnosis."""

    FINDINGS = "findings"
    NEXT_STEPS = "next_steps"
    STACK_CLASSES = "stack_classes"
    CHECKS = "checks"
    COVERAGE = "coverage"
    READ = "read"
    CONFLICTS = "conflicts"


class KeptWanted(Arguments):
    """One kept diagnosis."""

    id: str = Field(min_length=1, max_length=64, description="As diagnose_job or list_diagnoses gives it.")
    part: Part | None = Field(default=None, description="Only this list of it; null: all of it, page by page.")
    cursor: Cursor = None


class AspectWanted(Arguments):
    """One aspect of a job."""

    job: Job
    diagnosis: Earlier = None
    cursor: Cursor = None


class RanksWanted(AspectWanted):
    """One aspect of a job, of some ranks."""

    ranks: str | None = Field(
        default=None, max_length=32_768, description="Only these ranks, folded.", examples=["0-3,7"]
    )


class LogsWanted(RanksWanted):
    """The ends of logs."""

    lines: int = Field(default=50, ge=1, le=10_000, description="Last lines of each file.")
