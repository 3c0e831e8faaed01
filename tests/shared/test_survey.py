"""A survey says in fewer words what a brief look has seen, and gives it back."""

from array import array

import pytest

from shared.errors import InvalidRankSet
from shared.missing import Missing, Reason
from shared.ranks import fold_in_steps, out_of_steps, unfold
from shared.setup import Setup
from shared.snapshot import Identity, NodeSnapshot, Process, RankSnapshot
from shared.stacks import Frame, Stacks, Thread
from shared.survey import WINDOW, Survey, SurveyedGroup, SurveyReader, survey_of
from shared.trace import Group, Signature, State, Trace

_NOTHING = Missing(source="logs", reason=Reason.NOT_FOUND)
_NEWEST = 1_790_000_000_000_000_000


def _trace(rank: int, records: int = WINDOW + 5, *, pending: int = 1) -> Trace:
    zeros = array("B", bytes(records))
    return Trace(
        version="2.10",
        groups=(
            Group(name="0", description="default_pg", members="0-7"),
            Group(name=str(1 + rank), description="dp", members=",".join(str(rank + 8 * i) for i in range(1024))),
        ),
        signatures=(Signature("all_reduce", "nccl", ((4,),), ("float",), ((4,),), ("float",)),),
        call_sites=((Frame("train", "/srv/train.py", 3),),),
        group=zeros,
        signature=zeros,
        call_site=zeros,
        collective_seq=array("H", range(1, records + 1)),
        p2p_seq=zeros,
        op_id=array("H", range(1, records + 1)),
        is_p2p=zeros,
        state=array("B", [State.COMPLETED] * (records - pending) + [State.ISSUED] * pending),
        created_ns=array("q", (_NEWEST + rank - 1000 * (records - at) for at in range(records))),
        started_ns=array("q", bytes(8 * records)),
        completed_ns=array("q", (_NEWEST + 7 * at for at in range(records))),
    )


def _rank(rank: int) -> RankSnapshot:
    pid = 4000 + rank
    return RankSnapshot(
        identity=Identity(job="j", rank=rank, local_rank=rank, host="n1", pid=pid, started_at=1.0),
        looked_at_ns=_NEWEST + rank,
        process=Process(pid=pid, state="S", command="python train.py", wchan="futex_wait"),
        stacks=Stacks(
            pid=pid,
            frames=(Frame("main", "/srv/train.py", 10), Frame("wait", "/usr/lib/python3.11/threading.py", 320)),
            threads=(Thread(tid=pid + 1, name="loader", frames=(1,)), Thread(tid=pid, name="", frames=(0, 1))),
        ),
        fds=_NOTHING,
        logs=_NOTHING,
        recorder=_trace(rank),
        setup=Setup(variables={"NCCL_DEBUG": "INFO", "RANK": str(rank)}),
        idle_for_seconds=7.5,
    )


def _node(ranks: int = 8) -> NodeSnapshot:
    return NodeSnapshot(host="n1", taken_at_ns=_NEWEST, ranks=tuple(_rank(rank) for rank in range(ranks)))


def _travelled(snapshot: NodeSnapshot) -> NodeSnapshot:
    survey = Survey.model_validate_json(survey_of(snapshot).model_dump_json())
    return SurveyReader().snapshot_of(survey)


def test_what_a_rank_has_to_itself_comes_back() -> None:
    snapshot = _node()
    for before, after in zip(snapshot.ranks, _travelled(snapshot).ranks, strict=True):
        assert isinstance(before.process, Process)
        assert after.identity == before.identity
        assert after.process == before.process.model_copy(update={"command": ""})
        assert (after.looked_at_ns, after.idle_for_seconds) == (before.looked_at_ns, before.idle_for_seconds)
        assert isinstance(before.setup, Setup)
        assert after.setup == before.setup.model_copy(update={"variables": {"NCCL_DEBUG": "INFO"}})


def test_records_come_back_to_the_nanosecond_as_far_as_the_window_reaches() -> None:
    snapshot = _node()
    for before, after in zip(snapshot.ranks, _travelled(snapshot).ranks, strict=True):
        assert isinstance(before.recorder, Trace)
        assert after.recorder == before.recorder.windowed(WINDOW)


def test_the_main_thread_is_known_without_thread_ids() -> None:
    after = _travelled(_node()).ranks[3].stacks
    assert isinstance(after, Stacks)
    assert after.main is not None
    assert [frame.function for frame in after.stack(after.main)] == ["main", "wait"]


def test_what_ranks_share_is_said_once() -> None:
    survey = survey_of(_node())
    assert (len(survey.stacks), len(survey.setups), len(survey.programs)) == (1, 1, 1)
    assert len(survey.groups) == 9  # the world, and a group of its own for each rank
    assert max(map(len, survey.groups)) < 120
    assert len(survey_of(_node(8)).model_dump_json()) < 2 * len(survey_of(_node(1)).model_dump_json()) + 7 * 2500


def test_two_nodes_share_what_they_have_in_common() -> None:
    reader = SurveyReader()
    survey = survey_of(_node()).model_dump_json()
    one, other = (reader.snapshot_of(Survey.model_validate_json(survey)) for _ in range(2))
    assert one.ranks[0].stacks is other.ranks[0].stacks
    assert isinstance(one.ranks[0].recorder, Trace) and isinstance(other.ranks[0].recorder, Trace)
    assert one.ranks[0].recorder.groups[1] is other.ranks[0].recorder.groups[1]


def test_a_rank_that_gave_nothing_is_told_so() -> None:
    silent = _rank(0).model_copy(update={"stacks": _NOTHING, "recorder": _NOTHING, "process": _NOTHING})
    after = _travelled(NodeSnapshot(host="n1", ranks=(silent,))).ranks[0]
    assert (after.stacks, after.recorder, after.process) == (_NOTHING, _NOTHING, _NOTHING)


@pytest.mark.parametrize(
    ("ranks", "written"),
    [([], ""), ([5], "5"), ([0, 8], "0,8"), ([0, 8, 16], "0-16/8"), (range(4), "0-3"), ([0, 2, 4, 5], "0,2,4-5")],
)
def test_regular_groups_are_written_in_steps(ranks: list[int], written: str) -> None:
    assert fold_in_steps(ranks) == written
    assert unfold(out_of_steps(written, most=10)) == tuple(ranks)


def _damaged(**changes: object) -> str:
    survey = survey_of(_node(1))
    rank = survey.ranks[0]
    return survey.model_copy(update={"ranks": (rank.model_copy(update=changes),)}).model_dump_json(warnings=False)


def _with_table(**tables: tuple[str, ...]) -> str:
    return survey_of(_node(1)).model_copy(update=tables).model_dump_json()


def _trace_with(**changes: object) -> object:
    return survey_of(_node(1)).ranks[0].recorder.model_copy(update=changes)


@pytest.mark.parametrize(
    "text",
    [
        _damaged(stacks=1),
        _damaged(setup=-1),
        _damaged(recorder=_trace_with(program=1)),
        _damaged(recorder=_trace_with(groups=(0,))),
        _damaged(recorder=_trace_with(groups=(0, 9))),
        _damaged(recorder=_trace_with(created_ns=array("q", [1]))),
        survey_of(_node(1)).model_dump_json().replace('"created_ns":"', '"created_ns":"?'),
        survey_of(_node(1)).model_dump_json().replace('"created_ns":"', '"created_ns":"AAAA'),
        _with_table(stacks=("{",)),
        _with_table(setups=("[]",)),
        _with_table(programs=(Trace(groups=(Group(name="a"), Group(name="b"))).model_dump_json(),)),
    ],
    ids="stacks,setup,program,few groups,groups,short,no base64,cut,no JSON,no setup,other program".split(","),
)
def test_what_points_beside_the_tables_or_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        SurveyReader().snapshot_of(Survey.model_validate_json(text))


@pytest.mark.parametrize("members", ["0-999999999/1", "0-262144/2", "5-2", "0-8/0", "x", "0-4194304"])
def test_a_group_that_claims_too_many_members_is_refused(members: str) -> None:
    groups = survey_of(_node(1)).groups
    hostile = SurveyedGroup(name="0", members=members).model_dump_json()
    text = _with_table(groups=(hostile, *groups[1:]))
    with pytest.raises(InvalidRankSet):
        SurveyReader().snapshot_of(Survey.model_validate_json(text))
