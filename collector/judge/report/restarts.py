"""A job that its launcher has started again: that it was, and what the attempt before died of.

The processes of that attempt are gone, and nothing that they wrote is held against those that run now. What remains is
the launcher's line on who failed, of a process that is none of these, and the exception that its rank had logged.
"""

from collections.abc import Iterable, Iterator

from collector.align.observations import Observations
from collector.align.roster import Roster
from shared.answer.diagnosis import LogEvidence
from shared.isolation import costs_itself
from shared.wire.log_events import EventKind, LogEvent

_MOST_TOLD = 2
_LONGEST = 200


@costs_itself(lambda observations: "")
def restart_in_words(observations: Observations) -> str:
    """Say which attempt this is and how the one before ended; empty where the job was never started again."""
    attempt = _attempt(observations.roster)
    if not attempt:
        return ""
    deaths = list(_deaths(observations.roster))[-_MOST_TOLD:]
    told = f"; before, {', and '.join(deaths)}" if deaths else ""
    return f"this is attempt {attempt + 1} of the job, after {attempt} restart{'s' if attempt > 1 else ''}{told}"


@costs_itself(lambda observations: ())
def restart_evidence(observations: Observations) -> tuple[LogEvidence, ...]:
    """The launcher's lines on the processes of earlier attempts."""
    if not _attempt(observations.roster):
        return ()
    lines = list(_failures(observations.roster))[-_MOST_TOLD:]
    return tuple(
        LogEvidence(ranks="", text="the launcher's line on an earlier attempt", path=line.path, line=line.text)
        for line in lines
    )


def _attempt(roster: Roster) -> int:
    return max((view.identity.attempt for view in roster.present() if view.identity is not None), default=0)


def _deaths(roster: Roster) -> Iterator[str]:
    for line in _failures(roster):
        which, code = line.fields.get("local_rank"), line.fields.get("exit_code", "")
        who = f"pid {line.fields['pid']}" if which is None else f"local rank {which} (pid {line.fields['pid']})"
        how = f"was killed by signal {code[1:]}" if code.startswith("-") else f"exited with code {code}"
        said = _last_exception(line, _events(roster))
        yield f"{who} {how}" + (f": {said.text[:_LONGEST]}" if said is not None else "")


def _failures(roster: Roster) -> Iterable[LogEvent]:
    """Lines on processes that failed and are none of those that run, the oldest first."""
    pids = {str(look.identity.pid) for view in roster.ranks.values() for look in view.looks}
    found = {
        (event.path, event.text): event  # its number changes as the file grows
        for event in _events(roster)
        if event.kind is EventKind.SIGNAL and event.fields.get("pid", "") not in {"", *pids}
    }
    return sorted(found.values(), key=lambda event: (event.path, event.number))


def _last_exception(failure: LogEvent, events: Iterable[LogEvent]) -> LogEvent | None:
    """What the rank of that local number had logged before, in the same file; on one node these numbers are equal."""
    before = (
        event
        for event in events
        if event.kind is EventKind.EXCEPTION
        and (event.path, str(event.rank)) == (failure.path, failure.fields.get("local_rank"))
        and event.number < failure.number
    )
    return max(before, key=lambda event: event.number, default=None)


def _events(roster: Roster) -> tuple[LogEvent, ...]:
    return (*roster.unowned, *(event for view in roster.ranks.values() for event in view.logged))
