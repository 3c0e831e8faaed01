"""What makes the collector look at a job: each returns a reason in words, or an empty text. It accuses nobody."""

from signal import SIGTERM

from collector.detect.job_view import JobView
from collector.detect.limits import (
    BEHIND_PAUSES,
    BEHIND_SECONDS,
    EXITED_SECONDS,
    IDLE_SECONDS,
    LEAST_STILL_SECONDS,
    LOST_SECONDS,
    PARTLY_STILL,
    SPINS_SECONDS,
    TIMEOUT_SHARE,
    TIMEOUT_SPARE_SECONDS,
    UNANSWERED_SECONDS,
    USUAL_PAUSES,
)
from collector.detect.usual_pauses import UsualPauses
from shared.answer.diagnosis import Diagnosis
from shared.answer.words import Kind, Verdict
from shared.plural import counted, either, ranks_with


def reason_to_look(view: JobView, pauses: UsualPauses, now: float) -> str:
    """Return why a job is to be looked at now; empty: it is not."""
    sooner = exited(view, now) or _timed_out(view) or _signs(view, now) or _spins(view, now) or unanswered(view, now)
    return sooner or _still(view, pauses, now) or _partly(view, pauses, now) or _idle(view, pauses, now)


def exited(view: JobView, now: float) -> str:
    """Has a rank ended badly, or while the others stand still?"""
    bad = [rank for rank, gone in view.exited.items() if gone.rank.abnormally and now - gone.since >= EXITED_SECONDS]
    # Launchers end all others by SIGTERM.
    worst = min(bad, key=lambda rank: (view.exited[rank].rank.signal == SIGTERM, rank), default=0)
    if bad and view.ranks:
        return f"rank {worst} has ended while others live"
    if bad and now - min(view.exited[rank].since for rank in bad) <= LOST_SECONDS:
        return f"rank {worst} has ended badly, and the job with it"
    stood = view.stood_since(now)
    if view.exited and stood is not None and now - stood >= LEAST_STILL_SECONDS:
        return f"rank {min(view.exited)} has ended and the others have stood still for {now - stood:.0f} s"
    return ""


def _timed_out(view: JobView) -> str:
    """The watchdog ends the ranks next: whatever is to be seen of them is to be seen now."""
    return f"{ranks_with(view.timed_out, 'has', 'have')} logged a timeout" if view.timed_out else ""


def _signs(view: JobView, now: float) -> str:
    sign = view.sign(now)
    return "" if sign is None else f"{sign.words}, and ranks stand still"


def _spins(view: JobView, now: float) -> str:
    since = view.spinning_since(now)
    if since is None or now - since < SPINS_SECONDS:
        return ""
    return f"most GPUs have spun in a kernel without computing anything for {now - since:.0f} s"


def unanswered(view: JobView, now: float) -> str:
    """Does a request wait, and ranks issue nothing?"""
    since = view.asked_since
    if since is None or now - since < UNANSWERED_SECONDS:
        return ""
    return f"a request has been waiting for an answer for {now - since:.0f} s"


def served(view: JobView, last: Diagnosis | None) -> str:
    """Was it hung while requests waited, of which none waits any more? Clients may have given up as well."""
    kinds = [] if last is None else [finding.kind for finding in last.findings[:1]]
    return "no request waits any more" if kinds == [Kind.REQUESTS_UNANSWERED] and view.asked_since is None else ""


def found_idle(last: Diagnosis | None) -> str:
    """Has a look shown since that all of a server waits for work? What it was asked before it has answered then."""
    idle = last is not None and last.verdict is Verdict.NOT_HUNG and last.state == "idle"
    return "the server is idle again" if idle else ""


def _still(view: JobView, pauses: UsualPauses, now: float) -> str:
    since = view.stood_since(now)
    if since is None:
        return ""
    still = now - since
    behind = view.behind(now)
    if behind is not None and still >= max(BEHIND_SECONDS, BEHIND_PAUSES * (pauses.usual or 0.0)):
        waiting, rank = behind
        wait = f"{counted(waiting, 'rank')} {either(waiting, 'waits', 'wait')}"
        return f"{wait} in an operation that rank {rank} has not issued, for {still:.0f} s"
    if still >= pauses.allowance:
        return f"no rank has gone on for {still:.0f} s"
    timeout = view.timeout_seconds
    if timeout is not None and still >= min(TIMEOUT_SHARE * timeout, max(timeout / 3, timeout - TIMEOUT_SPARE_SECONDS)):
        return f"no rank has gone on for {still:.0f} s, and operations time out after {timeout:.0f} s"
    return ""


def _partly(view: JobView, pauses: UsualPauses, now: float) -> str:
    since = view.partly_stood_since(now)
    if since is None or now - since < PARTLY_STILL * max(pauses.allowance, IDLE_SECONDS):
        return ""
    return f"some ranks have not gone on for {now - since:.0f} s, while others do"


def _idle(view: JobView, pauses: UsualPauses, now: float) -> str:
    since = view.idle_since(now)
    if since is None or now - since < max(IDLE_SECONDS, USUAL_PAUSES * (pauses.usual or 0.0)):
        return ""
    return f"no rank has done anything for {now - since:.0f} s"


def slower(view: JobView) -> str:
    """Does it go on, and slower than it used to?"""
    pace = view.pace.slower
    return "" if pace is None else f"it issues {pace[0]:,.0f} operations an hour in place of {pace[1]:,.0f}"
