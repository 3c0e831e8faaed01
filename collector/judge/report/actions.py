"""The act: one thing to do about a verdict, with its reason, by the rows of `actions.toml`."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from collector.align.node_facts import breaks_device, gpu_trouble
from collector.align.observations import Observations
from collector.align.stacks.activity import place
from collector.judge.fault import Fault
from collector.judge.report.advice_rows import AdviceRow, advice_row
from collector.judge.report.case import Case
from shared.answer.action import Action
from shared.answer.diagnosis import Evidence, NextStep, Side, SignatureEvidence, StackEvidence
from shared.answer.words import Act, Cause
from shared.isolation import costs_itself
from shared.packs import read_pack
from shared.plural import either
from shared.rank_sets import ranks_in_words, unfold
from shared.wire.devices import Gpu

_MOST_PLACES = 4
_MOST_HOSTS = 8


@dataclass(frozen=True)
class ActCase(Case):
    """A case with what has been advised about it."""

    steps: tuple[NextStep, ...] = ()

    @property
    def freeing(self) -> tuple[NextStep, ...]:
        return tuple(step for step in self.steps if step.frees)

    @property
    def traced(self) -> bool:
        views = (self.observations.roster.ranks[rank] for rank in self.fault.culprits)
        return any(view.process is not None and view.process.tracer_pid for view in views)

    @property
    def child_in_kernel(self) -> bool:
        views = (self.observations.roster.ranks[rank] for rank in self.fault.culprits)
        return any(child.process.state == "D" for view in views for look in view.looks[-1:] for child in look.children)

    @cached_property
    def broken(self) -> tuple[str, ...]:
        """Nodes whose own kernel or driver tells of a broken device: the culprits' devices, else any of the group's."""
        seen, culprits = self.observations, self.fault.culprits
        if culprits:
            ranks = [r for r in culprits if any(map(breaks_device, seen.kernel_on(r))) or _sick(seen.gpus_of(r))]
            hosts = {seen.roster.ranks[rank].host for rank in ranks}
        else:
            facts = {host: seen.nodes[host] for host in self.hosts if host in seen.nodes}
            hosts = {h for h, each in facts.items() if any(map(breaks_device, each.events)) or _sick(each.gpus)}
        return tuple(sorted(host for host in hosts if host is not None))

    @cached_property
    def culprit_hosts(self) -> tuple[str, ...]:
        hosts = {self.observations.roster.ranks[rank].host for rank in self.fault.culprits}
        return tuple(sorted(host for host in hosts if host is not None))

    @property
    def came_before(self) -> tuple[str, ...]:
        return tuple(host for host in self.culprit_hosts if host in self.observations.faulty_hosts)

    @property
    def called(self) -> list[Side]:
        """The sides of what differs."""
        return [side for each in self.evidence if isinstance(each, SignatureEvidence) for side in each.sides]

    @property
    def sided(self) -> list[str]:
        """From which lines they called, each with its ranks; []: that is not known of all, or one line is all."""
        sides = [(side.call_site, ranks_in_words(unfold(side.ranks))) for side in self.called]
        told = [f"{at.file}:{at.line} ({who})" for at, who in sides if at is not None]
        is_told = len(told) == len(sides) <= _MOST_PLACES and len({at for at, _ in sides}) > 1
        return told if is_told else []

    @cached_property
    def places(self) -> tuple[str, ...]:
        """Where in the user's code the fault lies: both sides of what differs, else where the culprit is."""
        sides = [side.call_site for side in self.called]
        sites = [edge.wait.call_site for edge in self.fault.cycle] or sides
        if not any(sites) and self.in_several_places:
            users = (seen.user for _, seen in sorted(self.observations.activities.items()) if seen.user is not None)
            sites = list(dict.fromkeys(place(user) for user in users))
            sites = sites or [e.frames[-1] for e in self.evidence if isinstance(e, StackEvidence) and e.frames]
        told = [f"{site.file}:{site.line}" for site in sites if site is not None and site.line]
        own = self.user
        return tuple(dict.fromkeys([*told, *([f"{own.file}:{own.line}"] if own is not None and own.line else [])]))

    @cached_property
    def words(self) -> dict[str, str]:
        """What a row's text may name."""
        first = next(iter(self.steps), NextStep(text=""))
        return super().words | {
            "are": either(self.fault.culprits, "is", "are"),
            "waits": either(self.fault.culprits, "waits", "wait"),
            "broken": ", ".join(self.broken[:_MOST_HOSTS]),
            "came_before": ", ".join(self.came_before[:_MOST_HOSTS]),
            "culprit_hosts": ", ".join(self.culprit_hosts[:_MOST_HOSTS]),
            "places": " and ".join(self.sided or self.places[:_MOST_PLACES]),
            "release": next((step.text for step in self.freeing), ""),
            "first_step": first.text,
            "certainty": self.fault.certainty.level.value,
            "certainty_reason": self.fault.certainty.reason,
        }


def _sick(gpus: Iterable[Gpu]) -> bool:
    return any(gpu_trouble(gpu) is not None for gpu in gpus)


class ActRow(NamedTuple):
    """When `row` holds, what to do and why."""

    row: AdviceRow
    do: Act
    reason: str
    again: Literal["likely", "unlikely", "unknown"]


ACTS = tuple(
    ActRow(advice_row(row), Act(row["act"]), row["reason"], row.get("again", "unknown"))
    for row in read_pack(__file__, "actions.toml")["acts"]
)
COLLECT = Action(do=Act.COLLECT, text="look again while it hangs", reason="what is known does not show why")


@costs_itself(lambda *_: COLLECT)
def action_for(
    fault: Fault, cause: Cause, observations: Observations, evidence: tuple[Evidence, ...], steps: tuple[NextStep, ...]
) -> Action:
    """Return what to do about a fault: the first row that holds."""
    case = ActCase(fault, cause, observations, evidence, steps)
    for row in ACTS:
        step = row.row.step(case)
        if step is not None:
            return _action(row, step.text, case)
    return COLLECT


def _action(row: ActRow, text: str, case: ActCase) -> Action:
    fits = {Act.FREE: case.freeing, Act.COLLECT: case.steps[:1]}.get(row.do, ())
    shown = next((step for step in fits if step.command is not None), None)
    return Action(
        do=row.do,
        text=text,
        reason=row.reason.format(**case.words),
        again=row.again,
        exclude=(case.broken or case.came_before) if row.do is Act.RESTART_WITHOUT_NODES else (),
        places=case.places[:_MOST_PLACES] if row.do is Act.FIX_CODE else (),
        command=None if shown is None else shown.command,
        host=next(iter(case.culprit_hosts), None) if shown in case.freeing else None,
    )
