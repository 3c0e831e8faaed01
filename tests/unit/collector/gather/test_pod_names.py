"""Names of pods in a diagnosis: what is added, what is left alone, and that hostile names harm nobody."""

from typing import Any

import pytest

from collector.align.pod_places import Places, PodFacts, RankPlace
from collector.gather.pod_names import named
from shared.answer.diagnosis import AbsenceEvidence, Culprit, Diagnosis, Finding, PodEvidence
from shared.answer.words import Certainty, Kind, Verdict


def pod(name: str, **more: Any) -> PodFacts:
    """A pod of the job."""
    return PodFacts.model_validate({"namespace": "team", "name": name, "phase": "Running", **more})


def hung(kind: Kind, *culprits: Culprit) -> Diagnosis:
    """A verdict with one finding."""
    finding = Finding(kind=kind, certainty=Certainty.PROVEN, culprits=culprits)
    return Diagnosis(verdict=Verdict.HUNG, headline="Hung: x", findings=(finding,))


def test_verdict_itself_is_left_alone() -> None:
    """Kinds, certainties, ranks, summaries and what stood there before; the input is not changed."""
    before = hung(Kind.RANK_NOT_JOINED, Culprit(rank=0, host="n", pid=1))
    whole = before.model_dump_json()
    after = named(before, Places(ranks=(RankPlace(rank=0, pod=pod("a", phase="Failed", reason="Evicted")),)))
    assert before.model_dump_json() == whole
    kept = {"kind", "cause", "certainty", "victims", "summary", "remarks", "where"}
    assert after.findings[0].model_dump(include=kept) == before.findings[0].model_dump(include=kept)
    assert (after.verdict, after.headline, after.id) == (before.verdict, before.headline, before.id)


def test_pods_that_are_well_are_no_evidence() -> None:
    """A name is told, and nothing is said against a pod that runs."""
    after = named(hung(Kind.RANK_NOT_JOINED, Culprit(rank=0)), Places(ranks=(RankPlace(rank=0, pod=pod("a")),)))
    assert (after.findings[0].culprits[0].pod, after.findings[0].evidence) == ("team/a", ())


def test_ranks_of_one_container_are_told_together() -> None:
    """Two of it, and one of another."""
    bad = pod("a", reason="OOMKilled", restarts=2)
    places = [RankPlace(rank=rank, pod=bad, container="c" if rank < 2 else "d") for rank in range(3)]
    after = named(hung(Kind.RANK_NOT_JOINED, *(Culprit(rank=rank) for rank in range(3))), Places(ranks=tuple(places)))
    assert [(each.ranks, each.text) for each in after.findings[0].evidence] == [
        ("0-1", "ranks 0-1 run in pod team/a, container c: Running, OOMKilled, restarted 2 times"),
        ("2", "rank 2 runs in pod team/a, container d: Running, OOMKilled, restarted 2 times"),
    ]


def test_lost_pods_are_told_only_where_ranks_are() -> None:
    """Beside a rank that is seen and does not join, they would be noise."""
    places = Places(lost=(pod("b", phase="Failed"),))
    seen, gone = (named(hung(kind, Culprit(rank=0)), places) for kind in (Kind.RANK_NOT_JOINED, Kind.RANK_MISSING))
    assert seen.findings[0].evidence == ()
    assert [type(each) for each in gone.findings[0].evidence] == [PodEvidence]


def test_thousands_of_pods_are_told_in_few_words() -> None:
    """A whole job that was evicted."""
    places = Places(lost=tuple(pod(f"w-{at}", phase="Failed", reason="Evicted") for at in range(5_000)))
    after = named(hung(Kind.RANK_MISSING, *(Culprit(rank=at) for at in range(1, 5_001))), places)
    assert len(after.findings[0].evidence) == 8
    assert len(after.findings[0].next_steps) == 2


@pytest.mark.parametrize("name", ["w'; rm -rf /", "$(reboot)", "a b", "-n", "--all", "`x`", "\n", "", "A", "x" * 300])
@pytest.mark.parametrize("where", ["name", "namespace", "container"])
def test_names_that_are_none_stand_in_no_command(name: str, where: str) -> None:
    """Kubernetes takes no such name; one that comes from elsewhere must not become an option, nor a shell's word."""
    there = pod("a", restarts=1, reason="Error").model_copy(update={where: name})
    place = RankPlace(rank=0, pod=there, container=name if where == "container" else "c")
    after = named(hung(Kind.RANK_STOPPED, Culprit(rank=0, host="n", pid=1)), Places(ranks=(place,)))
    steps = [step.command for step in after.findings[0].next_steps]
    assert steps == ([None, None] if where != "container" else ["kubectl -n team describe pod a", None])


def test_of_many_nodes_of_slurm_without_ranks_some_are_named() -> None:
    """For the ranks of which no node is known."""
    places = Places(idle=tuple(f"n{at:03}" for at in range(300)))
    missing = (Culprit(rank=1, host="n"), Culprit(rank=2))
    (told,) = named(hung(Kind.RANK_MISSING, *missing), places).findings[0].evidence
    assert isinstance(told, AbsenceEvidence)
    assert (told.ranks, told.text.count("n0"), "and 292 more" in told.text) == ("2", 8, True)
