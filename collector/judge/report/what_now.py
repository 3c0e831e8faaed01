"""Step 10: the one act that the whole verdict asks for, and what a restart would lose."""

from collections.abc import Sequence

from collector.align.observations import Observations
from collector.judge.report.actions import COLLECT
from collector.judge.report.findings import rfc3339
from collector.judge.report.headline import Interpretation
from shared.answer.action import Action
from shared.answer.diagnosis import NextStep
from shared.answer.words import Act, Verdict
from shared.isolation import costs_itself
from shared.plural import counted

_TIME = "a healthy job may stand as long as this: only time tells"
_OPEN = "what was seen does not show whether it hangs, or because of whom"

_ENDS_RANKS = frozenset({Act.RESTART, Act.RESTART_WITHOUT_NODES, Act.FIX_CODE})


@costs_itself(lambda *_: COLLECT)
def action_of(reading: Interpretation, steps: Sequence[NextStep], observations: Observations) -> Action:
    """Return what to do about a verdict: what its first finding asks for, else what is left open."""
    if reading.findings:
        first = reading.findings[0]
        found = (first.action or COLLECT).model_copy(update={"until": first.hung_from})
    elif reading.verdict is Verdict.NOT_HUNG:
        found = Action(do=Act.NOTHING, text="nothing", reason=reading.reason, again="unlikely")
    elif reading.decided_after is not None and observations.roster.last_look_ns is not None:
        until = rfc3339(observations.roster.last_look_ns + int(reading.decided_after * 1e9))
        found = Action(do=Act.WAIT, text=steps[0].text if steps else "look again", reason=_TIME, until=until)
    else:
        step = next(iter(steps), NextStep(text=COLLECT.text))
        found = Action(do=Act.COLLECT, text=step.text, command=step.command, reason=_OPEN)
    return found.model_copy(update={"lost": _lost(observations)}) if found.do in _ENDS_RANKS else found


def _lost(observations: Observations) -> str:
    """What is in the memory of processes that a restart ends."""
    roster = observations.roster
    alive = [view for view in roster.present() if not view.gone] if roster.live else []
    if not alive:
        return ""
    recorded = sum(view.rank in observations.recorded for view in alive)
    return f"the stacks of {counted(len(alive), 'live rank')}" + (
        f", and {counted(recorded, 'flight record')} in memory" if recorded else ""
    )
