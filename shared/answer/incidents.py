"""Incidents: what the collector found wrong with a job by itself, from the alarm to its end. The words are API.

An incident is opened when a job is found hung twice with the same fingerprint, or dead as a whole. Whoever is told of
it again and again (a pager, a chat) knows it by the fingerprint's key.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from typing import Literal

from pydantic import Field

from shared.answer.action import Action
from shared.answer.diagnosis import Contract, Culprit
from shared.answer.words import HARDWARE_CAUSES, Cause, Certainty, Kind, Verdict
from shared.rank_sets import FoldedRanks, fold


class JobState(StrEnum):
    """What a watched job is doing, as far as its agents' digests show."""

    STARTING = "starting"
    """It has not completed an operation yet."""
    RUNNING = "running"
    QUIET = "quiet"
    """No rank has gone on for longer than is usual for it."""
    SUSPECTED = "suspected"
    """It is being diagnosed because of that, or was found hung once."""
    HUNG = "hung"
    """Found hung twice: an incident is open."""
    SLOW = "slow"
    """It goes on, and the last diagnosis found a straggler; or it stands still, and waits for a rank that works."""
    FINISHED = "finished"
    """No rank is left, and each is known to have exited with code 0."""
    DIED = "died"
    """No rank is left, and some ended by a signal or with an error."""
    ENDED = "ended"
    """No rank is left, and nobody saw how all of them ended."""


OVER_STATES = (JobState.FINISHED, JobState.DIED, JobState.ENDED)
"""States of jobs of which no rank is left."""


class IncidentState(StrEnum):
    """Where an incident is in its life."""

    OPENED = "opened"
    ACKNOWLEDGED = "acknowledged"
    """A person has said that it is being worked on."""
    RESOLVED = "resolved"
    """The job has gone on, has ended or was restarted."""
    FALSE_ALARM = "false_alarm"
    """A person has said that nothing was wrong. How long the job paused counts as usual from then on."""


LIVE_STATES = (IncidentState.OPENED, IncidentState.ACKNOWLEDGED)
"""States in which an incident is not over."""


class IncidentChangeKind(StrEnum):
    """What happened to an incident; also the kinds of events."""

    OPENED = "opened"
    SEEN_AGAIN = "seen_again"
    """Another diagnosis found the same."""
    REOPENED = "reopened"
    """The same was found again shortly after it was resolved."""
    ACKNOWLEDGED = "acknowledged"
    RESOLVED = "resolved"
    FALSE_ALARM = "false_alarm"
    COMMENTED = "commented"
    """Somebody has said something of it, and nothing else has changed."""
    JOINED = "joined"
    """Another job is held by the same: its incident is part of this one."""
    RELEASED = "released"
    """Its own job is over, and others are held by the same still."""
    UNDELIVERED = "undelivered"
    """A receiver could not be told of it; the collector has given up."""


LABELS = ("alertname", "job", "user", "kind", "cause", "certainty", "host", "rank", "group", "key")
"""What silences match of an incident, and what alerts carry."""


class Fingerprint(Contract):
    """What makes two verdicts the same fault: equal fingerprints are one incident."""

    job: str
    user: str | None = None
    kind: Kind
    culprits: FoldedRanks = Field(default="", description="Ranks at fault; empty where none is.")
    group: str = Field(default="", description="Name of the process group in which the others wait.")
    sequence: int | None = Field(default=None, description="The operation in it.")

    @property
    def key(self) -> str:
        """Return it as 32 hexadecimal digits, as pagers like to have it."""
        parts = (self.job, self.user or "", self.kind.value, self.culprits, self.group, str(self.sequence))
        return sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


class IncidentChange(Contract):
    """One thing that happened to an incident."""

    at: str = Field(description="RFC 3339, UTC, by the store's clock.")
    kind: IncidentChangeKind
    by: str = Field(default="", description="Who said so; empty where the collector did.")
    note: str = Field(default="", description="In their words, or why it was resolved.")
    diagnosis: str | None = Field(default=None, description="Id of the diagnosis that showed it.")


class SiteLink(Contract):
    """Where the site itself shows more: its logs, its dashboards."""

    title: str
    url: str


class HeldJob(Contract):
    """Another job that is held by what holds the job of an incident."""

    incident: str = Field(description="Id of that job's own incident, which is part of the other and notifies nobody.")
    job: str
    user: str | None = None
    owner: str | None = None
    state: IncidentState
    headline: str


class Incident(Contract):
    """One fault of one job, from the alarm to its end; with other jobs, where the same holds them."""

    id: str = Field(description="Ids sort by time.", examples=["0195a1c8-7b31-7b3f-a2d6-a3933daff891"])
    job: str
    user: str | None = Field(default=None, description="The job's owner, as in a diagnosis.")
    owner: str | None = Field(default=None, description="That user's name, where the nodes know it.")
    state: IncidentState
    kind: Kind
    cause: Cause = Cause.UNKNOWN
    certainty: Certainty
    headline: str = Field(description="The headline of the diagnosis seen last.")
    action: Action | None = Field(default=None, description="What that diagnosis says to do; none once it is over.")
    fingerprint: Fingerprint
    key: str = Field(description="The fingerprint in 32 hexadecimal digits: the same fault has the same key.")
    culprits: tuple[Culprit, ...] = ()
    hosts: tuple[str, ...] = Field(default=(), description="Nodes of the culprits.")
    place: str = Field(default="", description="`FILE:LINE` at which the culprit stood; empty: not known.")
    before: int = Field(
        default=0,
        description="Earlier incidents kept of the same kind: at the same line of jobs of its name, or, if no line is "
        "known and hardware can be the cause, on its nodes.",
    )
    opened_at: str = Field(description="RFC 3339, UTC, as all times here.")
    seen_at: str = Field(description="When a diagnosis last showed it.")
    acknowledged_at: str | None = None
    resolved_at: str | None = Field(default=None, description="When it was over, or said to be a false alarm.")
    still_since: str | None = Field(default=None, description="Since when no rank that waits in it had gone on.")
    times_out_at: str | None = Field(
        default=None,
        description="When the operations that its ranks wait in reach their own timeout, as far as it is known: then "
        "these ranks give up, and the job ends.",
    )
    roots: tuple[str, ...] = Field(
        default=(), description="What holds the job, where that may hold others: a device, a file server, a node …"
    )
    part_of: str | None = Field(
        default=None, description="Id of the incident that was open before, of another job with one of these `roots`."
    )
    members: tuple[str, ...] = Field(default=(), description="Ids of the incidents that are part of it.")
    holds: tuple[HeldJob, ...] = Field(default=(), description="The jobs of these `members`.")
    links: tuple[SiteLink, ...] = Field(default=(), description="To the site's logs and dashboards, as it configured.")
    released_at: str | None = Field(
        default=None, description="When its own job was over; it stays open for the other jobs that it holds."
    )
    job_ended: bool = Field(
        default=False, description="Whether the job had ended by then: it is open until that job runs again."
    )
    died: bool = Field(
        default=False,
        description="Whether the fault is that the job died (the verdict `died`), without being found hung before: "
        "the headline tells how.",
    )
    trigger: str = Field(default="", description="What made the collector look, in words.")
    times_seen: int = Field(default=1, description="Diagnoses that showed it.")
    diagnoses: tuple[str, ...] = Field(
        default=(), description="Ids of diagnoses that show it, oldest first; they are kept as long as the incident."
    )
    history: tuple[IncidentChange, ...] = Field(default=(), description="What happened to it, oldest first.")
    world_size: int | None = Field(default=None, description="Ranks of the job.")
    gpus: int = Field(default=0, description="GPUs that the job holds, as far as they are known; 0: none is.")
    gpu_hours: float = Field(
        default=0.0, description="What they have cost since `still_since`, until it was over; 0 of a slow job."
    )
    silenced_by: tuple[str, ...] = Field(default=(), description="Ids of the silences that match it now.")
    undelivered_to: tuple[str, ...] = Field(
        default=(), description="Receivers that were not notified, for good; `GET /v1/deliveries` has the reasons."
    )

    def with_holds(self, held: Mapping[str, HeldJob]) -> "Incident":
        """Return it with the jobs of those members that are given, and with no other members."""
        members = tuple(id for id in self.members if id in held)
        return self.model_copy(update={"members": members, "holds": tuple(held[id] for id in members)})

    def held_as(self) -> HeldJob:
        """Return what the incident that it is part of says of its job."""
        told = {name: getattr(self, name) for name in ("job", "user", "owner", "state", "headline")}
        return HeldJob(incident=self.id, **told)

    @property
    def is_live(self) -> bool:
        """Is it not over yet?"""
        return self.state in LIVE_STATES

    def lasted_seconds(self, now: datetime) -> float:
        """Return for how long it has lasted by now, or until it was over."""
        end = now if self.resolved_at is None else datetime.fromisoformat(self.resolved_at)
        return max(0.0, (end - datetime.fromisoformat(self.still_since or self.opened_at)).total_seconds())

    @property
    def again(self) -> str:
        """Say how often it came before, as `3rd time, at the same line`; empty: it is the first time."""
        if not self.before:
            return ""
        where = f"on {self.hosts[0]}" if self.may_be_its_nodes else f"at {self.place}" if self.place else "in this job"
        last = self.before + 1
        ending = {1: "st", 2: "nd", 3: "rd"}.get(last % 10 if last % 100 not in (11, 12, 13) else 0, "th")
        return f"{last}{ending} time, {where}"

    @property
    def may_be_its_nodes(self) -> bool:
        """Is it at no line of code, and of a cause that hardware can have?"""
        return bool(self.hosts) and not self.place and self.cause in HARDWARE_CAUSES

    @property
    def is_slow(self) -> bool:
        """Is it of a job that goes on, and that one rank slows down?"""
        return self.kind is Kind.STRAGGLER

    @property
    def found(self) -> str:
        """Return what the job was found to be, as the first word of a message."""
        return "Died" if self.died else "Slow" if self.is_slow else "Hung"

    @property
    def alert_name(self) -> str:
        """Return what alerts of its kind are called."""
        return f"UnhangJob{self.found}"

    @property
    def labels(self) -> dict[str, str]:
        """Return what silences match, and what alerts carry: all as text, `""` where nothing is known."""
        return {
            "alertname": self.alert_name,
            "job": self.job,
            "user": self.owner or self.user or "",
            "kind": self.kind.value,
            "cause": self.cause.value,
            "certainty": self.certainty.value,
            "host": ",".join(self.hosts),
            "rank": fold(culprit.rank for culprit in self.culprits),
            "group": self.fingerprint.group,
            "key": self.key,
        }


class IncidentEvent(Contract):
    """One line of the append-only log of what happened to incidents."""

    id: int = Field(description="Ascending in the order in which events were committed.")
    at: str
    kind: IncidentChangeKind
    incident: Incident = Field(description="The incident as it was after this.")


class WatchedJob(Contract):
    """One job as the collector watches it."""

    job: str
    user: str | None = None
    state: JobState
    since: str = Field(description="Since when it is in this state, RFC 3339, UTC.")
    ranks: FoldedRanks = Field(default="", description="Ranks that live, according to digests.")
    world_size: int | None = None
    still_seconds: float | None = Field(
        default=None, description="How long no rank has gone on; None where no agent can read how far its ranks are."
    )
    usual_pause_seconds: float | None = Field(
        default=None, description="The longest pause that counts as usual for a job of this name; None: not known yet."
    )
    phase: str = Field(default="", description="What the last diagnosis found it at work on, e.g. `checkpoint`.")
    reason: str = Field(default="", description="Why it is suspected, in words.")
    incident: str | None = Field(default=None, description="Id of its open incident.")
    diagnosis: str | None = Field(default=None, description="Id of the last diagnosis that was made unasked.")
    verdict: Verdict | None = None


class SilenceMatcher(Contract):
    """One condition of a silence, as Alertmanager has it. All of a silence must hold."""

    name: str = Field(min_length=1, max_length=64, description="A label: `job`, `user`, `kind`, `cause`, `host` …")
    value: str = Field(max_length=1024)
    isRegex: bool = Field(
        default=False,
        description="Whether `value` is a pattern for the whole label: text, `.`, `.*`, `.+` and `|`; nothing else.",
    )
    isEqual: bool = Field(default=True, description="False: it must not match.")


class NewSilence(Contract):
    """A silence as it is posted: incidents that match all its matchers are not told to anybody in that time."""

    id: str | None = Field(default=None, max_length=64, description="Of the silence to replace; none: a new one.")
    matchers: tuple[SilenceMatcher, ...] = Field(min_length=1, max_length=16)
    startsAt: str = Field(max_length=40, description="RFC 3339.")
    endsAt: str = Field(max_length=40, description="RFC 3339.")
    createdBy: str = Field(min_length=1, max_length=200)
    comment: str = Field(min_length=1, max_length=2000)


class SilenceStatus(Contract):
    """Whether a silence holds now."""

    state: Literal["pending", "active", "expired"]


class Silence(NewSilence):
    """A silence as it is kept."""

    id: str
    status: SilenceStatus
    updatedAt: str
