"""What a watched job is suspected of, what is an alarm about it, and what is open."""

from dataclasses import dataclass

from shared.answer.incidents import Incident


@dataclass(frozen=True)
class Suspected:
    """What the job was found hung with, once."""

    key: str
    diagnosis: str
    at: float
    held: float = 0.0
    """For how many more seconds what it was at work on would have excused it."""


@dataclass(frozen=True)
class Alarm:
    """The job was found hung or slow twice with the same fingerprint, or dead. The incident has an id if it is open."""

    incident: Incident
    diagnoses: tuple[str, ...]
    ends: str = ""
    """The id of the one in whose place it comes: of a job that was slow, and hangs or has died."""

    @property
    def why_ended(self) -> str:
        """Say why that one is over."""
        return "the job has died" if self.incident.died else "the job hangs"


@dataclass
class OpenIncident:
    """The incident of a job that is not over."""

    id: str
    stood: tuple[int, ...]
    """The ranks that stood still when it was opened."""
    at: float
    job_ended: bool = False
    """Had the job ended by then?"""
    is_slow: bool = False
    """Is it of a job that goes on, and is slowed down by one rank?"""
    is_well: bool = False
    """Has a look found since that no rank slows it down any more?"""
