"""One job, watched: its state, when to look at it, and what a diagnosis makes of that. A state machine without a clock.

1. Digests say how far the ranks are (`job_view.py`). A trigger only asks for a diagnosis; it accuses nobody.
2. A job that is found well, or of which nothing can be told, is asked about again when it has stood twice as long.
3. A job that is found hung is suspected. Found hung again with the same fingerprint, and not having gone on in between,
   it is an alarm; unless what its culprit is at work on may take longer in a healthy job (`phases.py`).
4. It is over when the ranks that stood still go on, or the job ends or is restarted.
"""

from dataclasses import dataclass

from collector.detect.fingerprints import fault_of, fingerprint_of, incident_of
from collector.detect.job_view import JobView
from collector.detect.limits import (
    AGAIN_SECONDS,
    BEHIND_PAUSES,
    BEHIND_SECONDS,
    CONFIRM_SECONDS,
    ENDED_SECONDS,
    EXITED_SECONDS,
    FLAP_SECONDS,
    FORGOTTEN_SECONDS,
    HUNG_AGAIN_SECONDS,
    IDLE_AGAIN_SECONDS,
    IDLE_SECONDS,
    LEAST_BETWEEN_SECONDS,
    LEAST_STILL_SECONDS,
    LOST_SECONDS,
    MOST_AGAIN_SECONDS,
    MOST_TIMEOUT_SHARE,
    PARTLY_STILL,
    SUSPICION_SECONDS,
    TIMEOUT_SHARE,
    TIMEOUT_SPARE_SECONDS,
    UNTOLD_SECONDS,
    USUAL_PAUSES,
)
from collector.detect.phases import Phase, held_for, phase_of
from collector.detect.usual_pauses import UsualPauses
from shared.answer.diagnosis import Diagnosis, Finding
from shared.answer.incidents import Incident, JobState
from shared.answer.words import Verdict
from shared.wire.registration import JobDigest


@dataclass(frozen=True)
class Suspected:
    """What the job was found hung with, once."""

    key: str
    diagnosis: str
    at: float


@dataclass(frozen=True)
class Alarm:
    """The job was found hung twice with the same fingerprint."""

    incident: Incident
    diagnoses: tuple[str, ...]


@dataclass
class OpenIncident:
    """The incident of a job that is not over."""

    id: str
    stood: tuple[int, ...]
    """The ranks that stood still when it was opened."""
    at: float


class JobWatch:
    """One job of one user."""

    def __init__(self, job: str, user: str | None, now: float, *, usual_pause: float | None = None) -> None:
        self.job = job
        self.user = user
        self.view = JobView()
        self.pauses = UsualPauses(usual_pause)
        self.state = JobState.STARTING
        self.since = now
        self.reason = ""
        self.phase: Phase | None = None
        self.incident: OpenIncident | None = None
        self.suspected: Suspected | None = None
        self.last: Diagnosis | None = None
        self._asking = False
        self._asked_at = float("-inf")
        self._next_ask = 0.0
        self._gone_since: float | None = None
        self._going_since: float | None = None
        self._learnt = False

    # Step 1.

    def take(self, host: str, digest: JobDigest, now: float) -> None:
        """Take in what one node tells."""
        before = self.view.attempt
        pause = self.view.take(host, digest, now)
        if self.view.ranks:
            self._gone_since = None
        if self.view.attempt != before:
            self._begin_again()
        if pause is not None:
            self._go_on(pause)

    def drop(self, host: str) -> None:
        """A node tells of the job no more."""
        self.view.drop(host)

    def ask(self, now: float) -> str:
        """Return why the job is to be looked at now; empty: it is not. Whoever asks says what came of it."""
        if self._asking or now < max(self._next_ask, self._asked_at + LEAST_BETWEEN_SECONDS) or not self._is_watched:
            return ""
        reason = self._trigger(now)
        if reason:
            self._asking, self._asked_at, self.reason = True, now, reason
            self._set_state(now)
        return reason

    @property
    def _is_watched(self) -> bool:
        """Has it several ranks? One that is alone waits for nobody."""
        size = self.view.world_size
        return (size is None or size > 1) and len(self.view.ranks) + len(self.view.exited) > 1

    def _trigger(self, now: float) -> str:
        if self.incident is not None:
            return "an incident is open" if now - self._asked_at >= HUNG_AGAIN_SECONDS else ""
        return self._exited(now) or self._still(now) or self._partly(now) or self._idle(now)

    def _exited(self, now: float) -> str:
        bad = [
            rank
            for rank, view in self.view.exited.items()
            if view.rank.abnormally and now - view.since >= EXITED_SECONDS
        ]
        if bad and self.view.ranks:
            return f"rank {min(bad)} has ended while others live"
        if bad and now - self.view.exited[bad[0]].since <= LOST_SECONDS:
            return f"rank {min(bad)} has ended badly, and the job with it"
        stood = self.view.stood_since(now)
        if self.view.exited and stood is not None and now - stood >= LEAST_STILL_SECONDS:
            return f"rank {min(self.view.exited)} has ended and the others have stood still for {now - stood:.0f} s"
        return ""

    def _still(self, now: float) -> str:
        since = self.view.stood_since(now)
        if since is None:
            return ""
        still = now - since
        behind = self.view.behind(now)
        if behind is not None and still >= max(BEHIND_SECONDS, BEHIND_PAUSES * (self.pauses.usual or 0.0)):
            waiting, rank = behind
            return f"{waiting} ranks wait in an operation that rank {rank} has not issued, for {still:.0f} s"
        if still >= self.pauses.allowance:
            return f"no rank has gone on for {still:.0f} s"
        timeout = self.view.timeout_seconds
        if timeout is not None and still >= min(TIMEOUT_SHARE * timeout, max(1.0, timeout - TIMEOUT_SPARE_SECONDS)):
            return f"no rank has gone on for {still:.0f} s, and operations time out after {timeout:.0f} s"
        return ""

    def _partly(self, now: float) -> str:
        since = self.view.partly_stood_since(now)
        if since is None or now - since < PARTLY_STILL * max(self.pauses.allowance, IDLE_SECONDS):
            return ""
        return f"some ranks have not gone on for {now - since:.0f} s, while others do"

    def _idle(self, now: float) -> str:
        since = self.view.idle_since(now)
        if since is None or now - since < max(IDLE_SECONDS, USUAL_PAUSES * (self.pauses.usual or 0.0)):
            return ""
        return f"no rank has done anything for {now - since:.0f} s"

    # Steps 2 and 3.

    def answered(self, diagnosis: Diagnosis | None, now: float) -> Alarm | None:
        """Take in the diagnosis that was asked for; None: there is none. Returns the alarm, if it is one."""
        self._asking = False
        if diagnosis is None:
            self._next_ask = now + AGAIN_SECONDS
            return None
        self.last, self.phase = diagnosis, phase_of(diagnosis)
        fault = fault_of(diagnosis)
        if fault is None:
            self._found_well(diagnosis, now)
            return None
        if self.phase is None and self.view.highest <= 1:
            self.phase = Phase.FIRST_STEP
        return self._found_hung(diagnosis, fault, now)

    def _found_well(self, diagnosis: Diagnosis, now: float) -> None:
        if diagnosis.verdict is Verdict.CANNOT_TELL and self.suspected is not None:
            self._next_ask = now + UNTOLD_SECONDS
            return
        self.suspected = None
        stood = self._still_for(now)
        most = IDLE_AGAIN_SECONDS if diagnosis.state == "idle" else MOST_AGAIN_SECONDS
        timeout = self.view.timeout_seconds
        again = min(most, max(AGAIN_SECONDS, stood))
        if timeout is not None and stood < timeout * TIMEOUT_SHARE < stood + again:
            again = max(LEAST_BETWEEN_SECONDS, timeout * TIMEOUT_SHARE - stood)
        self._next_ask = now + again
        self._set_state(now)

    def _found_hung(self, diagnosis: Diagnosis, fault: Finding, now: float) -> Alarm | None:
        key = fingerprint_of(fault, self.job, self.user).key
        earlier = self.suspected
        is_same = earlier is not None and earlier.key == key and now - earlier.at <= SUSPICION_SECONDS
        if earlier is None or not is_same:
            self.suspected = Suspected(key, diagnosis.id, now)
        still = self._still_for(now) or fault.lasted_seconds or 0.0
        held = self._held(diagnosis, fault) - still
        if earlier is None or not is_same or held > 0:
            self._next_ask = now + min(max(CONFIRM_SECONDS, held), SUSPICION_SECONDS / 2)
            self._set_state(now)
            return None
        self._next_ask = now + HUNG_AGAIN_SECONDS
        ids = tuple(dict.fromkeys(id for id in (earlier.diagnosis, diagnosis.id) if id))
        return Alarm(
            incident_of(diagnosis, fault, fingerprint_of(fault, self.job, self.user), trigger=self.reason), ids
        )

    def _held(self, diagnosis: Diagnosis, fault: Finding) -> float:
        timeout = self.view.timeout_seconds
        share = None if timeout is None else MOST_TIMEOUT_SHARE * timeout
        if fault.culprits and all(self._has_crashed(rank) for rank in fault.culprit_ranks):
            return 0.0
        return held_for(diagnosis, self.phase, share, self.pauses.allowance)

    def _has_crashed(self, rank: int) -> bool:
        known = self.view.exited.get(rank)
        return known is not None and known.rank.abnormally

    def _still_for(self, now: float) -> float:
        times = (self.view.stood_since(now), self.view.partly_stood_since(now), self.view.idle_since(now))
        since = next((at for at in times if at is not None), now)
        return now - since

    # Step 4.

    def opened(self, id: str, now: float) -> None:
        """The store has opened an incident for it, or one was open when this collector began."""
        stood = tuple(rank for rank, view in self.view.ranks.items() if view.is_still or view.is_idle)
        self.incident, self._going_since = OpenIncident(id, stood or tuple(self.view.ranks), now), None
        self.suspected, self._asked_at = None, now
        self._set_state(now)

    def closed(self, now: float, *, false_alarm: bool = False) -> None:
        """The incident is over. After a false alarm, so long a pause is usual."""
        stood = self._still_for(now)
        if false_alarm and self.pauses.learn(stood):
            self._learnt = True
        self.incident = None
        self._next_ask = now + (max(stood, AGAIN_SECONDS) if false_alarm else 0.0)
        self._set_state(now)

    def over(self, now: float) -> str:
        """Return why its open incident is over; empty: it is not, or there is none."""
        if self.incident is None:
            return ""
        if self._has_ended(now):
            return "the job has ended"
        moved, living = self.view.gone_on(self.incident.stood, self.incident.at)
        if 2 * moved <= living or self.view.stood_since(now) is not None:
            self._going_since = None
            return ""
        self._going_since = now if self._going_since is None else self._going_since
        return "the job goes on" if now - self._going_since >= FLAP_SECONDS else ""

    def _begin_again(self) -> None:
        """The launcher has restarted the job: what was suspected is gone with the old ranks."""
        self.suspected, self.last, self.phase, self._next_ask = None, None, None, 0.0
        if self.incident is not None:
            self.incident = OpenIncident(self.incident.id, tuple(self.view.ranks), self.incident.at)

    def _go_on(self, pause: float) -> None:
        """All ranks had stood still for so long, and go on: by itself, if nobody was told."""
        self.suspected, self.phase, self._next_ask = None, None, 0.0
        if self.incident is None and self.pauses.learn(pause):
            self._learnt = True

    def take_learnt(self) -> float | None:
        """Return what counts as usual, if that has changed since the last call."""
        learnt, self._learnt = self._learnt, False
        return self.pauses.usual if learnt else None

    def _has_ended(self, now: float) -> bool:
        if self.view.ranks:
            return False
        self._gone_since = now if self._gone_since is None else self._gone_since
        return now - self._gone_since >= ENDED_SECONDS

    def is_forgotten(self, now: float) -> bool:
        """Has nobody told of it for long?"""
        return now - self.view.heard > FORGOTTEN_SECONDS and self.incident is None and not self._asking

    def check(self, now: float) -> None:
        """Let time pass."""
        self._set_state(now)

    def _set_state(self, now: float) -> None:
        state = self._state(now)
        if state is not self.state:
            self.state, self.since = state, now
            if state is JobState.RUNNING:
                self.reason = ""

    def _state(self, now: float) -> JobState:
        if self.incident is not None:
            return JobState.HUNG
        if self._has_ended(now):
            return JobState.ENDED
        if self._asking or self.suspected is not None:
            return JobState.SUSPECTED
        if self._still_for(now) >= LEAST_STILL_SECONDS:
            return JobState.QUIET
        if self.view.highest < 1 and not any(view.still_since is None for view in self.view.ranks.values()):
            return JobState.STARTING
        return JobState.SLOW if self.last is not None and self.last.verdict is Verdict.SLOW else JobState.RUNNING
