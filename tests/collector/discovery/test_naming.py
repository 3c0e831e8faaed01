"""Names of pods in a diagnosis: what is added, what is left alone, and that hostile names harm nobody."""

from dataclasses import replace
from typing import Any

import pytest

from collector.discovery.naming import named
from collector.discovery.placing import JobPlaces, places_of
from collector.discovery.sightings import PodPlace
from shared.diagnosis import (
    AbsenceEvidence,
    Certainty,
    Culprit,
    Diagnosis,
    Finding,
    Kind,
    PodEvidence,
    Verdict,
)
from shared.snapshot import Identity


def place(name: str, **more: Any) -> PodPlace:
    """A pod of the job."""
    return PodPlace(**{"uid": name, "namespace": "team", "name": name, "job": "j", "phase": "Running", **more})


def hung(kind: Kind, *culprits: Culprit) -> Diagnosis:
    """A verdict with one finding."""
    finding = Finding(kind=kind, certainty=Certainty.PROVEN, culprits=culprits)
    return Diagnosis(verdict=Verdict.HUNG, headline="Hung: x", findings=(finding,))


def job(pods: list[PodPlace], *ranks: Identity) -> JobPlaces:
    """Where the job's ranks are."""
    return places_of(ranks, {pod.uid: pod for pod in pods})


def rank(number: int, uid: str) -> Identity:
    """A rank in the container `c` of a pod."""
    return Identity(job="x", rank=number, pod_uid=uid, container_id="c")


def test_verdict_itself_is_left_alone() -> None:
    """Kinds, certainties, ranks, summaries and what stood there before; the input is not changed."""
    before = hung(Kind.RANK_NOT_JOINED, Culprit(rank=0, host="n", pid=1))
    whole = before.model_dump_json()
    after = named(before, job([place("a", phase="Failed", reason="Evicted")], rank(0, "a")))
    assert before.model_dump_json() == whole
    kept = {"kind", "cause", "certainty", "victims", "summary", "remarks", "where"}
    assert after.findings[0].model_dump(include=kept) == before.findings[0].model_dump(include=kept)
    assert (after.verdict, after.headline, after.id) == (before.verdict, before.headline, before.id)


def test_order_of_what_is_known_changes_nothing() -> None:
    """Whoever was listed or seen first."""
    pods = [place("a"), place("b", phase="Failed"), place("c", phase="Pending")]
    ranks = [rank(0, "a"), rank(1, "a")]
    before = hung(Kind.RANK_MISSING, Culprit(rank=0), Culprit(rank=2))
    assert named(before, job(pods, *ranks)) == named(before, job(pods[::-1], *ranks[::-1]))


def test_pods_that_are_well_accuse_nobody() -> None:
    """A launcher has no rank and is no fault; nor is a pod that has done its work."""
    pods = [place("a"), place("launcher"), place("done", phase="Succeeded")]
    after = named(hung(Kind.RANK_MISSING, Culprit(rank=3)), job(pods, rank(0, "a")))
    assert not [each for each in after.findings[0].evidence if isinstance(each, PodEvidence)]


def test_pods_of_other_jobs_are_not_told() -> None:
    """Whatever is wrong with them."""
    pods = [place("a"), place("b", job="other", phase="Failed"), place("c", namespace="else", phase="Failed")]
    after = named(hung(Kind.RANK_MISSING, Culprit(rank=3)), job(pods, rank(0, "a")))
    assert "team/b" not in after.model_dump_json() and "else/c" not in after.model_dump_json()


def test_thousands_of_pods_are_told_in_few_words() -> None:
    """A whole job that was evicted."""
    pods = [place("a"), *(place(f"w-{at}", phase="Failed", reason="Evicted") for at in range(5_000))]
    after = named(hung(Kind.RANK_MISSING, *(Culprit(rank=at) for at in range(1, 5_001))), job(pods, rank(0, "a")))
    assert len(after.findings[0].evidence) == 8
    assert len(after.findings[0].next_steps) == 2


@pytest.mark.parametrize("name", ["w'; rm -rf /", "$(reboot)", "a b", "-n", "--all", "`x`", "\n", "", "A", "x" * 300])
@pytest.mark.parametrize("where", ["name", "namespace", "container"])
def test_names_that_are_none_stand_in_no_command(name: str, where: str) -> None:
    """Kubernetes takes no such name; one that comes from elsewhere must not become an option, nor a shell's word."""
    named_so = {"containers": {"c": name}} if where == "container" else {where: name}
    pod = replace(place("a", restarts=1, reason="Error"), **named_so)
    after = named(hung(Kind.RANK_STOPPED, Culprit(rank=0, host="n", pid=1)), job([pod], rank(0, "a")))
    steps = [step.command for step in after.findings[0].next_steps]
    assert steps == ([None, None] if where != "container" else ["kubectl -n team describe pod a", None])


def test_of_many_nodes_of_slurm_without_ranks_some_are_named() -> None:
    """For the ranks of which no node is known."""
    places = JobPlaces(idle=tuple(f"n{at:03}" for at in range(300)))
    missing = (Culprit(rank=1, host="n"), Culprit(rank=2))
    (told,) = named(hung(Kind.RANK_MISSING, *missing), places).findings[0].evidence
    assert isinstance(told, AbsenceEvidence)
    assert (told.ranks, told.text.count("n0"), "and 292 more" in told.text) == ("2", 8, True)
