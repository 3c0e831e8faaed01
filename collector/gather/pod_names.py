"""A diagnosis with the names that people go by: a pure function of the verdict and of the job's places.

1. Culprits get the names of their pod and container, where an agent has seen in which they run.
2. What Kubernetes knows to be wrong with such a pod becomes evidence.
3. Where ranks are gone or missing, so do the job's pods in which no rank is seen and that are not well, and the nodes
   that Slurm gave the job and that have none: which rank should be there is not known, and not guessed.
4. Next steps say how to look with kubectl. No verdict, kind, cause or certainty is changed.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from collector.align.pod_places import Places, PodFacts, RankPlace
from shared.answer.diagnosis import AbsenceEvidence, Culprit, Diagnosis, Evidence, Finding, NextStep, PodEvidence
from shared.answer.words import Kind
from shared.missing import Reason
from shared.plural import counted, ranks_with
from shared.rank_sets import fold
from shared.shell_commands import copyable

_GONE = frozenset({Kind.RANK_EXITED, Kind.RANK_MISSING, Kind.RANK_UNREACHABLE, Kind.STARTUP_INCOMPLETE})
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
"""As Kubernetes' names are (RFC 1123); anything else is put into no command, where it might be an option."""
_MOST_PODS = 8
_MOST_NODES = 8
_MOST_LOOKED_AT = 2
"""Culprits whose pods are looked at in next steps, as `steps.py` does."""


def named(diagnosis: Diagnosis, places: Places) -> Diagnosis:
    """Return the diagnosis with what is known of its pods and nodes added."""
    if places == Places():
        return diagnosis
    by_rank = {place.rank: place for place in places.ranks}
    findings = tuple(_finding(finding, by_rank, places) for finding in diagnosis.findings)
    lost = () if findings else tuple(map(_describe, places.lost[:_MOST_LOOKED_AT]))
    return diagnosis.model_copy(update={"findings": findings, "next_steps": (*diagnosis.next_steps, *lost)})


def _finding(finding: Finding, by_rank: Mapping[int, RankPlace], places: Places) -> Finding:
    culprits = tuple(_culprit(each, by_rank.get(each.rank)) for each in finding.culprits)
    here = [(each, by_rank[each.rank]) for each in culprits if each.rank in by_rank]
    lost = finding.kind in _GONE and any(each.pod is None for each in culprits)
    evidence = [*_of_culprits(here), *(_of_lost(culprits, places) if lost else ())]
    steps = [step for each, place in here[:_MOST_LOOKED_AT] for step in _steps(finding.kind, each, place)]
    steps += map(_describe, places.lost[:_MOST_LOOKED_AT] if lost else ())
    return finding.model_copy(
        update={
            "culprits": culprits,
            "evidence": (*finding.evidence, *evidence),
            "next_steps": (*finding.next_steps, *steps),
        }
    )


def _culprit(culprit: Culprit, place: RankPlace | None) -> Culprit:
    """Step 1."""
    if place is None:
        return culprit
    host = place.pod.node if culprit.host is None else culprit.host
    return culprit.model_copy(update={"pod": place.pod.full_name, "container": place.container, "host": host})


def _of_culprits(here: Sequence[tuple[Culprit, RankPlace]]) -> list[Evidence]:
    """Step 2."""
    together: dict[tuple[str, str | None], tuple[RankPlace, list[int]]] = {}
    for culprit, place in here:
        if place.pod.is_unwell:
            together.setdefault((place.pod.full_name, place.container), (place, []))[1].append(culprit.rank)
    told = list(together.values())[:_MOST_PODS]
    return [_evidence(place.pod, place.container, ranks) for place, ranks in told]


def _of_lost(culprits: Sequence[Culprit], places: Places) -> Iterator[Evidence]:
    """Step 3."""
    for pod in places.lost[:_MOST_PODS]:
        yield _evidence(pod, None, ())
    if places.idle:
        lost = [culprit.rank for culprit in culprits if culprit.host is None]
        more = f" and {len(places.idle) - _MOST_NODES} more" if len(places.idle) > _MOST_NODES else ""
        nodes = ", ".join(places.idle[:_MOST_NODES]) + more
        text = f"Slurm also allocated {nodes} to the job; the agents there answer and see no rank of it"
        yield AbsenceEvidence(ranks=fold(lost), text=text, reason=Reason.NOT_FOUND)


def _evidence(pod: PodFacts, container: str | None, ranks: Sequence[int]) -> PodEvidence:
    within = "" if container is None else f", container {container}"
    who = f"{ranks_with(ranks, 'runs', 'run')} in pod {pod.full_name}{within}"
    on = "" if pod.node is None else f" on {pod.node}"
    whose = who if ranks else f"no rank is seen in pod {pod.full_name} of this job{on}"
    again = f"restarted {counted(pod.restarts, 'time')}" if pod.restarts else ""
    state = ", ".join(part for part in (pod.phase, pod.reason, again) if part)
    return PodEvidence(
        ranks=fold(ranks),
        text=f"{whose}: {state}",
        pod=pod.full_name,
        container=container,
        host=pod.node,
        phase=pod.phase,
        reason=pod.reason,
        restarts=pod.restarts,
    )


def _steps(kind: Kind, culprit: Culprit, place: RankPlace) -> Iterator[NextStep]:
    """Step 4, for one culprit."""
    rank, pod, agent = culprit.rank, place.pod, place.agent
    names = [pod.name, *(() if place.container is None else (place.container,))]
    inside = () if place.container is None else ("-c", place.container)
    if kind is Kind.RANK_STOPPED and place.pid is not None:
        signal = ("exec", pod.name, *inside, "--", "sh", "-c", f"kill -CONT {place.pid}")
        text = f"resume rank {rank} through its pod"
        yield NextStep(text=text, command=_kubectl(pod.namespace, names, *signal))
    elif agent is not None and culprit.pid is not None and kind not in _GONE:
        dump = ("exec", agent.name, "--", "py-spy", "dump", "--native", "--pid", str(culprit.pid))
        text = f"show the threads of rank {rank} through the agent's pod on its node"
        yield NextStep(text=text, command=_kubectl(agent.namespace, [agent.name], *dump))
    yield _describe(pod)
    before = ("--previous",) if pod.restarts else ()
    text = f"read the last lines that rank {rank}'s container printed" + (" before it was restarted" if before else "")
    logs = ("logs", pod.name, *inside, *before, "--tail=100")
    yield NextStep(text=text, command=_kubectl(pod.namespace, names, *logs))


def _describe(pod: PodFacts) -> NextStep:
    return NextStep(
        text=f"show the state and events of pod {pod.full_name}",
        command=_kubectl(pod.namespace, [pod.name], "describe", "pod", pod.name),
    )


def _kubectl(namespace: str, names: Iterable[str], *words: str) -> str | None:
    """Return a command; None where one of the names that are in it is none."""
    if not all(_NAME.fullmatch(name) for name in (namespace, *names)):
        return None
    return copyable("kubectl", "-n", namespace, *words)
