"""Two diagnoses, wherever they are, and what differs: the same facts as on the collector's page `/compare`."""

from pathlib import Path

from pydantic import Field

from cli.sources.files import Files
from cli.sources.job_source import Wanted
from cli.sources.remote import Remote, segment
from collector.show.html.compare import ComparedFact, comparison
from collector.show.text.text import headline_text
from shared.answer.diagnosis import Diagnosis
from shared.errors import InvalidInput, quoted
from shared.value import Value


class ComparedDiagnoses(Value):
    """What two diagnoses say, fact by fact."""

    left: str = Field(description="The first one's headline.")
    right: str = Field(description="The second one's.")
    facts: tuple[ComparedFact, ...]


def read_diagnosis(named: str, remote: Remote | None) -> Diagnosis:
    """Return a diagnosis: of what lies at a path, or the one of that id. Raises UnhangError."""
    if "/" in named or Path(named).exists():
        return Files(Path(named)).diagnose(Wanted(None), None).diagnosis
    if remote is None:
        raise InvalidInput(
            f"there is no file or directory {quoted(named)}", advice="for the id of a diagnosis add --collector URL"
        )
    return remote.fetch(f"/v1/diagnoses/{segment(named)}", Diagnosis, ())


def compare_diagnoses(left: Diagnosis, right: Diagnosis) -> ComparedDiagnoses:
    """Return what both say, fact by fact."""
    return ComparedDiagnoses(left=headline_text(left), right=headline_text(right), facts=comparison(left, right))
