"""One job, watched: its state, when to look at it, and what a diagnosis makes of that. A state machine without a clock.

1. Digests say how far the ranks are (`job_view.py`). A trigger only asks for a diagnosis; it accuses nobody.
2. A job that is found well, or of which nothing can be told, is asked about again when it has stood twice as long.
   So is one that a rank holds up which demonstrably works: it is slow, and no alarm before it would be called hung.
3. A job that is found hung is suspected, and looked at again whether or not anything triggers that. Found hung again
   with the same fingerprint, and not having gone on in between, it is an alarm; where it is proven and its own timeout
   would end it before, at once. What its culprit is at work on may take longer in a healthy job (`phases.py`). What was
   seen in part is looked at again soon: more may be seen.
4. A job that has died is an alarm at once, for nothing about it changes any more, unless somebody ended it (cause
   `cancelled`). What it was found hung with before that is what the alarm names.
5. A job that goes on slower than it used to is looked at, too. Where the same rank makes the others wait in two looks,
   ten minutes apart, that is an alarm, until a look finds that it does so no more, or the job hangs or dies.
6. A job has one incident at a time. Whatever else it is found with meanwhile is more of it, unless a slow job hangs.
7. It is over when the ranks that stood still go on, or the job is restarted, or has ended and a look has shown how:
   nothing that follows of that end is an alarm. The incident of a dead job is over when that job runs again, or after
   an hour.
"""

from collections.abc import Sequence
from dataclasses import replace

from collector.align.stacks.phases import Phase
from collector.detect.alarms import Alarm, OpenIncident, Suspected
from collector.detect.fingerprints import death_of, fault_of, fingerprint_of, incident_of, is_over, slowed_by
from collector.detect.job_view import JobView
from collector.detect.limits import (
    AGAIN_SECONDS,
    CONFIRM_SECONDS,
    DIAGNOSIS_SECONDS,
    ENDED_SECONDS,
    FLAP_SECONDS,
    FORGOTTEN_SECONDS,
    HUNG_AGAIN_SECONDS,
    IDLE_AGAIN_SECONDS,
    LEAST_BETWEEN_SECONDS,
    LEAST_STILL_SECONDS,
    MOST_AGAIN_SECONDS,
    MOST_TIMEOUT_SHARE,
    SUSPICION_SECONDS,
    TIMEOUT_SHARE,
    UNTOLD_SECONDS,
)
from collector.detect.phases import (
    has_begun,
    held_for,
    held_unseen,
    hung_in,
    is_held_up,
    is_last_chance,
    is_seen_in_part,
    phase_of,
)
from collector.detect.slowed import Slowed
from collector.detect.triggers import exited, found_idle, reason_to_look, served, unanswered
from collector.detect.usual_pauses import UsualPauses
from shared.answer.diagnosis import Diagnosis, Finding
from shared.answer.incidents import Incident, JobState
from shared.answer.words import Kind, Verdict
from shared.wire.registration import JobDigest, Sign


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
        self._slowed, self._began = Slowed(), now
        self._gone_since: float | None = None
        self._going_since: float | None = None
        self._end_seen_at: float | None = None
        """When a look showed how it ended."""
        self._unseen_since: float | None = None
        """Since when some ranks could not be looked at, each time that somebody looked."""
        self._is_asked = False

    # Step 1.

    def take(self, host: str, digest: JobDigest, now: float, signs: Sequence[Sign] = ()) -> None:
        """Take in what one node tells."""
        before = self.view.attempt
        pause = self.view.take(host, digest, now, signs)
        asked, self._is_asked = self._is_asked, bool(unanswered(self.view, now))
        self._next_ask = 0.0 if self._is_asked != asked else self._next_ask  # it was found idle, or stuck, until now
        if self.view.ranks:
            self._gone_since = None
            if self._end_seen_at is not None and now - self._end_seen_at > FLAP_SECONDS:
                self._end_seen_at = None
        elif self._gone_since is None:
            self._gone_since, self._next_ask = now, 0.0
        if self.view.attempt != before:
            self._begin_again(now)
        if pause is not None:
            self._go_on(pause)

    def ask(self, now: float) -> str:
        """Return why the job is to be looked at now; empty: it is not. Whoever asks says what came of it."""
        early = now < max(self._next_ask, self._asked_at + LEAST_BETWEEN_SECONDS)
        if self._asking or early or not self.view.is_waited_for:
            return ""
        reason = self._trigger(now)
        if reason:
            self._asking, self._asked_at, self.reason = True, now, reason
            self.check(now)
        return reason

    def patience_seconds(self, now: float) -> float:
        """Return how long a diagnosis may go on where only time tells: it is to be there before the job's timeout."""
        timeout = float("inf") if self.view.timeout_seconds is None else self.view.timeout_seconds
        return max(0.0, MOST_TIMEOUT_SHARE * timeout - self._still_for(now) - DIAGNOSIS_SECONDS)

    def _trigger(self, now: float) -> str:
        if self._end_seen_at is not None:
            return ""
        is_due = self.incident is not None and now - self._asked_at >= HUNG_AGAIN_SECONDS
        again = "an incident is open" if is_due else ""
        if self._hang is not None:
            died = "" if self.view.ranks or self._hang.job_ended else exited(self.view, now)
            return died or served(self.view, self.last) or again
        suspected = self.suspected is not None and now - self.suspected.at <= SUSPICION_SECONDS
        hangs = reason_to_look(self.view, self.pauses, now) or ("it was found hung once" if suspected else "")
        return hangs or again or self._slowed.reason_to_look(self.view, now)

    # Steps 2 to 5.

    def answered(self, diagnosis: Diagnosis | None, now: float) -> Alarm | None:
        """Take in the diagnosis that was asked for; None: there is none. Returns the alarm, if it is one."""
        self._asking = False
        if diagnosis is None:
            self._next_ask = now + AGAIN_SECONDS
            return None
        before, self.last = self.last, diagnosis
        fault = fault_of(diagnosis)
        went_on_for = now - self._still_for(now) - self._began
        self.phase = phase_of(diagnosis, has_begun=has_begun(self.view, fault, went_on_for))
        unseen = now if self._unseen_since is None else self._unseen_since
        self._unseen_since = unseen if is_seen_in_part(diagnosis) else None
        if is_over(diagnosis):
            return self._found_ended(diagnosis, before, now)
        if fault is None:
            self._found_well(diagnosis, now)
            return self._found_slow(diagnosis, now)
        return self._found_hung(diagnosis, fault, now)

    def _found_well(self, diagnosis: Diagnosis, now: float) -> None:
        if diagnosis.verdict is Verdict.CANNOT_TELL and self.suspected is not None:
            self._next_ask = now + max(UNTOLD_SECONDS, (now - self.suspected.at) / 2)
            return
        self.suspected = None
        stood = self._still_for(now)
        most = IDLE_AGAIN_SECONDS if diagnosis.state == "idle" else MOST_AGAIN_SECONDS
        timeout = self.view.timeout_seconds
        again = min(most, max(AGAIN_SECONDS, stood), hung_in(diagnosis) + LEAST_BETWEEN_SECONDS)
        if timeout is not None and stood < timeout * TIMEOUT_SHARE < stood + again:
            again = max(LEAST_BETWEEN_SECONDS, timeout * TIMEOUT_SHARE - stood)
        self._next_ask = now + again
        self.check(now)

    def _found_slow(self, diagnosis: Diagnosis, now: float) -> Alarm | None:
        """Step 5: does one rank make the others wait at each step, as it did before?"""
        finding = slowed_by(diagnosis)
        if finding is None and diagnosis.verdict is Verdict.NOT_HUNG and self.incident is not None:
            self.incident = replace(self.incident, is_well=True)
        known = None if finding is None else fingerprint_of(finding, self.job, self.user)
        first = self._slowed.found("" if known is None else known.culprits, diagnosis.id, diagnosis.verdict, now)
        if finding is None or known is None or not first or self._hang is not None:
            return None
        incident = incident_of(diagnosis, finding, known, trigger=self.reason)
        return self._alarm(incident, first, diagnosis.id)

    def _found_hung(self, diagnosis: Diagnosis, fault: Finding, now: float) -> Alarm | None:
        known, earlier, timeout = fingerprint_of(fault, self.job, self.user), self.suspected, self.view.timeout_seconds
        is_same = earlier is not None and earlier.key == known.key and now - earlier.at <= SUSPICION_SECONDS
        stood = 0.0 if fault.kind is Kind.REQUESTS_UNANSWERED else self._still_for(now)  # it was idle before
        still = stood or fault.lasted_seconds or 0.0
        held = self._held(diagnosis, fault, still, now)
        first, id = (now, diagnosis.id) if earlier is None or not is_same else (earlier.at, earlier.diagnosis)
        self.suspected = Suspected(known.key, id, first, max(0.0, held))
        confirmed = (earlier is not None and is_same) or is_last_chance(diagnosis, timeout, still)
        if not confirmed or held > 0:
            again = min(max(CONFIRM_SECONDS, held), SUSPICION_SECONDS / 2)
            soon = max(UNTOLD_SECONDS, now - first) if is_seen_in_part(diagnosis) else again
            self._next_ask = now + min(again, soon)
            self.check(now)
            return None
        self._next_ask = now + HUNG_AGAIN_SECONDS
        ids = tuple(dict.fromkeys(each for each in (id, diagnosis.id) if each))
        return self._alarm(incident_of(diagnosis, fault, known, trigger=self.reason, timeout=timeout), *ids)

    def _found_ended(self, diagnosis: Diagnosis, before: Diagnosis | None, now: float) -> Alarm | None:
        """Step 4. Only one that died by itself is told: whoever ends a job that hangs knows of it."""
        earlier, self.suspected = self.suspected, None
        self._end_seen_at = now
        self._gone_since = now  # what this look adds to an open incident is to be there before that is over
        self.check(now)
        death = death_of(diagnosis)
        hung = None if before is None else fault_of(before)
        told = (diagnosis, death)
        is_hung = self._hang is not None or (earlier is not None and earlier.held <= 0)
        if before is not None and hung is not None and is_hung:
            told = (before, hung) if death is not None else told
        shown, fault = told
        if fault is None:
            return None
        ids = (*(() if earlier is None else (earlier.diagnosis,)), shown.id, diagnosis.id)
        incident = incident_of(shown, fault, fingerprint_of(fault, self.job, self.user), trigger=self.reason)
        return self._alarm(incident.model_copy(update={"job_ended": True}), *filter(None, ids))

    def _held(self, diagnosis: Diagnosis, fault: Finding, still: float, now: float) -> float:
        """Return for how many more seconds ranks must stand still until this is an alarm."""
        timeout = self.view.timeout_seconds
        most = float("inf") if timeout is None else MOST_TIMEOUT_SHARE * timeout - still
        if fault.culprits and self.view.have_crashed(fault.culprit_ranks):
            return 0.0
        held = held_for(diagnosis, self.phase, self.pauses) - still
        return min(most, max(held, held_unseen(self.view, self._unseen_since, still, now)))

    def _still_for(self, now: float) -> float:
        asked = (self.view.stood_since, self.view.partly_stood_since, self.view.idle_since)
        since = next((at for each in asked if (at := each(now)) is not None), now)
        return now - since

    # Steps 6 and 7.

    def _alarm(self, incident: Incident, *diagnoses: str) -> Alarm:
        """Return what was found as a new incident, or as more of the open one."""
        id = "" if self.incident is None else self.incident.id
        same, ends = (id, "") if incident.is_slow or self._hang is not None else ("", id)
        return Alarm(incident.model_copy(update={"id": same}), tuple(dict.fromkeys(diagnoses)), ends)

    @property
    def _hang(self) -> OpenIncident | None:
        """Its incident, unless that is of a slow job."""
        return None if self.incident is None or self.incident.is_slow else self.incident

    def opened(self, incident: Incident, now: float) -> None:
        """The store has opened an incident for it, or one was open when this collector began."""
        stood = tuple(rank for rank, view in self.view.ranks.items() if view.is_still or view.is_idle)
        ranks = stood or tuple(self.view.ranks)
        self.incident = OpenIncident(incident.id, ranks, now, incident.job_ended, incident.is_slow)
        self.suspected, self._asked_at, self._going_since = None, now, None
        self.check(now)

    def closed(self, now: float, *, false_alarm: bool = False) -> None:
        """The incident is over. After a false alarm, so long a pause is usual."""
        stood = self._still_for(now)
        if false_alarm:
            self.pauses.learn(stood)
        self.incident = None
        self._next_ask = now + (max(stood, AGAIN_SECONDS) if false_alarm else 0.0)
        self.check(now)

    def over(self, now: float) -> str:
        """Return why its open incident is over; empty: it is not, or there is none."""
        if self.incident is None:
            return ""
        if self.incident.job_ended:
            return self._over_though_ended(self.incident, now)
        if self._has_ended(now):
            how_is_told = self._end_seen_at is not None or not exited(self.view, now)
            return self._ended if how_is_told and not self._asking else ""
        if self.incident.is_slow:
            return "no rank makes the others wait any more" if self.incident.is_well else ""
        moved, living = self.view.gone_on(self.incident.stood, self.incident.at)
        goes_on = 2 * moved > living and self.view.stood_since(now) is None
        return found_idle(self.last) or ("the job goes on" if self._lasts(goes_on, now) else "")

    def _over_though_ended(self, incident: OpenIncident, now: float) -> str:
        """Does it run again, according to what agents have reported since? One may not have told of the end yet."""
        runs = any(view.heard > incident.at for view in self.view.ranks.values())
        if self._lasts(runs, now):
            return "the job runs again"
        return self._ended if not runs and now - incident.at > FORGOTTEN_SECONDS else ""

    def _lasts(self, goes_on: bool, now: float) -> bool:
        """Has the job gone on for long enough, not for a step alone?"""
        since = now if self._going_since is None else self._going_since
        self._going_since = since if goes_on else None
        return goes_on and now - since >= FLAP_SECONDS

    @property
    def _ended(self) -> str:
        return f"the job has {self.view.end.value}"

    def _begin_again(self, now: float) -> None:
        """The launcher has restarted the job: what was suspected is gone with the old ranks."""
        self.suspected, self.last, self.phase, self._next_ask = None, None, None, 0.0
        self._slowed, self._began = Slowed(), now
        self._end_seen_at = None
        if self.incident is not None:
            self.incident = replace(self.incident, stood=tuple(self.view.ranks))

    def _go_on(self, pause: float) -> None:
        """All ranks had stood still for so long, and go on: by itself, if nobody was told."""
        self.suspected, self.phase, self._next_ask = None, None, 0.0
        was_idle = self.last is not None and self.last.state == "idle"  # how long clients ask nothing tells of no pause
        if self.incident is None and not was_idle:
            self.pauses.learn(pause)

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
        state = self._state(now)
        if state is not self.state:
            self.state, self.since = state, now
            if state is JobState.RUNNING:
                self.reason = ""

    def _state(self, now: float) -> JobState:
        if self._hang is not None and not self._hang.job_ended:
            return JobState.HUNG
        if self._has_ended(now):
            return JobState(self.view.end)
        if self._asking or self.suspected is not None:
            return JobState.SUSPECTED
        still = self._still_for(now)
        if is_held_up(self.last) and still > now - self._asked_at:
            return JobState.SLOW
        if still >= LEAST_STILL_SECONDS:
            return JobState.QUIET
        if self.view.highest < 1 and not any(view.still_since is None for view in self.view.ranks.values()):
            return JobState.STARTING
        return JobState.SLOW if self.last is not None and self.last.verdict is Verdict.SLOW else JobState.RUNNING
