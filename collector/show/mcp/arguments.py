"""What the tools take: fields, of which each tool has some."""

from enum import StrEnum
from typing import Any

from pydantic import ConfigDict, Field, create_model

from shared.answer.incidents import IncidentState
from shared.answer.words import Cause, Kind
from shared.value import Value

MOST_WAIT_SECONDS = 300.0


class Arguments(Value):
    """What one tool takes; nothing else."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Part(StrEnum):
    """The lists of a diagnosis."""

    FINDINGS = "findings"
    NEXT_STEPS = "next_steps"
    STATEMENTS = "statements"
    STACK_CLASSES = "stack_classes"
    CHECKS = "checks"
    COVERAGE = "coverage"
    READ = "read"
    CONFLICTS = "conflicts"


def takes(**fields: Any) -> type[Arguments]:
    """Return the model of these fields."""
    return create_model("Arguments", __base__=Arguments, **fields)


def _optional(of: Any, text: str, **more: Any) -> Any:
    return (of | None, Field(default=None, description=text, **more))


def _text(text: str, most: int | None = None) -> Any:
    return (str, Field(min_length=1, max_length=most, description=text))


JOB = _text("The job's name, as list_jobs gives it.")
WAIT = (
    float,
    Field(
        default=50.0,
        ge=0.0,
        le=MOST_WAIT_SECONDS,
        description="How long to wait for the verdict. It is made in any case: get_diagnosis has it later.",
    ),
)
OF_JOB = _optional(str, "Only of this job.")
NAMING = _optional(str, "Only those that name a culprit or a link on this host.")
ON_NODE = _optional(str, "Only those with a culprit on this host.")
STATE = _optional(IncidentState, "Only those in this state; null: in any.")
KIND = _optional(Kind, "Only of this kind.")
CAUSE = _optional(Cause, "Only with this cause.")
INCIDENT_ID = _text("As list_incidents or list_jobs gives it.", 64)
NODE = _text("The host's name, as diagnoses give it.", 253)
DIAGNOSIS_ID = _text("As diagnose_job or list_diagnoses gives it.", 64)
PART = _optional(Part, "Only this list of it; null: all of it, page by page.")
EARLIER = _optional(
    str, "Id of a diagnosis of the job: what was seen then, page by page. null: look now.", max_length=64
)
RANKS = _optional(str, "Only these ranks, folded.", max_length=32_768, examples=["0-3,7"])
LINES = (int, Field(default=50, ge=1, le=10_000, description="Last lines of each file."))
CURSOR = _optional(str, "The `next` of the page before, with the same other arguments.", max_length=8_000)
