"""Ranks of several users under one name, on several nodes: judged apart, and never proven where that cannot be."""

from typing import Any

import pytest

from collector.align.accounting import account_for_ranks
from collector.align.expected import Expected
from collector.align.job_owner import one_users
from collector.gather.jobs import summarise_jobs
from collector.gather.namesakes import lists_apart, user_of
from collector.hostlists import AgentAddress
from collector.judge.verdict import diagnose
from shared.answer.diagnosis import Diagnosis
from shared.answer.words import Certainty, Verdict
from shared.errors import InvalidInput
from shared.wire.job_names import goes_by, plain_name, qualified
from shared.wire.snapshot import Exited, Identity, NodeSnapshot, RankList
from tests.build.agents.asking import sweep_agents
from tests.build.agents.fake_agents import JOB, FakeAgent, case_ranks
from tests.build.jobs.four_ranks import looks_without
from tests.build.jobs.simulated import USER, Seen

SIZE = 4


def looks_at(waits_for: int, host: str, **identity: Any) -> list[NodeSnapshot]:
    """Two looks at a job of four ranks that wait for one, which is stopped by a signal."""
    looks = looks_without({waits_for: Seen((USER,), state="T")}, joined=1, host=host)
    return [changed(look, **identity) for look in looks]


def changed(look: NodeSnapshot, **identity: Any) -> NodeSnapshot:
    """The look with parts of all identities replaced."""
    ranks = (r.model_copy(update={"identity": r.identity.model_copy(update=identity)}) for r in look.ranks)
    return look.model_copy(update={"ranks": tuple(ranks)})


def verdict(found: Diagnosis) -> tuple[Verdict, set[int], set[Certainty]]:
    """What a bot acts on."""
    culprits = {culprit.rank for finding in found.findings for culprit in finding.culprits}
    return found.verdict, culprits, {finding.certainty for finding in found.findings}


ALICES = looks_at(2, "node1", user="1001")
EVES = looks_at(1, "node2", user="1002", attempt=9)


@pytest.mark.parametrize("snapshots", [(*ALICES, *EVES), (*EVES, *ALICES)], ids=["first", "last"])
def test_each_users_job_is_judged_alone(snapshots: tuple[NodeSnapshot, ...]) -> None:
    """With the user, or by the longer name; whatever attempt the other one's processes claim."""
    for expected in (Expected(job="sim", user="1001"), Expected(job="sim@1001")):
        diagnosis = diagnose(snapshots, expected)
        assert verdict(diagnosis) == (Verdict.HUNG, {2}, {Certainty.PROVEN})
        assert (diagnosis.user, diagnosis.conflicts) == ("1001", ())
    assert verdict(diagnose(snapshots, Expected(job="sim@1002"))) == (Verdict.HUNG, {1}, {Certainty.PROVEN})


@pytest.mark.parametrize("job", ["sim", None])
def test_nobody_says_whose_job_is_meant(job: str | None) -> None:
    """Then one user's ranks are taken, nothing is proven, and the verdict says why."""
    diagnosis = diagnose([*EVES, *ALICES], Expected(job=job))
    (found, _, certainties) = verdict(diagnosis)
    assert found is Verdict.HUNG
    assert Certainty.PROVEN not in certainties
    assert "several users" in diagnosis.conflicts[0].text
    assert any("several users" in remark for remark in diagnosis.findings[0].remarks)


def test_ranks_of_one_users_are_not_completed_by_anothers() -> None:
    """Eve has the ranks that Alice lacks: Alice still lacks them."""
    alices = [look.model_copy(update={"ranks": look.ranks[:2]}) for look in ALICES]
    eves = [look.model_copy(update={"ranks": look.ranks[2:]}) for look in EVES]
    found = one_users([*alices, *eves], Expected(job="sim", user="1001"))
    roster = account_for_ranks(found.snapshots, found.expected)
    assert [rank for rank, view in roster.ranks.items() if view.gone] == [2, 3]


def test_ended_rank_of_another_user_says_nothing() -> None:
    """Neither a rank that an agent remembers, nor a zombie beside another user's ranks."""
    was = Identity(job="sim", rank=2, world_size=SIZE, host="node1", pid=7, user="1002")
    gone = (Exited(pid=7, identity=was, exit_code=1), Exited(pid=8, sibling_jobs=("sim",), sibling_user="1002"))
    looks = [look.model_copy(update={"ranks": (*look.ranks[:2], look.ranks[3]), "exited": gone}) for look in ALICES]
    found = one_users(looks, Expected(job="sim", user="1001"))
    view = account_for_ranks(found.snapshots, found.expected).ranks[2]
    assert view.exited is None
    assert view.presence == "absent"


def test_doing_it_twice_changes_nothing() -> None:
    """Looks are told apart as they come, and again when they are judged."""
    for job in ("sim", "sim@1001", "sim@1002"):
        once = one_users([*ALICES, *EVES], Expected(job=job, user=None if "@" in job else "1001"))
        assert one_users(once.snapshots, once.expected).snapshots == once.snapshots


def test_older_agents_are_trusted_as_before() -> None:
    """Nobody says whose any rank is: one job, as certain as it was."""
    assert verdict(diagnose(looks_at(2, "node1"), Expected(job="sim")))[2] == {Certainty.PROVEN}


def test_half_of_the_agents_is_older() -> None:
    """While agents are brought up to date a job is one job, but who may be anybody proves nothing."""
    mixed = [
        look.model_copy(update={"ranks": (*look.ranks[:2], *changed(look, user=None).ranks[2:])}) for look in ALICES
    ]
    diagnosis = diagnose(mixed, Expected(job="sim"))
    assert verdict(diagnosis) == (Verdict.HUNG, {2}, {Certainty.SUPPORTED})
    assert "too old" in diagnosis.conflicts[0].text


@pytest.mark.parametrize(
    ("elsewhere", "said"),
    [({"attempt": 1}, "other containers"), ({"started_at": 5e9}, "several containers")],
    ids=["a later attempt", "the same rank"],
)
def test_rank_in_another_container_proves_nothing(elsewhere: dict[str, Any], said: str) -> None:
    """Two tenants of Kubernetes may both be user 0. A launcher restarts its ranks where they are."""
    one = looks_at(2, "node1", user="0", container_id="a" * 64)
    other = looks_at(1, "node2", user="0", container_id="b" * 64, **elsewhere)
    diagnosis = diagnose([*one, *other], Expected(job="sim"))
    assert Certainty.PROVEN not in verdict(diagnosis)[2]
    assert any(said in conflict.text for conflict in diagnosis.conflicts)


def test_world_size_of_another_container_proves_nothing() -> None:
    """Somebody else's pod adds a stopped rank to a world of four."""
    job = looks_at(2, "node1", user="0", container_id="a" * 64)
    more = [
        changed(each, rank=4, world_size=5, pid=9) for each in looks_at(0, "node2", user="0", container_id="b" * 64)
    ]
    added = [look.model_copy(update={"ranks": look.ranks[:1]}) for look in more]
    diagnosis = diagnose([*job, *added], Expected(job="sim"))
    assert Certainty.PROVEN not in verdict(diagnosis)[2]
    assert any("disagree on the world size" in conflict.text for conflict in diagnosis.conflicts)


def test_host_process_among_containers_proves_nothing() -> None:
    """A user of the node has the number of a pod's user."""
    job = looks_at(2, "node1", user="1000", container_id="a" * 64)
    added = [
        look.model_copy(update={"ranks": look.ranks[1:2]}) for look in looks_at(1, "node2", user="1000", attempt=1)
    ]
    diagnosis = diagnose([*job, *added], Expected(job="sim"))
    assert Certainty.PROVEN not in verdict(diagnosis)[2]
    assert any("in no container" in conflict.text for conflict in diagnosis.conflicts)


def test_restart_within_a_container_is_as_certain_as_ever() -> None:
    """What an earlier attempt left behind in the same container is the job's own."""
    old = looks_at(2, "node1", user="0", container_id="a" * 64)
    new = [changed(look, attempt=1, pid=None) for look in looks_at(1, "node1", user="0", container_id="a" * 64)]
    merged = [n.model_copy(update={"ranks": (*n.ranks, o.ranks[3])}) for n, o in zip(new, old, strict=True)]
    assert verdict(diagnose(merged, Expected(job="sim"))) == (Verdict.HUNG, {1}, {Certainty.PROVEN})


def ranks(host: str, user: str | None, *numbers: int, job: str = "demo") -> RankList:
    """What an agent lists."""
    return RankList(
        host=host, ranks=tuple(Identity(job=job, rank=at, world_size=4, pid=at + 1, user=user) for at in numbers)
    )


def test_jobs_of_one_name_are_listed_with_their_users() -> None:
    """On whatever nodes they are; who alone has a name keeps it."""
    lists = [ranks("n1", "1001", 0, 1), ranks("n2", "1002", 0), ranks("n3", "1001", 2), ranks("n3", "7", 0, job="x")]
    assert [(job.name, job.user, job.ranks) for job in summarise_jobs(lists)] == [
        ("demo@1001", "1001", "0-2"),
        ("demo@1002", "1002", "0"),
        ("x", "7", "0"),
    ]
    with pytest.raises(InvalidInput, match="2 users have a job named 'demo'") as caught:
        user_of("demo", lists)
    assert "demo@1001, demo@1002" in caught.value.advice
    assert user_of("demo@1002", lists) == "1002"


def test_ranks_that_may_be_anybodys_are_taken_for_the_one_users() -> None:
    """And stand alone where several are there."""
    one = [ranks("n1", "1001", 0), ranks("n2", None, 1)]
    assert [(job.name, job.ranks) for job in summarise_jobs(one)] == [("demo", "0-1")]
    assert user_of("demo", one) == "1001"
    three = [*one, ranks("n3", "1002", 0)]
    assert [job.name for job in summarise_jobs(three)] == ["demo@1001", "demo@1002", "demo@?"]


@pytest.mark.parametrize(
    ("job", "user", "asked", "is_it"),
    [
        ("demo", "1001", "demo", True),
        ("demo", "1001", "demo@1001", True),
        ("demo", "1001", "demo@1002", False),
        ("demo@1001", "1001", "demo@1001", True),
        ("demo@1001", "1002", "demo@1001", False),
        ("demo@1001", "1002", "demo@1001@1002", True),
        ("me@host:29500", "1002", "me@host:29500", True),
        ("demo@c0", "1002", "demo@c0", False),
        ("demo@?", "1002", "demo@?", False),
        ("demo@1001\n", "1002", "demo@1001\n", True),
        ("demo", None, "demo", True),
        ("demo", None, "demo@1001", False),
        (None, "1001", "demo", False),
    ],
)
def test_names(job: str | None, user: str | None, asked: str, is_it: bool) -> None:
    """The name that is kept for one user is no other's."""
    assert goes_by(Identity(job=job, rank=0, user=user), asked) is is_it


def test_scheduler_knows_the_name_without_the_user() -> None:
    """So nodes that Slurm gave a job are found by the longer name, too."""
    assert plain_name(qualified("slurm-71", "1001")) == "slurm-71"
    assert plain_name("me@host:29500") == "me@host:29500"


def test_lists_are_told_apart_once_a_job_is_chosen() -> None:
    """Every name in them is then one job's."""
    apart = lists_apart([ranks("n1", "1001", 0), ranks("n1", "1002", 0)], "demo", "1001")
    assert [rank.job for found in apart for rank in found.ranks] == ["demo", "demo@1002"]


def node(host: str, user: str, *numbers: int) -> FakeAgent:
    """An agent of one user's part of a recorded job, of which rank 2 has not joined."""
    looks = case_ranks("missing_rank2", numbers, host=host)
    return FakeAgent(
        host,
        tuple(look.model_copy(update={"identity": look.identity.model_copy(update={"user": user})}) for look in looks),
    )


async def test_name_is_not_taken_over_while_an_agent_is_silent() -> None:
    """Alice's node does not answer: what goes by her job's name elsewhere is not taken for hers."""
    eves, silent = node("node1", "1002", 0, 1, 2, 3), AgentAddress(host="gone", url="http://127.0.0.1:9")
    with pytest.raises(InvalidInput, match="2 users"):
        await sweep_agents(eves, more=[silent], earlier={silent.url: ranks("gone", "1001", 0, job=JOB)})
    swept = await sweep_agents(eves, more=[silent], earlier={silent.url: ranks("gone", "1002", 0, job=JOB)})
    assert (swept.diagnosis.verdict, swept.diagnosis.user) == (Verdict.HUNG, "1002")


async def test_another_users_nodes_are_not_looked_at() -> None:
    """Once it is known whose job is meant, nothing of it is there to see."""
    alices, eves = node("node1", "1001", 0, 1), node("node2", "1002", 2, 3)
    swept = await sweep_agents(alices, eves, job=f"{JOB}@1001")
    assert eves.looks == 0
    assert {rank.identity.user for look in swept.snapshots for rank in look.ranks} <= {"1001"}
