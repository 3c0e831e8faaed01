"""Deliveries: who is told of an incident, and how far that is. The words are API."""

from enum import StrEnum

from pydantic import Field

from shared.answer.diagnosis import Contract
from shared.answer.incidents import IncidentChangeKind


class DeliveryState(StrEnum):
    """How far one message to one receiver is."""

    WAITING = "waiting"
    """It is due, is being sent, failed and is tried again, or a silence holds it back."""
    REPEATING = "repeating"
    """The receiver has it, and gets it again until the incident is over, as Alertmanager expects."""
    SENT = "sent"
    GIVEN_UP = "given_up"
    """It failed for too long, or the receiver wants no more of them."""
    DROPPED = "dropped"
    """The incident was over before its silence was, so there was nothing to report."""


class Delivery(Contract):
    """One message about one incident to one receiver."""

    id: str
    receiver: str = Field(description="Its name in the collector's notify file.")
    incident: str = Field(description="Id of the incident.")
    kind: IncidentChangeKind = Field(description="What happened to the incident.")
    state: DeliveryState
    attempts: int = Field(default=0, description="How often it has failed.")
    created_at: str = Field(description="RFC 3339, UTC, by the store's clock, as all times here.")
    due_at: str | None = Field(default=None, description="When it is sent next; none once it has ended.")
    ended_at: str | None = None
    trouble: str = Field(default="", description="Why the last attempt failed, or what it waits for.")
