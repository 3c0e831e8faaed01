"""A survey says in fewer words what a brief look has seen, and gives it back."""

import base64
import json
from array import array
from collections.abc import Callable
from typing import Any

import pytest

from shared.errors import InvalidRankSet
from shared.missing import Missing, Reason
from shared.rank_sets import fold_in_steps, out_of_steps, unfold
from shared.wire import survey_read as survey_reader
from shared.wire.columns import Columns, blank
from shared.wire.devices import Gpu, GpuProcess, Gpus
from shared.wire.kernel_events import KernelEvent, KernelEventKind, KernelEvents
from shared.wire.log_events import EventKind, LogEvent, LogFile, Logs
from shared.wire.setup import Listener, Setup
from shared.wire.snapshot import Beat, Identity, NodeSnapshot, Process, RankSnapshot, Syscall
from shared.wire.stacks import Frame, Stacks, Thread
from shared.wire.survey_form import Survey, SurveyedGroup, exchange_quotes
from shared.wire.survey_read import SurveyReader
from shared.wire.survey_write import WINDOW, survey_of
from shared.wire.trace import Group, Signature, State, Trace

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


def _beat(rank: int) -> Beat:
    return Beat(at_ns=_NEWEST, cpu_seconds=17.0 + rank, main_switches=None if rank == 3 else 5, log_bytes=12)


def _logs(rank: int) -> Logs:
    path = f'/logs/{rank}/it\'s "stderr".log'
    told = {"path": path, "rank": rank, "fields": {"net": "IB"}}
    return Logs(
        files=(LogFile(path=path, size_bytes=7 * rank, modified_at=1.5, lines=("left out",)), LogFile(path="other")),
        events=tuple(
            LogEvent(kind=EventKind.INTERFACE, text=f"n1:{rank}: 'NET/IB' {at}", at=2.5, **told)
            for at in range(rank % 3)
        ),
    )


def _rank(rank: int) -> RankSnapshot:
    pid = 4000 + rank
    return RankSnapshot(
        identity=Identity(job="j", rank=rank, local_rank=rank, host="n1", pid=pid, started_at=1.0),
        looked_at_ns=_NEWEST + rank,
        process=Process(
            pid=pid,
            parent_pid=99,
            state="S",
            command="python train.py",
            wchan="futex_wait",
            syscall=Syscall(name="futex"),
            threads=180 + rank,
            rss_bytes=1 << 30,
            before=_beat(rank),
            after=_beat(rank).model_copy(update={"at_ns": _NEWEST + 5, "cpu_seconds": 17.25}),
        ),
        stacks=Stacks(
            pid=pid,
            frames=(Frame("main", "/srv/train.py", 10), Frame("wait", "/usr/lib/python3.11/threading.py", 320)),
            threads=(Thread(tid=pid + 1, name="loader", frames=(1,)), Thread(tid=pid, name="", frames=(0, 1))),
        ),
        fds=_NOTHING,
        logs=_logs(rank),
        recorder=_trace(rank),
        setup=Setup(variables={"NCCL_DEBUG": "INFO", "RANK": str(rank)}, hosts={"n1": ("10.0.0.1",)}),
        idle_for_seconds=7.5,
    )


def _node(ranks: int = 8) -> NodeSnapshot:
    gpus = (
        Gpu(
            index=at,
            uuid=f"GPU-{at}",
            name="NVIDIA H100",
            power_watts=300.5 + at,
            processes=tuple(GpuProcess(pid=4000 + at + more, used_bytes=None) for more in range(at % 3)),
        )
        for at in range(8)
    )
    kinds = (KernelEventKind.LINK_UP, KernelEventKind.XID, KernelEventKind.LINK_UP)
    return NodeSnapshot(
        host="n1",
        taken_at_ns=_NEWEST,
        ranks=tuple(_rank(rank) for rank in range(ranks)),
        gpus=Gpus(driver="560", gpus=tuple(gpus)),
        kernel_events=KernelEvents(
            since=1.0, events=tuple(KernelEvent(kind=kind, at=float(at), text=kind) for at, kind in enumerate(kinds))
        ),
    )


def _brief(rank: RankSnapshot) -> RankSnapshot:
    """What is expected of a rank; of its stacks there is a test of its own."""
    changes: dict[str, Any] = {"children": (), "stacks": _NOTHING, "fds": _NOTHING}
    if isinstance(rank.process, Process):
        changes["process"] = rank.process.model_copy(update={"command": ""})
    if isinstance(rank.setup, Setup):
        variables = {name: value for name, value in rank.setup.variables.items() if name != "RANK"}
        changes["setup"] = rank.setup.model_copy(update={"variables": variables})
    if isinstance(rank.logs, Logs):
        files = tuple(file.model_copy(update={"lines": ()}) for file in rank.logs.files)
        changes["logs"] = rank.logs.model_copy(update={"files": files})
    if isinstance(rank.recorder, Trace):
        changes["recorder"] = rank.recorder.windowed(WINDOW)
    return rank.model_copy(update=changes)


def _travelled(snapshot: NodeSnapshot) -> NodeSnapshot:
    survey = Survey.model_validate_json(survey_of(snapshot).model_dump_json())
    return SurveyReader().snapshot_of(survey)


def _told(snapshot: NodeSnapshot) -> NodeSnapshot:
    left_out = {"stacks": _NOTHING, "fds": _NOTHING}
    return snapshot.model_copy(update={"ranks": tuple(rank.model_copy(update=left_out) for rank in snapshot.ranks)})


def _silent(name: str) -> Callable[[int], RankSnapshot]:
    def without(rank: int) -> RankSnapshot:
        whole = _rank(rank)
        if name in ("before", "after"):
            assert isinstance(whole.process, Process)
            changes: dict[str, object] = {"process": whole.process.model_copy(update={name: None})}
        else:
            changes = {name: _NOTHING}
        return whole.model_copy(update=changes) if rank in (1, 2) else whole

    return without


@pytest.mark.parametrize("silent", "process,before,after,logs,recorder,setup,stacks".split(","))
@pytest.mark.parametrize("count", [0, 1, 3, 8])
def test_what_a_rank_has_to_itself_comes_back(silent: str, count: int) -> None:
    """Times to the nanosecond; also where some ranks gave nothing."""
    without = _silent(silent)
    snapshot = _node().model_copy(update={"ranks": tuple(without(rank) for rank in range(count))})
    brief = snapshot.model_copy(update={"ranks": tuple(map(_brief, snapshot.ranks))})
    assert _told(_travelled(snapshot)) == brief
    assert _told(_travelled(snapshot)).model_dump_json() == brief.model_dump_json()


def test_a_survey_of_a_survey_says_the_same() -> None:
    once = _travelled(_node())
    assert _travelled(once) == once


def test_setups_that_differ_are_told_apart() -> None:
    one, other = _rank(0), _rank(1)
    assert isinstance(other.setup, Setup)
    listened = other.setup.model_copy(update={"listener": Listener(address="*:1"), "hosts": {}})
    snapshot = NodeSnapshot(host="n1", ranks=(one, other.model_copy(update={"setup": listened})))
    assert [_brief(rank).setup for rank in snapshot.ranks] == [rank.setup for rank in _travelled(snapshot).ranks]
    assert len(survey_of(snapshot).tables.setups) == 1


@pytest.mark.parametrize("kind", Columns.__subclasses__(), ids=lambda kind: kind.__name__)
def test_columns_hold_what_the_fields_of_their_model_do(kind: type[Columns]) -> None:
    for name, nothing in blank(kind).items():
        own, column = kind.of.model_fields[name].annotation, kind.model_fields[name].annotation
        may_be_none = kind.of is Beat and name == "at_ns"
        assert column == tuple[own | None if may_be_none else own, ...], name  # type: ignore[operator,valid-type]
        assert may_be_none or not kind.of.model_fields[name].is_required() or name in kind.without, nothing
    if "row" not in kind.model_fields:
        assert set(blank(kind)) >= set(kind.of.model_fields) - {"lines"}, "there is no row to hold the rest"


def test_values_made_share_the_names_of_their_fields() -> None:
    """For each model of twenty fields, pydantic's set of them takes 2 KiB."""
    ranks = _travelled(_node()).ranks
    assert ranks[0].identity.model_fields_set is ranks[1].identity.model_fields_set
    assert ranks[0].identity.model_copy(update={"rank": 7}) == Identity(**{**dict(ranks[0].identity), "rank": 7})


def test_the_main_thread_is_known_without_thread_ids() -> None:
    after = _travelled(_node()).ranks[3].stacks
    assert isinstance(after, Stacks)
    assert after.main is not None
    assert [frame.function for frame in after.stack(after.main)] == ["main", "wait"]


def test_what_ranks_share_is_said_once() -> None:
    survey = survey_of(_node())
    tables = {name: len(rows) for name, rows in survey.tables}
    assert tables.pop("groups") == 9  # the world, and a group of its own for each rank
    assert tables.pop("kernel_events") == 2
    assert set(tables.values()) == {1}, tables
    assert max(map(len, survey.tables.groups)) < 120
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


def _damaged(path: str, value: object) -> str:
    survey: Any = json.loads(survey_of(_node(2)).model_dump_json())
    *way, last = (int(part) if part.isdigit() else part for part in path.split("."))
    inner = survey
    for part in way:
        inner = inner[part]
    inner[last] = value
    return json.dumps(survey)


def _column(*numbers: int) -> str:
    return base64.b64encode(array("q", numbers).tobytes()).decode()


_OTHER_PROGRAM = exchange_quotes(Trace(groups=(Group(name="a"), Group(name="b"))).model_dump_json())


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("ranks.stacks.0", 1),
        ("ranks.stacks", [0]),
        ("ranks.setup.0", -1),
        ("ranks.identity.row.0", 5),
        ("ranks.identity.row", [0]),
        ("ranks.identity.row", [0] * 70_000),
        ("ranks.identity.rank", [0]),
        ("ranks.identity.rank", [0, 1, 2]),
        ("ranks.identity.rank", [0, None]),
        ("ranks.identity.pid", [0, "x"]),
        ("ranks.looked_at_ns", [1]),
        ("ranks.process.row", [0, 0, 0]),
        ("ranks.process.pid", [1]),
        ("ranks.before.cpu_seconds", [1.0, None]),
        ("ranks.before.at_ns", [1]),
        ("ranks.after.at_ns", [1, 2, 3]),
        ("ranks.logs", [0]),
        ("ranks.logs", [0, 1]),
        ("ranks.files.owner.0", 2),
        ("ranks.files.owner.0", -1),
        ("ranks.files.owner", [0]),
        ("ranks.events.row", [0, 0]),
        ("ranks.events.owner", []),
        ("ranks.recorder.program.0", 1),
        ("ranks.recorder.program", [0]),
        ("ranks.recorder.groups.0", [0]),
        ("ranks.recorder.groups.0", [0, 9]),
        ("ranks.recorder.groups.0", [0, -1]),
        ("ranks.recorder.groups", [[0, 1]]),
        ("ranks.recorder.created_ns", _column(1)),
        ("ranks.recorder.completed_ns", "?" + _column(*range(42))[1:]),
        ("ranks.recorder.completed_ns", _column(*range(42))[:-4]),
        ("setups.row.0", 1),
        ("setups.hosts", [{}, {}]),
        ("gpus.row.7", 1),
        ("gpus.index", [0]),
        ("gpu_processes.owner.0", 8),
        ("gpu_processes.pid", [1]),
        ("kernel_events.row.0", 2),
        ("kernel_events.at", [1.0]),
        ("tables.stacks.0", "{"),
        ("tables.setups.0", "[]"),
        ("tables.processes.0", "{'pid':0,'state':'?'}"),
        ("tables.identities.0", "{}"),
        ("tables.groups.0", '{"name":"a"}'),
        ("tables.programs.0", _OTHER_PROGRAM),
    ],
)
def test_what_points_beside_the_tables_or_is_none_is_refused(path: str, value: object) -> None:
    text = _damaged(path, value)
    with pytest.raises(ValueError):
        SurveyReader().snapshot_of(Survey.model_validate_json(text))


def test_records_that_few_characters_claim_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    text = _damaged("ranks.recorder.created_ns", "")
    assert SurveyReader().snapshot_of(Survey.model_validate_json(text)).ranks
    monkeypatch.setattr(survey_reader, "_MOST_RECORDS", 2 * WINDOW - 1)
    with pytest.raises(ValueError, match="records"):
        SurveyReader().snapshot_of(Survey.model_validate_json(text))


@pytest.mark.parametrize("members", ["0-999999999/1", "0-262144/2", "5-2", "0-8/0", "x", "0-4194304"])
def test_a_group_that_claims_too_many_members_is_refused(members: str) -> None:
    hostile = exchange_quotes(SurveyedGroup(name="0", members=members).model_dump_json())
    with pytest.raises(InvalidRankSet):
        SurveyReader().snapshot_of(Survey.model_validate_json(_damaged("tables.groups.0", hostile)))
